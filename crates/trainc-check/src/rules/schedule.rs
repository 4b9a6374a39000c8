//! Optimizer settings: likely typing errors, warm-up, learning rates and betas.

use crate::Context;
use trainc_catalog::usual_ranges;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::digest::python_float;
use trainc_ir::{Field, Optimizer, Warmup};

declare_code!(T0318, "unusual-optimizer-setting", Warning, "an optimizer setting far from published values");
declare_code!(T0319, "warmup-too-long", Warning, "a warm-up that is at least as long as the run");
declare_code!(T0345, "min-lr-above-lr", Warning, "a minimum learning rate above the peak");
declare_code!(T0346, "betas-swapped", Warning, "a first beta that is larger than the second");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0318, &T0319, &T0345, &T0346];

/// Checks `optimizer`, whose values reach the script's arguments or the worker's configuration.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(optimizer) = &context.plan.job.train.optimizer else { return };
    for (setting, field) in [
        ("lr", &optimizer.lr),
        ("weight-decay", &optimizer.weight_decay),
        ("eps", &optimizer.eps),
        ("clip", &optimizer.clip),
    ] {
        check_usual_range(context, optimizer, setting, field, problems);
    }
    check_warmup(context, optimizer, problems);
    check_min_lr(context, optimizer, problems);
    check_betas(optimizer, problems);
}

/// Formats a number as in a manifest: `2e-5`, `0.1`, `200000`.
fn format_number(value: f64) -> String {
    python_float(value).trim_end_matches(".0").replace("e-0", "e-").replace("e+", "e")
}

/// Rounds to two digits.
fn round_to_two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

fn check_usual_range(
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
            "`{setting}` {} is far outside the usual range for `{name}`: {} to {}",
            format_number(value),
            format_number(row.usual.0),
            format_number(row.usual.1)
        ),
    )
    .note(format!("{} ({})", row.provenance.source, row.provenance.date))
    .fact("usual", vec![row.usual.0, row.usual.1]);
    if value == 0.0 {
        diagnostic = diagnostic.note(match setting {
            "lr" => "at a learning rate of 0, no step changes the weights",
            "clip" => "a norm of 0 sets every gradient to 0 or disables clipping, depending on the trainer",
            _ => "with 0 a parameter without gradients causes a division by 0",
        });
    }
    // 2e5 for 2e-5: the minus sign of the exponent is missing.
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

fn check_warmup(context: &Context, optimizer: &Optimizer, problems: &mut Problems) {
    let (Some(warmup), Some(run)) = (optimizer.warmup.val(), &context.plan.run.steps) else { return };
    let Warmup::Steps(steps) = warmup.value else { return };
    // The worker rejects it, which is reported with its settings.
    if context.plan.is_worker() && steps > run.value {
        return;
    }
    if steps < run.value {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0319,
        warmup.span_or(optimizer.span),
        format!(
            "the warm-up takes {}, but the run has only {}: the learning rate never decays",
            text::count(steps, "step"),
            text::group_digits(run.value)
        ),
    )
    .help("write a fraction of the run, e.g. `warmup=0.01`")
    .fact("warmup_steps", steps)
    .fact("steps", run.value);
    if let Some(span) = run.origin.span() {
        diagnostic = diagnostic.label(span, "the run");
    }
    problems.push(diagnostic);
}

fn check_min_lr(context: &Context, optimizer: &Optimizer, problems: &mut Problems) {
    let (Some(least), Some(peak)) = (optimizer.min_lr.val(), optimizer.lr.val()) else { return };
    // The worker rejects it, which is reported with its settings.
    if least.value <= peak.value || context.plan.is_worker() {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0345,
            least.span_or(optimizer.span),
            format!("`min-lr` {} is above `lr` {}", format_number(least.value), format_number(peak.value)),
        )
        .label(peak.span_or(optimizer.span), "the peak")
        .help(format!("write a smaller value, e.g. `min-lr={}`", format_number(round_to_two_digits(peak.value / 10.0))))
        .note("the schedule decays from the peak to the minimum; here the learning rate would rise \
            until the end of the run"),
    );
}

fn check_betas(optimizer: &Optimizer, problems: &mut Problems) {
    let Some(betas) = optimizer.betas.val() else { return };
    let (first, second) = betas.value;
    // Lion's betas have another meaning but the same order (arXiv 2302.06675: 0.9, 0.99).
    if first <= second {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0346,
            betas.span_or(optimizer.span),
            format!("the first of `betas` is larger than the second: {} and {}", format_number(first), format_number(second)),
        )
        .did_you_mean(format!("betas=\"{},{}\"", format_number(second), format_number(first)))
        .note("the first is the decay of the mean, the second the slower decay of the squares; proofs \
            of convergence require the first to be below the square root of the second (AMSGrad, arXiv \
            1904.09237, theorem 4)"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_numbers_as_in_manifests() {
        let all: Vec<String> = [2e5, 2e-5, 0.1, 1e-10, 5.0, 1e20].into_iter().map(format_number).collect();
        assert_eq!(all, ["200000", "2e-5", "0.1", "1e-10", "5", "1e20"]);
    }
}
