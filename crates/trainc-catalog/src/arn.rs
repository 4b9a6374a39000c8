//! ARNs, parsed whole: a region in one becomes part of the host that a signed request goes to.

use super::regions;
use trainc_ir::address::ACCOUNT_MARK;

/// IAM path of the roles that trainc creates.
pub const ROLE_PATH: &str = "/trainc/";

/// The parts of `arn:partition:service:region:account:resource`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arn<'a> {
    /// A partition that the catalogue lists.
    pub partition: &'a str,
    /// `secretsmanager`, `kms`, `iam`, …
    pub service: &'a str,
    /// A region that the catalogue lists in the partition; empty for global services.
    pub region: &'a str,
    /// Twelve digits, the account mark, `aws` for resources of AWS, or empty.
    pub account: &'a str,
    /// The rest.
    pub resource: &'a str,
}

/// The reason why a text is not an ARN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArnError {
    /// Another form, or characters that the part cannot have.
    #[error("an ARN has the form `arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE`")]
    Malformed,
    /// A partition that the catalogue does not list.
    #[error("unknown partition `{0}`")]
    UnknownPartition(String),
    /// A region that the catalogue does not list.
    #[error("unknown region `{0}`")]
    UnknownRegion(String),
    /// A region of another partition.
    #[error("region `{region}` is in partition `{partition}`")]
    OtherPartition {
        /// The region.
        region: String,
        /// The partition of the region.
        partition: String,
    },
}

impl<'a> Arn<'a> {
    /// Parses an ARN.
    ///
    /// # Errors
    ///
    /// Fails if the text has another form, or names a partition or a region that the catalogue does not list.
    pub fn parse(text: &'a str) -> Result<Self, ArnError> {
        let mut parts = text.splitn(6, ':');
        let mut part = || parts.next().ok_or(ArnError::Malformed);
        let (arn, partition, service, region, account, resource) =
            (part()?, part()?, part()?, part()?, part()?, part()?);
        let is_service =
            service.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let is_account = matches!(account, "" | "aws" | ACCOUNT_MARK)
            || (account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()));
        let is_resource = !resource.is_empty()
            && resource.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'));
        if arn != "arn" || service.is_empty() || !is_service || !is_account || !is_resource {
            return Err(ArnError::Malformed);
        }
        if regions::all().all(|row| row.partition != partition) {
            return Err(ArnError::UnknownPartition(partition.to_owned()));
        }
        if !region.is_empty() {
            let row = regions::get(region).ok_or_else(|| ArnError::UnknownRegion(region.to_owned()))?;
            if row.partition != partition {
                return Err(ArnError::OtherPartition { region: region.to_owned(), partition: row.partition });
            }
        }
        Ok(Self { partition, service, region, account, resource })
    }

    /// Returns the path and name of a managed policy of IAM; `None` for other resources, and for patterns of
    /// several policies. The name has at most 128 letters, digits and characters of `+=,.@_-` (IAM API
    /// reference, CreatePolicy).
    pub fn policy(&self) -> Option<&'a str> {
        let is_policy = self.service == "iam" && self.region.is_empty() && !self.account.is_empty();
        let path = self.resource.strip_prefix("policy/").filter(|_| is_policy)?;
        let is_valid = |part: &str| {
            part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte))
                && part.bytes().any(|byte| byte != b'.')
        };
        let name = path.rsplit('/').next()?;
        (path.split('/').all(is_valid) && name.len() <= 128).then_some(path)
    }

    /// Returns the path of roles with this permissions boundary, from its path and name. Two boundaries have
    /// different paths, and neither is in the other: a policy cannot have `~` in its name.
    pub fn role_path(&self) -> Option<String> {
        self.policy().map(|policy| format!("{ROLE_PATH}{}/", policy.replace('/', "~")))
    }

    /// Returns true for a resource of an account, unlike those that AWS owns.
    pub fn is_of_account(&self) -> bool {
        self.account.len() == 12
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_policy_has_a_name() {
        fn name(text: &str) -> Option<&str> {
            Arn::parse(text).ok()?.policy()
        }
        assert_eq!(name("arn:aws:iam::111122223333:policy/edge"), Some("edge"));
        assert_eq!(name("arn:aws:iam::111122223333:policy/team/edge"), Some("team/edge"));
        assert_eq!(name("arn:aws:iam::111122223333:role/edge"), None);
        assert_eq!(name("arn:aws:iam::aws:policy/PowerUserAccess"), Some("PowerUserAccess"));
        for wrong in ["", "*", "a*", "${aws:username}", "..", "a/../b", "a//b", "a?", &"x".repeat(129)] {
            assert_eq!(name(&format!("arn:aws:iam::111122223333:policy/{wrong}")), None, "{wrong}");
        }
        assert_eq!(name("arn:aws:iam:us-east-1:111122223333:policy/edge"), None);
        let path = |text: &str| Arn::parse(text).unwrap().role_path();
        assert_eq!(path("arn:aws:iam::111122223333:policy/edge").as_deref(), Some("/trainc/edge/"));
        assert_eq!(path("arn:aws:iam::111122223333:policy/team/edge").as_deref(), Some("/trainc/team~edge/"));
    }

    #[test]
    fn an_arn_is_parsed_whole() {
        let secret = "arn:aws:secretsmanager:us-west-2:111122223333:secret:a:b-AbCdEf";
        let arn = Arn::parse(secret).unwrap();
        assert_eq!(
            (arn.service, arn.region, arn.resource),
            ("secretsmanager", "us-west-2", "secret:a:b-AbCdEf")
        );
        for global in [
            "arn:aws:iam::aws:policy/PowerUserAccess",
            "arn:aws:iam::${account}:role/training",
            "arn:aws-cn:iam::111122223333:role/a+=,.@-_/b",
            "arn:aws:sagemaker:us-west-2:aws:hub-content/SageMakerPublicHub/Model/example/1.0.0",
        ] {
            assert!(Arn::parse(global).is_ok(), "{global}");
        }
    }

    #[test]
    fn no_other_text_passes_as_a_region() {
        for region in [
            "x@127.0.0.1/#",
            "x@127.0.0.1",
            "us-west-2.example.com",
            "us-west-2/",
            "US-WEST-2",
            "us-west-2\n",
            "us-west-9",
            "*",
        ] {
            let arn = format!("arn:aws:secretsmanager:{region}:111122223333:secret:k-AbCdEf");
            assert_eq!(Arn::parse(&arn), Err(ArnError::UnknownRegion(region.to_owned())), "{arn}");
        }
        assert!(matches!(
            Arn::parse("arn:aws:kms:cn-north-1:111122223333:key/k"),
            Err(ArnError::OtherPartition { .. })
        ));
        assert!(matches!(
            Arn::parse("arn:evil:iam::111122223333:role/r"),
            Err(ArnError::UnknownPartition(_))
        ));
        for text in [
            "",
            "alias/mine",
            "arn:aws:kms",
            "arn:aws:kms:us-west-2:1:key/k",
            "arn:aws:kms:us-west-2:111122223333:",
            "arn:aws:k/ms:us-west-2:111122223333:key/k",
            "arn:aws::us-west-2:111122223333:key/k",
            "arn:aws:kms:us-west-2:111122223333:key/k k",
            " arn:aws:kms:us-west-2:111122223333:key/k",
        ] {
            assert_eq!(Arn::parse(text), Err(ArnError::Malformed), "{text}");
        }
    }
}
