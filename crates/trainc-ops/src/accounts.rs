//! The account that a command uses: one of AWS, or a simulated one that can be persisted in a file.

use crate::clock::SystemClock;
use crate::signals::stop_signal;
use futures_util::future::{Either, select};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Semaphore;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::fake::{Account, Fake, Pace};
use trainc_apply::look::{Look, MAX_CONCURRENT_CALLS};
use trainc_apply::patience::Patience;
use trainc_ir::Plan;
use trainc_predict::{self as predict, Constants};

/// The account that is asked.
#[derive(Clone, Debug)]
pub enum Which {
    /// One of AWS, by the credentials of the environment.
    Aws,
    /// A simulated one that is lost when the command ends.
    InMemory,
    /// A simulated one that a file persists.
    File(PathBuf),
}

/// Why a task has no outcome.
#[derive(Debug)]
pub enum Ended {
    /// A signal stopped it.
    Interrupted {
        /// It made or followed resources that remain, and are billed.
        leaves_resources: bool,
    },
    /// The account cannot be used, or not be saved; the words.
    Refused(String),
}

/// What a command does with an account, real or simulated. `X` is what it reports to while it runs.
pub trait Task<X> {
    /// What it returns.
    type Outcome;
    /// It makes or follows resources that remain, and are billed, when it is interrupted.
    const LEAVES_RESOURCES: bool = false;

    /// Runs it.
    fn run<C: Cloud, K: Clock>(
        self,
        context: &mut X,
        look: Look<'_, C, K>,
    ) -> impl Future<Output = Self::Outcome>;
}

/// What a command does for several jobs concurrently, each in its region.
pub trait Tasks<X> {
    /// What it returns.
    type Outcome;
    /// It makes or follows resources that remain, and are billed, when it is interrupted.
    const LEAVES_RESOURCES: bool = false;

