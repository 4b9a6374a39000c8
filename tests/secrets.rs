//! A credential in a manifest is pointed at and never shown: in no format, by no command, not as a neighbour of another
//! problem either.

use crate::support::{Ran, Scratch, read, trainc_in};
use std::time::Duration;

/// What looks like credentials: of AWS, of others, by name, by looking random.
const SECRETS: [&str; 5] = [
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "0123456789abcdef0123456789abcdef01234567",
    "geheim-hunter2",
    "Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MEFCQ0RFRg",
];

fn scratch(name: &str) -> Scratch {
    let [key, access, wandb, password, random] = SECRETS;
    let text = read("examples/starter/trainc.kdl");
    let program = "program \"train.py\" source=\"./scripts\" {";
    assert!(text.contains(program));
    let with = format!(
        "tags owner=\"{key}\"\n    {program}\n        hyperparameter \"access\" \"{access}\"\n        \
         nonsense 1\n        environment WANDB_API_KEY=\"{wandb}\" DB_PASSWORD=\"{password}\"\n        \
         arguments \"--session\" \"{random}\""
    );
    let scratch = Scratch::new(name);
    scratch.write("job.kdl", text.replace(program, &with));
    scratch.write("scripts/train.py", "import sys\n");
    scratch
}

#[track_caller]
fn silent(ran: &Ran, what: &str) {
    for secret in SECRETS {
        for (stream, text) in [("stdout", &ran.out), ("stderr", &ran.err)] {
            // A long word may be broken over lines.
            let whole: String = text.split_whitespace().filter(|word| *word != "│").collect();
            let at = whole.find(secret).map(|at| whole.get(at.saturating_sub(80)..at).unwrap_or_default());
            assert!(at.is_none(), "{what}: {stream} shows `{secret}` after {at:?}:\n{text}");
        }
    }
}

#[test]
fn a_credential_is_shown_in_no_format() {
    let scratch = scratch("secrets");
    let run = |args: &[&str]| trainc_in(&scratch.0, args, b"", Duration::from_mins(1));
    for format in ["human", "json", "markdown", "short", "sarif", "github", "gitlab"] {
        for more in [&[][..], &["-v"], &["--color", "always"]] {
            let ran = run(&[&["check", "job.kdl", "-o", format], more].concat());
            assert_eq!(ran.code, Some(3), "{}", ran.err);
            assert!(ran.out.matches("T0252").count() >= 4, "{format}: {}", ran.out);
            silent(&ran, &format!("check -o {format} {more:?}"));
        }
    }
    for format in ["human", "json", "markdown"] {
        for more in [&[][..], &["-v"]] {
            let ran = run(&[&["plan", "--offline", "job.kdl", "-o", format], more].concat());
            assert_eq!(ran.code, Some(3), "{}", ran.err);
            silent(&ran, &format!("plan -o {format} {more:?}"));
        }
    }
    let clean = read("examples/starter/trainc.kdl").replace("program ", "tags owner=\"me\"\n    program ");
    scratch.write("old.kdl", clean);
    for format in ["human", "json", "markdown"] {
        let ran = run(&["plan", "job.kdl", "--against", "old.kdl", "-o", format]);
        silent(&ran, &format!("plan --against -o {format}"));
        let back = run(&["plan", "old.kdl", "--against", "job.kdl", "-o", format]);
        assert!(back.out.contains("owner"), "{}{}", back.out, back.err);
        silent(&back, &format!("plan --against the one with credentials -o {format}"));
    }
    for args in [
        &["apply", "job.kdl", "--simulate", "--yes"][..],
        &["apply", "job.kdl", "--simulate", "--yes", "-o", "json"],
        &["emit", "job.kdl", "--out", "out"],
        &["tune", "job.kdl"],
        &["check", "--fix", "T0252", "job.kdl"],
    ] {
        silent(&run(args), &args.join(" "));
    }
}

/// What was laid over the manifest has a name that is its text.
#[test]
fn a_credential_of_the_command_line_is_shown_in_no_format() {
    let scratch = Scratch::new("secrets-set");
    scratch.write("job.kdl", read("examples/starter/trainc.kdl"));
    scratch.write("scripts/train.py", "import sys\n");
    let set = format!("program.environment.SESSION={}", SECRETS[1]);
    for format in ["human", "json", "markdown", "short", "sarif", "github", "gitlab"] {
        let args = ["check", "job.kdl", "-o", format, "--set", &set];
        let ran = trainc_in(&scratch.0, &args, b"", Duration::from_mins(1));
        assert!(ran.code == Some(3) && ran.out.contains("T0252"), "{}{}", ran.out, ran.err);
        silent(&ran, &format!("check -o {format} --set"));
    }
    for format in ["human", "json", "markdown"] {
        let args = ["plan", "--offline", "job.kdl", "-v", "-o", format, "--set", &set];
        let ran = trainc_in(&scratch.0, &args, b"", Duration::from_mins(1));
        silent(&ran, &format!("plan -o {format} --set"));
    }
}

/// At a place where no credential is expected, other problems quote what stands there.
#[test]
fn a_credential_at_a_wrong_place_is_shown_in_no_format() {
    let [key, _, wandb, password, random] = SECRETS;
    let places = [
        format!("environment {{\n            WANDB_API_KEY \"{wandb}\"\n        }}"),
        format!("environment \"AWS\" \"{key}\""),
        format!("environment DB_PASSWORD {password}"),
        format!("hyperparameter session=\"{random}\""),
        format!("hyperparameter \"db-password\" \"x\" \"{password}\""),
        format!("secret \"SESSION\" \"{random}\""),
        format!("environment KEY=\"{key}"),
        format!("DB_PASSWORD \"{password}\""),
        format!("{key} 1"),
        format!("environment AWS=\"{}\"", key.replace("AKIA", "AK\\u{49}A")),
    ];
    let scratch = scratch("secrets-places");
    let text = read("examples/starter/trainc.kdl");
    let program = "program \"train.py\" source=\"./scripts\" {";
    for place in places {
        scratch.write("job.kdl", text.replace(program, &format!("{program}\n        {place}\n")));
        for format in ["human", "json", "markdown", "short", "sarif", "github", "gitlab"] {
            let ran =
                trainc_in(&scratch.0, &["check", "job.kdl", "-v", "-o", format], b"", Duration::from_mins(1));
            assert_eq!(ran.code, Some(3), "{place}: {}", ran.err);
            silent(&ran, &format!("{place}: check -o {format}"));
        }
        for args in [
            &["emit", "job.kdl", "--out", "out"][..],
            &["plan", "--offline", "job.kdl", "-v"],
            &["plan", "--offline", "job.kdl", "-o", "json"],
            &["tune", "job.kdl"],
            &["fmt", "--check", "job.kdl"],
            &["check", "--fix", "--", "job.kdl"],
        ] {
            silent(
                &trainc_in(&scratch.0, args, b"", Duration::from_mins(1)),
                &format!("{place}: {}", args.join(" ")),
            );
        }
    }
}
