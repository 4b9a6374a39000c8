//! The optimizer's numbers: those that only a slip of the keys explains, and schedules that never come to their rate.

use crate::Context;
use trainc_catalog::usual_ranges;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::digest::python_float;
use trainc_ir::{Engine, Field, Optimizer, Warmup};

declare_code!(T0318, "unusual-optimizer-setting", Warning, "an optimizer setting far from published values");
declare_code!(T0319, "warmup-too-long", Warning, "a warm-up that is at least as long as the run");
declare_code!(T0345, "min-lr-above-lr", Warning, "a minimum learning rate above the peak");
declare_code!(T0346, "betas-swapped", Warning, "a first beta that is larger than the second");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0318, &T0319, &T0345, &T0346];

/// Looks at `optimizer`, which the plan binds into the script's arguments or the worker's config.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(optimizer) = &context.plan.job.train.optimizer else { return };
    for (setting, field) in [
        ("lr", &optimizer.lr),
        ("weight-decay", &optimizer.weight_decay),
        ("eps", &optimizer.eps),
        ("clip", &optimizer.clip),
    ] {
        far(context, optimizer, setting, field, problems);
    }
    warmup(context, optimizer, problems);
    rates(context, optimizer, problems);
    betas(optimizer, problems);
}

/// A number as a manifest writes it: `2e-5`, `0.1`, `200000`.
fn shown(value: f64) -> String {
    python_float(value).trim_end_matches(".0").replace("e-0", "e-").replace("e+", "e")
}

/// To two digits, for an example.
fn rounded(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

fn far(
    context: &Context,
    optimizer: &Optimizer,
    setting: &'static str,
    field: &Field<f64>,
    problems: &mut Problems,
) {
    let (Some(val), Some(name)) = (field.val(), optimizer.name.value()) else { return };
    let Some(row) = usual_ranges::get(setting, name) else { return };
    let value = val.value;
    if (row.far.0..=row.far.1).contains(&value) {
        return;
    }
    let span = val.span_or(optimizer.span);
    let mut diagnostic = Diagnostic::new(
        &T0318,
        span,
        format!(
            "`{setting}` {} is far from what is usual with `{name}`: {} to {}",
            shown(value),
            shown(row.usual.0),
            shown(row.usual.1)
        ),
    )
    .note(format!("{} ({})", row.provenance.source, row.provenance.date))
    .fact("usual", vec![row.usual.0, row.usual.1]);
    if value == 0.0 {
        diagnostic = diagnostic.note(match setting {
            "lr" => "at a rate of 0 no step changes a weight",
            "clip" => "a norm of 0 sets every gradient to 0, or switches clipping off: trainers differ",
            _ => "at 0 a parameter without gradients divides by 0",
        });
    }
    // 2e5 for 2e-5: the sign of the exponent was lost.
    let written = context.sources.slice(span);
    let meant = written.split_once(['e', 'E']).filter(|(_, exponent)| !exponent.starts_with('-'));
    if let Some((digits, exponent)) = meant {
        let fixed = format!("{digits}e-{}", exponent.trim_start_matches('+'));
        if fixed.parse::<f64>().is_ok_and(|x| (row.usual.0..=row.usual.1).contains(&x)) {
            diagnostic = diagnostic.help(format!("did you mean `{setting}={fixed}`?")).fix(span, fixed);
        }
    }
    problems.push(diagnostic);
}

fn warmup(context: &Context, optimizer: &Optimizer, problems: &mut Problems) {
    let (Some(warmup), Some(run)) = (optimizer.warmup.val(), &context.plan.run.steps) else { return };
    let Warmup::Steps(steps) = warmup.value else { return };
    // The worker refuses it, which is said where its settings are read.
    let engine = context.plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
    if engine == Some(Engine::Worker) && steps > run.value {
        return;
    }
    if steps < run.value {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0319,
        warmup.span_or(optimizer.span),
        format!(
            "a warm-up of {}, and the run has {}: the rate never falls",
            text::count(steps, "step"),
            text::group(run.value)
        ),
    )
    .help("write a fraction of the run, as `warmup=0.01`")
    .fact("warmup_steps", steps)
    .fact("steps", run.value);
    if let Some(span) = run.origin.span() {
        diagnostic = diagnostic.label(span, "the run");
    }
    problems.push(diagnostic);
}

fn rates(context: &Context, optimizer: &Optimizer, problems: &mut Problems) {
    let (Some(least), Some(peak)) = (optimizer.min_lr.val(), optimizer.lr.val()) else { return };
    // The worker refuses it, which is said where its settings are read.
    let engine = context.plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
    if least.value <= peak.value || engine == Some(Engine::Worker) {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0345,
            least.span_or(optimizer.span),
            format!("`min-lr` {} is above `lr` {}", shown(least.value), shown(peak.value)),
        )
        .label(peak.span_or(optimizer.span), "the peak")
        .help(format!("write a smaller one, as `min-lr={}`", shown(rounded(peak.value / 10.0))))
        .note("the schedule goes from the peak to the least; so the rate would rise to the end of the run"),
    );
}

fn betas(optimizer: &Optimizer, problems: &mut Problems) {
    let Some(betas) = optimizer.betas.val() else { return };
    let (first, second) = betas.value;
    // Lion's betas have another meaning, and are written in the same order all the same (arXiv 2302.06675: 0.9, 0.99).
    if first <= second {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0346,
            betas.span_or(optimizer.span),
            format!("the first of `betas` is the larger one: {} and {}", shown(first), shown(second)),
        )
        .help(format!("did you mean `betas=\"{},{}\"`?", shown(second), shown(first)))
        .note("the first is the decay of the mean, the second of the squares, which changes more slowly; Adam converges where the first is below the square root of the second (arXiv 1412.6980, theorem 4.1)"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_are_written() {
        let all: Vec<String> = [2e5, 2e-5, 0.1, 1e-10, 5.0, 1e20].into_iter().map(shown).collect();
        assert_eq!(all, ["200000", "2e-5", "0.1", "1e-10", "5", "1e20"]);
    }
}
