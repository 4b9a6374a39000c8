//! S3: source archives and channel data.

use super::errors::fault;
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketLocationConstraint, ChecksumAlgorithm, ChecksumMode, CompletedMultipartUpload, CompletedPart,
    CreateBucketConfiguration, MultipartUpload, Part, ServerSideEncryption,
};
use aws_types::service_config::ServiceConfigKey;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_apply::account::{Bucket, Object, Upload};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::desired::WantedKey;
use trainc_apply::fault::{Class, Fault};

/// Minimum size of multipart uploads in bytes. A single PUT allows 5 GiB, but parts are retried individually.
const MULTIPART_THRESHOLD: usize = 64 << 20;
/// Size of a part in bytes; S3 allows 10,000 parts.
const PART_BYTES: usize = 16 << 20;

/// Returns a client. Custom endpoints have no DNS names for buckets, so they use path-style addresses.
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
        Ok(answer) => Ok(Bucket {
            name: name.to_owned(),
            region: answer.bucket_region().map(str::to_owned),
            ..Bucket::default()
        }),
        Err(error) => {
            let raw = error.raw_response();
            let status = raw.map(|raw| raw.status().as_u16());
            let region = raw.and_then(|raw| raw.headers().get("x-amz-bucket-region")).map(str::to_owned);
            // For a bucket in another region, S3 redirects the request or rejects its signature, and names
            // the bucket's region in a header.
            let here = client.config().region().map(AsRef::as_ref);
            let moved =
                status == Some(301) || (status == Some(400) && region.is_some() && region.as_deref() != here);
            if moved {
                return Ok(Bucket { name: name.to_owned(), region, moved, foreign: false });
            }
            Err(fault(Call::HeadBucket, &error))
        }
    }
}

pub(super) async fn objects(
    client: &Client,
    bucket: &str,
    prefix: &str,
    most: usize,
    owner: Option<&str>,
) -> Answer<Vec<Object>> {
    let most = i32::try_from(most.min(1000)).unwrap_or(1000);
    let asked = client.list_objects_v2().bucket(bucket).prefix(prefix).max_keys(most);
    let asked = asked.set_expected_bucket_owner(owner.map(str::to_owned));
    let answer = asked.send().await.map_err(|error| fault(Call::ListObjectsV2, &error))?;
    Ok(answer
        .contents()
        .iter()
        .map(|object| Object {
            key: object.key().unwrap_or_default().to_owned(),
            bytes: object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
            ..Object::default()
        })
        .collect())
}

/// Returns the object at the key of an upload, with its checksum if readable. Reading the checksum of an
/// object that is encrypted with a customer-managed key requires permission to decrypt (HeadObject,
/// `x-amz-checksum-mode`); without it the request is denied, so it is repeated without the checksum.
pub(super) async fn uploaded_object(
    client: &Client,
    upload: &Upload,
    parts: Option<usize>,
) -> Answer<Object> {
    let ask = async |mode: Option<ChecksumMode>| {
        let asked = client.head_object().bucket(&upload.bucket).key(&upload.key).set_checksum_mode(mode);
        let asked = asked.expected_bucket_owner(upload.owner.as_str());
        asked.send().await.map_err(|error| fault(Call::HeadObject, &error))
    };
    let answer = match ask(Some(ChecksumMode::Enabled)).await {
        Err(Fault { class: Class::Denied, .. }) => ask(None).await?,
        answer => answer?,
    };
    let bytes = answer.content_length().and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
    // The entity tag of a multipart object ends with the number of parts. So does its checksum, except in
    // some S3-compatible stores.
    let in_parts = answer.e_tag().is_some_and(|tag| tag.contains('-'));
    let sha256 = answer.checksum_sha256().and_then(|sum| {
        let number = sum.split_once('-');
        if !in_parts && number.is_none() {
            return hexadecimal(sum);
        }
        let of_parts = number.map_or(sum, |(sum, _)| sum);
        (of_parts == checksum_of_parts(&upload.bytes, part_bytes(parts))).then(|| upload.sha256.clone())
    });
    let etag = answer.e_tag().map(str::to_owned);
    Ok(Object { key: upload.key.clone(), bytes, sha256, etag })
}

/// Returns the SHA-256 of the SHA-256s of an upload's parts, as S3 shows it for a multipart object.
fn checksum_of_parts(bytes: &[u8], size: usize) -> String {
    let sums = bytes.chunks(size).fold(Sha256::new(), |all, part| all.chain_update(Sha256::digest(part)));
    aws_smithy_types::base64::encode(sums.finalize())
}

/// Returns the part size of an upload in bytes, or the default.
fn part_bytes(parts: Option<usize>) -> usize {
    parts.unwrap_or(PART_BYTES).max(1)
}

