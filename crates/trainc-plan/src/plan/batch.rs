//! Batch arithmetic, steps and tokens.

use crate::plan::mesh::data_ranks;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Suggestion};
use trainc_ir::{Batch, Field, Job, Machine, Mesh, Run, Val};

declare_code!(
    T0310,
    "global-batch-not-divisible",
    Error,
    "a global batch that is not divisible by the other factors",
    ends: Speed
);
declare_code!(
    T0311,
    "conflicting-batch-sizes",
    Error,
    "micro-batch, accumulation and global batch are inconsistent",
    ends: Speed
);
declare_code!(
    T0312,
    "batch-size-unknown",
    Error,
    "too few values are set to determine the batch size",
    ends: Speed
);
declare_code!(
    T0313,
    "invalid-run-length",
    Error,
    "the run length is missing, or set more than once (steps, tokens, epochs)"
);
declare_code!(T0314, "epochs-without-dataset", Error, "epochs without the size of the dataset");
declare_code!(T0315, "number-overflow", Error, "a number overflows 64 bits");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0310, &T0311, &T0312, &T0313, &T0314, &T0315];

/// Computes the batch; returns `None` if a factor is unknown. Without a mesh the batch is still checked
/// against the data ranks, if these do not depend on the error in the mesh.
pub(super) fn batch(
    job: &Job,
    mesh: Option<&Mesh>,
    machine: Option<&Machine>,
    problems: &mut Problems,
) -> Option<Batch> {
    let train = &job.train;
    // `train` has no effect on a serverless job, which a rule reports.
    if job.serverless_member().is_some() {
        return None;
    }
    let train_span = train.span?;
    if [&train.micro_batch_size, &train.accumulation, &train.global_batch].iter().any(|field| field.is_bad())
    {
        return None;
    }
    let (micro, accumulation, global) =
        (train.micro_batch_size.val(), train.accumulation.val(), train.global_batch.val());
    if micro.is_none() && (accumulation.is_none() || global.is_none()) {
        problems.push(
            Diagnostic::new(&T0312, train_span, "unknown batch size: `train` has no `micro-batch`")
                .removed_at(job.removed(&["train.micro-batch", "train.accumulation", "train.global-batch"]))
                .add("micro-batch 1")
                .and_text(
                    "; any two of `micro-batch`, `accumulation` and `global-batch` determine the third",
                ),
        );
        return None;
    }
    let ranks = match mesh {
        Some(mesh) => mesh.data_ranks.value,
        None => data_ranks(job, machine)?,
    };
    let num_micro_batches = match job.parallel.as_ref().map(|parallel| &parallel.num_micro_batches) {
        Some(Field::Is(val)) => val.value,
        Some(Field::Bad) => return None,
        Some(Field::Absent) | None => 1,
    };
    let at = BatchArithmetic { ranks, num_micro_batches, span: train_span };
    let (micro, accumulation, global) = at.complete_factors(micro, accumulation, global, problems)?;
    // No batch is planned for a mesh with errors.
    mesh?;
    let length = train.sequence_length.get();
    let global_tokens = length.and_then(|length| global.value.checked_mul(length));
    if length.is_some() && global_tokens.is_none() {
        report_overflow(BATCH, train.sequence_length.span().unwrap_or(train_span), problems);
        // All other results of this length would overflow too.
        return None;
    }
    let Some(per_replica) = micro.value.checked_mul(num_micro_batches) else {
        report_overflow(BATCH, micro.span_or(train_span), problems);
        return None;
    };
    Some(Batch {
        micro_batch_size: micro,
        num_micro_batches,
        per_replica,
        accumulation,
        global_sequences: global,
        global_tokens,
    })
}

/// A quantity that may overflow, and the help to print.
type Quantity = (&'static str, &'static str);
const BATCH: Quantity = ("batch size", "reduce `micro-batch`, `accumulation` or `sequence-length`");
const STEPS: Quantity = ("number of steps", "check `epochs` and the size of the dataset");
const TOKENS: Quantity = ("number of tokens", "check `steps`, the batch size and `sequence-length`");

fn report_overflow((what, help): Quantity, span: Span, problems: &mut Problems) {
    problems.push(Diagnostic::new(&T0315, span, format!("{what} overflows 64 bits")).help(help));
}

struct BatchArithmetic {
    ranks: u64,
    num_micro_batches: u64,
    span: Span,
}

