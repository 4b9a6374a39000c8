//! S3 addresses given to options that the program uses as local paths.

use crate::Context;
use trainc_catalog::path_uses::{self, PathRole, PathUse, Uses};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::checkpoint_parts::DEFAULT_CHECKPOINT_PATH;
use trainc_ir::{Plan, Scalar, Script};
use trainc_python::Expr;

declare_code!(
    T0825,
    "s3-address-for-a-directory",
    Warning,
    "an S3 address that the program uses as a local path"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0825];

/// Packages with which a program reads and writes S3 itself.
const S3_PACKAGES: [&str; 15] = [
    "boto3",
    "composer",
    "lightning",
    "obstore",
    "pyarrow",
    "pytorch_lightning",
    "sagemaker",
    "streaming",
    "s3fs",
    "fsspec",
    "s3torchconnector",
    "smart_open",
    "cloudpathlib",
    "awswrangler",
    "tensorflow",
];

/// Calls that make another path of one.
const CONVERSIONS: [&str; 5] = ["join", "str", "Path", "abspath", "expanduser"];

/// Checks each hyperparameter with an S3 address.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    if plan.is_worker() || plan.job.has_algorithm_name() {
        return;
    }
    for h in &program.hyperparameters {
        let Some(val) = h.value.val() else { continue };
        let Scalar::Text(text) = &val.value else { continue };
        if !text.starts_with("s3://") {
            continue;
        }
        let Some((how, place)) = use_of(plan, &h.name) else { continue };
        if how.uses == Uses::Any {
            continue;
        }
        let mut diagnostic = Diagnostic::new(
            &T0825,
            val.span_or(h.name_span),
            match place {
                Some(_) => format!("`--{}` is a local path in the program: it does not read or write S3", h.name),
                None => format!("`--{}` is usually a local path, and not an address in S3", h.name),
            },
        );
        if place.is_none() {
            diagnostic = diagnostic.severity(Severity::Note);
        }
        diagnostic = match how.role {
            Some(PathRole::Model) => diagnostic
                .help("write a channel with this prefix, and pass its directory: `/opt/ml/input/data/model`")
                .note("`from_pretrained` looks for a directory of this name, then for a model on the hub"),
            Some(PathRole::Checkpoints) => diagnostic
                .help(format!(
                    "pass `{}`, which SageMaker synchronizes with `checkpoint s3=`",
                    checkpoints(plan)
                ))
                .note("a directory named `s3:` is made in the container and lost with it; nothing is resumed"),
            Some(PathRole::Output | PathRole::Logs | PathRole::Cache) | None => diagnostic
                .help(format!(
                    "pass `/opt/ml/model` for the final model, or `{}` for checkpoints",
                    checkpoints(plan)
                ))
                .note("a directory named `s3:` is made in the container, and lost with the host"),
        };
        diagnostic = diagnostic.note(format!("source: {}", how.provenance.source));
        problems.push(match place {
            Some(place) => diagnostic.label(place, "used as a path here"),
            None => diagnostic,
        });
    }
}

/// Returns the directory of the checkpoints in the container.
fn checkpoints(plan: &Plan) -> &str {
    let local = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.local.value());
    local.map_or(DEFAULT_CHECKPOINT_PATH, String::as_str)
}

/// Returns what the program does with the path in an option, and where; `None` if nothing is known of it.
fn use_of(plan: &Plan, name: &str) -> Option<(PathUse, Option<Span>)> {
    let by_name = path_uses::of_option(name);
    // Without the program, or with others that it starts, the use is not known.
    let script = plan.script.as_deref().filter(|script| script.is_whole && !script.starts_programs())?;
    let option = script.command_line.as_ref().and_then(|line| line.option(name));
    let attribute = option.map(|option| option.attribute.as_str());
    let attribute = attribute.map_or_else(|| name.replace('-', "_"), str::to_owned);
    let role = by_name.as_ref().and_then(|use_of| use_of.role);
    let mut local = None;
    for (span, found) in uses(script, &attribute) {
        match found.uses {
            Uses::Any => return Some((found, Some(span))),
            Uses::Local => local = local.or(Some((found, span))),
        }
    }
    if S3_PACKAGES.iter().any(|package| script.imports(package)) {
        return None;
    }
    match local {
        Some((found, span)) => Some((PathUse { role: role.or(found.role), ..found }, Some(span))),
        None => Some((by_name.filter(|_| option.is_some())?, None)),
    }
}

/// Returns the uses of an option's value in calls: directly, or by a name that it was assigned to.
fn uses(script: &Script, attribute: &str) -> Vec<(Span, PathUse)> {
    let mut out = Vec::new();
    for module in &script.modules {
        // `settings["corpus"]` of `settings = vars(args)` is shown as `settings.corpus`.
        let is_option = |name: &str| name.rsplit_once('.').is_some_and(|(_, last)| last == attribute);
        let assigned: Vec<&str> = module
            .module
            .assignments
            .iter()
            .filter(|one| mentions(&one.value, &is_option, 0))
            .map(|one| one.name.as_str())
            .collect();
        let is_it = |name: &str| is_option(name) || assigned.contains(&name);
        for call in &module.module.calls {
            // `args.path.startswith("s3://")`, `Path(…).mkdir()`
            let receiver = call.name.rsplit_once('.').map(|(of, _)| of).filter(|of| is_it(of));
            if let Some(found) = receiver.and_then(|_| path_uses::of_call(call.function(), None)) {
                out.push((module.span(&call.at), found));
            }
            for argument in &call.arguments {
                if mentions(&argument.value, &is_it, 0)
                    && let Some(found) = path_uses::of_call(call.function(), argument.keyword.as_deref())
                {
                    out.push((module.span(&argument.at), found));
                }
            }
        }
    }
    out
}

/// Returns whether an expression is a name, or a conversion or a part of a path made of it.
fn mentions(expression: &Expr, is_it: &dyn Fn(&str) -> bool, depth: usize) -> bool {
    match expression {
        Expr::Name(name) => is_it(name),
        Expr::Subscript(of, keys) => match (of.as_ref(), keys.first()) {
            (Expr::Name(of), Some(Expr::Text(key))) => is_it(&format!("{of}.{key}")),
            _ => false,
        },
        Expr::Call(call) if depth < 4 && CONVERSIONS.contains(&call.function()) => {
            call.arguments.iter().any(|one| mentions(&one.value, is_it, depth + 1))
        }
        _ => false,
    }
}
