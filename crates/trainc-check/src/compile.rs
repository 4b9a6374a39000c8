//! The pipeline from the text of a manifest to a checked plan.

use crate::check;
use crate::preferred_types;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_diag::{Diagnostic, Ends, Problems, Severity};
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::ReadError;
use trainc_plan::resolve::missing_node::join_missing_nodes;
use trainc_plan::resolve::{self, ActiveDuplicate, Change, LayerLoader, Merged, Variant};
use trainc_plan::{Compiled, Options, World, plan_and_predict};
use trainc_predict::UNDECIDED_LAYOUT;
use trainc_syntax as syntax;

/// Compiles one manifest, given its text.
pub fn compile(
    source: SourceId,
    text: &str,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) -> Compiled {
    let mut problems = Problems::default();
    let Some(file) = syntax::parse(source, text, &mut problems) else {
        problems.sort();
        return Compiled::unreadable_file(problems);
    };
    let is_layer =
        file.job.is_none() && !(file.layer.is_empty() && file.envs.is_empty() && file.extends.is_empty());
    let Some(merged) = resolve::merge_layers(file, source, &options.choices, world, sources, &mut problems)
    else {
        problems.sort();
        return Compiled { is_layer, ..Compiled::unreadable_file(problems) };
    };
    let mut compiled = plan_and_predict(merged, problems, options, world, sources);
    if let Some(plan) = &compiled.plan {
        check(plan, options, sources, &mut compiled.problems);
    }
    check_variants(&mut compiled, options, world, sources);
    discard_speed_of_unknown_layout(&mut compiled);
    join_missing_nodes(compiled.job.as_deref().unwrap_or_default(), &mut compiled.problems);
    // Hidden last: the rules read secrets, but nothing may show them.
    compiled.problems.iter().filter(|one| one.secret).for_each(|one| sources.hide(one.span));
    compiled.problems.sort();
    compiled
}

/// Removes the speed and the run of a plan with an error that decides which layout or container runs: they
/// would be those of a job that cannot start.
fn discard_speed_of_unknown_layout(compiled: &mut Compiled) {
    let decides = |one: &Diagnostic| one.severity == Severity::Error && one.code.ends == Some(Ends::Speed);
    if compiled.prediction.speed.is_none() || !compiled.problems.iter().any(decides) {
        return;
    }
    (compiled.prediction.speed, compiled.prediction.no_speed) = (None, Some(UNDECIDED_LAYOUT));
    (compiled.prediction.run, compiled.prediction.no_run) = (None, Some(UNDECIDED_LAYOUT));
}

/// Compiles the other jobs of the file, and reports what is wrong with them alone.
fn check_variants(
    compiled: &mut Compiled,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) {
    let mut types = Vec::new();
    for Variant { change, merged } in compiled.merged.as_deref().map(resolve::variants).unwrap_or_default() {
        match change {
            Change::SecondDuplicates(seconds) => {
                let second = compile_variant(merged, options, world, sources);
                report_duplicates(compiled, &seconds, &second);
            }
            Change::PreferredType(instance) => types.push((instance, merged)),
        }
    }
    let mut compile = |merged| compile_variant(merged, options, world, sources);
    preferred_types::check(compiled, types, &mut compile);
}

/// Reports the errors of the second duplicates, which the variant has in effect.
fn report_duplicates(compiled: &mut Compiled, seconds: &[ActiveDuplicate], second: &Compiled) {
    for one in second.problems.iter() {
        // A layer that is merged twice has the same problem twice.
        let is_reported = compiled.problems.iter().any(|reported| reported == one);
        if is_reported || !seconds.iter().any(|second| second.causes_error(one)) {
            continue;
        }
        // The search of the text found this secret already; the report on the node's value has better help.
        compiled.problems.retain(|reported| {
            !(one.secret && reported.secret && reported.code == one.code && one.span.covers(reported.span))
        });
        compiled.problems.push(one.clone());
    }
}

/// Compiles another job of the same file, without fetching the repositories again.
fn compile_variant(
    merged: Merged,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) -> Compiled {
    let mut variant = plan_and_predict(merged, Problems::default(), options, &mut WithoutGit(world), sources);
    if let Some(plan) = &variant.plan {
        check(plan, options, sources, &mut variant.problems);
    }
    discard_speed_of_unknown_layout(&mut variant);
    variant.problems.sort();
    variant
}

/// A world in which no repository is fetched.
struct WithoutGit<'a>(&'a mut dyn World);

impl LayerLoader for WithoutGit<'_> {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<resolve::LoadedLayer, ReadError> {
        self.0.read_layer(from, path)
    }

    fn file_identity(&self, name: &str) -> String {
        self.0.file_identity(name)
    }
}

impl World for WithoutGit<'_> {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        self.0.read_directory(from, path)
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        self.0.read_text(from, path)
    }

    fn worker_binary(&mut self) -> Option<SourceFile> {
        self.0.worker_binary()
    }
}