impl BatchArithmetic {
    /// Returns micro-batch, accumulation and global batch, of which any two determine the third.
    fn complete_factors(
        &self,
        micro: Option<&Val<u64>>,
        accumulation: Option<&Val<u64>>,
        global: Option<&Val<u64>>,
        problems: &mut Problems,
    ) -> Option<(Val<u64>, Val<u64>, Val<u64>)> {
        match (micro, accumulation, global) {
            (Some(micro), None, None) => {
                let global = self.global_or_report_overflow(micro, 1, micro, problems)?;
                Some((micro.clone(), Val::default(1, "one pass per optimizer step"), global))
            }
            (Some(micro), Some(accumulation), None) => {
                let global =
                    self.global_or_report_overflow(micro, accumulation.value, accumulation, problems)?;
                Some((micro.clone(), accumulation.clone(), global))
            }
            (Some(micro), None, Some(global)) => {
                let found = self.missing_factor(global, "micro-batch", micro, problems)?;
                Some((micro.clone(), found, global.clone()))
            }
            (None, Some(accumulation), Some(global)) => {
                let found = self.missing_factor(global, "accumulation", accumulation, problems)?;
                Some((found, accumulation.clone(), global.clone()))
            }
            (Some(micro), Some(accumulation), Some(global)) => {
                let computed =
                    self.global_or_report_overflow(micro, accumulation.value, accumulation, problems)?;
                if computed.value != global.value {
                    problems.push(self.contradiction(micro, accumulation, global, computed.value));
                    return None;
                }
                Some((micro.clone(), accumulation.clone(), global.clone()))
            }
            (None, _, _) => None,
        }
    }

    /// Returns the global batch. An overflow is reported at the factor `blame`.
    fn global_or_report_overflow(
        &self,
        micro: &Val<u64>,
        accumulation: u64,
        blame: &Val<u64>,
        problems: &mut Problems,
    ) -> Option<Val<u64>> {
        let global = self.global(micro.value, accumulation);
        if global.is_none() {
            report_overflow(BATCH, blame.span_or(self.span), problems);
        }
        global
    }

    /// Returns the factor that remains when the global batch is divided by the other one.
    fn missing_factor(
        &self,
        global: &Val<u64>,
        name: &str,
        other: &Val<u64>,
        problems: &mut Problems,
    ) -> Option<Val<u64>> {
        let factor = format!("{name} {}", other.value);
        let Some(unit) = self.times_micro_batches_and_ranks(other.value) else {
            report_overflow(BATCH, other.span_or(self.span), problems);
            return None;
        };
        let found = self.divide(global, unit, &factor, other, problems)?;
        Some(Val::derived(found, format!("{} / ({})", global.value, self.describe(&factor))))
    }

    fn contradiction(
        &self,
        micro: &Val<u64>,
        accumulation: &Val<u64>,
        global: &Val<u64>,
        computed: u64,
    ) -> Diagnostic {
        let factors = format!("micro-batch {} × accumulation {}", micro.value, accumulation.value);
        Diagnostic::new(
            &T0311,
            global.span_or(self.span),
            format!(
                "`global-batch` {} is not equal to {} = {computed}",
                global.value,
                self.describe(&factors)
            ),
        )
        .label(micro.span_or(self.span), "factor")
        .label(accumulation.span_or(self.span), "factor")
        .help("remove one of the three")
        .suggest(Suggestion::Other)
        .or_write(format!("global-batch {computed}"))
    }

    fn times_micro_batches_and_ranks(&self, factor: u64) -> Option<u64> {
        factor.checked_mul(self.num_micro_batches)?.checked_mul(self.ranks)
    }

    fn describe(&self, factor: &str) -> String {
        let mut out = factor.to_owned();
        if self.num_micro_batches > 1 {
            out.push_str(&format!(" × {} micro-batches", self.num_micro_batches));
        }
        out.push_str(&format!(" × {}", text::count(self.ranks, "data-parallel rank")));
        out
    }

    fn global(&self, micro: u64, accumulation: u64) -> Option<Val<u64>> {
        let value = self.times_micro_batches_and_ranks(micro)?.checked_mul(accumulation)?;
        let factor = if accumulation == 1 {
            format!("micro-batch {micro}")
        } else {
            format!("micro-batch {micro} × accumulation {accumulation}")
        };
        Some(Val::derived(value, self.describe(&factor)))
    }

    fn divide(
        &self,
        global: &Val<u64>,
        unit: u64,
        factor: &str,
        other: &Val<u64>,
        problems: &mut Problems,
    ) -> Option<u64> {
        if unit == 0 {
            return None;
        }
        if global.value.is_multiple_of(unit) {
            return Some(global.value / unit);
        }
        let below = global.value / unit * unit;
        let above = below.saturating_add(unit);
        let near: Vec<String> = [below, above]
            .into_iter()
            .filter(|batch| *batch > 0)
            .map(|batch| format!("global-batch {batch}"))
            .collect();
        problems.push(
            Diagnostic::new(
                &T0310,
                global.span_or(self.span),
                format!(
                    "`global-batch` {} is not a multiple of {} = {unit}",
                    global.value,
                    self.describe(factor)
                ),
            )
            .label(other.span_or(self.span), "factor")
            .choose(format!("write {}", text::backtick_list(&near, "or")), &near)
            .fact("unit", unit),
        );
        None
    }
}

