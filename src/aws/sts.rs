//! STS: who asks.

use super::errors::fault;
use crate::apply::account::Caller;
use crate::apply::calls::Call;
use crate::apply::cloud::Answer;
use aws_sdk_sts::Client;

pub(super) async fn caller_identity(client: &Client) -> Answer<Caller> {
    let call = Call::GetCallerIdentity;
    let answer = client.get_caller_identity().send().await.map_err(|error| fault(call, &error))?;
    Ok(Caller {
        account: answer.account().unwrap_or_default().to_owned(),
        arn: answer.arn().unwrap_or_default().to_owned(),
    })
}
