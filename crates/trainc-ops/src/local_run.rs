//! Runs on this machine.

use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic};
use trainc_project::manifests::Manifest;

declare_code!(T0544, "run-needs-worker", Error, "`run` on a job with another engine", found_in: Command);

/// The codes of this file.
pub(crate) static CODES: &[&Code] = &[&T0544];

/// Adds an error to a manifest whose engine does not run on this machine.
pub fn refuse_engine(manifest: &mut Manifest) {
    let Some(plan) = &manifest.compiled.plan else { return };
    let Some(parallel) = &plan.job.parallel else { return };
    let Some(engine) = plan.engine.filter(|_| !plan.is_worker()) else { return };
    manifest.compiled.problems.push(
        Diagnostic::new(
            &T0544,
            parallel.engine.span().unwrap_or(parallel.span),
            format!("`trainc run` starts engine `worker`, and this job runs on engine `{}`", engine.name()),
        )
        .help("write `engine=\"worker\"`, or start the job in the account with `trainc apply`"),
    );
    manifest.compiled.problems.sort();
}
