//! The account that a command uses: one of AWS, or a simulated one that can be persisted in a file.

use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::signals::stop_signal;
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

/// Flag that selects the account.
#[derive(clap::Args, Debug)]
pub(crate) struct AccountArgs {
    /// Use a simulated account instead of AWS: no credentials, no network, no cost. `--simulate` runs against an
    /// in-memory account; `--simulate=FILE` persists it between commands
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap: absent, alone, or with a file")]
    pub simulate: Option<Option<PathBuf>>,
}

impl AccountArgs {
    /// Returns true if the account is lost when the command ends.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.simulate, Some(None))
    }

    /// Returns true if an account of AWS is asked.
    pub(crate) fn is_real(&self) -> bool {
        self.simulate.is_none()
    }

    /// The flag, quoted for a shell.
    pub(crate) fn flag(&self) -> Option<String> {
        Some(match self.simulate.as_ref()? {
            None => "--simulate".to_owned(),
            Some(file) => format!("--simulate={}", trainc_emit::quote(&file.to_string_lossy())),
        })
    }

    /// Returns the same account, persisted in a file.
    pub(crate) fn with_default_file() -> Self {
        Self { simulate: Some(Some("account.json".into())) }
    }
}

/// A command that uses an account, real or simulated.
pub(crate) trait Task {
    /// It makes or follows resources that remain, and are billed, when it is interrupted.
    const LEAVES_RESOURCES: bool = false;

    /// Runs it.
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'_>, look: Look<'_, C, K>) -> u8;
}

/// A command that runs for several jobs concurrently, each in its region.
pub(crate) trait Tasks {
    /// It makes or follows resources that remain, and are billed, when it is interrupted.
    const LEAVES_RESOURCES: bool = false;

    /// Runs it; `looks` are in the order of the jobs.
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'_>, looks: &[Look<'_, C, K>]) -> u8;
}

/// The accounts of one command.
pub(crate) struct Accounts {
    simulated: Option<(Fake, Option<PathBuf>)>,
    runtime: tokio::runtime::Runtime,
    patience: Patience,
    /// Constants from which the speed of simulated jobs is predicted.
    constants: Option<Constants>,
    /// The credentials of all regions and tasks.
    credentials: CredentialCache,
}

#[cfg(feature = "aws")]
type CredentialCache = trainc_aws::CredentialCache;
#[cfg(not(feature = "aws"))]
type CredentialCache = ();

