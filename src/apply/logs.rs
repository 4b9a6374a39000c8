//! The logs of all hosts as one, in the order of time, followed without loss or repeats.
//!
//! Each stream is read page by page from where the last page ended, so a call that fails is repeated and nothing is
//! read twice. A page is fetched only for a host whose next line is not known: at most one page of each host is held.

use super::account::{LogEvent, LogPage, LogStream};
use super::cloud::{Answer, Clock, Observe};
use super::observed::Look;
use futures_util::future::join_all;
use std::collections::{BTreeMap, VecDeque};

/// The log group of training jobs.
pub const GROUP: &str = "/aws/sagemaker/TrainingJobs";

/// Where streams and their pages come from.
#[expect(async_fn_in_trait, reason = "one thread follows a job")]
pub trait Source {
    /// The streams whose names begin so.
    async fn streams(&self, prefix: &str) -> Answer<Vec<LogStream>>;
    /// Lines of a stream from where the last page ended.
    async fn page(&self, stream: &str, from: Option<&str>) -> Answer<LogPage>;
}

impl<C: Observe, K: Clock> Source for Look<'_, C, K> {
    async fn streams(&self, prefix: &str) -> Answer<Vec<LogStream>> {
        self.ask(async |cloud| cloud.log_streams(prefix).await).await
    }

    async fn page(&self, stream: &str, from: Option<&str>) -> Answer<LogPage> {
        self.ask(async |cloud| cloud.log_events(stream, from).await).await
    }
}

/// One host's log.
#[derive(Clone, Debug, Default)]
struct Stream {
    token: Option<String>,
    buffer: VecDeque<LogEvent>,
    /// Whether all that there is was read, for now.
    drained: bool,
}

/// All hosts' logs, and how far they were read.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    streams: BTreeMap<String, Stream>,
    host: Option<String>,
    most_held: usize,
}

/// `algo-1` of `job/algo-1-1700000000`.
pub fn host_of(stream: &str) -> &str {
    let last = stream.rsplit('/').next().unwrap_or(stream);
    match last.rsplit_once('-') {
        Some((host, epoch)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) && host.contains('-') => host,
        _ => last,
    }
}

impl Tail {
    /// The logs of all hosts, or of one.
    pub fn new(host: Option<&str>) -> Self {
        Self { streams: BTreeMap::new(), host: host.map(str::to_owned), most_held: 0 }
    }

    /// The most lines that were held at once because an earlier one might still come.
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

    /// Reads all that there is by now, in the order of time; how many lines that were.
    pub async fn round<C: Observe, K: Clock>(
        &mut self,
        look: &Look<'_, C, K>,
        job: &str,
        sink: &mut dyn FnMut(&str, &LogEvent),
    ) -> Answer<u64> {
        self.read(look, job, sink).await
    }

    /// The same from any source.
    pub async fn read(
        &mut self,
        source: &impl Source,
        job: &str,
        sink: &mut dyn FnMut(&str, &LogEvent),
    ) -> Answer<u64> {
        self.discover(source.streams(&format!("{job}/")).await?);
        self.streams.values_mut().for_each(|stream| stream.drained = false);
        let mut lines = 0;
        loop {
            let hungry: Vec<(String, Option<String>)> = self
                .streams
                .iter()
                .filter(|(_, stream)| !stream.drained && stream.buffer.is_empty())
                .map(|(name, stream)| (name.clone(), stream.token.clone()))
                .collect();
            let pages = hungry.iter().map(async |(name, token)| source.page(name, token.as_deref()).await);
            for ((name, token), page) in hungry.iter().zip(join_all(pages).await) {
                let page = page?;
                let Some(stream) = self.streams.get_mut(name) else { continue };
                // The same token again is how the service says that there is nothing further yet.
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

    /// Gives away the lines before which no other can come.
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
    use super::host_of;

    #[test]
    fn a_stream_names_its_host() {
        assert_eq!(host_of("job-1/algo-2-1700000000"), "algo-2");
        assert_eq!(host_of("job/algo-12"), "algo-12");
    }
}
