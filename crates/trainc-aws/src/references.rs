//! Resources that a plan references by name: KMS keys, ECR images and secrets.

use super::signed_client::{SignedClient, SignedRequest, SignedResponse};
use serde_json::{Value, json};
use trainc_apply::account::Key;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};

/// One question of a JSON service.
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
    serde_json::from_str(&reply.body)
        .map_err(|_| Fault::new(to.call, Class::Unavailable, "the response is not valid JSON"))
}

/// A JSON service and its protocol names (botocore 1.44.5).
#[derive(Clone, Copy)]
struct Service {
    call: Call,
    host: &'static str,
    name: &'static str,
    target: &'static str,
}

/// The fault in an answer: `__type` and `message`.
fn parse_fault(ask: &SignedRequest, reply: &SignedResponse) -> Option<Fault> {
    if reply.status < 300 {
        return None;
    }
    let read: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let text = |name: &str| read.get(name).and_then(Value::as_str);
    let code = text("__type").unwrap_or_default();
    let message = text("message").or_else(|| text("Message")).unwrap_or("no reason given");
    Some(
        Fault::from_answer(ask.call, Some(reply.status), code, message)
            .with_request_id(reply.request_id.as_deref()),
    )
}

/// The region in an ARN.
fn region_of(arn: &str) -> Option<&str> {
    arn.split(':').nth(3).filter(|region| arn.starts_with("arn:") && !region.is_empty())
}

pub(super) async fn kms_key(signed: &SignedClient, id: &str) -> Answer<Key> {
    let to = Service { call: Call::DescribeKey, host: "kms", name: "kms", target: "TrentService" };
    let answer = ask(signed, to, region_of(id), &json!({ "KeyId": id })).await?;
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
    ask(signed, to, region_of(arn), &json!({ "SecretId": arn })).await.map(|_| ())
}

pub(super) async fn check_image(signed: &SignedClient, uri: &str) -> Answer<()> {
    let call = Call::DescribeImages;
    let Some(image) = Image::parse(uri) else {
        return Err(Fault::new(call, Class::NotSupported, "the image is not in an Amazon ECR registry"));
    };
    let to = Service { call, host: "api.ecr", name: "ecr", target: "AmazonEC2ContainerRegistry_V20150921" };
    let body = json!({
        "registryId": image.account,
        "repositoryName": image.repository,
        "imageIds": [image.which],
    });
    ask(signed, to, Some(&image.region), &body).await.map(|_| ())
}

/// An image of ECR: `123.dkr.ecr.us-east-1.amazonaws.com/name:tag`, or `…@sha256:…`.
#[derive(Debug, PartialEq)]
struct Image {
    account: String,
    region: String,
    repository: String,
    which: Value,
}

impl Image {
    fn parse(uri: &str) -> Option<Self> {
        let (host, path) = uri.split_once('/')?;
        let mut parts = host.split('.');
        let (account, dkr, ecr, region) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if (dkr, ecr) != ("dkr", "ecr") {
            return None;
        }
        let (repository, which) = match path.split_once('@') {
            Some((repository, digest)) => (repository, json!({ "imageDigest": digest })),
            None => match path.rsplit_once(':') {
                Some((repository, tag)) => (repository, json!({ "imageTag": tag })),
                None => (path, json!({ "imageTag": "latest" })),
            },
        };
        Some(Self {
            account: account.to_owned(),
            region: region.to_owned(),
            repository: repository.to_owned(),
            which,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_taken_apart() {
        let image =
            Image::parse("763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1").unwrap();
        assert_eq!((image.account.as_str(), image.region.as_str()), ("763104351884", "us-west-2"));
        assert_eq!(
            (image.repository.as_str(), image.which),
            ("pytorch-training", json!({"imageTag": "2.7.1"}))
        );
        let image = Image::parse("1.dkr.ecr.cn-north-1.amazonaws.com.cn/a/b@sha256:00").unwrap();
        assert_eq!((image.repository.as_str(), image.which), ("a/b", json!({"imageDigest": "sha256:00"})));
        assert_eq!(Image::parse("docker.io/library/x:1"), None);
    }

    #[test]
    fn a_region_is_read_from_an_arn() {
        assert_eq!(region_of("arn:aws:kms:eu-west-1:1:key/x"), Some("eu-west-1"));
        assert_eq!(region_of("alias/mine"), None);
    }
}
