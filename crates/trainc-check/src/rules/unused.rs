//! Values that nothing uses, values that exclude each other, and nodes that lack the value that makes them one.

mod checkpoint;
mod cluster;
mod experiment;

use crate::Context;
use crate::shared_codes::T0251;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Dataset, Engine, Field, Program};
use trainc_predict::input;

declare_code!(T0250, "unused-value", Warning, "a value that nothing uses");
declare_code!(T0253, "incomplete-node", Error, "a node is missing its defining value");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0250, &T0251, &T0253];

/// Node by node.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    // What uses a value, or excludes it, may stand where nothing could be read.
    if !context.plan.job.is_whole {
        return;
    }
    let mut judge = Judge { context, problems };
    judge.program();
    judge.image();
    judge.checkpoint();
    judge.channels();
    judge.role();
    judge.cluster();
    judge.experiment();
    judge.rest();
}

struct Judge<'a, 'b> {
    context: &'a Context<'b>,
    problems: &'a mut Problems,
}

impl Judge<'_, '_> {
    /// Reports the field if it was written.
    fn unused<T>(&mut self, field: &Field<T>, name: &str, why: &str, help: &str) {
        if let Some(span) = field.span() {
            self.unused_at(span, name, why, help);
        }
    }

    fn unused_at(&mut self, span: Span, name: &str, why: &str, help: &str) {
        self.problems.push(
            Diagnostic::new(&T0250, span, format!("nothing uses `{name}`: {why}")).help(help.to_owned()),
        );
    }

    /// Reports all written values but the first.
    fn one_of(&mut self, node: &str, fields: &[(&str, &Field<String>)]) {
        let written: Vec<(&str, Span)> =
            fields.iter().filter_map(|(name, field)| Some((*name, field.span()?))).collect();
        let [(first, first_span), others @ ..] = written.as_slice() else { return };
        for (name, span) in others {
            self.problems.push(
                Diagnostic::new(
                    &T0251,
                    *span,
                    format!("`{node}` has `{first}` and `{name}`, which exclude each other"),
                )
                .label(*first_span, format!("`{first}`"))
                .help(format!(
                    "keep one of {}",
                    text::ticked(&fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "and")
                )),
            );
        }
    }

    fn incomplete(&mut self, span: Span, message: &str, help: &str) {
        self.problems.push(Diagnostic::new(&T0253, span, message.to_owned()).help(help.to_owned()));
    }

    fn program(&mut self) {
        let Some(program) = &self.context.plan.job.program else { return };
        // A serverless job has no use for a program at all, and that is said.
        if self.context.plan.job.serverless().is_some() {
            return;
        }
        let engine = self.context.plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
        self.one_of("program", &[("source", &program.source), ("git", &program.git), ("s3", &program.s3)]);
        if program.git.is_absent() {
            for (name, field) in
                [("branch", &program.branch), ("commit", &program.commit), ("dir", &program.dir)]
            {
                self.unused(
                    field,
                    name,
                    "it is a part of a git repository, and `program` has no `git`",
                    "add `git=\"https://…\"`, or remove it",
                );
            }
        }
        if !program.s3.is_absent() {
            self.unused(&program.upload, "upload", "the archive in `s3` is used where it lies", "remove it");
        }
        if engine == Some(Engine::Worker) {
            self.program_of_worker(program);
            return;
        }
        if !program.entrypoint.is_empty() {
            self.unused(
                &program.entry,
                "program",
                "the container starts `entrypoint`",
                "remove one of the two",
            );
            if let Some(secret) = program.secrets.first() {
                self.unused_at(
                    secret.name_span,
                    "secret",
                    "trainc's start script fetches it, and the container starts `entrypoint`",
                    "fetch it in the container's own entry point",
                );
            }
            return;
        }
        if self.context.plan.image.is_none() && self.context.plan.job.names_algorithm() {
            for (name, field) in [
                ("program", &program.entry),
                ("source", &program.source),
                ("git", &program.git),
                ("s3", &program.s3),
            ] {
                self.unused(
                    field,
                    name,
                    "the algorithm that `request` names brings its own program",
                    "remove it",
                );
            }
            return;
        }
        // An image of one's own may start by itself: the container then gets the hyperparameters as they are.
        let own = self.context.plan.image.as_ref().is_some_and(|image| image.family == "own");
        let files = !(program.source.is_absent() && program.git.is_absent() && program.s3.is_absent());
        if own && program.entry.is_absent() && !files && program.secrets.is_empty() {
            return;
        }
        if let Some(word) = program.arguments.first() {
            self.unused_at(
                word.span_or(program.span),
                "arguments",
                "they belong to `entrypoint`; the toolkit passes hyperparameters",
                "write `hyperparameter \"name\" value`, or add `entrypoint`",
            );
        }
        if program.entry.is_absent() {
            self.incomplete(
                program.span,
                "`program` names no entry point",
                "write `program \"train.py\" source=\"./scripts\"`, or add `entrypoint`",
            );
        } else if program.source.is_absent()
            && program.git.is_absent()
            && program.s3.is_absent()
            && self.context.plan.deployable
        {
            self.incomplete(
                program.span,
                "`program` does not say where its files are",
                "add `source=\"./scripts\"`",
            );
        }
    }

    fn program_of_worker(&mut self, program: &Program) {
        for (name, field) in [("source", &program.source), ("git", &program.git), ("s3", &program.s3)] {
            self.unused(
                field,
                name,
                "engine `worker` runs its own binary",
                "remove it, or choose another engine",
            );
        }
        for (span, name) in program.hyperparameters.iter().map(|h| (h.name_span, &h.name)) {
            self.unused_at(
                span,
                name,
                "engine `worker` reads its settings from `train` and `parallel`",
                "remove it",
            );
        }
    }

