//! From what was written to what it means: layers merged, units converted, defaults filled in.
//!
//! In: one parsed file and a [`Loader`] for its layers. Out: [`ir::Job`], as much of it as could be made, and
//! problems. The only stage that sees both [`ast`](trainc_syntax::ast) and [`ir`]. Knows no catalogue.

mod betas;
mod damage;
mod defaults;
mod identity;
mod layers;
mod merge;
mod nodes;
mod parallel;
mod pick;
mod poison;
mod set;
mod storage;
mod sweep;
mod twins;

use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, SourceMap, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir as ir;
use trainc_syntax::{ast, require};

pub use layers::{LayerFault, Loaded, Loader};
pub(crate) use nodes::T0220;
pub use sweep::suffixes;
pub use twins::{Second, rounds};

declare_code!(T0212, "account-mismatch", Error, "`--account` differs from the account in the manifest");

static CODES: &[&Code] = &[&T0212];

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [layers::CODES, set::CODES, nodes::CODES, betas::CODES, sweep::CODES, CODES].concat()
}

/// What a run chooses from outside the file.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// `--env NAME`.
    pub env: Option<String>,
    /// `--set path=value`, in order.
    pub sets: Vec<String>,
    /// What a sweep sets, with the place of the value under `vary`.
    pub swept: Vec<(String, Span)>,
    /// `--account`.
    pub account: Option<String>,
    /// What a sweep adds to the job's name.
    pub suffix: Option<String>,
}

/// A job as it was written, all layers laid into one node.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The node `job`; each value keeps the place where it was written.
    pub node: ast::Node,
    /// What a later layer changed.
    pub overrides: Vec<ir::Override>,
    /// Whether all of it could be read.
    pub is_whole: bool,
}

/// Lays the layers of a file into one node; `None` when it is a layer, which is not compiled alone.
pub fn lay(
    file: ast::File,
    source: SourceId,
    choices: &Choices,
    loader: &mut dyn Loader,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Option<Merged> {
    let mut merged = layers::merge(file, source, choices, loader, sources, problems)?;
    // Where a layer or a block could not be read, what seems missing may stand there.
    let is_whole = !merged.incomplete && !damage::hides_nodes(problems, sources);
    if !is_whole {
        poison::fill(&mut merged.job);
    }
    Some(Merged { node: merged.job, overrides: merged.overrides, is_whole })
}

/// A variable's decimal number is the text that stands in the manifest: `1.50` is no `1.5` to a program that reads words.
fn as_written(job: &mut ir::Job, sources: &SourceMap) {
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

/// What a job as written means.
pub fn resolve(
    merged: &Merged,
    choices: &Choices,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> ir::Job {
    require::require(&merged.node, problems);
    sweep::look(&merged.node, problems);
    let mut job = nodes::job(&merged.node, problems);
    job.is_whole = merged.is_whole;
    job.take_preferred_count();
    job.overrides.clone_from(&merged.overrides);
    as_written(&mut job, sources);
    if let (Some(suffix), Some(name)) = (&choices.suffix, job.name.value_mut()) {
        job.swept_from = Some(name.clone());
        name.push_str(suffix);
    }
    if let Some(account) = &choices.account {
        let text = format!("--account={account}");
        let at = sources.add(format!("<{text}>"), text.clone());
        let span = trainc_diag::source::Span::new(at, "--account=".len(), text.len());
        match job.account.val().filter(|written| written.value != *account) {
            // The manifest's holds: everything else in it is of that account.
            Some(written) => problems.push(
                Diagnostic::new(&T0212, span, format!("`{account}` is not the account of the manifest"))
                    .label(written.span_or(merged.node.name.span), "the manifest's")
                    .help(format!(
                        "leave `--account` out, or write `--set account={account}` if the job moves there"
                    )),
            ),
            None => job.account = ir::Field::Is(ir::Val::written(account.clone(), span)),
        }
    }
    job
}
