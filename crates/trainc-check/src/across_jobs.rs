//! Rules across the jobs of a run or a workspace: equal names, shared prefixes and shared file systems.
//!
//! In: a summary of each job. Out: problems of the later of the jobs concerned.

use crate::codes;
use crate::superseded;
use std::collections::BTreeMap;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::fsx;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Address, Allow, Plan, Val};
use trainc_plan::Compiled;

declare_code!(
    T0142,
    "duplicate-job",
    Error,
    "two manifests describe jobs with the same name",
    found_in: SeveralJobs
);
declare_code!(
    T0144,
    "shared-file-system-mismatch",
    Warning,
    "jobs that share a file system request different settings for it",
    found_in: SeveralJobs
);
// Several jobs write to the prefix, not only several versions of one.
declare_code!(
    T0467,
    "prefix-shared-by-jobs",
    Warning,
    "two jobs that write to the same S3 prefix",
    found_in: SeveralJobs,
    supersedes: { Value: [codes::T0448] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0142, &T0144, &T0467];

/// The warnings of this file: a job compiled alone cannot tell whether an `allow` silences one.
pub(super) static WARNINGS: &[&Code] = &[&T0144, &T0467];

/// The values of a job that are compared with those of other jobs.
#[derive(Clone, Default)]
pub struct JobSummary {
    /// The manifest's path as it is shown.
    path: String,
    /// The job's name.
    job: Option<String>,
    /// The place of the name.
    name_span: Option<Span>,
    /// The prefixes that the job writes to.
    prefixes: Vec<WrittenPrefix>,
    /// Whether the job allows [`T0467`].
    allows_shared_prefix: bool,
    /// The file systems that the job creates; none if it allows [`T0144`].
    file_systems: Vec<CreatedFileSystem>,
}

impl JobSummary {
    /// Summarizes a compiled manifest.
    pub fn new(path: &str, compiled: &Compiled) -> Self {
        let summary = Self { path: path.to_owned(), job: compiled.job.clone(), ..Self::default() };
        let Some(plan) = &compiled.plan else { return summary };
        let file_systems =
            if allows_warning(compiled, plan, &T0144) { Vec::new() } else { created_file_systems(plan) };
        Self {
            name_span: plan.job.name.span(),
            prefixes: written_prefixes(plan),
            allows_shared_prefix: allows_warning(compiled, plan, &T0467),
            file_systems,
            ..summary
        }
    }
}

/// Compares the jobs with each other and adds the problems to the later of two, in the order given.
pub fn check_across_jobs<'a>(jobs: impl IntoIterator<Item = (&'a JobSummary, &'a mut Problems)>) {
    let (jobs, mut problems): (Vec<&JobSummary>, Vec<&mut Problems>) = jobs.into_iter().unzip();
    let found = [duplicate_names(&jobs), file_system_mismatches(&jobs), shared_prefixes(&jobs)].concat();
    for (at, diagnostic) in found {
        if let Some(problems) = problems.get_mut(at) {
            problems.push(diagnostic);
            superseded::remove(problems);
            problems.sort();
        }
    }
}

/// Problems with the index of their job.
type Found = Vec<(usize, Diagnostic)>;

fn duplicate_names(jobs: &[&JobSummary]) -> Found {
    let mut firsts: BTreeMap<&str, &JobSummary> = BTreeMap::new();
    let mut found = Found::new();
    for (at, summary) in jobs.iter().enumerate() {
        let Some(job) = summary.job.as_deref() else { continue };
        let Some(first) = firsts.get(job) else {
            firsts.insert(job, summary);
            continue;
        };
        if let Some(span) = summary.name_span {
            let diagnostic =
                Diagnostic::new(&T0142, span, format!("`{}` describes a job `{job}` as well", first.path))
                    .help("rename one of them: names identify jobs in the account");
            found.push((
                at,
                match first.name_span {
                    Some(span) => diagnostic.label(span, "the other job"),
                    None => diagnostic,
                },
            ));
        }
    }
    found
}

/// A prefix that a job writes to as it is written; SageMaker appends the job's name to all others.
#[derive(Clone)]
struct WrittenPrefix {
    /// The node: `checkpoint` or `export`.
    node: &'static str,
    /// The URI, with `/` at its end.
    uri: String,
    span: Span,
}