/// Converts a checksum of S3's header to hexadecimal.
fn hexadecimal(checksum: &str) -> Option<String> {
    let bytes = aws_smithy_types::base64::decode(checksum).ok()?;
    (bytes.len() == 32).then(|| {
        bytes.iter().fold(String::with_capacity(64), |mut out, byte| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:02x}");
            out
        })
    })
}

/// Creates a bucket. us-east-1 must not be given as location constraint.
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

/// Puts an object with its checksum, encrypted, and only into a bucket of the expected owner. Unless it may
/// overwrite, an existing object is an error. Objects larger than `parts` are uploaded in parts of that size.
pub(super) async fn put_object(
    client: &Client,
    upload: &Upload,
    overwrite: bool,
    parts: Option<usize>,
) -> Answer<Option<String>> {
    if upload.bytes.len() > parts.unwrap_or(MULTIPART_THRESHOLD) {
        return put_in_parts(client, upload, overwrite, part_bytes(parts)).await;
    }
    let asked = client
        .put_object()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .set_if_none_match(unless(overwrite))
        .checksum_sha256(checksum(&upload.bytes))
        .server_side_encryption(encryption(upload))
        .set_ssekms_key_id(upload.kms.clone())
        .expected_bucket_owner(upload.owner.as_str())
        .body(ByteStream::from(upload.bytes.clone()));
    let answer = asked.send().await.map_err(|error| fault(Call::PutObject, &error))?;
    Ok(answer.e_tag().map(str::to_owned))
}

/// Returns the condition that no object exists, unless it may be overwritten.
fn unless(overwrite: bool) -> Option<String> {
    (!overwrite).then(|| "*".to_owned())
}

/// Puts a random key unless the object exists. The key exists only in the body of this request.
pub(super) async fn put_random_key(client: &Client, key: &WantedKey) -> Answer<()> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Fault::new(Call::PutObject, Class::NotSupported, &error.to_string()))?;
    let mut text = random.iter().fold(String::with_capacity(65), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    text.push('\n');
    let asked = client
        .put_object()
        .bucket(&key.bucket)
        .key(&key.key)
        .if_none_match("*")
        .checksum_sha256(checksum(text.as_bytes()))
        .server_side_encryption(match key.kms {
            Some(_) => ServerSideEncryption::AwsKms,
            None => ServerSideEncryption::Aes256,
        })
        .set_ssekms_key_id(key.kms.clone())
        .expected_bucket_owner(key.owner.as_str())
        .body(ByteStream::from(text.into_bytes()));
    asked.send().await.map_err(|error| fault(Call::PutObject, &error))?;
    Ok(())
}

/// Uploads an object in parts, each with its checksum. An unfinished upload of the same key, of a crashed or
/// a concurrent run, is resumed: the key contains the digest of the content, so its parts are the same. The
/// first run to finish completes it; for the others the upload then no longer exists, but the object does.
async fn put_in_parts(
    client: &Client,
    upload: &Upload,
    overwrite: bool,
    size: usize,
) -> Answer<Option<String>> {
    let left = unfinished_uploads(client, upload).await;
    let id = match left.first() {
        Some(id) => id.clone(),
        None => begin_multipart(client, upload).await?,
    };
    let etag = match send_parts(client, upload, &id, overwrite, size).await {
        Err(no) if no.class == Class::NotFound && no.code == "NoSuchUpload" => {
            // Another run completed or aborted it; the next read shows which.
            return Err(Fault { class: Class::Busy, ..no });
        }
        Err(no) => {
            // Parts are billed but not listed. After a transient fault they are kept for a retry.
            if !no.is_transient() {
                let _ = abort(client, &upload.bucket, &upload.key, &id).await;
            }
            return Err(no);
        }
        Ok(etag) => etag,
    };
    // Two concurrent runs may have started one upload each.
    for other in unfinished_uploads(client, upload).await {
        let _ = abort(client, &upload.bucket, &upload.key, &other).await;
    }
    Ok(etag)
}

async fn begin_multipart(client: &Client, upload: &Upload) -> Answer<String> {
    let call = Call::CreateMultipartUpload;
    let asked = client
        .create_multipart_upload()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .checksum_algorithm(ChecksumAlgorithm::Sha256)
        .server_side_encryption(encryption(upload))
        .set_ssekms_key_id(upload.kms.clone())
        .expected_bucket_owner(upload.owner.as_str());
    let begun = asked.send().await.map_err(|error| fault(call, &error))?;
    let id = begun.upload_id().map(str::to_owned);
    id.ok_or_else(|| Fault::new(call, Class::NoResponse, "the response contains no upload"))
}

