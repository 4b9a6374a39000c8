//! Logs of all hosts, merged by time and followed without losing or repeating lines.
//!
//! Each stream is read page by page from the end of the previous page, so that a failed call can be retried
//! and nothing is read twice. A page is fetched only for a host whose buffer is empty, so at most one page
//! per host is in memory, and pages are smaller with more hosts. Memory therefore grows neither with the logs
//! nor with the number of hosts.

use super::account::{LogEvent, LogFrom, LogPage, LogStream, TrainingJob};
use super::cloud::{Answer, Clock, Observe};
use super::look::Look;
use futures_util::stream::{self, StreamExt as _};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The log group of training jobs.
pub const GROUP: &str = "/aws/sagemaker/TrainingJobs";

/// Maximum number of lines in memory over all hosts: 16 MiB of typical training logs. A lower limit would
/// need more calls than the 25 per second that an account has (CloudWatch Logs quotas, GetLogEvents); a page
/// of 4,096 such lines is close to the service's maximum of 1 MiB.
const MOST_HELD: usize = 131_072;
/// Minimum number of lines per page, for any number of hosts.
const LEAST_LINES: usize = 256;
/// Maximum number of lines per page (GetLogEvents, `limit`).
const MOST_LINES: usize = 10_000;
/// Number of pages fetched concurrently; each is in memory twice, as received and as parsed.
const AT_ONCE: usize = 8;

/// Time without new lines after a job's end after which its logs are complete. An agent sends lines every 5
/// seconds (CloudWatch agent, `force_flush_interval`), and CloudWatch shows them some seconds later. The
/// SageMaker Python SDK waits equally long before its last read (`Session.logs_for_job`, `poll`).
const QUIET: Duration = Duration::from_secs(10);
/// Pause between two reads after the end.
const AFTER: Duration = Duration::from_secs(2);

