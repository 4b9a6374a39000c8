//! Codes and runs for the tests of the output formats.

use super::{Code, Diagnostic, FoundIn, ManifestReport, Problems, Run, Severity, Status};
use crate::source::{SourceId, SourceMap, Span};

pub(super) static WORLD: Code = Code {
    id: "T0301",
    name: "world-size-mismatch",
    severity: Severity::Error,
    summary: "the degrees do not multiply to the world size",
    page: "# T0301\n\nThe degrees multiply to the GPUs of the cluster.\n",
    package: env!("CARGO_PKG_NAME"),
    status: Status::Active,
    found_in: FoundIn::Manifest,
    ends: None,
    allowable: None,
    supersedes: &[],
    tags: &[],
    explains: &[],
};

pub(super) static UNUSED: Code = Code {
    id: "T0207",
    name: "unused-allow",
    severity: Severity::Warning,
    summary: "an `allow` suppresses nothing",
    page: "# T0207\n\nRemove it.\n",
    package: env!("CARGO_PKG_NAME"),
    status: Status::Active,
    found_in: FoundIn::Manifest,
    ends: None,
    allowable: None,
    supersedes: &[],
    tags: &[],
    explains: &[],
};

pub(super) static QUOTA: Code = Code {
    id: "T0402",
    name: "quota-unknown",
    severity: Severity::Note,
    summary: "the quota is only known to the account",
    page: "# T0402\n\nAsk the account.\n",
    package: env!("CARGO_PKG_NAME"),
    status: Status::Active,
    found_in: FoundIn::Manifest,
    ends: None,
    allowable: None,
    supersedes: &[],
    tags: &[],
    explains: &[],
};

pub(super) const JOB: &str = "job \"gpt-30b\" {\n  extends \"../base.kdl\"\n  cluster \
    instance=\"ml.p4d.24xlarge\" {\n    nodes 7\n  }\n\n  mesh {\n    shard-degree 6   // was 7\n    \
    tensor-degree 8\n  }\n  allow \"T0999\"\n}\n";
pub(super) const BASE: &str = "defaults {\n\tengine \"fsdp\"\n\tshard-degree-limit 4\n}\n";

/// The sources and problems of a test run.
#[derive(Default)]
pub(super) struct Sample {
    pub(super) sources: SourceMap,
    manifests: Vec<(String, Option<String>, Problems)>,
}

impl Sample {
    pub(super) fn manifest(&mut self, path: &str, problems: Vec<Diagnostic>) {
        let mut sink = Problems::default();
        for problem in problems {
            sink.push(problem);
        }
        let job = self.sources.iter().find(|(_, s)| &*s.name == path && s.text.contains("gpt-30b"));
        let job = job.map(|_| "gpt-30b".to_owned());
        self.manifests.push((path.to_owned(), job, sink));
    }

    pub(super) fn run<T>(&self, with: impl FnOnce(&Run<'_>) -> T) -> T {
        let reports: Vec<ManifestReport<'_>> = self
            .manifests
            .iter()
            .map(|(path, job, problems)| ManifestReport { path, job: job.as_deref(), problems })
            .collect();
        with(&Run { sources: &self.sources, manifests: &reports })
    }

    /// Returns the span of a text in a source.
    #[track_caller]
    pub(super) fn span_of_text(&self, source: SourceId, wanted: &str) -> Span {
        let start = self.sources.get(source).unwrap().text.find(wanted).expect(wanted);
        Span::new(source, start, start + wanted.len())
    }
}

/// Makes three problems in two manifests, one of them in a shared layer, and a manifest without problems.
pub(super) fn two_manifests_with_problems() -> Sample {
    let mut sample = Sample::default();
    let job = sample.sources.add("jobs/a.kdl", JOB);
    let base = sample.sources.add("base.kdl", BASE);
    let limit = sample.span_of_text(base, "shard-degree-limit 4");
    let shards = sample.span_of_text(job, "shard-degree 6");
    let world = Diagnostic::new(&WORLD, shards, "the degrees multiply to 48, but the cluster has 56 GPUs")
        .primary_label("6 shards")
        .label(sample.span_of_text(job, "nodes 7"), "7 nodes of 8 GPUs are 56")
        .label(sample.span_of_text(job, "tensor-degree 8"), "times 8")
        .label(limit, "the limit is set here")
        .help("write `shard-degree 7`")
        .note("56 / (tensor-degree 8) = 7")
        .fact("world_size", 56)
        .fact("product", 48)
        .fix(Span { start: shards.end - 1, ..shards }, "7");
    let shared = Diagnostic::new(&QUOTA, limit, "only the account knows whether 4 | 8 fits")
        .note("run `trainc plan` without `--offline`");
    let unused = Diagnostic::new(
        &UNUSED,
        sample.span_of_text(job, "\"T0999\""),
        "`allow \"T0999\"` suppresses nothing",
    )
    .help("remove the line");
    sample.manifest("jobs/a.kdl", vec![world, shared.clone(), unused]);
    sample.manifest("jobs/b.kdl", vec![shared]);
    sample.manifest("jobs/c.kdl", vec![]);
    sample
}
