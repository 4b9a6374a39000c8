//! Credentials in the manifest, recognised by format, by name, or by randomness.

use crate::Context;
use crate::queries::s3;
use std::collections::{BTreeMap, BTreeSet};
use trainc_catalog::credentials::{self, NamedCredential};
use trainc_diag::declare_code;
use trainc_diag::placeholder_value::is_placeholder_value;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Pair, Plan, Raw, Scalar};

declare_code!(T0252, "credential-in-manifest", Error, "a value that looks like a credential");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0252];

/// Checks every value that reaches the container, the request or a code repository, then the text of the manifests.
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
        for field in [&program.git, &program.branch, &program.dir, &program.s3, &program.upload] {
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
                    .note("everyone who can read the file has the credential; treat it as leaked and rotate it"),
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
        self.check(name, text, span, || is_hexadecimal(name, text).then_some(HEXADECIMAL));
    }

    fn check_field(&mut self, field: &trainc_ir::Field<String>, name: &str, fallback: Span) {
        if let Some(val) = field.val() {
            self.check_value(name, &val.value, val.span_or(fallback));
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
        self.check(name, text, span, || None);
    }

    /// Checks a value by format, name and randomness, then by the additional test `more`.
    fn check(&mut self, name: &str, text: &str, span: Span, more: impl FnOnce() -> Option<&'static str>) {
        // The value of a placeholder comes from the plan and is not a secret: a digest looks random too.
        if self.context.sources.slice(span).contains("{{") && credentials::find(text).is_none() {
            return;
        }
        let Some(what) = credentials::find(text)
            .or_else(|| credential_kind_by_name(name, text))
            .or_else(|| looks_random(text).then_some("a random string, like an access key"))
            .or_else(more)
        else {
            return;
        };
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
            "remove it from the URL; git reads credentials from its credential helper, a program from an environment variable set by `secret`".to_owned()
        } else {
            format!(
                "store it in AWS Secrets Manager, and write `secret \"{variable}\" from=\"arn:aws:secretsmanager:{region}:ACCOUNT:secret:NAME-xxxxxx\"`"
            )
        };
        // Messages end up in logs, so none contains the value.
        let diagnostic =
            Diagnostic::new(&T0252, span, format!("the value of `{name}` looks like a credential: {what}"))
                .secret()
                .help(help)
                .note("everyone who can read the file, the request (DescribeTrainingJob) or the logs has the credential; treat it as leaked and rotate it");
        self.problems.push(if what == HEXADECIMAL {
            diagnostic.note(format!(
                "if it is a digest or an ID, rename it accordingly, e.g. `{name}_SHA` or `{name}_ID`"
            ))
        } else {
            diagnostic
        });
    }
}

/// Returns the kind of credential that the name of a value indicates.
fn credential_kind_by_name(name: &str, text: &str) -> Option<&'static str> {
    let kind = credentials::classify_name(name).filter(|kind| *kind != NamedCredential::Digest)?;
    let harmless = text.is_empty()
        || is_placeholder_value(text)
        || text.starts_with(['/', '.', '<', '$', '~'])
        || text.contains("://")
        || text.starts_with("arn:")
        || text.contains(' ')
        || matches!(text.to_lowercase().as_str(), "true" | "false" | "none" | "null" | "0" | "1");
    if harmless {
        return None;
    }
    if kind == NamedCredential::Password {
        return Some("a password");
    }
    let long = text.len() >= 16 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_-.~".contains(&b));
    let mixed = text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_alphabetic());
    (long && mixed && entropy(text) > 3.0).then_some("a key or token, judging by its name")
}

