//! Text from templates. An undefined variable is an error.

use super::python;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};

/// Renders one embedded template.
pub(super) fn render(text: &str, context: Value) -> Option<String> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut out = env.render_str(text, context).ok()?;
    if !out.ends_with('\n') {
        out.push('\n');
    }
    Some(out)
}

/// Renders the script that fetches secrets before the entry point.
pub(super) fn secrets_shim(secrets: &[(String, String)], entry: &str) -> Option<String> {
    let secrets: Vec<(String, String)> =
        secrets.iter().map(|(name, arn)| (python::text_literal(name), python::text_literal(arn))).collect();
    render(
        include_str!("../templates/source/trainc_start.py.j2"),
        context! { entry, entry_literal => python::text_literal(entry), secrets => Value::from(Serde(&secrets)) },
    )
}
