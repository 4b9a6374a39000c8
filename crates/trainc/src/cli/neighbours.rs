//! Jobs of one run against each other: names, prefixes that they would both write to, file systems that they could share.

use super::manifests::Manifest;
use std::collections::BTreeMap;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic};
use trainc_emit::fsx;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Plan, Val};
use trainc_plan::Compiled;

declare_code!(T0142, "duplicate-job", Error, "two manifests describe jobs with the same name");
declare_code!(
    T0144,
    "shared-file-system-mismatch",
    Warning,
    "jobs that share a file system request different settings for it"
);
declare_code!(T0467, "prefix-shared-by-jobs", Warning, "two jobs that write to the same S3 prefix");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0142, &T0144, &T0467];

/// What of a job the others of the run are held against.
#[derive(Clone, Default)]
pub(super) struct Beside {
    /// Where its name stands.
    name: Option<Span>,
    /// The prefixes that it writes to.
    written: Vec<Written>,
    /// Whether it silences [`T0467`].
    silenced: bool,
    /// The file systems that it makes.
    made: Vec<Made>,
}

impl Beside {
    /// Read off what was compiled.
    pub(super) fn of(compiled: &Compiled) -> Self {
        let Some(plan) = &compiled.plan else { return Self::default() };
        let made = if allows(compiled, plan, &T0144) { Vec::new() } else { made(plan) };
        let silenced = allows(compiled, plan, &T0467);
        Self { name: plan.job.name.span(), written: written(plan), silenced, made }
    }
}

/// Reports at the later of two manifests, in the order of the run.
pub(super) fn judge(manifests: &mut [Manifest]) {
    names(manifests);
    file_systems(manifests);
    prefixes(manifests);
}

fn names(manifests: &mut [Manifest]) {
    let mut seen: BTreeMap<String, (String, Option<Span>)> = BTreeMap::new();
    for manifest in manifests {
        let Some(job) = manifest.compiled.job.clone() else { continue };
        let span = manifest.beside.name;
        if let Some((first, first_span)) = seen.get(&job) {
            if let Some(span) = span {
                let mut diagnostic =
                    Diagnostic::new(&T0142, span, format!("`{first}` describes a job `{job}` as well"))
                        .help("give one of them another name: names tell jobs apart in the account");
                if let Some(first_span) = first_span {
                    diagnostic = diagnostic.label(*first_span, "the other");
                }
                manifest.compiled.problems.push(diagnostic);
                manifest.compiled.problems.sort();
            }
        } else {
            seen.insert(job, (manifest.path.clone(), span));
        }
    }
}

/// One prefix that a job writes to as it stands: SageMaker puts the job's name below all others.
#[derive(Clone)]
struct Written {
    what: &'static str,
    uri: String,
    span: Span,
}

fn written(plan: &Plan) -> Vec<Written> {
    let mut out = Vec::new();
    let mut put = |what: &'static str, val: Option<&Val<String>>| {
        let Some(val) = val.filter(|val| !val.value.contains(DIGEST_MARK)) else { return };
        let Some(span) = val.origin.span() else { return };
        out.push(Written { what, uri: format!("{}/", val.value.trim_end_matches('/')), span });
    };
    put("checkpoint", plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.val()));
    for storage in &plan.job.storage {
        for link in &storage.exports {
            put("export", link.s3.val());
        }
    }
    out
}

/// A file system that a job makes, or shares with those that describe it alike.
#[derive(Clone)]
struct Made {
    /// Its name in the manifest.
    name: String,
    /// What jobs that share it agree in: where it is, and the token of what makes it the one that it is.
    identity: String,
    /// What may change in place, by the API's names, and whether the job lets it go.
    settings: BTreeMap<&'static str, String>,
    span: Span,
}

fn made(plan: &Plan) -> Vec<Made> {
    let job = plan.job.name.value().map_or("", String::as_str);
    let made = fsx::file_systems(plan, job).into_iter().filter_map(|made| {
        let storage = plan.job.storage.iter().find(|storage| storage.name.value() == Some(&made.name))?;
        let create = &made.create;
        let lustre = &create.lustre_configuration;
        let said = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let iops = lustre.metadata_configuration.as_ref().and_then(|metadata| metadata.iops);
        let settings = BTreeMap::from([
            ("StorageCapacity", format!("{} GiB", text::group(create.storage_capacity))),
            ("PerUnitStorageThroughput", said(lustre.per_unit_storage_throughput.map(|one| one.to_string()))),
            ("DataCompressionType", said(lustre.data_compression_type.clone())),
            ("MetadataConfiguration.Iops", said(iops.map(|one| one.to_string()))),
            ("WeeklyMaintenanceStartTime", said(lustre.weekly_maintenance_start_time.clone())),
            ("delete-after-job", storage.delete_after_job.get().unwrap_or_default().to_string()),
        ]);
        let place = (plan.job.region.value(), plan.job.account.value());
        Some(Made {
            identity: format!("{place:?} {}", create.client_request_token),
            name: made.name,
            settings,
            span: storage.span,
        })
    });
    made.collect()
}

/// File systems that jobs share and ask different things of: the most stays, or each apply sets them to its own.
fn file_systems(manifests: &mut [Manifest]) {
    let mut seen: BTreeMap<String, (String, Made)> = BTreeMap::new();
    for manifest in manifests {
        let Some(job) = manifest.compiled.job.clone() else { continue };
        for one in std::mem::take(&mut manifest.beside.made) {
            let Some((first, other)) = seen.get(&one.identity) else {
                seen.insert(one.identity.clone(), (job.clone(), one));
                continue;
            };
            if let Some(diagnostic) = differs(&one, &job, other, first) {
                manifest.compiled.problems.push(diagnostic);
                manifest.compiled.problems.sort();
            }
        }
    }
}

