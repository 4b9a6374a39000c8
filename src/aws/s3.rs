//! S3: the source archive, and what stands behind a channel.

use super::errors::fault;
use crate::apply::account::{Bucket, Object, Upload};
use crate::apply::calls::Call;
use crate::apply::cloud::Answer;
use crate::apply::fault::{Class, Fault};
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketLocationConstraint, ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart,
    CreateBucketConfiguration, ServerSideEncryption,
};
use aws_types::service_config::ServiceConfigKey;
use sha2::{Digest, Sha256};

/// From here on an object is sent in parts. One PUT takes 5 GiB; a part that fails is sent again alone.
const SINGLE: usize = 64 << 20;
/// Bytes of a part; S3 takes 10,000 of them.
const PART: usize = 16 << 20;

/// A client; endpoints that are not AWS's own have no names for buckets, so the bucket goes into the path.
pub(super) fn client(config: &SdkConfig) -> Client {
    let key =
        ServiceConfigKey::builder().service_id("s3").env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    let own = key.ok().and_then(|key| config.service_config().and_then(|service| service.load_config(key)));
    let endpoint = own.or_else(|| config.endpoint_url().map(str::to_owned));
    let foreign = endpoint.is_some_and(|url| !url.contains("amazonaws.com"));
    Client::from_conf(aws_sdk_s3::config::Builder::from(config).force_path_style(foreign).build())
}

pub(super) async fn bucket(client: &Client, name: &str, owner: Option<&str>) -> Answer<Bucket> {
    let asked = client.head_bucket().bucket(name).set_expected_bucket_owner(owner.map(str::to_owned));
    match asked.send().await {
        Ok(answer) => Ok(Bucket { name: name.to_owned(), region: answer.bucket_region().map(str::to_owned) }),
        Err(error) => {
            // Asked in the wrong region, S3 names the right one in a header of its refusal.
            let moved = error.raw_response().filter(|raw| raw.status().as_u16() == 301);
            match moved.and_then(|raw| raw.headers().get("x-amz-bucket-region")) {
                Some(region) => Ok(Bucket { name: name.to_owned(), region: Some(region.to_owned()) }),
                None => Err(fault(Call::HeadBucket, &error)),
            }
        }
    }
}

pub(super) async fn objects(client: &Client, bucket: &str, prefix: &str, most: usize) -> Answer<Vec<Object>> {
    let most = i32::try_from(most.min(1000)).unwrap_or(1000);
    let asked = client.list_objects_v2().bucket(bucket).prefix(prefix).max_keys(most);
    let answer = asked.send().await.map_err(|error| fault(Call::ListObjectsV2, &error))?;
    Ok(answer
        .contents()
        .iter()
        .map(|object| Object {
            key: object.key().unwrap_or_default().to_owned(),
            bytes: object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
        })
        .collect())
}

pub(super) async fn object(client: &Client, bucket: &str, key: &str) -> Answer<Object> {
    let asked = client.head_object().bucket(bucket).key(key);
    let answer = asked.send().await.map_err(|error| fault(Call::HeadObject, &error))?;
    let bytes = answer.content_length().and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
    Ok(Object { key: key.to_owned(), bytes })
}

/// us-east-1 is the one region that a bucket must not name.
pub(super) async fn create_bucket(client: &Client, name: &str, region: &str) -> Answer<()> {
    let place = (region != "us-east-1").then(|| {
        CreateBucketConfiguration::builder()
            .location_constraint(BucketLocationConstraint::from(region))
            .build()
    });
    let asked = client.create_bucket().bucket(name).set_create_bucket_configuration(place);
    asked.send().await.map_err(|error| fault(Call::CreateBucket, &error))?;
    Ok(())
}

