//! Tests that no output shows a credential.

use super::*;
use crate::samples::WORLD;
use crate::source::{SourceMap, Span};
use crate::{Diagnostic, Format, ManifestReport, Options, Problems, Run, render};

/// Tokens that end differently, so that a part of each is recognised in a failure.
const HUGGING_FACE: &str = concat!("hf_", "AbCdEfGhIjKlMnOpQrStUvWxYz01234567");
const GITHUB: &str = concat!("ghp_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
const HEXADECIMAL: &str = "0123456789abcdef0123456789abcdef01234567";

fn found(name: &str, text: &str) -> Vec<String> {
    let found = find_credentials(name, text);
    found.iter().map(|one| text.get(one.range.clone()).unwrap().to_owned()).collect()
}

#[test]
fn a_credential_is_found_at_any_place_of_a_text() {
    for (text, secret) in [
        (format!("environment {{\n  HF_TOKEN \"{HUGGING_FACE}\"\n}}"), HUGGING_FACE),
        (format!("environment \"HF_TOKEN\" \"{HUGGING_FACE}\""), HUGGING_FACE),
        (format!("environment HF_TOKEN {HUGGING_FACE}"), HUGGING_FACE),
        (format!("environment HF_TOKEN={HUGGING_FACE}"), HUGGING_FACE),
        (format!("hyperparameter \"token\" \"x\" \"{GITHUB}\""), GITHUB),
        (format!("environment KEY=\"{GITHUB}\n}}\nsteps 1"), GITHUB),
        (format!("// TOKEN={GITHUB}"), GITHUB),
        (format!("/- environment A=\"{GITHUB}\""), GITHUB),
        ("environment DB_PASSWORD=\"hunter2\"".to_owned(), "hunter2"),
        ("environment DB_PASSWORD=hunter2 A=\"b\"".to_owned(), "hunter2"),
        ("environment DB_PASSWORD hunter2".to_owned(), "hunter2"),
        ("environment \"DB_PASSWORD\" \"hunter2\"".to_owned(), "hunter2"),
        ("environment {\n    DB_PASSWORD \"hunter2\"\n}".to_owned(), "hunter2"),
        ("environment \\\n    DB_PASSWORD=\"hunter2\"".to_owned(), "hunter2"),
        ("hyperparameter \"password\" 1 \"hunter2\"".to_owned(), "hunter2"),
        ("hyperparameter \"password\" #\"hunter2\"#".to_owned(), "hunter2"),
        ("arguments \"--password\" \"hunter2\"".to_owned(), "hunter2"),
        ("DB_PASSWORD \"hunter2".to_owned(), "hunter2"),
        ("secret \"DB_PASSWORD\" from=\"hunter2horse\"".to_owned(), "hunter2horse"),
        ("program.environment.DB_PASSWORD=hunter2".to_owned(), "hunter2"),
        (format!("environment FOO=\"{HEXADECIMAL}\""), HEXADECIMAL),
        (format!("WANDB_API_KEY \"{HEXADECIMAL}\""), HEXADECIMAL),
        ("{\"Environment\": {\"DB_PASSWORD\": \"hunter2\"}}".to_owned(), "hunter2"),
        ("Environment:\n  DB_PASSWORD: hunter2\n".to_owned(), "hunter2"),
        ("os.environ[\"DB_PASSWORD\"] = 'hunter2'".to_owned(), "hunter2"),
    ] {
        assert_eq!(found("job.kdl", &text), [secret], "{text}");
    }
    // Of a value with other words, the credential alone.
    let text = "environment URL=\"--to https://user:geheim@host/x\"";
    assert_eq!(found("job.kdl", text), ["https://user:geheim@"]);
    let text = "environment KEY=\"\"\"\n    -----BEGIN PRIVATE KEY-----\n    MIIE\n    \"\"\"";
    assert_eq!(found("job.kdl", text)[0].trim(), "-----BEGIN PRIVATE KEY-----\n    MIIE");
}

/// Each beginning of a string that never ends is searched once: not to the end from each place.
#[test]
fn unclosed_strings_are_searched_once() {
    for unit in ["\"", "\"\"\"\n", "#\"", "'", "\"\" ", "a 'b\n", "\"x\" "] {
        let text = format!("environment A=\"\"\"\n{}", unit.repeat(10_000));
        let mut tokens = Tokens::new(&text);
        tokens.by_ref().for_each(drop);
        assert!(tokens.compared <= 4 * text.len(), "{unit:?}: {} of {}", tokens.compared, text.len());
    }
}

#[test]
fn a_password_of_several_lines_is_masked_as_it_is_shown() {
    let mut sources = SourceMap::default();
    sources.add("job.kdl", "environment DB_PASSWORD=\"\"\"\n    hunter2horse\n    \"\"\"");
    assert_eq!(
        sources.mask("program.environment.DB_PASSWORD hunter2horse"),
        "program.environment.DB_PASSWORD ***"
    );
}

#[test]
fn innocent_text_stays() {
    let manifest = format!(
        "job \"llm\" {{\n  // the password is hunter2, ask Bob's manager; it's in 'x'\n  region \"us-west-2\"\n  \
         tags owner=\"me\" digest=\"{HEXADECIMAL}\"\n  program \"train.py\" git=\"https://github.com/a/b.git\" commit=\"{HEXADECIMAL}\" {{\n    \
         environment MODEL_REVISION=\"{HEXADECIMAL}\" USE_PASSWORD=#true TOKEN=\"{{{{ job.digest }}}}\"\n    \
         secret \"DB_PASSWORD\" from=\"arn:aws:secretsmanager:us-west-2:111122223333:secret:db-AbCdEf\"\n    \
         hyperparameter \"pad_token\" \"<pad>\"\n    hyperparameter \"revision\" \"{HEXADECIMAL}\"\n  }}\n  \
         channel \"train\" s3=\"s3://bucket/AbCd1234EfGh5678IjKl9012MnOp/\"\n  \
         role arn=\"arn:aws:iam::111122223333:role/Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MEFCQ0RFRg\"\n  \
         image uri=\"763104351884.dkr.ecr.us-west-2.amazonaws.com/a@sha256:{HEXADECIMAL}\"\n}}\n"
    );
    assert_eq!(found("job.kdl", &manifest), [""; 0]);
    let program = "def login(user, password, verify):\n    password = get(config.password)\n    login(password=password)\n";
    assert_eq!(found("job.py", program), [""; 0]);
    let text = format!(
        "commit {HEXADECIMAL} of s3://bucket/AbCd1234EfGh5678IjKl9012MnOp/ by arn:aws:iam::111122223333:role/a"
    );
    assert_eq!(SourceMap::default().mask(&text), text);
}

#[test]
fn a_text_is_masked_by_values_and_by_forms() {
    let mut sources = SourceMap::default();
    let long = format!("{GITHUB}{}", "y".repeat(400));
    sources.add(
        "job.kdl",
        format!(
            "environment DB_PASSWORD=\"say-\\\"please\\\"\" APP_PASSWD=\"no\" \"A_PASSWORD\" \"t\\u{{68}}ree-{{x}}\" \"B\" \"{long}\""
        ),
    );
    for (text, shown) in [
        (format!("unknown `{HUGGING_FACE}`"), "unknown `***`".to_owned()),
        (format!("write `environment A=\"{GITHUB}\"`"), "write `environment A=\"***\"`".to_owned()),
        ("got `say-\"please\"`".to_owned(), "got `***`".to_owned()),
        ("got `say-\\\"please\\\"`".to_owned(), "got `***`".to_owned()),
        // In other letters, and truncated.
        ("got `SAY-\"PLEASE\"`".to_owned(), "got `***`".to_owned()),
        (format!("got `{}…`", &long[..240]), "got `***…`".to_owned()),
        ("got `three-{x}`, in threes".to_owned(), "got `***`, in threes".to_owned()),
        // A short word may be a part of a sentence.
        ("there is no node; `no` and x=no".to_owned(), "there is no node; `***` and x=***".to_owned()),
        ("from https://user:geheim@host/".to_owned(), "from ***host/".to_owned()),
    ] {
        assert_eq!(sources.mask(&text), shown);
    }
    let json = "{\n  \"no\": [\"a \\\"no\\\" \\\\\", \"say-\\\"please\\\"\", \"ü\"]\n}\n";
    let masked = sources.mask_json(json);
    assert_eq!(masked, "{\n  \"no\": [\"a \\\"***\\\" \\\\\", \"***\", \"ü\"]\n}\n");
}

#[test]
fn the_lines_of_a_private_key_are_masked() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let key = format!("-----BEGIN PRIVATE KEY-----\n{body}\n{body}==\n-----END PRIVATE KEY-----");
    let mut sources = SourceMap::default();
    sources.add("job.kdl", format!("surplus \"\"\"\n  {}\n  \"\"\"", key.replace('\n', "\n  ")));
    assert!(!sources.mask(&format!("unexpected `{body}`")).contains("MIIE"));
    // In a comment, and in a text of its own.
    let comment = format!("// {}", key.replace('\n', "\n// "));
    for text in [comment, key.clone(), key.replace('\n', "\\n")] {
        assert!(!SourceMap::default().mask(&text).contains("MIIE"), "{text}");
    }
}

