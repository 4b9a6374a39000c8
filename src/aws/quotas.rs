//! Service Quotas: the limit that is in force.

use super::errors::fault;
use crate::apply::calls::Call;
use crate::apply::cloud::Answer;
use crate::apply::fault::{Class, Fault};
use aws_sdk_servicequotas::Client;

/// The account's own value; where it was never changed the service says that there is none, and has a default.
pub(super) async fn quota(client: &Client, service: &str, code: &str) -> Answer<f64> {
    let call = Call::GetServiceQuota;
    let asked = client.get_service_quota().service_code(service).quota_code(code);
    match asked.send().await.map_err(|error| fault(call, &error)) {
        Ok(answer) => {
            let value = answer.quota().and_then(|quota| quota.value());
            return value.ok_or_else(|| Fault::of(call, Class::NotFound, "the quota has no value"));
        }
        Err(no) if no.class == Class::NotFound => {}
        Err(no) => return Err(no),
    }
    let call = Call::GetAWSDefaultServiceQuota;
    let asked = client.get_aws_default_service_quota().service_code(service).quota_code(code);
    let answer = asked.send().await.map_err(|error| fault(call, &error))?;
    let value = answer.quota().and_then(|quota| quota.value());
    value.ok_or_else(|| Fault::of(call, Class::NotFound, "the quota has no value"))
}