    /// Runs it; `looks` are in the order of the jobs.
    fn run<C: Cloud, K: Clock>(
        self,
        context: &mut X,
        looks: &[Look<'_, C, K>],
    ) -> impl Future<Output = Self::Outcome>;
}

/// The accounts of one command.
pub struct Accounts {
    simulated: Option<(Fake, Option<PathBuf>)>,
    runtime: tokio::runtime::Runtime,
    patience: Patience,
    /// The clock of an account of AWS; a simulated one has its own.
    clock: SystemClock,
    /// Constants from which the speed of simulated jobs is predicted.
    constants: Option<Constants>,
    /// The credentials of all regions and tasks.
    credentials: CredentialCache,
    /// Is called with a note while a request waits.
    notice: fn(&str),
}

#[cfg(feature = "aws")]
type CredentialCache = trainc_aws::CredentialCache;
#[cfg(not(feature = "aws"))]
#[derive(Default)]
struct CredentialCache {}

impl Accounts {
    /// Opens the account; fails with the words for a usage error. `notice` is called with a note while a
    /// request waits.
    pub fn open(
        which: &Which,
        capacity: Option<Duration>,
        clock: SystemClock,
        notice: fn(&str),
    ) -> Result<Self, String> {
        let simulated = match which {
            Which::Aws => None,
            Which::InMemory => Some((Fake::new(Account::default()), None)),
            Which::File(file) => {
                let account = read(file)?;
                // Checked first: nothing is done that cannot be saved.
                check_writable(file)?;
                Some((Fake::new(account), Some(file.clone())))
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("error: the async runtime cannot be started: {error}\n"))?;
        let mut patience = Patience { capacity, ..Patience::default() };
        if let Ok(text) = std::env::var("TRAINC_POLL_SECONDS") {
            patience.poll = interval("TRAINC_POLL_SECONDS", &text)?;
        }
        let credentials = CredentialCache::default();
        Ok(Self { simulated, runtime, patience, clock, constants: None, credentials, notice })
    }

    /// Makes simulated jobs train as fast as these constants predict.
    #[must_use]
    pub fn with_constants(self, constants: &Constants) -> Self {
        Self { constants: Some(constants.clone()), ..self }
    }

    /// Returns the speed of a simulated job; `None` without a prediction.
    fn pace(&self, plan: &Plan) -> Option<Pace> {
        let speed = predict::of_plan(plan, self.constants.as_ref()?).speed?;
        let (step_seconds, tokens_per_second, mfu) = (speed.step_seconds, speed.tokens_per_second, speed.mfu);
        let is_known = [step_seconds, tokens_per_second].iter().all(|one| one.is_finite() && *one > 0.0);
        is_known.then_some(Pace { step_seconds, tokens_per_second, mfu })
    }

    /// Returns true for a simulated account.
    pub fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Runs a task in the plan's region until it ends or the user interrupts it.
    pub fn run<X, T: Task<X>>(&mut self, context: &mut X, plan: &Plan, task: T) -> Result<T::Outcome, Ended> {
        let region = plan.job.region.value().map_or("", String::as_str);
        self.run_in_region(context, region, plan.run.steps.as_ref().map(|steps| steps.value), task)
    }

    /// Runs a task in a region; an empty one means that of the simulated account.
    pub fn run_in_region<X, T: Task<X>>(
        &mut self,
        context: &mut X,
        region: &str,
        steps: Option<u64>,
        task: T,
    ) -> Result<T::Outcome, Ended> {
        let patience = self.patience;
        let Some((fake, file)) = &mut self.simulated else {
            let work =
                on_aws(context, region, (patience, &self.clock), (&self.credentials, self.notice), task);
            return self.runtime.block_on(until_interrupted(T::LEAVES_RESOURCES, work))?;
        };
        let seen = if region.is_empty() { fake.clone() } else { fake.in_region(region, steps, None) };
        let look = Look {
            cloud: &seen,
            clock: &seen,
            patience,
            permits: None,
            asked: None,
            refused: None,
            repeated: None,
        };
        let outcome = self.runtime.block_on(until_interrupted(T::LEAVES_RESOURCES, task.run(context, look)));
        save_simulated(fake, file.as_deref(), outcome)
    }

    /// Runs tasks for several jobs concurrently until all end or the user interrupts them.
    pub fn run_all<X, T: Tasks<X>>(
        &mut self,
        context: &mut X,
        plans: &[&Plan],
        tasks: T,
    ) -> Result<T::Outcome, Ended> {
        let patience = self.patience;
        let permits = Semaphore::new(MAX_CONCURRENT_CALLS);
        let region = |plan: &Plan| plan.job.region.value().cloned().unwrap_or_default();
        let Some((fake, file)) = &self.simulated else {
            let regions: Vec<String> = plans.iter().map(|plan| region(plan)).collect();
            let connection = (&self.credentials, self.notice);
            let work = all_on_aws(context, &regions, (patience, &self.clock), connection, &permits, tasks);
            return self.runtime.block_on(until_interrupted(T::LEAVES_RESOURCES, work))?;
        };
        let seen: Vec<Fake> = plans
            .iter()
            .map(|plan| {
                let steps = plan.run.steps.as_ref().map(|steps| steps.value);
                fake.in_region(&region(plan), steps, self.pace(plan))
            })
            .collect();
        let looks: Vec<Look<'_, Fake, Fake>> = seen
            .iter()
            .map(|seen| Look {
                cloud: seen,
                clock: seen,
                patience,
                permits: Some(&permits),
                asked: None,
                refused: None,
                repeated: None,
            })
            .collect();
        let outcome =
            self.runtime.block_on(until_interrupted(T::LEAVES_RESOURCES, tasks.run(context, &looks)));
        save_simulated(fake, file.as_deref(), outcome)
    }
}

/// The credentials of a command, and what is called while a request waits.
type Connection<'a> = (&'a CredentialCache, fn(&str));

/// Saves a simulated account to its file, if it has one.
fn save_simulated<O>(fake: &Fake, file: Option<&Path>, outcome: Result<O, Ended>) -> Result<O, Ended> {
    // Also if it was interrupted; what cannot be saved is the worse news.
    file.map_or(Ok(()), |file| write(file, &fake.account())).map_err(Ended::Refused)?;
    outcome
}

/// Runs to the end or to a signal that stops the command; the next run continues what was begun.
async fn until_interrupted<O>(leaves_resources: bool, work: impl Future<Output = O>) -> Result<O, Ended> {
    match select(pin!(work), pin!(stop_signal())).await {
        Either::Left((outcome, _)) => Ok(outcome),
        Either::Right(_) => Err(Ended::Interrupted { leaves_resources }),
    }
}

#[cfg(feature = "aws")]
async fn on_aws<X, T: Task<X>>(
    context: &mut X,
    region: &str,
    (patience, clock): (Patience, &SystemClock),
    connection: Connection<'_>,
    task: T,
) -> Result<T::Outcome, Ended> {
    let account = connect(region, patience, connection).await.map_err(Ended::Refused)?;
    let look =
        Look { cloud: &account, clock, patience, permits: None, asked: None, refused: None, repeated: None };
    Ok(task.run(context, look).await)
}

/// Default idle timeout of a request: the time without an answer or a byte.
#[cfg(feature = "aws")]
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Time after which a waiting request is reported.
#[cfg(feature = "aws")]
const NOTICE_AFTER: Duration = Duration::from_secs(10);

#[cfg(feature = "aws")]
async fn connect(
    region: &str,
    patience: Patience,
    (credentials, print): Connection<'_>,
) -> Result<trainc_aws::Account, String> {
    let first_wait = patience.poll.min(Duration::from_secs(1));
    let part_bytes = std::env::var("TRAINC_PART_BYTES").ok().and_then(|text| text.parse().ok());
    let idle_timeout = match std::env::var("TRAINC_TIMEOUT_SECONDS") {
        Ok(text) => interval("TRAINC_TIMEOUT_SECONDS", &text)?,
        Err(_) => IDLE_TIMEOUT,
    };
    let notice = trainc_aws::Notice { after: NOTICE_AFTER, print };
    let settings = trainc_aws::Settings {
        region: region.to_owned(),
        first_wait,
        part_bytes,
        idle_timeout,
        notice,
        credentials: credentials.clone(),
    };
    trainc_aws::Account::connect(&settings).await
}

/// Jobs of one region share one connection and its credentials.
#[cfg(feature = "aws")]
async fn all_on_aws<X, T: Tasks<X>>(
    context: &mut X,
    regions: &[String],
    (patience, clock): (Patience, &SystemClock),
    connection: Connection<'_>,
    permits: &Semaphore,
    tasks: T,
) -> Result<T::Outcome, Ended> {
    let mut accounts = std::collections::BTreeMap::new();
    for region in regions {
        if !accounts.contains_key(region) {
            let account = connect(region, patience, connection).await.map_err(Ended::Refused)?;
            accounts.insert(region, account);
        }
    }
    let looks: Vec<_> = regions
        .iter()
        .filter_map(|region| accounts.get(region))
        .map(|cloud| Look {
            cloud,
            clock,
            patience,
            permits: Some(permits),
            asked: None,
            refused: None,
            repeated: None,
        })
        .collect();
    Ok(tasks.run(context, &looks).await)
}

/// What is said of an account of AWS by a build without the SDK.
#[cfg(not(feature = "aws"))]
const MISSING_AWS_FEATURE: &str = "error: trainc was built without the feature `aws` and only supports \
    `--simulate` and `plan --offline`\n";

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same signature as with the feature")]
async fn on_aws<X, T: Task<X>>(
    _: &mut X,
    _: &str,
    _: (Patience, &SystemClock),
    _: Connection<'_>,
    _: T,
) -> Result<T::Outcome, Ended> {
    Err(Ended::Refused(MISSING_AWS_FEATURE.to_owned()))
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same signature as with the feature")]
async fn all_on_aws<X, T: Tasks<X>>(
    _: &mut X,
    _: &[String],
    _: (Patience, &SystemClock),
    _: Connection<'_>,
    _: &Semaphore,
    _: T,
) -> Result<T::Outcome, Ended> {
    Err(Ended::Refused(MISSING_AWS_FEATURE.to_owned()))
}

/// Parses a variable that holds a number of seconds.
fn interval(variable: &str, text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse::<f64>().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("error: {variable}: `{text}` is not a number of seconds\n"))
}

/// Maximum size of a simulated account in bytes.
const MOST_ACCOUNT_BYTES: u64 = 256 << 20;

fn read(file: &Path) -> Result<Account, String> {
    let text = match trainc_project::files::read_regular_text(file, MOST_ACCOUNT_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Account::default()),
        Err(error) => {
            return Err(format!(
                "error: `{}`: {}\n",
                file.display(),
                trainc_project::files::describe(&error)
            ));
        }
    };
    serde_json::from_str(&text)
        .map_err(|error| format!("error: `{}` is not a simulated account: {error}\n", file.display()))
}