/// Puts an object where none is yet: with its checksum, encrypted, and only into a bucket of that owner.
pub(super) async fn put_object(client: &Client, upload: &Upload) -> Answer<()> {
    if upload.bytes.len() > SINGLE {
        return put_in_parts(client, upload, PART).await;
    }
    let asked = client
        .put_object()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .if_none_match("*")
        .checksum_sha256(checksum(&upload.bytes))
        .server_side_encryption(encryption(upload))
        .set_ssekms_key_id(upload.kms.clone())
        .set_expected_bucket_owner(upload.owner.clone())
        .body(ByteStream::from(upload.bytes.clone()));
    asked.send().await.map_err(|error| fault(Call::PutObject, &error))?;
    Ok(())
}

/// In parts, each with its checksum; what a failure leaves is taken away, for parts are billed and not seen.
async fn put_in_parts(client: &Client, upload: &Upload, size: usize) -> Answer<()> {
    let call = Call::PutObject;
    abort_left(client, upload).await;
    let asked = client
        .create_multipart_upload()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .checksum_algorithm(ChecksumAlgorithm::Sha256)
        .server_side_encryption(encryption(upload))
        .set_ssekms_key_id(upload.kms.clone())
        .set_expected_bucket_owner(upload.owner.clone());
    let begun = asked.send().await.map_err(|error| fault(call, &error))?;
    let Some(id) = begun.upload_id() else {
        return Err(Fault::of(call, Class::Lost, "the answer holds no upload"));
    };
    let sent = send_parts(client, upload, id, size).await;
    if sent.is_err() {
        abort(client, upload, id).await;
    }
    sent
}

async fn send_parts(client: &Client, upload: &Upload, id: &str, size: usize) -> Answer<()> {
    let call = Call::PutObject;
    let mut done = CompletedMultipartUpload::builder();
    for (number, part) in (1_i32..).zip(upload.bytes.chunks(size)) {
        let sum = checksum(part);
        let asked = client
            .upload_part()
            .bucket(&upload.bucket)
            .key(&upload.key)
            .upload_id(id)
            .part_number(number)
            .checksum_sha256(&sum)
            .set_expected_bucket_owner(upload.owner.clone())
            .body(ByteStream::from(part.to_vec()));
        let answer = asked.send().await.map_err(|error| fault(call, &error))?;
        let part = CompletedPart::builder()
            .part_number(number)
            .set_e_tag(answer.e_tag().map(str::to_owned))
            .checksum_sha256(sum);
        done = done.parts(part.build());
    }
    let asked = client
        .complete_multipart_upload()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .upload_id(id)
        .if_none_match("*")
        .set_expected_bucket_owner(upload.owner.clone())
        .multipart_upload(done.build());
    asked.send().await.map_err(|error| fault(call, &error))?;
    Ok(())
}

/// Takes away what a crashed upload of the same key left. Whoever may not list uploads leaves it to the bucket's own
/// lifecycle rule.
async fn abort_left(client: &Client, upload: &Upload) {
    let asked = client.list_multipart_uploads().bucket(&upload.bucket).prefix(&upload.key);
    let Ok(found) = asked.set_expected_bucket_owner(upload.owner.clone()).send().await else { return };
    for left in found.uploads() {
        if let (Some(id), true) = (left.upload_id(), left.key() == Some(upload.key.as_str())) {
            abort(client, upload, id).await;
        }
    }
}

async fn abort(client: &Client, upload: &Upload, id: &str) {
    let asked = client.abort_multipart_upload().bucket(&upload.bucket).key(&upload.key).upload_id(id);
    // The upload's own fault is what is told.
    let _ = asked.set_expected_bucket_owner(upload.owner.clone()).send().await;
}

pub(super) async fn delete_object(client: &Client, bucket: &str, key: &str) -> Answer<()> {
    let asked = client.delete_object().bucket(bucket).key(key);
    asked.send().await.map_err(|error| fault(Call::DeleteObject, &error))?;
    Ok(())
}

fn encryption(upload: &Upload) -> ServerSideEncryption {
    if upload.kms.is_some() { ServerSideEncryption::AwsKms } else { ServerSideEncryption::Aes256 }
}

/// SHA-256 in the form of S3's header.
fn checksum(bytes: &[u8]) -> String {
    aws_smithy_types::base64::encode(Sha256::digest(bytes))
}
