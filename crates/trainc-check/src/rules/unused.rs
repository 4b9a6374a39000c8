//! Values without effect, mutually exclusive values, and nodes without their defining value.

use crate::Context;
use crate::queries::disk;
use crate::queries::program::PROGRAM_VARIABLE;
use crate::shared_codes::T0251;
use trainc_catalog::images;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_ir::{Dataset, Field, Image, Program};
use trainc_predict::input;

declare_code!(T0250, "unused-value", Warning, "a value that nothing uses", tags: [Unused]);
declare_code!(T0253, "incomplete-node", Error, "a node is missing its defining value");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0250, &T0251, &T0253];

/// Checks node by node.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    // The unreadable part of a manifest may contain what uses or excludes a value.
    if !context.plan.job.is_whole {
        return;
    }
    let mut check = UnusedCheck { context, problems };
    check.program();
    check.image();
    check.checkpoint();
    check.channels();
    check.role();
    check.cluster();
    check.experiment();
    check.budget();
    if let Some(dataset) = &context.plan.job.train.dataset {
        check.dataset(dataset);
    }
}

/// Checks what only SageMaker does with a value.
pub(super) fn sagemaker_rule(context: &Context, problems: &mut Problems) {
    if context.plan.job.is_whole {
        let mut check = UnusedCheck { context, problems };
        check.copies_of_checkpoints();
        check.program_without_source();
    }
}

struct UnusedCheck<'a, 'b> {
    context: &'a Context<'b>,
    problems: &'a mut Problems,
}

impl UnusedCheck<'_, '_> {
    /// Reports the field if it is set.
    fn report_unused<T>(&mut self, field: &Field<T>, name: &str, why: &str, help: impl Into<Help>) {
        if let Some(span) = field.span() {
            self.report_unused_at(span, name, why, help);
        }
    }

    fn report_unused_at(&mut self, span: Span, name: &str, why: &str, help: impl Into<Help>) {
        self.problems.push(
            Diagnostic::new(&T0250, span, format!("`{name}` has no effect: {why}")).help(help),
        );
    }

    /// Reports all of the set fields except the first.
    fn check_at_most_one(&mut self, node: &str, fields: &[(&str, Option<Span>)]) {
        let written: Vec<(&str, Span)> =
            fields.iter().filter_map(|(name, span)| Some((*name, (*span)?))).collect();
        let [(first, first_span), others @ ..] = written.as_slice() else { return };
        for (name, span) in others {
            self.problems.push(
                Diagnostic::new(
                    &T0251,
                    *span,
                    format!("`{node}` has both `{first}` and `{name}`, which are mutually exclusive"),
                )
                .label(*first_span, format!("`{first}`"))
                .help(format!(
                    "keep one of {}",
                    text::backtick_list(&fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "and")
                )),
            );
        }
    }

    fn report_incomplete(&mut self, span: Span, message: &str, help: impl Into<Help>) {
        self.problems.push(Diagnostic::new(&T0253, span, message.to_owned()).help(help));
    }

    fn program(&mut self) {
        let Some(program) = &self.context.plan.job.program else { return };
        // For a serverless job the whole program is reported by another rule.
        if self.context.plan.job.serverless_member().is_some() {
            return;
        }
        self.check_at_most_one(
            "program",
            &[("source", program.source.span()), ("git", program.git.span()), ("s3", program.s3.span())],
        );
        if program.git.is_absent() {
            for (name, field) in
                [("branch", &program.branch), ("commit", &program.commit), ("dir", &program.dir)]
            {
                self.report_unused(
                    field,
                    name,
                    "it refers to a git repository, but `program` has no `git`",
                    "add `git=\"https://…\"`, or remove it",
                );
            }
        }
        if !program.s3.is_absent() {
            self.report_unused(&program.upload, "upload", "the archive in `s3` is used in place", Help::remove_it());
        }
        if self.context.plan.is_worker() {
            self.program_of_worker(program);
            return;
        }
        if !program.entrypoint.is_empty() {
            self.report_unused(&program.entry, "program", "the container starts `entrypoint`", "remove one of them");
            if let Some(secret) = program.secrets.first() {
                self.report_unused_at(
                    secret.name_span,
                    "secret",
                    "trainc's start script would fetch it, but the container starts `entrypoint`",
                    "fetch it in the container's own entry point",
                );
            }
            return;
        }
        if self.context.plan.image.is_none() && self.context.plan.job.has_algorithm_name() {
            for (name, span) in [
                ("program", program.entry.span()),
                ("source", program.source.span()),
                ("git", program.git.span()),
                ("s3", program.s3.span()),
            ] {
                if let Some(span) = span {
                    let why = "the algorithm in `request` has its own program";
                    self.report_unused_at(span, name, why, Help::remove_it());
                }
            }
            return;
        }
        // A custom image may have its own entry point, which receives the hyperparameters unchanged; a
        // variable may name the program. An algorithm of an unknown version still has its own program.
        let own = self.context.plan.image.as_ref().is_some_and(Image::is_own)
            || self.context.plan.job.image.as_ref().is_some_and(images::requests_algorithm);
        let files = !(program.source.is_absent() && program.git.is_absent() && program.s3.is_absent());
        let named = program.environment.iter().any(|pair| pair.key == PROGRAM_VARIABLE);
        if (own || named) && program.entry.is_absent() && !files && program.secrets.is_empty() {
            return;
        }
        if let Some(word) = program.arguments.first() {
            self.report_unused_at(
                word.span_or(program.span),
                "arguments",
                "arguments belong to `entrypoint`; the toolkit passes hyperparameters",
                Help::write("hyperparameter \"name\" value").or_else("add `entrypoint`"),
            );
        }
        if program.entry.is_absent() {
            self.report_incomplete(
                program.span,
                "`program` has no entry point",
                Help::write("program \"train.py\" source=\"./scripts\"").or_else("add `entrypoint`"),
            );
        }
    }

