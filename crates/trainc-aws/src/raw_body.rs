//! Request bodies that are sent unchanged, and response bodies as received.
//!
//! trainc sends exactly the requests that it emits: the SDK signs, sends, retries and reads the response, but
//! the body is ours and not serialized again from the SDK's types.

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextMut,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use std::sync::{Arc, Mutex};

/// Replaces the SDK's request body with these bytes.
#[derive(Clone, Debug)]
pub(super) struct RequestBody(Vec<u8>);

impl RequestBody {
    /// Returns a request as JSON.
    pub(super) fn from_json(request: &impl serde::Serialize) -> Self {
        Self(serde_json::to_vec(request).unwrap_or_default())
    }
}

impl Intercept for RequestBody {
    fn name(&self) -> &'static str {
        "exact body"
    }

    fn modify_before_retry_loop(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        *request.body_mut() = SdkBody::from(self.0.clone());
        request.headers_mut().insert("content-length", self.0.len().to_string());
        Ok(())
    }
}

/// Captures the body of the last response.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseBody(Arc<Mutex<Vec<u8>>>);

impl ResponseBody {
    /// Returns the response as JSON; null if there was none.
    pub(super) fn json(&self) -> serde_json::Value {
        let bytes = self.0.lock().map(|bytes| bytes.clone()).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

impl Intercept for ResponseBody {
    fn name(&self) -> &'static str {
        "kept answer"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let (Some(bytes), Ok(mut kept)) = (context.response().body().bytes(), self.0.lock()) {
            *kept = bytes.to_vec();
        }
        Ok(())
    }
}
