//! Credentials without surrounding white space, such as the line break at the end of many CI secrets. The SDK panics on
//! a key that is not a valid HTTP header.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider, future};

/// Credentials of another provider, without surrounding white space.
#[derive(Debug)]
pub(super) struct TrimmedCredentials {
    provider: SharedCredentialsProvider,
    /// Why the selected profile cannot be used.
    missing_profile: Option<String>,
}

impl TrimmedCredentials {
    pub(super) fn new(provider: SharedCredentialsProvider, missing_profile: Option<String>) -> Self {
        Self { provider, missing_profile }
    }
}

impl ProvideCredentials for TrimmedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            if let Some(why) = &self.missing_profile {
                return Err(CredentialsError::invalid_configuration(why.clone()));
            }
            trim(self.provider.provide_credentials().await?)
        })
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.provider.fallback_on_interrupt().and_then(|credentials| trim(credentials).ok())
    }
}

/// Returns the credentials without surrounding white space. Fails if one of them has a character that cannot be sent.
fn trim(credentials: Credentials) -> provider::Result {
    let (id, secret) = (credentials.access_key_id().trim(), credentials.secret_access_key().trim());
    let token = credentials.session_token().map(str::trim);
    let named = [("access key ID", Some(id)), ("secret access key", Some(secret)), ("session token", token)];
    for (name, value) in named {
        if value.is_some_and(|value| value.chars().any(|letter| !letter.is_ascii_graphic())) {
            return Err(CredentialsError::invalid_configuration(format!(
                "the {name} contains a line break or another character that credentials do not have"
            )));
        }
    }
    let is_trim = id.len() == credentials.access_key_id().len()
        && secret.len() == credentials.secret_access_key().len()
        && token.map(str::len) == credentials.session_token().map(str::len);
    if is_trim {
        return Ok(credentials);
    }
    let mut trimmed =
        Credentials::builder().access_key_id(id).secret_access_key(secret).provider_name("trainc");
    trimmed.set_session_token(token.map(str::to_owned));
    trimmed.set_expiry(credentials.expiry());
    trimmed.set_account_id(credentials.account_id().cloned());
    Ok(trimmed.build())
}
