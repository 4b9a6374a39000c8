//! Credentials in the manifest, recognised by format, by name, or by randomness.

use crate::codes;
use crate::Context;
use crate::queries::s3;
use std::collections::BTreeSet;
use trainc_diag::credentials::{self, HEXADECIMAL, Place};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Pair, Plan, Raw, Scalar};

// A value that must leave the manifest need not be an option of the script.
declare_code!(
    T0252,
    "credential-in-manifest",
    Error,
    "a value that looks like a credential",
    supersedes: { Value: [codes::T0260] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0252];

/// Checks every value that reaches the container, the request or a code repository, then the text of the
/// manifests.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let mut check = CredentialCheck { context, problems };
    check.check_pairs(&job.tags);
    if let Some(parallel) = &job.parallel {
        check.check_variables(&parallel.mpi_env);
        check.check_field(&parallel.mpi_options, "mpi-options", parallel.span);
    }
    if let Some(program) = &job.program {
        check.check_variables(&program.environment);
        for h in &program.hyperparameters {
            if let Some(val) = h.value.val()
                && let Scalar::Text(text) = &val.value
            {
                check.check_variable(&h.name, text, val.span_or(h.name_span));
            }
        }
        for field in [&program.git, &program.branch, &program.dir] {
            check.check_field(field, "git", program.span);
        }
        for field in [&program.s3, &program.upload] {
            check.check_field(field, "git", program.span);
        }
        for word in program.entrypoint.iter().chain(&program.arguments) {
            check.check_value("arguments", &word.value, word.span_or(program.span));
        }
        for metric in &program.metrics {
            check.check_field(&metric.regex, "metric", metric.name_span);
        }
    }
    for member in &job.request {
        check.check_raw(&member.name, &member.value);
    }
    if let Some(debugger) = &job.debugger {
        check.check_pairs(&debugger.parameters);
    }
    check_text(context, problems);
}

/// Checks the whole text for known credential formats: comments, commented-out nodes, addresses.
fn check_text(context: &Context, problems: &mut Problems) {
    for source in manifest_sources(context.plan) {
        let Some(text) = context.sources.get(source).map(|source| &source.text) else { continue };
        if credentials::find(text).is_none() {
            continue;
        }
        for (start, end, what) in credentials::credential_ranges(text) {
            let span = Span::new(source, start, end);
            let is_reported = problems.iter().any(|problem| {
                problem.code == &T0252
                    && problem.span.source == source
                    && problem.span.start <= span.start
                    && span.end <= problem.span.end
            });
            if !is_reported {
                problems.push(
                    Diagnostic::new(
                        &T0252,
                        span,
                        format!("this text looks like a credential: {what}"),
                    )
                    .secret()
                    .help("remove it: comments and names can be read by everyone who can read the file")
                    .note("everyone who can read the file has the credential; treat it as leaked and \
                        rotate it"),
                );
            }
        }
    }
}

/// Returns the sources of the job's nodes: its manifest, and the layers that contribute a node.
fn manifest_sources(plan: &Plan) -> BTreeSet<SourceId> {
    let job = &plan.job;
    let mut spans: Vec<Span> = vec![job.span];
    spans.extend(job.region.span());
    spans.extend(job.model.as_ref().map(|node| node.span));
    spans.extend(job.cluster.as_ref().map(|node| node.span));
    spans.extend(job.parallel.as_ref().map(|node| node.span));
    spans.extend(job.train.span);
    spans.extend(job.program.as_ref().map(|node| node.span));
    spans.extend(job.image.as_ref().map(|node| node.span));
    spans.extend(job.role.as_ref().map(|node| node.span));
    spans.extend(plan.files.iter().map(|file| file.span));
    spans.extend(job.overrides.iter().flat_map(|change| [change.from, change.by]));
    spans.extend(s3::uris(plan).into_iter().map(|(_, span, _)| span));
    spans.into_iter().map(|span| span.source).collect()
}

struct CredentialCheck<'a, 'b> {
    context: &'a Context<'b>,
    problems: &'a mut Problems,
}

impl CredentialCheck<'_, '_> {
    fn check_pairs(&mut self, pairs: &[Pair]) {
        for pair in pairs {
            if let Some(val) = pair.value.val() {
                self.check_value(&pair.key, &val.value, val.span_or(pair.key_span));
            }
        }
    }

    /// Checks environment variables of the container.
    fn check_variables(&mut self, pairs: &[Pair]) {
        for pair in pairs {
            if let Some(val) = pair.value.val() {
                self.check_variable(&pair.key, &val.value, val.span_or(pair.key_span));
            }
        }
    }

    fn check_variable(&mut self, name: &str, text: &str, span: Span) {
        self.check(name, text, span, Place::Variable);
    }

    fn check_field(&mut self, field: &trainc_ir::Field<impl AsRef<str>>, name: &str, fallback: Span) {
        if let Some(val) = field.val() {
            self.check_value(name, val.value.as_ref(), val.span_or(fallback));
        }
    }

    fn check_raw(&mut self, name: &str, value: &Raw) {
        match value {
            Raw::Scalar(one) => {
                if let Scalar::Text(text) = &one.value {
                    self.check_value(name, text, one.span);
                }
            }
            Raw::List(items) => items.iter().for_each(|item| self.check_raw(name, item)),
            Raw::Object(members) => members.iter().for_each(|member| self.check_raw(&member.name, &member.value)),
        }
    }

    fn check_value(&mut self, name: &str, text: &str, span: Span) {
        self.check(name, text, span, Place::Other);
    }

    fn check(&mut self, name: &str, text: &str, span: Span, place: Place) {
        // The value of a placeholder comes from the plan and is not a secret: a digest looks random too.
        if self.context.sources.slice(span).contains("{{") && credentials::find(text).is_none() {
            return;
        }
        let Some(what) = credentials::classify(name, text, place) else { return };
        let url = text.contains("://");
        let region = self.context.plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
        let variable: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        let is_tag =
            self.context.plan.job.tags.iter().any(|tag| tag.key == name && tag.value.span() == Some(span));
        let help = if is_tag {
            "remove it: everyone who can list resources can read a tag, and the container never receives it"
                .to_owned()
        } else if url {
            "remove it from the URL; git reads credentials from its credential helper, a program \
                from an environment variable set by `secret`".to_owned()
        } else {
            format!(
                "store it in AWS Secrets Manager, and write `secret \"{variable}\" \
                    from=\"arn:aws:secretsmanager:{region}:ACCOUNT:secret:NAME-xxxxxx\"`"
            )
        };
        // Messages end up in logs, so none contains the value.
        let diagnostic =
            Diagnostic::new(&T0252, span, format!("the value of `{name}` looks like a credential: {what}"))
                .secret()
                .help(help)
                .note("everyone who can read the file, the request (DescribeTrainingJob) or the logs \
                    has the credential; treat it as leaked and rotate it");
        self.problems.push(if what == HEXADECIMAL {
            diagnostic.note(format!(
                "if it is a digest or an ID, rename it accordingly, e.g. `{name}_SHA` or `{name}_ID`"
            ))
        } else {
            diagnostic
        });
    }
}
