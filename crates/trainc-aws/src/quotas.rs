//! Service Quotas: values of the account, and default values.

use super::client::Client;
use serde::Deserialize;
use serde_json::json;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};

/// Returns the account's value; `NotFound` if it was never changed.
pub(super) async fn quota(client: &Client, service: &str, code: &str) -> Answer<f64> {
    value(client, Call::GetServiceQuota, service, code).await
}

/// Returns the default value.
pub(super) async fn default_quota(client: &Client, service: &str, code: &str) -> Answer<f64> {
    value(client, Call::GetAWSDefaultServiceQuota, service, code).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QuotaAnswer {
    quota: ValueAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ValueAnswer {
    value: Option<f64>,
}

async fn value(client: &Client, call: Call, service: &str, code: &str) -> Answer<f64> {
    let asked = json!({ "ServiceCode": service, "QuotaCode": code });
    let answer: QuotaAnswer = client.json(call, &asked).await?;
    answer.quota.value.ok_or_else(|| Fault::new(call, Class::NotFound, "the quota has no value"))
}