impl Accounts {
    /// Opens the account; fails with a usage error.
    pub(crate) fn new(args: &AccountArgs, capacity: Option<Duration>) -> Result<Self, String> {
        let simulated = match &args.simulate {
            None => None,
            Some(None) => Some((Fake::new(Account::default()), None)),
            Some(Some(file)) => {
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
        Ok(Self { simulated, runtime, patience, constants: None, credentials: CredentialCache::default() })
    }

    /// Makes simulated jobs train as fast as these constants predict.
    #[must_use]
    pub(crate) fn with_constants(self, constants: &Constants) -> Self {
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
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Runs a task in the plan's region until it ends or the user interrupts it.
    pub(crate) fn run(&mut self, io: &mut Io, plan: &Plan, task: impl Task) -> u8 {
        let region = plan.job.region.value().map_or("", String::as_str);
        self.run_in_region(io, region, plan.run.steps.as_ref().map(|steps| steps.value), task)
    }

    /// Runs a task in a region; an empty one means that of the simulated account.
    pub(crate) fn run_in_region<T: Task>(
        &mut self,
        io: &mut Io,
        region: &str,
        steps: Option<u64>,
        task: T,
    ) -> u8 {
        let patience = self.patience;
        let Some((fake, file)) = &mut self.simulated else {
            let credentials = &self.credentials;
            return self.runtime.block_on(run_until_interrupted(io, T::LEAVES_RESOURCES, async |io| {
                on_aws(io, region, patience, credentials, task).await
            }));
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
        let code = self
            .runtime
            .block_on(run_until_interrupted(io, T::LEAVES_RESOURCES, async |io| task.run(io, look).await));
        save_simulated(io, fake, file.as_deref(), code)
    }

    /// Runs tasks for several jobs concurrently until all end or the user interrupts them.
    pub(crate) fn run_all<T: Tasks>(&mut self, io: &mut Io, plans: &[&Plan], tasks: T) -> u8 {
        let patience = self.patience;
        let permits = Semaphore::new(MAX_CONCURRENT_CALLS);
        let region = |plan: &Plan| plan.job.region.value().cloned().unwrap_or_default();
        let Some((fake, file)) = &self.simulated else {
            let regions: Vec<String> = plans.iter().map(|plan| region(plan)).collect();
            let credentials = &self.credentials;
            let work = async |io: &mut Io<'_>| {
                all_on_aws(io, &regions, patience, credentials, &permits, tasks).await
            };
            return self.runtime.block_on(run_until_interrupted(io, T::LEAVES_RESOURCES, work));
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
        let code = self
            .runtime
            .block_on(run_until_interrupted(io, T::LEAVES_RESOURCES, async |io| tasks.run(io, &looks).await));
        save_simulated(io, fake, file.as_deref(), code)
    }
}

/// Saves a simulated account to its file, if it has one.
fn save_simulated(io: &mut Io, fake: &Fake, file: Option<&Path>, code: u8) -> u8 {
    let kept = file.map_or(Ok(()), |file| write(file, &fake.account()));
    let Err(why) = kept else { return code };
    io.note(&why);
    exit::USAGE
}

/// Runs to the end or to a signal that stops the command; the next run continues what was begun.
async fn run_until_interrupted(
    io: &mut Io<'_>,
    leaves_resources: bool,
    work: impl AsyncFnOnce(&mut Io<'_>) -> u8,
) -> u8 {
    if let Either::Left((code, _)) = select(pin!(work(io)), pin!(stop_signal())).await {
        return code;
    }
    io.note(if leaves_resources {
        "\ninterrupted: existing resources remain and are billed; repeat the command to continue, `trainc status` to see them, `trainc destroy` to remove them\n"
    } else {
        "\ninterrupted\n"
    });
    exit::INCOMPLETE
}

#[cfg(feature = "aws")]
async fn on_aws(
    io: &mut Io<'_>,
    region: &str,
    patience: Patience,
    credentials: &CredentialCache,
    task: impl Task,
) -> u8 {
    let account = match connect(region, patience, credentials).await {
        Ok(account) => account,
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    let clock = trainc_aws::RealClock;
    task.run(
        io,
        Look {
            cloud: &account,
            clock: &clock,
            patience,
            permits: None,
            asked: None,
            refused: None,
            repeated: None,
        },
    )
    .await
}

/// Default idle timeout of a request: the time without an answer or a byte.
#[cfg(feature = "aws")]
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Prints a note while a request waits.
#[cfg(feature = "aws")]
fn print_notice(line: &str) {
    let line = trainc_diag::escape_output(&format!("note: {line}\n"), false);
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// Time after which a waiting request is reported.
#[cfg(feature = "aws")]
const NOTICE_AFTER: Duration = Duration::from_secs(10);

#[cfg(feature = "aws")]
async fn connect(
    region: &str,
    patience: Patience,
    credentials: &CredentialCache,
) -> Result<trainc_aws::Account, String> {
    let first_wait = patience.poll.min(Duration::from_secs(1));
    let part_bytes = std::env::var("TRAINC_PART_BYTES").ok().and_then(|text| text.parse().ok());
    let idle_timeout = match std::env::var("TRAINC_TIMEOUT_SECONDS") {
        Ok(text) => interval("TRAINC_TIMEOUT_SECONDS", &text)?,
        Err(_) => IDLE_TIMEOUT,
    };
    let notice = trainc_aws::Notice { after: NOTICE_AFTER, print: print_notice };
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
async fn all_on_aws(
    io: &mut Io<'_>,
    regions: &[String],
    patience: Patience,
    credentials: &CredentialCache,
    permits: &Semaphore,
    tasks: impl Tasks,
) -> u8 {
    let mut accounts = std::collections::BTreeMap::new();
    for region in regions {
        if !accounts.contains_key(region) {
            match connect(region, patience, credentials).await {
                Ok(account) => accounts.insert(region, account),
                Err(why) => {
                    io.note(&why);
                    return exit::USAGE;
                }
            };
        }
    }
    let clock = trainc_aws::RealClock;
    let looks: Vec<_> = regions
        .iter()
        .filter_map(|region| accounts.get(region))
        .map(|cloud| Look {
            cloud,
            clock: &clock,
            patience,
            permits: Some(permits),
            asked: None,
            refused: None,
            repeated: None,
        })
        .collect();
    tasks.run(io, &looks).await
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same signature as with the feature")]
async fn on_aws(io: &mut Io<'_>, _: &str, _: Patience, (): &CredentialCache, _: impl Task) -> u8 {
    report_missing_aws_feature(io)
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same signature as with the feature")]
async fn all_on_aws(
    io: &mut Io<'_>,
    _: &[String],
    _: Patience,
    (): &CredentialCache,
    _: &Semaphore,
    _: impl Tasks,
) -> u8 {
    report_missing_aws_feature(io)
}

#[cfg(not(feature = "aws"))]
fn report_missing_aws_feature(io: &mut Io<'_>) -> u8 {
    io.note("error: trainc was built without the feature `aws` and only supports `--simulate` and `plan --offline`\n");
    exit::USAGE
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