    fn program_of_worker(&mut self, program: &Program) {
        let spans = [program.source.span(), program.git.span(), program.s3.span()];
        for (name, span) in ["source", "git", "s3"].into_iter().zip(spans) {
            if let Some(span) = span {
                let help = Help::remove_it().or_else("choose another engine");
                self.report_unused_at(span, name, "engine `worker` runs its own binary", help);
            }
        }
        for (span, name) in program.hyperparameters.iter().map(|h| (h.name_span, &h.name)) {
            self.report_unused_at(
                span,
                name,
                "engine `worker` reads its settings from `train` and `parallel`",
                Help::remove_it(),
            );
        }
    }

    fn budget(&mut self) {
        let Some(budget) = &self.context.plan.job.budget else { return };
        if budget.enforce.get() != Some(true) && !budget.enforce.is_bad() {
            for (name, span) in [("slowest", budget.slowest.span()), ("steps", budget.steps.span())] {
                if let Some(span) = span {
                    let why = "only an enforced budget stops a job";
                    self.report_unused_at(span, name, why, Help::add("enforce=#true").or_remove_it());
                }
            }
        } else if budget.slowest.is_absent() {
            let why = "it is the length of the window of `slowest`";
            self.report_unused(&budget.steps, "steps", why, Help::add("slowest=0.7").or_remove_it());
        }
    }

    fn image(&mut self) {
        let Some(image) = &self.context.plan.job.image else { return };
        self.check_at_most_one("image", &[("family", image.family.span()), ("uri", image.uri.span())]);
        if image.uri.is_absent() {
            return;
        }
        // With a family these are part of the conflict reported above.
        if !image.family.is_absent() {
            return;
        }
        let written: Vec<(&str, Span)> = [
            ("version", &image.version),
            ("transformers", &image.transformers),
            ("pytorch", &image.pytorch),
            ("python", &image.python),
        ]
        .into_iter()
        .filter_map(|(name, field)| Some((name, field.span()?)))
        .collect();
        let Some((_, first)) = written.first() else { return };
        let names: Vec<&str> = written.iter().map(|(name, _)| *name).collect();
        let (them, have) = if names.len() > 1 { ("them", "have") } else { ("it", "has") };
        let shown = text::backtick_list(&names, "and");
        let mut diagnostic = Diagnostic::new(
            &T0250,
            *first,
            format!("{shown} {have} no effect: `uri` already selects the image"),
        )
        .help(format!("remove {them}, or `uri`"));
        if let Some(span) = image.uri.span() {
            diagnostic = diagnostic.label(span, "the container");
        }
        self.problems.push(diagnostic);
    }

    /// Returns whether the job runs on this machine, where a channel is a directory.
    fn is_local(&self) -> bool {
        let cluster = self.context.plan.job.cluster.as_ref();
        cluster.and_then(|cluster| cluster.instance.value()).map(String::as_str) == Some("local")
    }