    fn image(&mut self) {
        let Some(image) = &self.context.plan.job.image else { return };
        self.one_of("image", &[("family", &image.family), ("uri", &image.uri)]);
        if image.uri.is_absent() {
            return;
        }
        // Beside a family it is a part of what `uri` excludes, and said with it.
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
        let (them, shown) = (if names.len() > 1 { "them" } else { "it" }, text::ticked(&names, "and"));
        let mut diagnostic =
            Diagnostic::new(&T0250, *first, format!("nothing uses {shown}: `uri` is used as it stands"))
                .help(format!("remove {them}, or `uri`"));
        if let Some(span) = image.uri.span() {
            diagnostic = diagnostic.label(span, "the container");
        }
        self.problems.push(diagnostic);
    }

    /// Whether the job runs on this machine, where a channel is a directory.
    fn is_local(&self) -> bool {
        let cluster = self.context.plan.job.cluster.as_ref();
        cluster.and_then(|cluster| cluster.instance.value()).map(String::as_str) == Some("local")
    }

    fn channels(&mut self) {
        let job = &self.context.plan.job;
        for channel in &job.channels {
            self.one_of(
                "channel",
                &[
                    ("s3", &channel.s3),
                    ("from", &channel.from),
                    ("manifest", &channel.manifest),
                    ("augmented-manifest", &channel.augmented_manifest),
                    ("converse", &channel.converse),
                    ("dataset", &channel.dataset),
                ],
            );
            let data = [
                &channel.s3,
                &channel.from,
                &channel.manifest,
                &channel.augmented_manifest,
                &channel.converse,
                &channel.dataset,
            ];
            let is_here = self.is_local() && !channel.path.is_absent();
            if data.iter().all(|field| field.is_absent()) && !is_here {
                self.incomplete(
                    channel.span,
                    "`channel` names no data",
                    if self.is_local() {
                        "add `path=` with a directory of this machine"
                    } else {
                        "add `s3=\"s3://…/\"`, or `from=` with the name of a `storage`"
                    },
                );
            }
            if channel.from.is_absent() {
                let help = "remove it, or add `from=`";
                self.unused(
                    &channel.mode,
                    "mode",
                    "it is the access to a file system, and `channel` has no `from`",
                    help,
                );
                if !self.is_local() {
                    self.unused(
                        &channel.path,
                        "path",
                        "it is a path of a file system, and `channel` has no `from`",
                        help,
                    );
                }
            }
            let elsewhere = if !channel.from.is_absent() {
                Some("it is for data in S3, and the channel is a file system")
            } else if !channel.dataset.is_absent() {
                Some("it is for data in S3, and the channel is a data set of a hub")
            } else {
                None
            };
            if let Some(why) = elsewhere {
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
                        self.unused_at(span, name, why, "remove it");
                    }
                }
            }
            if channel.augmented_manifest.is_absent() {
                self.unused(
                    &channel.attributes,
                    "attributes",
                    "they are of an augmented manifest",
                    "remove it, or add `augmented-manifest=`",
                );
            }
        }
    }

    fn role(&mut self) {
        let Some(role) = &self.context.plan.job.role else { return };
        let create = role.create.get() == Some(true);
        if let (true, Some(arn)) = (create, role.arn.span()) {
            self.problems.push(
                Diagnostic::new(&T0251, arn, "`role` is to be made and exists already")
                    .label(role.create.span().unwrap_or(role.span), "to be made")
                    .help("keep `create=#true` or `arn=`"),
            );
        }
        if role.arn.is_absent() && !create && !role.create.is_bad() {
            self.incomplete(
                role.span,
                "`role` neither is made nor names one",
                "write `role create=#true`, or `role arn=\"arn:aws:iam::ACCOUNT:role/NAME\"`",
            );
        }
        if !create && !role.arn.is_absent() {
            let why = "it is for a role that trainc makes";
            self.unused(&role.boundary, "boundary", why, "remove it");
            self.unused(&role.path, "path", why, "remove it; the path is a part of the ARN");
            for read in &role.reads {
                self.unused(&read.s3, "read", why, "remove it, and let the role that exists read the prefix");
            }
            let job = &self.context.plan.job;
            let help = "remove it, and grant the key to the role that exists";
            for channel in job.channels.iter().filter(|channel| channel.from.is_absent()) {
                self.unused(&channel.kms, "kms", why, help);
            }
            if let Some(checkpoint) = &job.checkpoint {
                self.unused(&checkpoint.kms, "kms", why, help);
            }
        }
    }

    fn rest(&mut self) {
        let job = &self.context.plan.job;
        if let Some(dataset) = &job.train.dataset {
            self.dataset(dataset);
        }
    }

    fn dataset(&mut self, dataset: &Dataset) {
        let job = &self.context.plan.job;
        let is_read = input::file_system(self.context.plan).is_some();
        if job.train.epochs.is_absent() && (dataset.size_bytes.is_absent() || !is_read) {
            self.unused_at(
                dataset.span,
                "dataset",
                "only `epochs` asks for the size of the data",
                "remove it, or write `epochs`",
            );
        } else if dataset.sequences.is_absent() && dataset.tokens.is_absent() {
            self.unused(
                &dataset.size_bytes,
                "size",
                "without `sequences` or `tokens` it says nothing of a sequence",
                "add `sequences=`, or `tokens=` with a `sequence-length`",
            );
        } else if !is_read {
            self.unused(
                &dataset.size_bytes,
                "size",
                "it is held against a Lustre file system that trainc makes, and from which all data come",
                "remove it",
            );
        }
    }
}
