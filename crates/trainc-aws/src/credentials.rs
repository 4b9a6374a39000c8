//! The credentials of a command: resolved once for all clients, within a time limit, and without surrounding
//! white space, such as the line break at the end of many CI secrets. The SDK panics on a key that is not a
//! valid HTTP header.

use super::http_client::Notice;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider, future};
use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Time before the expiry at which credentials are resolved again.
const MARGIN: Duration = Duration::from_mins(1);
/// Time for which a failure holds for the clients that waited meanwhile.
const FAILURE_HOLDS: Duration = Duration::from_secs(5);

/// The credentials that all clients of a command share, in every region.
#[derive(Clone, Debug, Default)]
pub struct CredentialCache(Arc<Mutex<Option<Resolved>>>);

/// The result of resolving credentials.
#[derive(Clone, Debug)]
enum Resolved {
    Found(Credentials),
    Failed(Instant, Arc<CredentialsError>),
}

/// Credentials of another provider, resolved once, without surrounding white space.
#[derive(Debug)]
pub(super) struct TrimmedCredentials {
    /// The other provider.
    pub provider: SharedCredentialsProvider,
    /// Why the selected profile cannot be used.
    pub missing_profile: Option<String>,
    /// The profile and the program of its `credential_process`, if it has one.
    pub process: Option<(String, String)>,
    /// What was resolved.
    pub cache: CredentialCache,
    /// Time that the other provider has.
    pub limit: Duration,
    /// Printed when it is slow.
    pub notice: Notice,
}

impl TrimmedCredentials {
    async fn resolve(&self) -> provider::Result {
        if let Some(why) = &self.missing_profile {
            return Err(CredentialsError::invalid_configuration(why.clone()));
        }
        // Whoever comes meanwhile waits, and gets the same.
        let mut known = self.cache.0.lock().await;
        match &*known {
            Some(Resolved::Found(credentials)) if is_fresh(credentials) => return Ok(credentials.clone()),
            Some(Resolved::Failed(at, error)) if at.elapsed() < FAILURE_HOLDS => return Err(repeat(error)),
            _ => {}
        }
        match self.ask().await {
            Ok(credentials) => {
                *known = Some(Resolved::Found(credentials.clone()));
                Ok(credentials)
            }
            Err(error) => {
                let error = Arc::new(error);
                *known = Some(Resolved::Failed(Instant::now(), Arc::clone(&error)));
                Err(repeat(&error))
            }
        }
    }

    /// Asks the other provider.
    async fn ask(&self) -> provider::Result {
        let mut asked = pin!(self.provider.provide_credentials());
        let first = self.notice.after.min(self.limit);
        if let Ok(found) = timeout(first, &mut asked).await {
            return trim(found?);
        }
        (self.notice.print)(&format!("waiting for credentials from {}", self.describe()));
        match timeout(self.limit.saturating_sub(first), asked).await {
            Ok(found) => trim(found?),
            Err(_) => Err(CredentialsError::provider_error(format!(
                "{} gave none within {} s",
                self.describe(),
                self.limit.as_secs_f64()
            ))),
        }
    }

    /// Describes where the credentials come from.
    fn describe(&self) -> String {
        match &self.process {
            Some((profile, program)) => {
                format!("the `credential_process` of profile `{profile}`, `{program}`,")
            }
            None => "the AWS configuration".to_owned(),
        }
    }
}

/// Returns whether credentials can still be used.
fn is_fresh(credentials: &Credentials) -> bool {
    credentials.expiry().is_none_or(|expiry| expiry > SystemTime::now() + MARGIN)
}

/// An error that several clients get.
#[derive(Debug)]
struct SharedError(Arc<CredentialsError>);

impl fmt::Display for SharedError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Returns an error of the same kind, with the same reason.
fn repeat(error: &Arc<CredentialsError>) -> CredentialsError {
    let shared = SharedError(Arc::clone(error));
    match &**error {
        CredentialsError::CredentialsNotLoaded(_) => CredentialsError::not_loaded(shared),
        CredentialsError::ProviderTimedOut(_) => CredentialsError::provider_timed_out(Duration::ZERO),
        CredentialsError::InvalidConfiguration(_) => CredentialsError::invalid_configuration(shared),
        CredentialsError::ProviderError(_) => CredentialsError::provider_error(shared),
        _ => CredentialsError::unhandled(shared),
    }
}

impl ProvideCredentials for TrimmedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.resolve())
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.provider.fallback_on_interrupt().and_then(|credentials| trim(credentials).ok())
    }
}

/// Returns the credentials without surrounding white space. Fails if one of them has a character that cannot
/// be sent.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::describe_missing_credentials;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A provider that counts how often it is asked, and answers, or never does.
    #[derive(Debug, Default)]
    struct Helper {
        asked: AtomicU32,
        hangs: bool,
        expiry: Option<SystemTime>,
    }

    impl ProvideCredentials for Helper {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            self.asked.fetch_add(1, Ordering::Relaxed);
            future::ProvideCredentials::new(async {
                if self.hangs {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(Credentials::new("id\n", "secret", None, self.expiry, "helper"))
            })
        }
    }

    /// Returns providers of several clients, in several regions, that share a cache.
    fn clients(helper: &Arc<Helper>) -> Vec<TrimmedCredentials> {
        #[derive(Debug)]
        struct Same(Arc<Helper>);
        impl ProvideCredentials for Same {
            fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
            where
                Self: 'a,
            {
                self.0.provide_credentials()
            }
        }
        let cache = CredentialCache::default();
        let client = |_| TrimmedCredentials {
            provider: SharedCredentialsProvider::new(Same(Arc::clone(helper))),
            missing_profile: None,
            process: Some(("prod".to_owned(), "/opt/helper".to_owned())),
            cache: cache.clone(),
            limit: if helper.hangs { Duration::from_millis(50) } else { Duration::MAX },
            notice: Notice { after: Duration::MAX, print: |_| {} },
        };
        (0..7).map(client).collect()
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    /// Asks all clients at the same time.
    async fn ask_all(clients: Vec<TrimmedCredentials>) -> Vec<provider::Result> {
        let asked: Vec<_> = clients
            .into_iter()
            .map(|client| tokio::spawn(async move { client.provide_credentials().await }))
            .collect();
        let mut out = Vec::new();
        for one in asked {
            out.push(one.await.unwrap());
        }
        out
    }

    #[test]
    fn credentials_are_resolved_once_for_all_clients() {
        let helper = Arc::new(Helper::default());
        let found = run(ask_all(clients(&helper)));
        assert!(found.len() == 7 && found.iter().all(|one| one.as_ref().unwrap().access_key_id() == "id"));
        assert_eq!(helper.asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn credentials_that_expire_are_resolved_again() {
        let soon = SystemTime::now() + Duration::from_secs(30);
        let helper = Arc::new(Helper { expiry: Some(soon), ..Helper::default() });
        assert!(run(ask_all(clients(&helper))).iter().all(Result::is_ok));
        assert_eq!(helper.asked.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_process_that_hangs_is_named_once_for_all() {
        let helper = Arc::new(Helper { hangs: true, ..Helper::default() });
        for failed in run(ask_all(clients(&helper))) {
            let words = describe_missing_credentials(&failed.unwrap_err()).unwrap();
            assert_eq!(
                words,
                "the credentials cannot be read: the `credential_process` of profile `prod`, \
                    `/opt/helper`, gave none within 0.05 s"
            );
        }
        assert_eq!(helper.asked.load(Ordering::Relaxed), 1);
    }
}