fn written_prefixes(plan: &Plan) -> Vec<WrittenPrefix> {
    let mut out = Vec::new();
    let mut put = |node: &'static str, val: Option<&Val<Address>>| {
        let Some(val) = val.filter(|val| !val.value.contains(DIGEST_MARK)) else { return };
        let Some(span) = val.origin.span() else { return };
        out.push(WrittenPrefix { node, uri: format!("{}/", val.value.trim_end_matches('/')), span });
    };
    put("checkpoint", plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.val()));
    for storage in &plan.job.storage {
        for link in &storage.exports {
            put("export", link.s3.val());
        }
    }
    out
}

/// A file system that a job creates, or shares with jobs that describe it equally.
#[derive(Clone)]
struct CreatedFileSystem {
    /// Its name in the manifest.
    name: String,
    /// The identity that all jobs that share it have in common: region, account and the token of its fixed
    /// settings.
    identity: String,
    /// The settings that can change later, by the API's names, and whether it is deleted after the job.
    settings: BTreeMap<&'static str, String>,
    span: Span,
}

fn created_file_systems(plan: &Plan) -> Vec<CreatedFileSystem> {
    let job = plan.job.name.value().map_or("", String::as_str);
    let created = fsx::file_systems(plan, job).into_iter().filter_map(|made| {
        let storage = plan.job.storage.iter().find(|storage| storage.name.value() == Some(&made.name))?;
        let create = &made.create;
        let lustre = &create.lustre_configuration;
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let iops = lustre.metadata_configuration.as_ref().and_then(|metadata| metadata.iops);
        let throughput = lustre.per_unit_storage_throughput.map(|one| one.to_string());
        let settings = BTreeMap::from([
            ("StorageCapacity", format!("{} GiB", text::group_digits(create.storage_capacity))),
            ("PerUnitStorageThroughput", or_none(throughput)),
            ("DataCompressionType", or_none(lustre.data_compression_type.clone())),
            ("MetadataConfiguration.Iops", or_none(iops.map(|one| one.to_string()))),
            ("WeeklyMaintenanceStartTime", or_none(lustre.weekly_maintenance_start_time.clone())),
            ("delete-after-job", storage.delete_after_job.get().unwrap_or_default().to_string()),
        ]);
        let place = (plan.job.region.value(), plan.job.account.value());
        Some(CreatedFileSystem {
            identity: format!("{place:?} {}", create.client_request_token),
            name: made.name,
            settings,
            span: storage.span,
        })
    });
    created.collect()
}

/// Compares the settings of shared file systems: the largest value applies, or each apply sets its own.
fn file_system_mismatches(jobs: &[&JobSummary]) -> Found {
    let mut firsts: BTreeMap<&str, (&str, &CreatedFileSystem)> = BTreeMap::new();
    let mut found = Found::new();
    for (at, summary) in jobs.iter().enumerate() {
        let Some(job) = summary.job.as_deref() else { continue };
        for file_system in &summary.file_systems {
            let Some((first, other)) = firsts.get(file_system.identity.as_str()) else {
                firsts.insert(&file_system.identity, (job, file_system));
                continue;
            };
            found.extend(
                settings_mismatch((file_system, job), (other, first)).map(|diagnostic| (at, diagnostic)),
            );
        }
    }
    found
}

fn settings_mismatch(
    (later, job): (&CreatedFileSystem, &str),
    (first, first_job): (&CreatedFileSystem, &str),
) -> Option<Diagnostic> {
    let both = later.settings.iter().zip(first.settings.values());
    let different: Vec<_> = both.filter(|((_, mine), theirs)| mine != theirs).collect();
    if different.is_empty() {
        return None;
    }
    let message = format!(
        "jobs `{first_job}` and `{job}` share the file system `{}` but request different settings",
        later.name
    );
    let mut diagnostic = Diagnostic::new(&T0144, later.span, message)
        .help(
            "write the same settings in both, or a different `name=` in one of them, which then \
            creates its own file system",
        )
        .note(
            "jobs with the same name, network, links and fixed settings share one file system; the \
            largest requested storage, throughput and metadata IOPS apply while they share it, and each \
            apply sets the other settings to its own",
        );
    for ((setting, mine), theirs) in different {
        diagnostic = diagnostic.note(format!("{setting}: `{theirs}` in `{first_job}`, `{mine}` in `{job}`"));
    }
    if first.span != later.span {
        diagnostic = diagnostic.label(first.span, format!("in `{first_job}`"));
    }
    Some(diagnostic.fact("jobs", 2_u64))
}

