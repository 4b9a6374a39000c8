//! Files that contain credentials, by name.

use serde::Deserialize;

use super::table::Table;
use trainc_diag::credentials::{NAMES_TOML, PATTERNS_TOML};
use trainc_ir::hardware::Provenance;

/// The patterns of credentials: trainc-diag masks what they match in all output.
pub(crate) static PATTERNS: Table = Table::new("credentials", PATTERNS_TOML);

/// The names of credentials.
pub(crate) static NAMES: Table = Table::new("credential-names", NAMES_TOML);

pub(crate) static FILES: Table = Table::new("credential-files", include_str!("data/credential-files.toml"));

#[derive(Clone, Deserialize)]
struct CredentialFileRow {
    statement: String,
    #[serde(flatten)]
    #[expect(dead_code, reason = "the source is for readers of the file only")]
    provenance: Provenance,
}

/// Returns the kind of credentials in a file by its path, as a phrase: `an SSH private key`.
pub fn credential_kind_of_file(path: &str) -> Option<String> {
    let is_of = |key: &str| match (key.strip_prefix('*'), key.strip_suffix('/')) {
        (Some(ending), _) => path.ends_with(ending),
        (None, Some(directory)) => path
            .rsplit_once('/')
            .is_some_and(|(parents, _)| parents.split('/').any(|parent| parent == directory)),
        (None, None) => path.strip_suffix(key).is_some_and(|dir| dir.is_empty() || dir.ends_with('/')),
    };
    FILES.row::<CredentialFileRow>(FILES.keys().find(|key| is_of(key))?).map(|row| row.statement.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_by_the_end_of_its_path() {
        assert!(FILES.keys().all(|key| FILES.row::<CredentialFileRow>(key).is_some()));
        for path in [
            ".env",
            "a/.env",
            "deploy.pem",
            "keys/id_rsa",
            ".aws/credentials",
            "home/.aws/credentials",
            ".npmrc",
            "infra/terraform.tfstate",
            "a/.gnupg/private-keys-v1.d/1.key",
        ] {
            assert!(credential_kind_of_file(path).is_some(), "{path}");
        }
        for path in [
            "train.env",
            ".env.example",
            "env",
            "id_rsa.pub",
            "aws/credentials",
            "credentials",
            "my_id_rsa",
            "pem",
            ".gnupg",
            "gnupg/pubring.kbx",
        ] {
            assert_eq!(credential_kind_of_file(path), None, "{path}");
        }
    }
}