/// Returns the unfinished uploads of this key in a fixed order. Without permission to list them, a new upload
/// is started, and old ones are left to a lifecycle rule of the bucket.
async fn unfinished_uploads(client: &Client, upload: &Upload) -> Vec<String> {
    let found = multipart_uploads(client, &upload.bucket, &upload.key).await.unwrap_or_default();
    let mut ids: Vec<String> =
        found.into_iter().filter(|(key, _)| *key == upload.key).map(|(_, id)| id).collect();
    ids.sort_unstable();
    ids
}

/// Returns key and ID of the first thousand unfinished uploads below a prefix.
pub(super) async fn multipart_uploads(
    client: &Client,
    bucket: &str,
    prefix: &str,
) -> Answer<Vec<(String, String)>> {
    let asked = client.list_multipart_uploads().bucket(bucket).prefix(prefix);
    let found = asked.send().await.map_err(|error| fault(Call::ListMultipartUploads, &error))?;
    let both = |upload: &MultipartUpload| Some((upload.key()?.to_owned(), upload.upload_id()?.to_owned()));
    Ok(found.uploads().iter().filter_map(both).collect())
}

/// Returns the uploaded parts by number, with entity tag and checksum. Parts without a checksum are omitted,
/// since they cannot be verified; all are, if they may not be listed.
async fn uploaded_parts(client: &Client, upload: &Upload, id: &str) -> BTreeMap<i32, (String, String)> {
    let asked = client.list_parts().bucket(&upload.bucket).key(&upload.key).upload_id(id);
    let Ok(found) = asked.expected_bucket_owner(upload.owner.as_str()).send().await else {
        return BTreeMap::new();
    };
    let each = |part: &Part| {
        Some((part.part_number()?, (part.e_tag()?.to_owned(), part.checksum_sha256()?.to_owned())))
    };
    found.parts().iter().filter_map(each).collect()
}

async fn send_parts(
    client: &Client,
    upload: &Upload,
    id: &str,
    overwrite: bool,
    size: usize,
) -> Answer<Option<String>> {
    let there = uploaded_parts(client, upload, id).await;
    let mut done = CompletedMultipartUpload::builder();
    for (number, part) in (1_i32..).zip(upload.bytes.chunks(size)) {
        let sum = checksum(part);
        let known = there.get(&number).filter(|(_, there)| *there == sum).map(|(tag, _)| tag.clone());
        let tag = match known {
            Some(tag) => Some(tag),
            None => send_part(client, upload, id, number, part, &sum).await?,
        };
        let part = CompletedPart::builder().part_number(number).set_e_tag(tag).checksum_sha256(sum);
        done = done.parts(part.build());
    }
    let asked = client
        .complete_multipart_upload()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .upload_id(id)
        .set_if_none_match(unless(overwrite))
        .expected_bucket_owner(upload.owner.as_str())
        .multipart_upload(done.build());
    let answer = asked.send().await.map_err(|error| fault(Call::CompleteMultipartUpload, &error))?;
    Ok(answer.e_tag().map(str::to_owned))
}

/// Uploads a part and returns its entity tag.
async fn send_part(
    client: &Client,
    upload: &Upload,
    id: &str,
    number: i32,
    part: &[u8],
    sum: &str,
) -> Answer<Option<String>> {
    let asked = client
        .upload_part()
        .bucket(&upload.bucket)
        .key(&upload.key)
        .upload_id(id)
        .part_number(number)
        .checksum_sha256(sum)
        .expected_bucket_owner(upload.owner.as_str())
        .body(ByteStream::from(part.to_vec()));
    let answer = asked.send().await.map_err(|error| fault(Call::UploadPart, &error))?;
    Ok(answer.e_tag().map(str::to_owned))
}

pub(super) async fn abort(client: &Client, bucket: &str, key: &str, id: &str) -> Answer<()> {
    let asked = client.abort_multipart_upload().bucket(bucket).key(key).upload_id(id);
    asked.send().await.map_err(|error| fault(Call::AbortMultipartUpload, &error))?;
    Ok(())
}

pub(super) async fn delete_object(client: &Client, bucket: &str, key: &str) -> Answer<()> {
    let asked = client.delete_object().bucket(bucket).key(key);
    asked.send().await.map_err(|error| fault(Call::DeleteObject, &error))?;
    Ok(())
}

fn encryption(upload: &Upload) -> ServerSideEncryption {
    if upload.kms.is_some() { ServerSideEncryption::AwsKms } else { ServerSideEncryption::Aes256 }
}

/// Returns the SHA-256 in the form of S3's header.
fn checksum(bytes: &[u8]) -> String {
    aws_smithy_types::base64::encode(Sha256::digest(bytes))
}
