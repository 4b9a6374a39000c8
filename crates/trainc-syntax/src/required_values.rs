//! Checks that a node has its required arguments and properties, once all layers are merged.

use super::ast::{self, Value};
use super::codes::T0129;
use super::nodes::{ALLOW, SWEEP};
use super::schema::property_type;
use super::spec::{Arg, Ty};
use trainc_diag::source::{SourceId, Spanned};
use trainc_diag::{Diagnostic, Problems};

/// Returns an example of a value of a type.
pub(super) fn example(ty: Ty) -> String {
    match ty {
        Ty::Word(words) => words.first().map_or_else(|| "\"…\"".to_owned(), |word| format!("\"{word}\"")),
        Ty::Int(low, _) => low.max(1).to_string(),
        Ty::Count => "1".to_owned(),
        Ty::Bool | Ty::BoolOr(_) => "#true".to_owned(),
        Ty::Bytes => "\"500GiB\"".to_owned(),
        Ty::Duration => "\"2d\"".to_owned(),
        Ty::Rate => "\"50GB/s\"".to_owned(),
        Ty::Every | Ty::Warmup | Ty::StepsOrEpoch => "\"200 steps\"".to_owned(),
        Ty::Text | Ty::Plain => "\"…\"".to_owned(),
        Ty::Number(..) | Ty::Scalar => "…".to_owned(),
    }
}

/// Returns a node with its arguments and an example of the missing one.
fn with_example(node: &ast::Node, missing: &Arg) -> String {
    // `hyperparameter "lr=2e-5"` has both in one text.
    if let [Spanned { value: Value::Text(text), .. }] = node.args.as_slice()
        && let Some((name, value)) = text.split_once('=').filter(|(_, value)| !value.is_empty())
    {
        let value = if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("{value:?}") };
        return format!("{} {name:?} {value}", node.name.value);
    }
    let mut words = vec![node.name.value.clone()];
    words.extend(node.args.iter().filter_map(|arg| match &arg.value {
        Value::Text(text) => Some(format!("{text:?}")),
        _ => None,
    }));
    words.push(example(missing.ty));
    // A `vary` needs two values to vary.
    words.extend((missing.many && missing.ty == Ty::Scalar).then(|| example(missing.ty)));
    words.join(" ")
}

/// Returns the problem of a value that a node is missing, at the `#null` that took it away if one did.
fn missing(node: &ast::Node, name: &str, message: String) -> Diagnostic {
    Diagnostic::new(&T0129, node.name.span, message).removed_at(node.removed(name))
}

/// Reports the required arguments and properties that a node and its children are missing. A node that only a
/// source of `partial` writes, a file of another program, may lack them.
pub fn check_required(node: &ast::Node, partial: &[SourceId], problems: &mut Problems) {
    let Some(spec) = node.spec else { return };
    let is_partial = partial.contains(&node.name.span.source);
    for (at, arg) in spec.args.iter().enumerate() {
        if arg.required && node.args.len() <= at && !is_partial {
            problems.push(
                missing(node, arg.name, format!("`{}` is missing its {}", spec.name, arg.name))
                    .write(with_example(node, arg))
                    .note(format!("expected: {}", arg.ty.describe_expected())),
            );
            break;
        }
    }
    for prop in spec.props {
        if prop.required && node.prop(prop.name).is_none() && !is_partial {
            let ty = property_type(spec, prop.name, prop.ty);
            problems.push(
                missing(node, prop.name, format!("`{}` is missing `{}=`", spec.name, prop.name))
                    .add(format!("{}={}", prop.name, example(ty)))
                    .note(format!("{}: {}", prop.name, prop.doc))
                    .note(format!("expected: {}", ty.describe_expected())),
            );
        }
    }
    if spec.name == ALLOW.name
        && let Some(reason) = node.prop("reason")
        && matches!(&reason.value, Value::Text(text) if text.trim().is_empty())
    {
        problems.push(
            Diagnostic::new(&T0129, reason.span, "`allow` has an empty reason")
                .help("state why the problem is acceptable, such as `reason=\"the dataset is tiny\"`"),
        );
    }
    if spec.name == SWEEP.name && node.children_named("vary").next().is_none() {
        problems.push(
            Diagnostic::new(&T0129, node.name.span, "`sweep` varies nothing")
                .write("sweep { vary \"train.seed\" 1 2 3; }")
                .or_remove_it(),
        );
    }
    for child in &node.children {
        check_required(child, partial, problems);
    }
}
