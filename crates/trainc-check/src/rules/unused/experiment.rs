//! Whether `experiment` names one.

use super::Judge;

impl Judge<'_, '_> {
    /// All members of ExperimentConfig are optional for the service; without an experiment or a trial the job is put
    /// into none (PyPI sagemaker 2.257.7, `EstimatorBase.fit`: "the trial component will be unassociated").
    pub(super) fn experiment(&mut self) {
        let Some(experiment) = &self.context.plan.job.experiment else { return };
        if !(experiment.name.is_absent() && experiment.trial.is_absent()) {
            return;
        }
        if experiment.component.is_absent() && experiment.run.is_absent() {
            self.incomplete(experiment.span, "`experiment` names none", "write `experiment name=\"…\"`");
        }
        self.unused(
            &experiment.run,
            "run",
            "without `name` or `trial` the job is in no experiment",
            "add `name=\"…\"`",
        );
    }
}
