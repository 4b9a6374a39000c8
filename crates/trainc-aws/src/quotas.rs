//! Service Quotas: values of the account, and default values.

use super::errors::fault;
use aws_sdk_servicequotas::Client;
use aws_sdk_servicequotas::types::ServiceQuota;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};

/// Returns the account's value; `NotFound` if it was never changed.
pub(super) async fn quota(client: &Client, service: &str, code: &str) -> Answer<f64> {
    let call = Call::GetServiceQuota;
    let asked = client.get_service_quota().service_code(service).quota_code(code);
    let answer = asked.send().await.map_err(|error| fault(call, &error))?;
    value(call, answer.quota())
}

/// Returns the default value.
pub(super) async fn default_quota(client: &Client, service: &str, code: &str) -> Answer<f64> {
    let call = Call::GetAWSDefaultServiceQuota;
    let asked = client.get_aws_default_service_quota().service_code(service).quota_code(code);
    let answer = asked.send().await.map_err(|error| fault(call, &error))?;
    value(call, answer.quota())
}

fn value(call: Call, quota: Option<&ServiceQuota>) -> Answer<f64> {
    let value = quota.and_then(ServiceQuota::value);
    value.ok_or_else(|| Fault::new(call, Class::NotFound, "the quota has no value"))
}
