//! Parses ECR image URIs.

/// The parts of `{account}.dkr.ecr.{region}.{dns_suffix}/{repository}[:{tag}][@{digest}]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUri {
    /// Twelve digits.
    pub account: String,
    /// Region of the registry.
    pub region: String,
    /// `amazonaws.com`, `amazonaws.com.cn`, …
    pub dns_suffix: String,
    /// Repository, with its path.
    pub repository: String,
    /// Tag, if written.
    pub tag: Option<String>,
    /// `sha256:…`, if written.
    pub digest: Option<String>,
}

/// Parses a private ECR URI; returns `None` for anything else.
pub fn parse_uri(uri: &str) -> Option<ImageUri> {
    let (host, path) = uri.split_once('/')?;
    let (account, rest) = host.split_once(".dkr.ecr.")?;
    let (region, dns_suffix) = rest.split_once('.')?;
    let word = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._/".contains(&b))
    };
    if account.len() != 12
        || !account.bytes().all(|b| b.is_ascii_digit())
        || !word(region)
        || !word(dns_suffix)
    {
        return None;
    }
    let (path, digest) = match path.split_once('@') {
        Some((path, digest)) => (path, Some(digest)),
        None => (path, None),
    };
    let (repository, tag) = match path.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (path, None),
    };
    let tag_ok = |tag: &str| {
        (1..=128).contains(&tag.len())
            && !tag.starts_with(['.', '-'])
            && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let digest_ok = |digest: &str| {
        digest
            .strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    };
    if !word(repository) || !tag.is_none_or(tag_ok) || !digest.is_none_or(digest_ok) {
        return None;
    }
    Some(ImageUri {
        account: account.to_owned(),
        region: region.to_owned(),
        dns_suffix: dns_suffix.to_owned(),
        repository: repository.to_owned(),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tag_and_digest() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let uri = format!(
            "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/team/pytorch-training:2.8.0-gpu-py312@{digest}"
        );
        let parsed = parse_uri(&uri).unwrap();
        assert_eq!((parsed.account.as_str(), parsed.region.as_str()), ("727897471807", "cn-north-1"));
        assert_eq!(
            (parsed.dns_suffix.as_str(), parsed.repository.as_str()),
            ("amazonaws.com.cn", "team/pytorch-training")
        );
        assert_eq!((parsed.tag.as_deref(), parsed.digest), (Some("2.8.0-gpu-py312"), Some(digest)));
        let bare = parse_uri("111122223333.dkr.ecr.us-east-1.amazonaws.com/mine").unwrap();
        assert_eq!((bare.tag, bare.digest), (None, None));
    }

    #[test]
    fn refuses_what_is_not_private_ecr() {
        for uri in [
            "",
            "pytorch/pytorch:2.8.0",
            "public.ecr.aws/x/y:1",
            "1111.dkr.ecr.us-east-1.amazonaws.com/x",
            "111122223333.dkr.ecr.us-east-1.amazonaws.com/",
            "111122223333.dkr.ecr.us-east-1.amazonaws.com/x:",
            "111122223333.dkr.ecr.us-east-1.amazonaws.com/x@sha256:12",
            "111122223333.dkr.ecr.us-east-1/x:1",
            "111122223333.dkr.ecr.us-east-1.amazonaws.com/X:1",
        ] {
            assert_eq!(parse_uri(uri), None, "{uri}");
        }
    }
}
