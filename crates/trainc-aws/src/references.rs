//! Resources that a plan refers to by name: KMS keys, ECR images and secrets.

use super::client::Client;
use super::errors::foreign_answer;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use trainc_apply::account::Key;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_catalog::arn::Arn;
use trainc_catalog::images;

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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyAnswer {
    key_metadata: KeyMetadataAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyMetadataAnswer {
    arn: String,
    key_state: Option<String>,
}

/// Required, so that an answer of another sender does not stand for a secret.
#[derive(Debug, Deserialize)]
struct SecretAnswer {
    #[serde(rename = "ARN")]
    _arn: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImagesAnswer {
    image_details: Vec<IgnoredAny>,
}

pub(super) async fn kms_key(client: &Client, id: &str) -> Answer<Key> {
    let call = Call::DescribeKey;
    let answer: KeyAnswer = client.json_in(region_of(call, id)?, call, &json!({ "KeyId": id })).await?;
    let KeyMetadataAnswer { arn, key_state } = answer.key_metadata;
    Ok(Key { arn, state: key_state.unwrap_or_default() })
}

pub(super) async fn check_secret(client: &Client, arn: &str) -> Answer<()> {
    let call = Call::DescribeSecret;
    let asked = json!({ "SecretId": arn });
    let _: SecretAnswer = client.json_in(region_of(call, arn)?, call, &asked).await?;
    Ok(())
}

/// An image that does not exist is an error of the service.
pub(super) async fn check_image(client: &Client, uri: &str) -> Answer<()> {
    let call = Call::DescribeImages;
    let Some(image) = images::parse_uri(uri) else {
        return Err(Fault::new(call, Class::NotSupported, "the image is not in an Amazon ECR registry"));
    };
    let asked = json!({
        "registryId": image.account,
        "repositoryName": image.repository,
        "imageIds": [which(&image)],
    });
    let answer: ImagesAnswer = client.json_in(Some(&image.region), call, &asked).await?;
    if answer.image_details.is_empty() { Err(foreign_answer(call, 200)) } else { Ok(()) }
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