/// The kind: whatever a problem says, no format shows a credential of its source.
#[test]
fn no_format_shows_a_credential() {
    let mut sources = SourceMap::default();
    let text = format!("job \"a\" {{\n  token \"{GITHUB}\"\n  db-password \"geheim-7\"\n}}\n");
    let id = sources.add("a.kdl", text.as_str());
    let at = |wanted: &str| {
        let start = text.find(wanted).unwrap();
        Span::new(id, start, start + wanted.len())
    };
    for secret in [GITHUB, "geheim-7"] {
        let mut problems = Problems::default();
        let quoted = format!("`{secret}`");
        problems.push(
            Diagnostic::new(&WORLD, at("job"), format!("unknown {quoted}"))
                .primary_label(&quoted)
                .label(at("token"), &quoted)
                .help(format!("write `x=\"{secret}\"`"))
                .note(&quoted)
                .fact("value", secret)
                .fact("values", vec![secret])
                .fix(at("token"), format!("x={secret}")),
        );
        let manifests = [ManifestReport { path: "a.kdl", job: None, problems: &problems }];
        let run = Run { sources: &sources, manifests: &manifests };
        for format in Format::ALL {
            let out = render(format, &run, &Options::default());
            assert!(out.contains("***") && !out.contains(secret), "{format:?}: {out}");
        }
        let fix = problems.iter().next().unwrap().fix.clone().unwrap();
        assert_eq!(fix.text, format!("x={secret}"), "the edit that is applied is unchanged");
    }
}
