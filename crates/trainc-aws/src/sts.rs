//! STS: the caller's identity.

use super::errors::fault;
use aws_sdk_sts::Client;
use trainc_apply::account::Caller;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;

pub(super) async fn caller_identity(client: &Client) -> Answer<Caller> {
    let call = Call::GetCallerIdentity;
    let answer = client.get_caller_identity().send().await.map_err(|error| fault(call, &error))?;
    Ok(Caller {
        account: answer.account().unwrap_or_default().to_owned(),
        arn: answer.arn().unwrap_or_default().to_owned(),
    })
}
