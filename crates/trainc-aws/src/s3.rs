//! S3: the source archive and the data of channels.

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

/// From here on an object is sent in parts. One PUT takes 5 GiB; a part that fails is sent again alone.
const MULTIPART_THRESHOLD: usize = 64 << 20;
/// Bytes of a part; S3 takes 10,000 of them.
const PART_BYTES: usize = 16 << 20;

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
        Ok(answer) => Ok(Bucket {
            name: name.to_owned(),
            region: answer.bucket_region().map(str::to_owned),
            ..Bucket::default()
        }),
        Err(error) => {
            let raw = error.raw_response();
            let status = raw.map(|raw| raw.status().as_u16());
            let region = raw.and_then(|raw| raw.headers().get("x-amz-bucket-region")).map(str::to_owned);
            // Asked in the wrong region, S3 sends elsewhere, or finds a signature of the wrong region, and names the
            // right one in a header.
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

/// What lies at the address of an upload, with its checksum, if it may be seen: of what a key of the user's encrypts, only
/// by whoever may decrypt with it (HeadObject, `x-amz-checksum-mode`), and all others are refused as if nothing were there.
pub(super) async fn uploaded_object(
    client: &Client,
    upload: &Upload,
    parts: Option<usize>,
) -> Answer<Object> {
    let ask = async |mode: Option<ChecksumMode>| {
        let asked = client.head_object().bucket(&upload.bucket).key(&upload.key).set_checksum_mode(mode);
        let asked = asked.set_expected_bucket_owner(upload.owner.clone());
        asked.send().await.map_err(|error| fault(Call::HeadObject, &error))
    };
    let answer = match ask(Some(ChecksumMode::Enabled)).await {
        Err(Fault { class: Class::Denied, .. }) => ask(None).await?,
        answer => answer?,
    };
    let bytes = answer.content_length().and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
    // The tag of what was sent in parts ends with their number. Its checksum should, too; not every store writes it.
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

/// SHA-256 of the SHA-256s of an upload's parts, as S3 shows it for an object in parts.
fn checksum_of_parts(bytes: &[u8], size: usize) -> String {
    let sums = bytes.chunks(size).fold(Sha256::new(), |all, part| all.chain_update(Sha256::digest(part)));
    aws_smithy_types::base64::encode(sums.finalize())
}

/// The size of the parts of an upload; the usual one if no other is set.
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

/// Puts an object, where none is yet unless it may overwrite: with its checksum, encrypted, and only into a bucket of that
/// owner. What is larger than `parts` goes in parts of that size.
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
        .set_expected_bucket_owner(upload.owner.clone())
        .body(ByteStream::from(upload.bytes.clone()));
    let answer = asked.send().await.map_err(|error| fault(Call::PutObject, &error))?;
    Ok(answer.e_tag().map(str::to_owned))
}

/// The condition under which an object is written: that there is none.
fn unless(overwrite: bool) -> Option<String> {
    (!overwrite).then(|| "*".to_owned())
}

/// Puts a random key where no object is yet. It exists only in this request's body.
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
        .set_expected_bucket_owner(key.owner.clone())
        .body(ByteStream::from(text.into_bytes()));
    asked.send().await.map_err(|error| fault(Call::PutObject, &error))?;
    Ok(())
}

/// In parts, each with its checksum. An upload of the same key that a crash left, or that somebody else makes at this
/// moment, is gone on with: the key holds the digest of the content, so its parts are the same. Whoever is first
/// completes it; for the others it is gone then, and the object there.
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
            // Completed or taken away by another: looking again tells.
            return Err(Fault { class: Class::Busy, ..no });
        }
        Err(no) => {
            // Parts are billed and not seen. What a repetition can mend stays for it.
            if !no.is_transient() {
                let _ = abort(client, &upload.bucket, &upload.key, &id).await;
            }
            return Err(no);
        }
        Ok(etag) => etag,
    };
    // Two that began at the same time made two.
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
        .set_expected_bucket_owner(upload.owner.clone());
    let begun = asked.send().await.map_err(|error| fault(call, &error))?;
    let id = begun.upload_id().map(str::to_owned);
    id.ok_or_else(|| Fault::new(call, Class::NoResponse, "the response contains no upload"))
}

/// Uploads of this key that were begun and not ended, in one fixed order. Whoever may not list them begins anew, and
/// leaves them to a lifecycle rule of the bucket.
async fn unfinished_uploads(client: &Client, upload: &Upload) -> Vec<String> {
    let found = multipart_uploads(client, &upload.bucket, &upload.key).await.unwrap_or_default();
    let mut ids: Vec<String> =
        found.into_iter().filter(|(key, _)| *key == upload.key).map(|(_, id)| id).collect();
    ids.sort_unstable();
    ids
}

/// Key and id of the uploads below a prefix that were begun and not ended: the first thousand.
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

/// The parts of an upload that are there, by number: tag and checksum. Only those with a checksum can be told to be
/// ours; none where they may not be listed, and then all are sent again.
async fn uploaded_parts(client: &Client, upload: &Upload, id: &str) -> BTreeMap<i32, (String, String)> {
    let asked = client.list_parts().bucket(&upload.bucket).key(&upload.key).upload_id(id);
    let Ok(found) = asked.set_expected_bucket_owner(upload.owner.clone()).send().await else {
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
        .set_expected_bucket_owner(upload.owner.clone())
        .multipart_upload(done.build());
    let answer = asked.send().await.map_err(|error| fault(Call::CompleteMultipartUpload, &error))?;
    Ok(answer.e_tag().map(str::to_owned))
}

/// One part; its tag.
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
        .set_expected_bucket_owner(upload.owner.clone())
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

/// SHA-256 in the form of S3's header.
fn checksum(bytes: &[u8]) -> String {
    aws_smithy_types::base64::encode(Sha256::digest(bytes))
}
