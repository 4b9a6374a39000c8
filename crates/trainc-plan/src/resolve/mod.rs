//! Resolves a parsed file to a job: merges layers, converts units, fills in defaults.
//!
//! Input: one parsed file and a [`LayerLoader`] for its layers. Output: as much of the [`ir::Job`] as could
//! be built, and problems. This is the only stage that uses both [`ast`](trainc_syntax::ast) and [`ir`]. It
//! does not use the catalogue.

mod betas;
mod duplicates;
mod job;
mod layers;
mod merge;
pub mod missing_node;
mod other_engine;
mod parallel;
mod preferred_types;
mod recovery;
mod removal;
mod set_flag;
mod sweep;
mod unreadable_layer;
mod variants;

use crate::{World, files};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, SourceMap, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir as ir;
use trainc_syntax::{ast, required_values};

pub use duplicates::ActiveDuplicate;
pub(crate) use job::{T0220, T0222};
pub use layers::{LayerLoader, LoadedLayer, T0207};
pub(crate) use merge::merge_nodes;
pub use set_flag::T0211;
pub use sweep::sweep_suffixes;
pub use variants::{Change, Variant, variants};

declare_code!(T0212, "account-mismatch", Error, "`--account` differs from the account in the manifest");

static CODES: &[&Code] = &[&T0212];

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [layers::CODES, set_flag::CODES, job::CODES, betas::CODES, sweep::CODES, CODES].concat()
}

/// Command-line choices that change how a manifest resolves.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// `--env NAME`.
    pub env: Option<String>,
    /// `--set path=value`, in order.
    pub sets: Vec<String>,
    /// True if values of `--set` stand for those of the job's files: a layout is tried as if the files were
    /// edited to it.
    pub replaces_file_values: bool,
    /// Settings of one job of a sweep as `path=value`, each with the span of its value under `vary`.
    pub swept: Vec<(String, Span)>,
    /// `--account`.
    pub account: Option<String>,
    /// The permissions boundary of roles that are created without one in the manifest: an ARN, from
    /// `TRAINC_ROLE_BOUNDARY`.
    pub role_boundary: Option<String>,
    /// The suffix that a sweep appends to the job's name.
    pub suffix: Option<String>,
}

/// A job as written, with all layers merged into one node.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The node `job`; each value keeps the span at which it was written.
    pub node: ast::Node,
    /// Values that a later layer changed.
    pub overrides: Vec<ir::Override>,
    /// True if all layers and blocks could be read.
    pub is_whole: bool,
    /// The files of other programs that the job names; what they set is in the node.
    pub files: Vec<ir::ForeignFile>,
    /// The packages of the training stack in the container.
    pub programs: Vec<ir::ProgramVersion>,
    /// The requirements of the program.
    pub requirements: Vec<ir::RequirementsFile>,
}

/// Merges the layers of a file, and what the files of other programs set, into one node. Returns `None` for a
/// layer, which is not compiled alone.
pub fn merge_layers(
    file: ast::File,
    source: SourceId,
    choices: &Choices,
    world: &mut dyn World,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Option<Merged> {
    let mut merged = layers::merge(file, source, choices, world, sources, problems)?;
    let (programs, requirements) = files::programs::versions(&merged.job, world, sources);
    let replaces = choices.replaces_file_values;
    let (files, are_read) = files::read(&mut merged.job, (&programs, replaces), world, sources, problems);
    // A node that seems missing may be in a layer, block or file that could not be read.
    let is_whole = are_read && !merged.incomplete && !recovery::may_hide_nodes(problems, sources);
    if !is_whole {
        unreadable_layer::fill_missing_with_bad(&mut merged.job);
    }
    Some(Merged { node: merged.job, overrides: merged.overrides, is_whole, files, programs, requirements })
}

/// Restores the text of decimal numbers in environment variables: programs read `1.50` as text, not as `1.5`.
fn restore_decimal_texts(job: &mut ir::Job, sources: &SourceMap) {
    let own = job.program.iter_mut().flat_map(|program| &mut program.environment);
    let launcher = job.parallel.iter_mut().flat_map(|parallel| &mut parallel.mpi_env);
    for pair in own.chain(launcher) {
        let Some(span) = pair.value.val().and_then(|val| val.origin.span()) else { continue };
        let text = sources.slice(span).replace('_', "");
        if let Some(value) = pair.value.value_mut()
            && text.contains(['.', 'e', 'E'])
            && text.parse::<f64>().is_ok_and(|number| value.parse() == Ok(number))
        {
            *value = text;
        }
    }
}

/// Resolves a merged job.
pub fn resolve(
    merged: &Merged,
    choices: &Choices,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> ir::Job {
    let of_files: Vec<SourceId> = merged.files.iter().map(|file| file.span.source).collect();
    required_values::check_required(&merged.node, &of_files, problems);
    sweep::check(&merged.node, problems);
    let mut job = job::job(&merged.node, &of_files, problems);
    job.is_whole = merged.is_whole;
    job.apply_first_preference();
    job.overrides.clone_from(&merged.overrides);
    job.removed = removal::places(&merged.node);
    restore_decimal_texts(&mut job, sources);
    if let Some(role) = &mut job.role {
        job::apply_boundary(role, choices.role_boundary.as_deref());
    }
    if let (Some(suffix), Some(name)) = (&choices.suffix, job.name.value_mut()) {
        job.swept_from = Some(name.clone());
        name.push_str(suffix);
    }
    if let Some(account) = &choices.account {
        let text = format!("--account={account}");
        let at = sources.add(format!("<{text}>"), text.clone());
        let span = trainc_diag::source::Span::new(at, "--account=".len(), text.len());
        match job.account.val().filter(|written| written.value != *account) {
            // The manifest's account is kept: the rest of the manifest refers to it.
            Some(written) => problems.push(
                Diagnostic::new(
                    &T0212,
                    span,
                    format!("`{account}` differs from the account in the manifest"),
                )
                .label(written.span_or(merged.node.name.span), "account in the manifest")
                .help(format!(
                    "remove `--account`, or use `--set account={account}` to move the job to that account"
                )),
            ),
            None => job.account = ir::Field::Is(ir::Val::written(account.clone(), span)),
        }
    }
    job
}
