//! The whole way from the text of a manifest to a checked plan.

use crate::check;
use trainc_diag::Problems;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::ReadError;
use trainc_plan::resolve::{self, LayerLoader};
use trainc_plan::{Compiled, Options, World, forecast};
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
        return Compiled::unreadable(problems);
    };
    let is_layer =
        file.job.is_none() && !(file.layer.is_empty() && file.envs.is_empty() && file.extends.is_empty());
    let Some(merged) = resolve::merge_layers(file, source, &options.choices, world, sources, &mut problems)
    else {
        problems.sort();
        return Compiled { is_layer, ..Compiled::unreadable(problems) };
    };
    let mut compiled = forecast(merged, problems, options, world, sources);
    if let Some(plan) = &compiled.plan {
        check(plan, options, sources, &mut compiled.problems);
    }
    check_twins(&mut compiled, options, world, sources);
    // Only now: the rules read it, and whoever shows a line from here on must not.
    compiled.problems.iter().filter(|one| one.secret).for_each(|one| sources.hide(one.span));
    compiled.problems.sort();
    compiled
}

/// Holds to the rules what stands a second time where one may, each as if it were the one that counts.
fn check_twins(compiled: &mut Compiled, options: &Options, world: &mut dyn World, sources: &mut SourceMap) {
    let Some(merged) = &compiled.merged else { return };
    for (other, seconds) in resolve::duplicate_variants(merged) {
        let mut second = forecast(other, Problems::default(), options, &mut NotFetched(world), sources);
        if let Some(plan) = &second.plan {
            check(plan, options, sources, &mut second.problems);
        }
        for one in second.problems.iter() {
            // A layer that is laid twice says the same twice.
            let is_said = compiled.problems.iter().any(|said| said == one);
            if is_said || !seconds.iter().any(|second| second.has_error(one)) {
                continue;
            }
            // A secret was found in the text already; as somebody's value it has better help.
            compiled.problems.retain(|said| {
                !(one.secret && said.secret && said.code == one.code && one.span.covers(said.span))
            });
            compiled.problems.push(one.clone());
        }
    }
}

/// A world in which no repository is asked: nobody fetches what may not count.
struct NotFetched<'a>(&'a mut dyn World);

impl LayerLoader for NotFetched<'_> {
    fn layer(&mut self, from: &str, path: &str) -> Result<resolve::LoadedLayer, ReadError> {
        self.0.layer(from, path)
    }

    fn identity(&self, name: &str) -> String {
        self.0.identity(name)
    }
}

impl World for NotFetched<'_> {
    fn directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        self.0.directory(from, path)
    }

    fn text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        self.0.text(from, path)
    }

    fn worker(&mut self) -> Option<SourceFile> {
        self.0.worker()
    }
}
