//! Network isolation: the container may not call out, not even to S3.

use super::program_source::is_python;
use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Engine;

declare_code!(
    T0433,
    "blocked-by-isolation",
    Error,
    "a setting that needs the network in an isolated container"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0433];

/// CTJ-53. The program itself travels as channel `code`, so it is no problem.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(network) = plan.job.network.as_ref().filter(|network| network.isolation.get() == Some(true))
    else {
        return;
    };
    let Some(program) = &plan.job.program else { return };
    let isolation = network.isolation.span().unwrap_or(network.span);
    let mut blocked = |span, message: String, help: &str| {
        problems.push(
            Diagnostic::new(&T0433, span, message)
                .label(isolation, "no outbound calls")
                .help(help.to_owned())
                .note("developer guide, \"Run training and inference containers in internet-free mode\""),
        );
    };
    let toolkit = program.entrypoint.is_empty();
    let python = program.entry.value().is_some_and(|entry| is_python(entry));
    if toolkit
        && python
        && let Some(tree) = plan.source.as_ref().filter(|tree| tree.get("requirements.txt").is_some())
    {
        let span = program.source.span().unwrap_or(program.span);
        blocked(
            span,
            format!(
                "`{}/requirements.txt` cannot be installed: the container may not call out",
                tree.dir.trim_end_matches('/')
            ),
            "put the packages into the image, or add their wheels with `dependency`",
        );
    }
    for secret in &program.secrets {
        blocked(
            secret.name_span,
            format!("secret `{}` cannot be fetched: the container may not call out", secret.name),
            "remove `isolation`, or give the value to the program through a channel",
        );
    }
    let engine = plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
    let archive = program.s3.val().filter(|_| toolkit && engine != Some(Engine::Worker));
    // The archive comes as channel `code`, under its own name, and the toolkit looks for one name only.
    if let Some(s3) = archive.filter(|s3| !s3.value.ends_with("/sourcedir.tar.gz")) {
        let name = s3.value.rsplit('/').next().unwrap_or("");
        blocked(
            s3.span_or(program.span),
            format!(
                "channel `code` brings the archive as `{name}`, and the container looks for `sourcedir.tar.gz`"
            ),
            "name the archive `sourcedir.tar.gz`, or use `source=`",
        );
    }
}