    fn channels(&mut self) {
        let job = &self.context.plan.job;
        for channel in &job.channels {
            self.check_at_most_one(
                "channel",
                &[
                    ("s3", channel.s3.span()),
                    ("from", channel.from.span()),
                    ("manifest", channel.manifest.span()),
                    ("augmented-manifest", channel.augmented_manifest.span()),
                    ("converse", channel.converse.span()),
                    ("dataset", channel.dataset.span()),
                ],
            );
            let [s3, manifest, augmented] = [&channel.s3, &channel.manifest, &channel.augmented_manifest];
            let addresses = [s3, manifest, augmented, &channel.converse, &channel.dataset];
            let lacks_data = addresses.into_iter().all(Field::is_absent) && channel.from.is_absent();
            let is_here = self.is_local() && !channel.path.is_absent();
            if lacks_data && !is_here {
                self.report_incomplete(
                    channel.span,
                    "`channel` has no data source",
                    if self.is_local() {
                        "add `path=` with a directory on this machine"
                    } else {
                        "add `s3=\"s3://…/\"`, or `from=` with the name of a `storage`"
                    },
                );
            }
            if channel.from.is_absent() {
                let help = Help::remove_it().or_else("add `from=`");
                self.report_unused(
                    &channel.mode,
                    "mode",
                    "it is the access mode of a file system, but `channel` has no `from`",
                    help.clone(),
                );
                if !self.is_local() {
                    self.report_unused(
                        &channel.path,
                        "path",
                        "it is a path in a file system, but `channel` has no `from`",
                        help,
                    );
                }
            }
            let not_s3 = if !channel.from.is_absent() {
                Some("it is only valid for data in S3, but the channel is a file system")
            } else if !channel.dataset.is_absent() {
                Some("it is only valid for data in S3, but the channel is a hub dataset")
            } else {
                None
            };
            if let Some(why) = not_s3 {
                for (name, span) in [
                    ("shard", channel.shard.span()),
                    ("compression", channel.compression.span()),
                    ("record-wrapper", channel.record_wrapper.span()),
                    ("shuffle-seed", channel.shuffle_seed.span()),
                    ("groups", channel.groups.span()),
                    ("hub", channel.hub.span()),
                    ("accept-eula", channel.accept_eula.span()),
                    ("kms", channel.kms.span()),
                ] {
                    if let Some(span) = span {
                        self.report_unused_at(span, name, why, Help::remove_it());
                    }
                }
            }
            if channel.augmented_manifest.is_absent() {
                self.report_unused(
                    &channel.attributes,
                    "attributes",
                    "attributes are only valid for an augmented manifest",
                    Help::remove_it().or_else("add `augmented-manifest=`"),
                );
            }
        }
    }

    fn role(&mut self) {
        let Some(role) = &self.context.plan.job.role else { return };
        let create = role.create.get() == Some(true);
        if let (true, Some(arn)) = (create, role.arn.span()) {
            self.problems.push(
                Diagnostic::new(
                    &T0251,
                    arn,
                    "`role` has both `create=#true` and `arn`, which are mutually exclusive",
                )
                .label(role.create.span().unwrap_or(role.span), "creates a new role")
                .help("keep `create=#true` or `arn=`"),
            );
        }
        if role.arn.is_absent() && !create && !role.create.is_bad() {
            self.report_incomplete(
                role.span,
                "`role` neither creates a role nor refers to one",
                "write `role create=#true`, or `role arn=\"arn:aws:iam::ACCOUNT:role/NAME\"`",
            );
        }
        if !create && !role.arn.is_absent() {
            let why = "it is only valid for a role that trainc creates";
            self.report_unused(&role.boundary, "boundary", why, Help::remove_it());
            self.report_unused(&role.path, "path", why, Help::remove_it().and_text("; the path is a part of the ARN"));
            for read in &role.reads {
                self.report_unused(
                    &read.s3,
                    "read",
                    why,
                    Help::remove_it().and_text(", and grant the existing role read access to the prefix"),
                );
            }
            let job = &self.context.plan.job;
            let help = Help::remove_it().and_text(", and grant the existing role access to the key");
            for channel in job.channels.iter().filter(|channel| channel.from.is_absent()) {
                self.report_unused(&channel.kms, "kms", why, help.clone());
            }
            if let Some(checkpoint) = &job.checkpoint {
                self.report_unused(&checkpoint.kms, "kms", why, help);
            }
        }
    }

    fn dataset(&mut self, dataset: &Dataset) {
        let job = &self.context.plan.job;
        let is_read = input::created_data_file_system(self.context.plan).is_some();
        // Compared with the disk, whatever the size of a sequence.
        let is_copied = disk::may_copy_data(self.context.plan);
        if job.train.epochs.is_absent() && (dataset.size_bytes.is_absent() || !(is_read || is_copied)) {
            self.report_unused_at(
                dataset.span,
                "dataset",
                "only `epochs` uses the size of the data",
                Help::remove_it().or_write("epochs"),
            );
        } else if is_copied {
            // Used.
        } else if dataset.sequences.is_absent() && dataset.tokens.is_absent() {
            self.report_unused(
                &dataset.size_bytes,
                "size",
                "without `sequences` or `tokens` the size of a sequence is unknown",
                Help::add("sequences=").or_else("`tokens=` with a `sequence-length`"),
            );
        } else if !is_read {
            self.report_unused(
                &dataset.size_bytes,
                "size",
                "it is only used if all data come from a Lustre file system that trainc creates, or are \
                    copied in file mode",
                Help::remove_it(),
            );
        }
    }