fn differs(one: &Made, job: &str, other: &Made, first: &str) -> Option<Diagnostic> {
    let Made { name, span, .. } = one;
    let both = one.settings.iter().zip(other.settings.values());
    let apart: Vec<_> = both.filter(|((_, mine), theirs)| mine != theirs).collect();
    if apart.is_empty() {
        return None;
    }
    let message =
        format!("jobs `{first}` and `{job}` share the file system `{name}`, and ask different things of it");
    let mut diagnostic = Diagnostic::new(&T0144, *span, message)
        .help("write the same in both, or give one of them another `name=`: then it makes one of its own")
        .note("jobs that agree in name, network, links and what cannot change later share one file system; of storage, throughput and metadata IOPS the most that any of them asks for stays while they share it, and the rest each apply sets to its own");
    for ((what, mine), theirs) in apart {
        diagnostic = diagnostic.note(format!("{what}: `{theirs}` in `{first}`, `{mine}` in `{job}`"));
    }
    if other.span != *span {
        diagnostic = diagnostic.label(other.span, format!("of `{first}`"));
    }
    Some(diagnostic.fact("jobs", 2_u64))
}

/// Whether the job silences a warning, with a date that has not passed.
fn allows(compiled: &Compiled, plan: &Plan, wanted: &Code) -> bool {
    let named = |allow: &trainc_ir::Allow| {
        allow.code.value().is_some_and(|code| code == wanted.id || code == wanted.name)
    };
    plan.job.allows.iter().any(named)
        && !compiled.problems.iter().any(|diagnostic| diagnostic.code.id == "T0242")
}

/// The prefixes of the jobs before, by kind and then by text, so that those inside each other lie together.
#[derive(Default)]
struct Seen {
    by_prefix: BTreeMap<(&'static str, String), Vec<Writer>>,
}

struct Writer {
    /// Its manifest's place in the run.
    number: usize,
    job: String,
    /// Its manifest's path.
    path: String,
    span: Span,
}

impl Writer {
    /// Whether the same letters of the same file say it: the jobs are of one sweep.
    fn is_same_place(&self, path: &str, one: &Written) -> bool {
        self.path == path && (self.span.start, self.span.end) == (one.span.start, one.span.end)
    }
}

impl Seen {
    fn add(&mut self, writer: Writer, one: Written) {
        self.by_prefix.entry((one.what, one.uri)).or_default().push(writer);
    }

    /// The first job of the run that writes above, below or at the prefix.
    fn clash(&self, job: &str, one: &Written) -> Option<&Writer> {
        let above = one.uri.match_indices('/').filter_map(|(at, _)| {
            let prefix = one.uri.get(..at + 1).filter(|prefix| prefix.len() < one.uri.len())?;
            self.by_prefix.get(&(one.what, prefix.to_owned()))
        });
        let below = self
            .by_prefix
            .range((one.what, one.uri.clone())..)
            .take_while(|((what, uri), _)| *what == one.what && uri.starts_with(&one.uri))
            .map(|(_, writers)| writers);
        above.chain(below).flatten().filter(|writer| writer.job != job).min_by_key(|writer| writer.number)
    }
}

fn prefixes(manifests: &mut [Manifest]) {
    let mut seen = Seen::default();
    let mut found: BTreeMap<usize, Vec<Diagnostic>> = BTreeMap::new();
    for (number, manifest) in manifests.iter_mut().enumerate() {
        let Some(job) = manifest.compiled.job.clone() else { continue };
        let Beside { written: mine, silenced, .. } = std::mem::take(&mut manifest.beside);
        for one in mine.iter().filter(|_| !silenced) {
            let Some(other) = seen.clash(&job, one) else { continue };
            if other.is_same_place(&manifest.path, one) {
                // One mistake: said of the place, in the same words for each job of the sweep.
                let what = format!("the jobs of this sweep write their {}s to one place", one.what);
                let firsts = found.entry(other.number).or_default();
                if firsts.iter().all(|diagnostic| diagnostic.span != other.span) {
                    firsts.push(shared(other.span, what.clone(), one.what));
                }
                found.entry(number).or_default().push(shared(one.span, what, one.what));
                continue;
            }
            let what = format!("jobs `{}` and `{job}` write their {}s to one place", other.job, one.what);
            let mut diagnostic = shared(one.span, what, one.what);
            // One layer may say it for both.
            if other.span != one.span {
                diagnostic = diagnostic.label(other.span, format!("of `{}`", other.job));
            }
            found.entry(number).or_default().push(diagnostic);
        }
        for one in mine {
            let writer = Writer { number, job: job.clone(), path: manifest.path.clone(), span: one.span };
            seen.add(writer, one);
        }
    }
    for (at, found) in found {
        let Some(manifest) = manifests.get_mut(at) else { continue };
        // What one of them says of its checkpoints alone is said with it.
        let spans: Vec<Span> = found.iter().map(|diagnostic| diagnostic.span).collect();
        let problems = &mut manifest.compiled.problems;
        problems.retain(|diagnostic| diagnostic.code.id != "T0448" || !spans.contains(&diagnostic.span));
        for diagnostic in found {
            problems.push(diagnostic);
        }
        problems.sort();
    }
}

fn shared(span: Span, message: String, what: &str) -> Diagnostic {
    Diagnostic::new(&T0467, span, message)
        .help(format!("put `{{{{ job.digest }}}}` into `{what}`: it differs from job to job"))
        .note("run at the same time, each overwrites the other's files; run one after the other, the second begins with the first's")
}
