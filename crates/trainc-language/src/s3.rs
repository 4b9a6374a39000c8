//! S3 URIs of a job: `s3://bucket/key`, and the HTTPS URLs that SageMaker accepts too.

/// The parts of an S3 URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// The bucket; may be empty.
    pub bucket: &'a str,
    /// The key after the bucket and `/`; empty for the whole bucket.
    pub key: &'a str,
    /// The region in an HTTPS URL.
    pub region: Option<&'a str>,
}

/// Parses a URI; returns `None` if it neither begins with `s3://` nor is a plain HTTPS URL of S3.
pub fn parse(uri: &str) -> Option<Uri<'_>> {
    if let Some(rest) = uri.strip_prefix("s3://") {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        return Some(Uri { bucket, key, region: None });
    }
    parse_https(uri.strip_prefix("https://")?)
}

/// Parses `bucket.s3.region.amazonaws.com/key` and `s3.region.amazonaws.com/bucket/key`, the second also
/// without a region or with `s3-region` (Amazon S3 user guide, "Methods for accessing a general purpose
/// bucket"). Signed and encoded URLs are not parsed, since it is not documented how SageMaker reads them.
fn parse_https(rest: &str) -> Option<Uri<'_>> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if path.contains(['?', '%', '#']) {
        return None;
    }
    let host = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let (bucket, region) = parse_host(host)?;
    if let Some(bucket) = bucket {
        return (!bucket.is_empty()).then_some(Uri { bucket, key: path, region });
    }
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    Some(Uri { bucket, key, region })
}

/// Returns the bucket before `s3` in a host name, if there is one, and the region after it.
fn parse_host(host: &str) -> Option<(Option<&str>, Option<&str>)> {
    let is_region = |name: &&str| {
        let words = name.split('-').count() >= 3 && name.ends_with(|last: char| last.is_ascii_digit());
        words && name.find('-') == Some(2)
    };
    // Parse from the end: a bucket name may contain dots and `s3`.
    let (before, last) = host.rsplit_once('.').map_or((None, host), |(before, last)| (Some(before), last));
    if last == "s3" {
        return Some((before, None));
    }
    if let Some(region) = last.strip_prefix("s3-").filter(is_region) {
        return Some((before, Some(region)));
    }
    let region = Some(last).filter(is_region)?;
    let service = before?;
    let service = service.strip_suffix(".dualstack").unwrap_or(service);
    match service.strip_suffix("s3")? {
        "" => Some((None, Some(region))),
        bucket => Some((Some(bucket.strip_suffix('.')?), Some(region))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let of = |uri| parse(uri).map(|parts: Uri<'_>| (parts.bucket, parts.key, parts.region));
        let west = Some("us-west-2");
        for (uri, parts) in [
            ("s3://b/k/x", ("b", "k/x", None)),
            ("s3://bucket", ("bucket", "", None)),
            ("https://b.s3.us-west-2.amazonaws.com/k/x", ("b", "k/x", west)),
            ("https://a.s3.b.s3.us-west-2.amazonaws.com/k/", ("a.s3.b", "k/", west)),
            ("https://b.s3-us-west-2.amazonaws.com/k", ("b", "k", west)),
            ("https://b.s3.dualstack.us-west-2.amazonaws.com/k", ("b", "k", west)),
            ("https://b.s3.amazonaws.com", ("b", "", None)),
            ("https://s3.us-west-2.amazonaws.com/b/k", ("b", "k", west)),
            ("https://s3-us-west-2.amazonaws.com/b/k", ("b", "k", west)),
            ("https://s3.amazonaws.com/b", ("b", "", None)),
            ("https://b.s3.cn-north-1.amazonaws.com.cn/k", ("b", "k", Some("cn-north-1"))),
            (
                "https://sagemaker-us-west-2-${account}.s3.us-west-2.amazonaws.com/k",
                ("sagemaker-us-west-2-${account}", "k", west),
            ),
        ] {
            assert_eq!(of(uri), Some(parts), "{uri}");
        }
        for other in [
            "https://bucket/x",
            "https://example.com/s3.amazonaws.com/x",
            "https://b.s3-website-us-west-2.amazonaws.com/x",
            "https://b.s3-accelerate.amazonaws.com/x",
            "https://b.s3.us-west-2.amazonaws.com/x?X-Amz-Signature=1",
            "https://b.s3.us-west-2.amazonaws.com/a%20b",
            "https://xs3.us-west-2.amazonaws.com/b",
            "https://.s3.us-west-2.amazonaws.com/b",
            "http://b.s3.us-west-2.amazonaws.com/x",
            "/data/train",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