    fn checkpoint(&mut self) {
        let job = &self.context.plan.job;
        let Some(checkpoint) = job.checkpoint.as_ref().filter(|checkpoint| checkpoint.s3.is_absent()) else {
            return;
        };
        // The worker has a default interval.
        let worker = self.context.plan.is_worker();
        let is_kept = worker && !checkpoint.keep.is_absent();
        if checkpoint.local.is_absent() && checkpoint.every.is_absent() && !is_kept {
            self.report_incomplete(
                checkpoint.span,
                "`checkpoint` has neither a location nor an interval",
                "add `s3=\"s3://…/{{ job.digest }}/\"`",
            );
        }
    }

    /// Reports a program whose file is in no directory; elsewhere than on SageMaker it is found by its path.
    fn program_without_source(&mut self) {
        let plan = self.context.plan;
        let Some(program) = &plan.job.program else { return };
        let has_own_program = plan.job.serverless_member().is_some()
            || plan.is_worker()
            || (plan.image.is_none() && plan.job.has_algorithm_name());
        let is_file = program.entrypoint.is_empty() && !program.entry.is_absent();
        let has_source =
            !(program.source.is_absent() && program.git.is_absent() && program.s3.is_absent());
        if is_file && !has_own_program && !has_source {
            self.report_incomplete(program.span, "`program` has no source", Help::add("source=\"./scripts\""));
        }
    }

    /// Reports a local directory of checkpoints that nothing copies.
    fn copies_of_checkpoints(&mut self) {
        let job = &self.context.plan.job;
        let Some(checkpoint) = job.checkpoint.as_ref().filter(|checkpoint| checkpoint.s3.is_absent()) else {
            return;
        };
        // A directory on a mounted file system does not need a copy in S3.
        let local = checkpoint.local.value().map_or("", String::as_str);
        let mounted = job.channels.iter().any(|channel| !channel.from.is_absent());
        let is_spot = job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some()); // T0426 requires the prefix.
        if !mounted && !is_spot && !local.is_empty() {
            self.report_unused(
                &checkpoint.local,
                "local",
                "SageMaker only copies checkpoints if `s3` sets a prefix",
                "add `s3=\"s3://BUCKET/PREFIX/{{ job.digest }}/\"`",
            );
        }
    }

    fn cluster(&mut self) {
        let job = &self.context.plan.job;
        let Some(cluster) = &job.cluster else { return };
        let named = cluster.instance.value().map(String::as_str);
        let custom = named == Some("custom");
        let worker = self.context.plan.is_worker();
        let cores = worker && self.context.plan.machine.as_ref().is_none_or(|machine| machine.gpu.is_none());
        if named != Some("local") && !cores && !cluster.instance.is_bad() {
            self.report_unused(
                &cluster.ranks,
                "ranks",
                "it is only valid for engine `worker` without GPUs, on a local cluster or an \
                    instance type without GPUs",
                Help::remove_it().or_write("cluster \"local\""),
            );
        }
        if !custom && !cluster.instance.is_bad() {
            if let Some(gpu) = cluster.gpu.as_ref().filter(|_| named != Some("local")) {
                self.report_unused_at(
                    gpu.span,
                    "gpu",
                    "the instance type determines the node",
                    Help::remove_it().or_write("cluster \"custom\""),
                );
            }
            let help = Help::remove_it().or_write("cluster \"custom\"");
            self.report_unused(
                &cluster.intra_bytes_per_second,
                "intra",
                "the instance type determines the node",
                help.clone(),
            );
            self.report_unused(
                &cluster.inter_bytes_per_second,
                "inter",
                "the instance type determines the node",
                help,
            );
        }
    }

    /// Reports an experiment without a name. All members of ExperimentConfig are optional for the service;
    /// without an experiment or a trial the job is unassociated (PyPI sagemaker 2.257.7, `EstimatorBase.fit`:
    /// "the trial component will be unassociated").
    fn experiment(&mut self) {
        let Some(experiment) = &self.context.plan.job.experiment else { return };
        if !(experiment.name.is_absent() && experiment.trial.is_absent()) {
            return;
        }
        if experiment.component.is_absent() && experiment.run.is_absent() {
            self.report_incomplete(experiment.span, "`experiment` has no name", "write `experiment name=\"…\"`");
        }
        self.report_unused(
            &experiment.run,
            "run",
            "without `name` or `trial` the job does not belong to an experiment",
            "add `name=\"…\"`",
        );
    }
}
