//! Network isolation: the container has no outbound network access, not even to S3.

use crate::Context;
use crate::queries::program::is_python;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0433,
    "blocked-by-isolation",
    Error,
    "a setting that needs the network in an isolated container"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0433];

/// CTJ-53. The program itself is provided through channel `code`.
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
                "`{}/requirements.txt` cannot be installed: the container has no network access",
                tree.dir.trim_end_matches('/')
            ),
            "install the packages in the image, or add their wheels with `dependency`",
        );
    }
    for secret in &program.secrets {
        blocked(
            secret.name_span,
            format!("secret `{}` cannot be fetched: the container has no network access", secret.name),
            "remove `isolation`, or pass the value to the program through a channel",
        );
    }
    let archive = program.s3.val().filter(|_| toolkit && !plan.is_worker());
    // Channel `code` provides the archive under its own name, but the toolkit expects a fixed name.
    if let Some(s3) = archive.filter(|s3| !s3.value.ends_with("/sourcedir.tar.gz")) {
        let name = s3.value.rsplit('/').next().unwrap_or("");
        blocked(
            s3.span_or(program.span),
            format!(
                "channel `code` provides the archive as `{name}`, but the container expects \
                    `sourcedir.tar.gz`"
            ),
            "rename the archive to `sourcedir.tar.gz`, or use `source=`",
        );
    }
}