/// Returns whether the job allows a warning and no `allow` of it has expired.
fn allows_warning(compiled: &Compiled, plan: &Plan, wanted: &Code) -> bool {
    let names_it = |allow: &Allow| allow.code.value().is_some_and(|code| wanted.is_called(code));
    plan.job.allows.iter().any(names_it)
        && !compiled.problems.iter().any(|diagnostic| diagnostic.code == &codes::T0242)
}

/// The prefixes of the jobs so far, ordered by node and text so that nested ones are adjacent.
#[derive(Default)]
struct PrefixWriters<'a> {
    by_prefix: BTreeMap<(&'static str, &'a str), Vec<PrefixWriter<'a>>>,
}

struct PrefixWriter<'a> {
    /// The index of the job.
    at: usize,
    job: &'a str,
    path: &'a str,
    span: Span,
}

impl PrefixWriter<'_> {
    /// Returns whether both prefixes are the same text of the same file: the jobs belong to one sweep.
    fn is_same_place(&self, path: &str, prefix: &WrittenPrefix) -> bool {
        self.path == path && (self.span.start, self.span.end) == (prefix.span.start, prefix.span.end)
    }
}

impl<'a> PrefixWriters<'a> {
    fn add(&mut self, writer: PrefixWriter<'a>, prefix: &'a WrittenPrefix) {
        self.by_prefix.entry((prefix.node, &prefix.uri)).or_default().push(writer);
    }

    /// Returns the first other job that writes above, below or at the prefix.
    fn find<'b>(&'b self, job: &str, prefix: &'b WrittenPrefix) -> Option<&'b PrefixWriter<'b>> {
        let WrittenPrefix { node, uri, .. } = prefix;
        let above = uri.match_indices('/').filter_map(|(at, _)| {
            let parent = uri.get(..at + 1).filter(|parent| parent.len() < uri.len())?;
            self.by_prefix.get(&(*node, parent))
        });
        let below = self
            .by_prefix
            .range((*node, uri.as_str())..)
            .take_while(|((other, below), _)| other == node && below.starts_with(uri.as_str()))
            .map(|(_, writers)| writers);
        above.chain(below).flatten().filter(|writer| writer.job != job).min_by_key(|writer| writer.at)
    }
}

fn shared_prefixes(jobs: &[&JobSummary]) -> Found {
    let mut writers = PrefixWriters::default();
    let mut found = Found::new();
    for (at, summary) in jobs.iter().enumerate() {
        let Some(job) = summary.job.as_deref() else { continue };
        for prefix in summary.prefixes.iter().filter(|_| !summary.allows_shared_prefix) {
            let Some(other) = writers.find(job, prefix) else { continue };
            if other.is_same_place(&summary.path, prefix) {
                // One mistake: reported in the same words for each job of the sweep.
                let message =
                    format!("the jobs of this sweep write their {}s to the same prefix", prefix.node);
                let is_reported = found.iter().any(|(at, one): &(usize, Diagnostic)| {
                    *at == other.at && one.code == &T0467 && one.span == other.span
                });
                if !is_reported {
                    found.push((other.at, shared_prefix(other.span, message.clone(), prefix.node)));
                }
                found.push((at, shared_prefix(prefix.span, message, prefix.node)));
                continue;
            }
            let message =
                format!("jobs `{}` and `{job}` write their {}s to the same prefix", other.job, prefix.node);
            let mut diagnostic = shared_prefix(prefix.span, message, prefix.node);
            // Both jobs may have it from one layer.
            if other.span != prefix.span {
                diagnostic = diagnostic.label(other.span, format!("in `{}`", other.job));
            }
            found.push((at, diagnostic));
        }
        for prefix in &summary.prefixes {
            writers.add(PrefixWriter { at, job, path: &summary.path, span: prefix.span }, prefix);
        }
    }
    found
}

fn shared_prefix(span: Span, message: String, node: &str) -> Diagnostic {
    Diagnostic::new(&T0467, span, message)
        .help(format!("add `{{{{ job.digest }}}}` to `{node}`: it differs from job to job"))
        .note(
            "jobs that run at the same time overwrite each other's files; a later job starts with \
            the files of the earlier one",
        )
}