/// Computes the steps and tokens of the run.
pub(super) fn run(job: &Job, batch: Option<&Batch>, problems: &mut Problems) -> Run {
    let train = &job.train;
    let Some(span) = train.span.filter(|_| job.serverless_member().is_none()) else { return Run::default() };
    let written: Vec<(&str, Span)> = [
        ("steps", !train.steps.is_absent(), train.steps.span()),
        ("tokens", !train.tokens.is_absent(), train.tokens.span()),
        ("epochs", !train.epochs.is_absent(), train.epochs.span()),
    ]
    .into_iter()
    .filter(|(_, there, _)| *there)
    .map(|(name, _, at)| (name, at.unwrap_or(span)))
    .collect();
    match written.as_slice() {
        [] => {
            problems.push(
                Diagnostic::new(
                    &T0313,
                    span,
                    "`train` has no run length: expected one of `steps`, `tokens`, `epochs`",
                )
                .removed_at(job.removed(&["train.steps", "train.tokens", "train.epochs"]))
                .help("add `steps 1000`, `tokens 20_000_000_000`, or `epochs 3` with `dataset sequences=…`"),
            );
            return Run::default();
        }
        [_] => {}
        [(first, at), rest @ ..] => {
            for (name, also) in rest {
                problems.push(
                    Diagnostic::new(
                        &T0313,
                        *also,
                        format!(
                            "`{name}` conflicts with `{first}`: expected exactly one of `steps`, \
                        `tokens`, `epochs`"
                        ),
                    )
                    .label(*at, format!("`{first}`"))
                    .help("keep one of them"),
                );
            }
            return Run::default();
        }
    }
    let steps = steps(job, span, batch, problems);
    let (Some(steps), Some(per_step)) = (&steps, batch.and_then(|batch| batch.global_tokens)) else {
        return Run { steps, tokens: None };
    };
    let Some(tokens) = steps.value.checked_mul(per_step) else {
        let at = written.first().map_or(span, |(_, at)| *at);
        report_overflow(TOKENS, at, problems);
        return Run::default();
    };
    let derivation =
        format!("{} × {} tokens", text::count(steps.value, "step"), text::group_digits(per_step));
    Run { steps: Some(steps.clone()), tokens: Some(Val::derived(tokens, derivation)) }
}

fn steps(job: &Job, span: Span, batch: Option<&Batch>, problems: &mut Problems) -> Option<Val<u64>> {
    let train = &job.train;
    if let Some(steps) = train.steps.val() {
        return Some(steps.clone());
    }
    if let Some(tokens) = train.tokens.get() {
        let per_step = batch?.global_tokens?;
        return Some(Val::derived(
            tokens.div_ceil(per_step.max(1)),
            format!(
                "ceil({} tokens / {} per step)",
                text::group_digits(tokens),
                text::group_digits(per_step)
            ),
        ));
    }
    let epochs = train.epochs.val()?;
    let Some(dataset) = &train.dataset else {
        problems.push(
            Diagnostic::new(&T0314, epochs.span_or(span), "`epochs` requires the size of the dataset")
                .help("add `dataset sequences=…` or `dataset tokens=…`"),
        );
        return None;
    };
    let sequences = match (dataset.sequences.get(), dataset.tokens.get(), train.sequence_length.get()) {
        (Some(sequences), _, _) => sequences,
        (None, Some(tokens), Some(length)) => tokens.div_ceil(length.max(1)),
        _ if dataset.sequences.is_bad() || dataset.tokens.is_bad() || train.sequence_length.is_bad() => {
            return None;
        }
        _ => {
            problems.push(
                Diagnostic::new(&T0314, dataset.span, "the number of sequences in the dataset is unknown")
                    .help("write `dataset sequences=…`, or `dataset tokens=…` and a `sequence-length`"),
            );
            return None;
        }
    };
    let global = batch?.global_sequences.value.max(1);
    let per_epoch = sequences.div_ceil(global);
    let total = (epochs.value * per_epoch as f64).ceil();
    if !(1.0..1e18).contains(&total) {
        report_overflow(STEPS, epochs.span_or(span), problems);
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded and in range")]
    let total = total as u64;
    Some(Val::derived(
        total,
        format!(
            "{} {} × ceil({} / {})",
            trainc_diag::text::short_number(epochs.value),
            if epochs.value == 1.0 { "epoch" } else { "epochs" },
            text::count(sequences, "sequence"),
            text::group_digits(global)
        ),
    ))
}
