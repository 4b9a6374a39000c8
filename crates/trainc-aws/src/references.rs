//! Resources that a plan refers to by name: KMS keys, ECR images and secrets.

use super::errors::foreign_answer;
use super::signed_client::{SignedClient, SignedRequest, SignedResponse};
use serde_json::{Value, json};
use trainc_apply::account::Key;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_catalog::arn::Arn;
use trainc_catalog::images;

/// Sends a request to a JSON service.
async fn ask(signed: &SignedClient, to: Service, region: Option<&str>, body: &Value) -> Answer<Value> {
    let ask = SignedRequest {
        call: to.call,
        host: to.host,
        service: to.name,
        region: region.map(str::to_owned),
        headers: vec![
            ("content-type", "application/x-amz-json-1.1".to_owned()),
            ("x-amz-target", format!("{}.{}", to.target, to.call.row().operation)),
        ],
        body: body.to_string(),
    };
    let reply = signed.ask(&ask, parse_fault).await?;
    serde_json::from_str(&reply.body).map_err(|_| foreign_answer(to.call, reply.status))
}

/// A JSON service with its protocol names (botocore 1.44.5).
#[derive(Clone, Copy)]
struct Service {
    call: Call,
    host: &'static str,
    name: &'static str,
    target: &'static str,
}

/// Returns the fault in an error response: `__type` and `message`.
fn parse_fault(ask: &SignedRequest, reply: &SignedResponse) -> Option<Fault> {
    if reply.status < 300 {
        return None;
    }
    let read: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let text = |name: &str| read.get(name).and_then(Value::as_str);
    let code = text("__type").unwrap_or_default();
    let message = text("message").or_else(|| text("Message")).unwrap_or("no reason given");
    if code.is_empty() && reply.status < 500 {
        return Some(foreign_answer(ask.call, reply.status));
    }
    Some(
        Fault::from_answer(ask.call, Some(reply.status), code, message)
            .with_request_id(reply.request_id.as_deref()),
    )
}

/// Returns the region in an ARN; `None` for a key ID or an alias, which are looked up in the job's region.
fn region_of(call: Call, text: &str) -> Answer<Option<&str>> {
    if !text.starts_with("arn:") {
        return Ok(None);
    }
    let arn = Arn::parse(text).map_err(|why| {
        Fault::new(call, Class::Invalid, &format!("`{text}` is not a valid ARN: {why}; no request was sent"))
    })?;
    Ok(Some(arn.region).filter(|region| !region.is_empty()))
}

pub(super) async fn kms_key(signed: &SignedClient, id: &str) -> Answer<Key> {
    let to = Service { call: Call::DescribeKey, host: "kms", name: "kms", target: "TrentService" };
    let answer = ask(signed, to, region_of(to.call, id)?, &json!({ "KeyId": id })).await?;
    let text = |name: &str| answer.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Key { arn: text("/KeyMetadata/Arn"), state: text("/KeyMetadata/KeyState") })
}

pub(super) async fn check_secret(signed: &SignedClient, arn: &str) -> Answer<()> {
    let to = Service {
        call: Call::DescribeSecret,
        host: "secretsmanager",
        name: "secretsmanager",
        target: "secretsmanager",
    };
    ask(signed, to, region_of(to.call, arn)?, &json!({ "SecretId": arn })).await.map(|_| ())
}

pub(super) async fn check_image(signed: &SignedClient, uri: &str) -> Answer<()> {
    let call = Call::DescribeImages;
    let Some(image) = images::parse_uri(uri) else {
        return Err(Fault::new(call, Class::NotSupported, "the image is not in an Amazon ECR registry"));
    };
    let to = Service { call, host: "api.ecr", name: "ecr", target: "AmazonEC2ContainerRegistry_V20150921" };
    let body = json!({
        "registryId": image.account,
        "repositoryName": image.repository,
        "imageIds": [which(&image)],
    });
    ask(signed, to, Some(&image.region), &body).await.map(|_| ())
}

/// Returns the identifier of an image in its repository.
fn which(image: &images::ImageUri) -> Value {
    match (&image.digest, &image.tag) {
        (Some(digest), _) => json!({ "imageDigest": digest }),
        (None, Some(tag)) => json!({ "imageTag": tag }),
        (None, None) => json!({ "imageTag": "latest" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_by_its_digest_or_tag() {
        let uri = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training";
        let named = |end: &str| which(&images::parse_uri(&format!("{uri}{end}")).unwrap());
        assert_eq!(named(":2.7.1"), json!({"imageTag": "2.7.1"}));
        assert_eq!(named(""), json!({"imageTag": "latest"}));
        let digest = format!("sha256:{}", "00".repeat(32));
        assert_eq!(named(&format!(":2.7.1@{digest}")), json!({ "imageDigest": digest }));
    }

    #[test]
    fn a_region_is_read_from_an_arn() {
        let of = |text: &'static str| region_of(Call::DescribeKey, text);
        assert_eq!(of("arn:aws:kms:eu-west-1:111122223333:key/x"), Ok(Some("eu-west-1")));
        assert_eq!(of("alias/mine"), Ok(None));
        let fault = of("arn:aws:kms:x@127.0.0.1/#:111122223333:key/x").unwrap_err();
        assert_eq!(fault.class, Class::Invalid);
        assert!(fault.message.contains("unknown region `x@127.0.0.1/#`"), "{}", fault.message);
    }
}
