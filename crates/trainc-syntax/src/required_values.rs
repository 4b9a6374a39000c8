//! What a node must have and lacks, once all layers are merged.

use super::ast::{self, Value};
use super::codes::T0129;
use super::nodes::{ALLOW, SWEEP};
use super::schema::property_type;
use super::spec::{Arg, Ty};
use trainc_diag::{Diagnostic, Problems};

/// What may be typed for a value of a type.
pub(super) fn example(ty: Ty) -> String {
    match ty {
        Ty::Word(words) => words.first().map_or_else(|| "\"…\"".to_owned(), |word| format!("\"{word}\"")),
        Ty::Int(low, _) => low.max(1).to_string(),
        Ty::Count => "1".to_owned(),
        Ty::Bool | Ty::BoolOr(_) => "#true".to_owned(),
        Ty::Bytes => "\"500GiB\"".to_owned(),
        Ty::Duration => "\"2d\"".to_owned(),
        Ty::Rate => "\"50GB/s\"".to_owned(),
        Ty::Every | Ty::Warmup => "\"200 steps\"".to_owned(),
        Ty::Text | Ty::Plain => "\"…\"".to_owned(),
        Ty::Number(..) | Ty::Scalar => "…".to_owned(),
    }
}

/// A node with the arguments that it has and one that it lacks.
fn with_example(node: &ast::Node, lacks: &Arg) -> String {
    let mut words = vec![node.name.value.clone()];
    words.extend(node.args.iter().filter_map(|arg| match &arg.value {
        Value::Text(text) => Some(format!("{text:?}")),
        _ => None,
    }));
    words.push(example(lacks.ty));
    // Of one value alone nothing varies.
    words.extend((lacks.many && lacks.ty == Ty::Scalar).then(|| example(lacks.ty)));
    words.join(" ")
}

/// Reports arguments and properties that a node must have and lacks, once all layers are merged.
pub fn check_required(node: &ast::Node, problems: &mut Problems) {
    let Some(spec) = node.spec else { return };
    for (at, arg) in spec.args.iter().enumerate() {
        if arg.required && node.args.len() <= at {
            problems.push(
                Diagnostic::new(&T0129, node.name.span, format!("`{}` lacks its {}", spec.name, arg.name))
                    .help(format!("write `{}`", with_example(node, arg)))
                    .note(format!("expected: {}", arg.ty.expected())),
            );
            break;
        }
    }
    for prop in spec.props {
        if prop.required && node.prop(prop.name).is_none() {
            let ty = property_type(spec, prop.name, prop.ty);
            problems.push(
                Diagnostic::new(&T0129, node.name.span, format!("`{}` lacks `{}=`", spec.name, prop.name))
                    .help(format!("add `{}={}`", prop.name, example(ty)))
                    .note(format!("{}: {}", prop.name, prop.doc))
                    .note(format!("expected: {}", ty.expected())),
            );
        }
    }
    // A reason is for those who read it later.
    if spec.name == ALLOW.name
        && let Some(reason) = node.prop("reason")
        && matches!(&reason.value, Value::Text(text) if text.trim().is_empty())
    {
        problems.push(
            Diagnostic::new(&T0129, reason.span, "`allow` has an empty reason")
                .help("write why the problem may stay, as `reason=\"the data are tiny\"`"),
        );
    }
    if spec.name == SWEEP.name && node.children_named("vary").next().is_none() {
        problems.push(
            Diagnostic::new(&T0129, node.name.span, "`sweep` varies nothing")
                .help("write `sweep { vary \"train.seed\" 1 2 3; }`, or remove it"),
        );
    }
    for child in &node.children {
        check_required(child, problems);
    }
}