/// Fails if a file cannot be written; leaves it unchanged, or absent.
fn check_writable(file: &Path) -> Result<(), String> {
    let there = file.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .map_err(|error| describe_unwritable(file, &error))?;
    if there { Ok(()) } else { std::fs::remove_file(file).map_err(|error| describe_unwritable(file, &error)) }
}

fn describe_unwritable(file: &Path, error: &std::io::Error) -> String {
    format!("error: `{}` cannot be written: {}\n", file.display(), trainc_project::files::describe(error))
}

fn write(file: &Path, account: &Account) -> Result<(), String> {
    let text = serde_json::to_string_pretty(account).unwrap_or_default();
    std::fs::write(file, format!("{text}\n")).map_err(|error| describe_unwritable(file, &error))
}

#[cfg(test)]
mod tests {
    use super::interval;
    use std::time::Duration;

    #[test]
    fn an_interval_is_a_number_of_seconds() {
        assert_eq!(interval("TRAINC_POLL_SECONDS", "0"), Ok(Duration::ZERO));
        assert_eq!(interval("TRAINC_POLL_SECONDS", "0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["abc", "-1", "", "1m"] {
            assert!(
                interval("TRAINC_POLL_SECONDS", wrong).unwrap_err().contains("TRAINC_POLL_SECONDS"),
                "{wrong}"
            );
        }
    }
}
