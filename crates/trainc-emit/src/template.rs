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
pub(super) fn secrets_script(secrets: &[(String, String)], entry: &str) -> Option<String> {
    let secrets: Vec<(String, String)> =
        secrets.iter().map(|(name, arn)| (python::text_literal(name), python::text_literal(arn))).collect();
    render(
        include_str!("../templates/source/trainc_start.py.j2"),
        context! { entry, entry_literal => python::text_literal(entry), secrets => Value::from(Serde(&secrets)) },
    )
}

/// Values of the launch script.
pub(super) struct LaunchScript<'a> {
    /// The file that each rank runs.
    pub(super) entry: &'a str,
    /// The file of `accelerate launch`, which starts the ranks in place of torchrun.
    pub(super) config: Option<&'a str>,
    /// Ranks of a host.
    pub(super) ranks: u64,
    /// The instance group that runs the ranks.
    pub(super) group: Option<&'a str>,
    /// Environment variables by name.
    pub(super) environment: &'a [(String, String)],
    /// The channel with the source archive.
    pub(super) channel: &'a str,
}

/// Renders the script that starts the ranks.
pub(super) fn launch_script(script: &LaunchScript) -> Option<String> {
    let environment: Vec<(String, String)> = script
        .environment
        .iter()
        .map(|(name, value)| (python::text_literal(name), python::text_literal(value)))
        .collect();
    render(
        include_str!("../templates/source/trainc_launch.py.j2"),
        context! {
            entry => script.entry,
            entry_literal => python::text_literal(script.entry),
            config => script.config.map(python::text_literal),
            ranks => script.ranks,
            group => script.group.map_or_else(|| "None".to_owned(), python::text_literal),
            environment => Value::from(Serde(&environment)),
            channel => python::text_literal(script.channel),
        },
    )
}