/// Returns whether the text contains a generated key: at least 24 letters and digits, mixed unlike words.
///
/// Random letters and digits change their class (case, digit) at 62 of 100 places, words in camel case at fewer than
/// 40; hexadecimal digests have a single case and pass. Keys with punctuation or hyphenated groups are tested again
/// without it; at least half of the places must then change, since names of models and runs also have short parts (35 of
/// 100 in the worst case seen).
fn looks_random(text: &str) -> bool {
    if text.contains("://") || text.starts_with(['/', '.']) || text.starts_with("arn:") {
        return false;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let joins = |c: char| c.is_ascii_alphanumeric() || "-_.~@!#$%^&*+/?".contains(c);
    text.split(|c| !is_plain(c)).any(|run| has_mixed_characters(run, 0.4))
        || text.split(|c| !joins(c)).any(|run| {
            let left: String = run.chars().filter(char::is_ascii_alphanumeric).collect();
            has_mixed_characters(&left, 0.5)
        })
}

/// Returns whether a run is long, has both cases and digits, and changes class at `least_changes` of its places.
fn has_mixed_characters(run: &str, least_changes: f64) -> bool {
    let class = |b: u8| (b.is_ascii_lowercase(), b.is_ascii_uppercase(), b.is_ascii_digit());
    let bytes = run.as_bytes();
    let changes = bytes.windows(2).filter(|pair| matches!(pair, [a, b] if class(*a) != class(*b))).count();
    bytes.len() >= 24
        && bytes.iter().any(u8::is_ascii_lowercase)
        && bytes.iter().any(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_digit)
        && changes as f64 >= bytes.len() as f64 * least_changes
        && entropy(run) >= 3.8
}

const HEXADECIMAL: &str = "random hexadecimal digits, like an access key";

/// Returns whether the value consists of 32 to 64 hexadecimal digits, like a key, under a name that does not indicate a
/// digest or an ID: a commit looks the same.
fn is_hexadecimal(name: &str, text: &str) -> bool {
    (32..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_hexdigit())
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().any(|b| b.is_ascii_alphabetic())
        && entropy(text) >= 3.0
        && credentials::classify_name(name) != Some(NamedCredential::Digest)
}

/// Returns the Shannon entropy of the text, in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts: BTreeMap<char, u32> = BTreeMap::new();
    for c in text.chars() {
        *counts.entry(c).or_default() += 1;
    }
    let n = text.chars().count() as f64;
    counts.values().map(|count| f64::from(*count) / n).map(|p| -p * p.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_random_strings_from_ordinary_ones() {
        for random in ["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MEFCQ0RFRg"] {
            assert!(looks_random(random), "{random}");
        }
        for fine in [
            "togethercomputer/GPT-NeoXT-Chat-Base-20B",
            "s3://bucket/AbCd1234EfGh5678IjKl9012/",
            "/opt/ml/input/data/train/checkpointdir-job2",
            "0123456789abcdef0123456789abcdef01234567",
            "bert-large-uncased-whole-word-masking",
            "GPTNeoXLayer,GPTNeoXForCausalLMHead2Layer3",
            "query_key_value,dense,dense_h_to_4h,dense_4h_to_h",
            "arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf",
            "6F9619FF-8B86-D011-B42D-00CF4FC964FF",
            "meta-llama/Llama-3.1-8B-Instruct",
            "openai/clip-ViT-L-14-336px-RN50x64-B32",
            "run-2026-01-05T12-30-45Z-a100x8-BF16",
            "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04",
            "loss=([0-9.eE+-]+) lr=([0-9.eE+-]+) step=([0-9]+)",
            "q4_K_M-8B-Qwen2.5-1M-GGUF-IQ3_XXS-v0.3",
            "NCCL_ALGO=Ring,NCCL_PROTO=LL128,FI_EFA_USE_DEVICE_RDMA=1",
        ] {
            assert!(!looks_random(fine), "{fine}");
        }
        for random in ["Xk9vQ2mZ7pLw@4RtY8uBn3CsD6fGh1JaE", "Xk9v-Q2mZ-7pLw-4RtY-8uBn-3CsD-6fGh"] {
            assert!(looks_random(random), "{random}");
        }
    }

    #[test]
    fn judges_hexadecimal_digits_by_name() {
        let (md5, sha1) = ("9e107d9d372bb6826bd81d3542a419d6", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12");
        for name in ["FOO", "WANDB", "datadog", "secret_value"] {
            assert!(is_hexadecimal(name, md5) && is_hexadecimal(name, sha1), "{name}");
        }
        for name in
            ["COMMIT", "GIT_SHA", "WANDB_RUN_ID", "model-revision", "data.md5", "RUN_UUID", "DATA_SHA256"]
        {
            assert!(!is_hexadecimal(name, md5) && !is_hexadecimal(name, sha1), "{name}");
        }
        for fine in ["9e107d9d", "20261122173600000000000000000000", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"] {
            assert!(!is_hexadecimal("FOO", fine), "{fine}");
        }
    }

    #[test]
    fn recognises_credentials_by_name() {
        assert!(credential_kind_by_name("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567").is_some());
        for short in ["hunter2", "a", "12", "x=y"] {
            assert!(credential_kind_by_name("db-password", short).is_some(), "{short}");
            assert!(credential_kind_by_name("passphrase", short).is_some(), "{short}");
        }
        for (name, fine) in [
            ("pad_token", "<pad>"),
            ("max_tokens", "20000000000000000"),
            ("token_file", "tokens12345678901"),
            ("key", "short"),
            ("use_auth_token", "true"),
            ("label_key", "label"),
            ("hf_token", "/run/secrets/token12345"),
        ] {
            assert!(credential_kind_by_name(name, fine).is_none(), "{name}");
        }
    }
}