/// Returns the lines to request per page, for a number of hosts.
fn lines_of_a_page(hosts: usize) -> u32 {
    let lines = (MOST_HELD / hosts.max(1)).clamp(LEAST_LINES, MOST_LINES);
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// A source of log streams and their pages.
#[expect(async_fn_in_trait, reason = "one thread follows a job")]
pub trait Source {
    /// Returns the streams whose names have this prefix.
    async fn streams(&self, prefix: &str) -> Answer<Vec<LogStream>>;
    /// Returns up to `most` lines of a stream from the end of the previous page, or since a time in
    /// milliseconds since 1970.
    async fn page(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage>;
}

impl<C: Observe, K: Clock> Source for Look<'_, C, K> {
    async fn streams(&self, prefix: &str) -> Answer<Vec<LogStream>> {
        self.ask(async |cloud| cloud.log_streams(prefix).await).await
    }

    async fn page(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage> {
        self.ask(async |cloud| cloud.log_events(stream, from, most).await).await
    }
}

/// The log of one host.
#[derive(Clone, Debug, Default)]
struct Stream {
    token: Option<String>,
    buffer: VecDeque<LogEvent>,
    /// True if no further lines exist yet.
    drained: bool,
}

/// Logs of all hosts, with the position in each.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    streams: BTreeMap<String, Stream>,
    host: Option<String>,
    /// Start of the logs, milliseconds since 1970.
    since: Option<i64>,
    most_held: usize,
}

/// Returns the host of a stream: `algo-1` for `job/algo-1-1700000000`.
pub fn host_of(stream: &str) -> &str {
    let last = stream.rsplit('/').next().unwrap_or(stream);
    match last.rsplit_once('-') {
        Some((host, epoch)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) && host.contains('-') => host,
        _ => last,
    }
}

impl Tail {
    /// Creates a tail of all hosts or of one.
    pub fn new(host: Option<&str>) -> Self {
        Self { host: host.map(str::to_owned), ..Self::default() }
    }

    /// Restricts the logs to lines written since a time, seconds since 1970.
    #[must_use]
    pub fn since(mut self, seconds: Option<f64>) -> Self {
        let time = seconds.map(|seconds| std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default());
        self.since = time.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        self
    }

    /// Returns the maximum number of lines that were buffered at the same time.
    pub fn most_held(&self) -> usize {
        self.most_held
    }

    fn discover(&mut self, found: Vec<LogStream>) {
        for stream in found {
            let wanted = self.host.as_deref().is_none_or(|host| host == host_of(&stream.name));
            if wanted {
                self.streams.entry(stream.name).or_default();
            }
        }
    }

    /// Passes all available lines to `sink` in order of time; returns their number.
    pub async fn read_available<C: Observe, K: Clock>(
        &mut self,
        look: &Look<'_, C, K>,
        job: &str,
        sink: &mut dyn FnMut(&str, &LogEvent),
    ) -> Answer<u64> {
        self.read(look, job, sink).await
    }

    /// Reads the remaining lines of a job that has ended. CloudWatch shows a line some seconds after it was
    /// written, so the last lines, which contain the cause of a failure, arrive after the end. Stops after
    /// ten seconds without new lines, immediately if the end is long ago, and with a polling interval of zero
    /// after the first read without lines.
    pub async fn read_remaining<C: Observe, K: Clock>(
        &mut self,
        look: &Look<'_, C, K>,
        job: &TrainingJob,
        sink: &mut dyn FnMut(&str, &LogEvent),
    ) -> Answer<u64> {
        let mut lines = self.read_available(look, &job.name, sink).await?;
        let unseen = look.patience.unseen.as_secs_f64();
        let mut since = look.clock.now();
        if job.ended.is_some_and(|ended| since - ended >= unseen) {
            return Ok(lines);
        }
        let quiet = if look.patience.poll.is_zero() { 0.0 } else { QUIET.as_secs_f64() };
        loop {
            look.clock.sleep(AFTER.min(look.patience.poll)).await;
            let more = self.read_available(look, &job.name, sink).await?;
            lines += more;
            if more > 0 {
                since = look.clock.now();
            } else if look.clock.now() - since >= quiet {
                return Ok(lines);
            }
        }
    }

    /// Like `read_available`, for any source.
    pub async fn read(
        &mut self,
        source: &impl Source,
        job: &str,
        sink: &mut dyn FnMut(&str, &LogEvent),
    ) -> Answer<u64> {
        self.discover(source.streams(&format!("{job}/")).await?);
        self.streams.values_mut().for_each(|stream| stream.drained = false);
        let most = lines_of_a_page(self.streams.len());
        let mut lines = 0;
        loop {
            let hungry: Vec<(String, Option<String>)> = self
                .streams
                .iter()
                .filter(|(_, stream)| !stream.drained && stream.buffer.is_empty())
                .map(|(name, stream)| (name.clone(), stream.token.clone()))
                .collect();
            let since = self.since;
            let pages = hungry.iter().map(async |(name, token)| {
                let from = LogFrom { token: token.as_deref(), since };
                (name, token, source.page(name, from, most).await)
            });
            let mut pages = std::pin::pin!(stream::iter(pages).buffered(AT_ONCE));
            while let Some((name, token, page)) = pages.next().await {
                let page = page?;
                let Some(stream) = self.streams.get_mut(name) else { continue };
                // An unchanged token means that no further lines exist yet.
                stream.drained = page.next.is_none() || page.next == *token;
                if !stream.drained {
                    stream.token = page.next;
                    stream.buffer.extend(page.events);
                }
            }
            let held = self.streams.values().map(|stream| stream.buffer.len()).sum();
            self.most_held = self.most_held.max(held);
            lines += self.emit(sink);
            if self.streams.values().all(|stream| stream.drained && stream.buffer.is_empty()) {
                return Ok(lines);
            }
        }
    }

    /// Passes on lines that no earlier line can precede any more.
    fn emit(&mut self, sink: &mut dyn FnMut(&str, &LogEvent)) -> u64 {
        let mut lines = 0;
        while self.streams.values().all(|stream| stream.drained || !stream.buffer.is_empty()) {
            let next = self
                .streams
                .iter_mut()
                .filter_map(|(name, stream)| Some((stream.buffer.front()?.time, name, stream)))
                .min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
            let Some((_, name, stream)) = next else { break };
            if let Some(event) = stream.buffer.pop_front() {
                sink(host_of(name), &event);
                lines += 1;
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{host_of, lines_of_a_page};

    #[test]
    fn what_is_held_does_not_grow_with_the_hosts() {
        assert_eq!(lines_of_a_page(1), 10_000);
        for hosts in [16, 32, 100, 512] {
            assert!(hosts * lines_of_a_page(hosts) as usize <= 131_072, "{hosts}");
        }
    }

    #[test]
    fn a_stream_names_its_host() {
        assert_eq!(host_of("job-1/algo-2-1700000000"), "algo-2");
        assert_eq!(host_of("job/algo-12"), "algo-12");
    }
}
