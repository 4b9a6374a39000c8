//! How the program is called: what is left out, what is wrong usage, and what `emit` leaves alone.

use crate::support::{Ran, Scratch, files, one_line, read, root, trainc_in};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn run(dir: &Path, args: &[&str]) -> Ran {
    trainc_in(dir, args, b"", Duration::from_mins(1))
}

/// A copy of the starter, with its scripts.
fn starter(name: &str) -> Scratch {
    let dir = Scratch::new(name);
    for file in ["scripts/train.py", "scripts/requirements.txt"] {
        dir.write(file, fs::read(root().join("examples/starter").join(file)).unwrap());
    }
    // Without its placeholder, which is a warning, and an error where an account is asked.
    dir.write("trainc.kdl", read("examples/starter/trainc.kdl").replace("your-bucket", "example-runs"));
    dir
}

#[test]
fn no_argument_means_the_manifests_that_are_here() {
    let dir = starter("usage-here");
    for args in
        [&["check", "-q"][..], &["plan", "--offline"], &["fmt", "--check"], &["emit", "-q", "--out", "out"]]
    {
        let ran = run(&dir.0, args);
        assert_eq!(ran.code, Some(0), "{args:?}\n{}{}", ran.out, ran.err);
    }
    assert!(dir.0.join("out/my-first-job/plan.json").exists());
    let empty = Scratch::new("usage-empty");
    for (args, hint) in [
        (&["check"][..], "`trainc check job.kdl`"),
        (&["fmt"], "`trainc fmt job.kdl`"),
        (&["emit", "--out", "out"], "`trainc emit --out generated/ job.kdl`"),
    ] {
        let ran = run(&empty.0, args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.err.contains(hint) && ran.err.contains("`trainc init`"), "{}", ran.err);
    }
}

/// What the help of T0257 says to type satisfies it, and every figure counts it.
#[test]
fn a_price_of_storage_is_taken_wherever_it_counts() {
    let dir = Scratch::new("usage-storage-price");
    let example = root().join("examples/llama-7b-fsdp");
    let text = fs::read_to_string(example.join("trainc.kdl")).unwrap();
    let on_demand: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("spot ")).collect();
    let priced = "capacity=\"4800GiB\" deployment=\"persistent-2\" throughput=250";
    let unpriced =
        "capacity=\"5400GiB\" deployment=\"persistent-1\" type=\"hdd\" drive-cache=\"none\" throughput=40";
    assert!(text.contains(priced));
    dir.write("job.kdl", on_demand.join("\n").replace(priced, unpriced));
    for entry in fs::read_dir(example.join("scripts")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        dir.write(&format!("scripts/{name}"), fs::read(&path).unwrap());
    }
    let help = "--price fsx/us-west-2/PERSISTENT_1/HDD/40=USD_PER_GB_MONTH";
    let check = run(&dir.0, &["check", "job.kdl"]);
    let said = check.out + &check.err;
    assert!(said.contains("warning[T0257]") && said.contains(help), "{said}");
    let given = ["--price", "fsx/us-west-2/PERSISTENT_1/HDD/40=0.21"];
    let check = run(&dir.0, &[&["check", "job.kdl"], &given[..]].concat());
    assert!(!(check.out + &check.err).contains("T0257"));
    let plan = |more: &[&str]| -> serde_json::Value {
        let ran = run(&dir.0, &[&["plan", "--offline", "-o", "json", "job.kdl"], more].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err))
    };
    let (without, with) = (plan(&[]), plan(&given));
    assert!(without["run"]["cost_usd"].is_null() && without["run"]["cost_parts"]["file_systems"].is_null());
    // 5,400 GiB at 21 cents for a month of 730 hours.
    let hours = with["run"]["seconds"].as_f64().unwrap() / 3_600.0;
    let usd = with["run"]["cost_parts"]["file_systems"].as_f64().unwrap();
    assert!((usd - 5_400.0 * 0.21 * hours / 730.0).abs() < 1e-6, "{usd}");
    let most = |plan: &serde_json::Value| plan["run"]["most_usd"].as_f64().unwrap();
    let five_days = 5_400.0 * 0.21 * 120.0 / 730.0;
    assert!((most(&with) - most(&without) - five_days).abs() < 1e-6);
    assert!(with["run"]["price_source"].as_str().unwrap().ends_with("; --price"));
    let emit = run(&dir.0, &[&["emit", "-q", "--out", "out", "job.kdl"], &given[..]].concat());
    assert_eq!(emit.code, Some(0), "{}{}", emit.out, emit.err);
    let emitted = fs::read_to_string(dir.0.join("out/plan.json")).unwrap();
    let emitted: serde_json::Value = serde_json::from_str(&emitted).unwrap();
    assert_eq!(emitted["run"]["cost_usd"], with["run"]["cost_usd"]);
}

#[test]
fn wrong_usage_says_what_to_type() {
    let dir = starter("usage-wrong");
    for (args, words) in [
        (&["check", "--account", "12"][..], "twelve digits, e.g. 111122223333"),
        (&["check", ""], "empty path"),
        (
            &["check", "--set", "="],
            "missing path before `=` (T0210); expected PATH=VALUE, e.g. cluster.nodes=4",
        ),
        (&["check", "--set", "cluster.nodes="], "missing value after `=`"),
        (&["check", "--set", "cluster"], "missing `=`"),
        (
            &["check", "--price", "fsx/us-west-2/PERSISTENT_2/SSD/200=0.2"],
            "e.g. fsx/us-west-2/PERSISTENT_2/SSD/125",
        ),
        (&["check", "--price", "ebs-training/us-west-9=0.2"], "or s3-standard/REGION"),
        (&["schema", "wroker"], "manifest, plan, bill, report, tune, diagnostic, worker"),
    ] {
        let ran = run(&dir.0, args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.err.contains(words), "{args:?}\n{}", ran.err);
    }
}

#[test]
fn denied_warnings_say_so_however_quiet() {
    let dir = starter("usage-denied");
    let warned = ["check", "--deny-warnings", "--set", "checkpoint.s3=s3://example-runs/x/"];
    let ran = run(&dir.0, &[&warned[..], &["-q"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""));
    assert_eq!(ran.err, "error: 1 warning, denied by `--deny-warnings`; omit `-q` to see them\n");
    assert_eq!(run(&dir.0, &warned).err, "error: 1 warning, denied by `--deny-warnings`\n");
}

#[test]
fn emit_names_what_apply_fills_in() {
    let dir = Scratch::new("usage-marks");
    let manifest = format!("{}/examples/llama-7b-fsdp/trainc.kdl", root().display());
    let shown =
        |more: &[&str]| one_line(&run(&dir.0, &[&["emit", &manifest, "--out", "out"], more].concat()).err);
    assert!(shown(&[]).contains(
        "`trainc apply` fills in `${account}`, `${fsx.corpus.id}`, `${fsx.corpus.mount}` and \
            `${role_arn}`; `--resolve`"
    ));
    assert!(!shown(&["--account", "111122223333"]).contains("`${account}`"));
    assert!(!shown(&["-q"]).contains("fills in"));
}

#[test]
fn emit_loses_no_file_of_others() {
    let dir = starter("usage-emit");
    let emit = ["emit", "-q", "trainc.kdl", "--out", "out"];
    assert_eq!(run(&dir.0, &emit).code, Some(0));
    let mine = dir.write("out/source/notes.txt", "mine");
    let ran = run(&dir.0, &emit);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.contains("`out` contains `source/notes.txt`, which `emit` did not write; move it away"),
        "{}",
        ran.err
    );
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    fs::remove_file(mine).unwrap();
    assert_eq!(run(&dir.0, &emit).code, Some(0));
    assert_eq!(run(&dir.0, &[&emit[..], &["--check"]].concat()).code, Some(0));
}

/// Where the output lies in the program's directory, it is neither sent nor read as manifests.
#[test]
fn emit_does_not_feed_on_its_output() {
    let text = fs::read_to_string(root().join("examples/starter/trainc.kdl")).unwrap();
    assert!(text.contains(r#"source="./scripts""#));
    for (name, source, entry, out) in [
        ("usage-feeds", "./scripts", "train.py", "scripts/out"),
        ("usage-feeds-here", ".", "scripts/train.py", "generated"),
        ("usage-feeds-several", ".", "scripts/train.py", "generated/several"),
    ] {
        let dir = starter(name);
        let manifest = text
            .replace(r#"source="./scripts""#, &format!("source=\"{source}\""))
            .replace(r#"program "train.py""#, &format!("program \"{entry}\""));
        dir.write("trainc.kdl", &manifest);
        let several = out.ends_with("several");
        if several {
            dir.write("second.kdl", manifest.replace("my-first-job", "second"));
        }
        let jobs = if several { &["trainc.kdl", "second.kdl"][..] } else { &["trainc.kdl"] };
        let emit = [&["emit", "-q", "--out", out][..], jobs].concat();
        let read = || {
            let mut all = files_below(&dir.0.join(out));
            all.sort();
            all.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
        };
        let ran = run(&dir.0, &emit);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        let first = read();
        let checked = run(&dir.0, &[&emit[..], &["--check"]].concat());
        assert_eq!((checked.code, checked.out.as_str()), (Some(0), ""), "{name}: {}", checked.err);
        assert_eq!(run(&dir.0, &emit).code, Some(0));
        assert!(first == read(), "{name}: the second time it writes something else");
        let ran = run(&dir.0, &["check"]);
        assert_eq!(ran.code, Some(0), "{name}: {}{}", ran.out, ran.err);
        // A plan of another tool makes no output of a directory.
        dir.write("scripts/own/plan.json", "{}");
        dir.write("scripts/own/more.py", "");
        assert_eq!(run(&dir.0, &emit).code, Some(0));
        assert!(read().iter().any(|(_, path)| path.ends_with("own/more.py")), "{name}");
    }
}

fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn emit_of_several_jobs_writes_all_or_none() {
    let dir = starter("usage-several");
    let text = fs::read_to_string(dir.0.join("trainc.kdl")).unwrap();
    dir.write("second.kdl", text.replace("my-first-job", "second"));
    // The place of the second is taken by a file.
    let taken = dir.write("out/second", "mine");
    let ran = run(&dir.0, &["emit", "-q", "trainc.kdl", "second.kdl", "--out", "out"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("`out/second` is not a directory; nothing was written"), "{}", ran.err);
    assert!(!dir.0.join("out/my-first-job").exists());
    fs::remove_file(taken).unwrap();
    assert_eq!(run(&dir.0, &["emit", "-q", ".", "--out", "out"]).code, Some(0));
    assert!(dir.0.join("out/my-first-job/plan.md").exists() && dir.0.join("out/second/plan.md").exists());
}

#[test]
fn import_writes_in_the_format_that_is_asked_for() {
    let dir = Scratch::new("usage-import");
    let request = fs::read(root().join("tests/golden-requests/neox-20b-fsdp.json")).unwrap();
    dir.write("request.json", request);
    let plain = run(&dir.0, &["import", "request.json"]);
    let json = run(&dir.0, &["import", "request.json", "-o", "json"]);
    let document = json.json();
    assert_eq!(document["manifest"].as_str(), Some(plain.out.as_str()));
    assert_eq!(document["same_request"], true, "{}", document["lost"]);
    assert!(document["cannot_say"].as_array().is_some_and(|lines| !lines.is_empty()));
    assert_eq!(json.err, "");
    assert!(!dir.0.join("json").exists(), "`-o` is the format, not a file");

    let both = run(&dir.0, &["import", "request.json", "--out", "job.kdl", "-o", "markdown"]);
    assert_eq!(both.code, Some(0), "{}", both.err);
    assert_eq!(fs::read_to_string(dir.0.join("job.kdl")).unwrap(), plain.out);
    assert!(both.out.contains(&format!("```kdl\n{}```\n", plain.out)), "{}", both.out);

    // A placeholder is not sent.
    let text = fs::read_to_string(root().join("tests/golden-requests/neox-20b-fsdp.json")).unwrap();
    let mut template: serde_json::Value = serde_json::from_str(&text).unwrap();
    template["request"]["RoleArn"] = "${ROLE}".into();
    dir.write("template.json", template.to_string());
    let document = run(&dir.0, &["import", "template.json", "-o", "json"]).json();
    assert_eq!(document["same_request"], false, "{}", document["lost"]);
    let lost = document["lost"].to_string();
    assert!(lost.contains("`RoleArn` is \\\"${ROLE}\\\""), "{lost}");

    dir.write("broken.json", "{");
    let broken = run(&dir.0, &["import", "broken.json", "-o", "json"]);
    assert_eq!(broken.code, Some(3));
    assert_eq!(broken.json()["manifests"][0]["problems"][0]["code"], "T0530");
    assert_eq!(run(&dir.0, &["import", "request.json", "-o", "job2.kdl"]).code, Some(2));
    assert!(!dir.0.join("job2.kdl").exists());
}

/// Imported jobs use the SDK's default bucket, which `apply` creates and the simulated account has.
#[test]
fn imported_jobs_run_in_the_simulated_account() {
    let dir = Scratch::new("usage-imported");
    for name in ["16-xgb-spot.json", "02-hf-fsdp-neox.json", "27-remote.json"] {
        dir.write(name, fs::read(root().join("tests/import").join(name)).unwrap());
        let manifest = format!("{name}.kdl");
        assert_eq!(run(&dir.0, &["import", name, "--out", &manifest]).code, Some(0));
        let applied = run(&dir.0, &["apply", "--simulate", "--yes", &manifest]);
        assert_eq!(applied.code, Some(0), "{name}\n{}{}", applied.out, applied.err);
    }
}

/// A table without a usable row is an error.
#[test]
fn a_table_without_a_usable_row_is_refused() {
    let dir = crate::support::Scratch::new("calibrate-nothing");
    let table = crate::support::read("crates/trainc-calibrate/data/runs.csv");
    let head = table.lines().next().unwrap();
    let blank = ",".repeat(head.split(',').count() - 3);
    dir.write("runs.csv", format!("{head}\na,b,c{blank}\n"));
    let ran =
        crate::support::trainc_in(&dir.0, &["calibrate", "runs.csv"], b"", std::time::Duration::from_mins(1));
    assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("nothing to compare in `runs.csv`: 1 row, all skipped"), "{}", ran.err);
}

/// `init` writes every example as it is shipped; its README speaks of the repository.
#[test]
fn init_writes_the_examples() {
    let dir = Scratch::new("usage-init");
    let help = run(&dir.0, &["init", "--help"]).out;
    let list = run(&dir.0, &["init", "--example"]).out;
    let mut seen = 0;
    for entry in
        fs::read_dir(root().join("examples")).unwrap().flatten().filter(|entry| entry.path().is_dir())
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Workflows to copy, not a job.
        if name == "gitops" {
            continue;
        }
        assert!(help.contains(&name), "{name} is not in\n{help}");
        let line = list.lines().find(|line| line.split(' ').next() == Some(name.as_str()));
        assert!(line.is_some_and(|line| line.trim().contains("  ")), "{name} has no line in\n{list}");
        let ran = run(&dir.0, &["init", "--example", &name, &name]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
        let of = format!("examples/{name}/");
        let is_made = |path: &str| path.contains("/packed/") || path.contains("/runs/");
        for path in
            files(&of, &[".kdl", ".py", ".txt", ".json", ".yaml"]).iter().filter(|path| !is_made(path))
        {
            let written = dir.0.join(path.strip_prefix("examples/").unwrap());
            assert!(fs::read(&written).ok() == fs::read(root().join(path)).ok(), "{path}");
        }
        seen += 1;
    }
    assert_eq!(seen, 26);
    let wrong = run(&dir.0, &["init", "--example", "tiny-lama", "other"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("tiny-llama"), "{}", wrong.err);
}

/// A word that no row has is said, with the nearest name; nothing is printed that looks like an answer.
#[test]
fn a_catalogue_without_the_word_says_so() {
    let dir = Scratch::new("usage-catalog");
    let ran = run(&dir.0, &["catalog", "models", "zzz"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert_eq!(ran.err, "error: no row of `models` contains `zzz`; `trainc catalog models` lists all\n");
    let ran = run(&dir.0, &["catalog", "models", "gpt2-xxl"]);
    assert!(ran.err.contains("did you mean `gpt2-xl`?"), "{}", ran.err);
    let ran = run(&dir.0, &["catalog", "models", "zzz", "-o", "json"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), "[]\n"));
}

/// What `emit` can never write, `check` refuses as well: only a directory that is not there may still be
/// made.
#[cfg(unix)]
#[test]
fn check_is_as_strict_as_emit_with_what_cannot_be_packed() {
    let dir = starter("usage-links");
    std::os::unix::fs::symlink("/etc/hostname", dir.0.join("scripts/out")).unwrap();
    std::os::unix::fs::symlink("no-such", dir.0.join("scripts/gone")).unwrap();
    for args in [&["check"][..], &["emit", "--out", "out"]] {
        let ran = run(&dir.0, args);
        assert_eq!(ran.code, Some(3), "{args:?}\n{}{}", ran.out, ran.err);
        let said = ran.out + &ran.err;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("`gone` leads nowhere and the link `out` leaves the directory"), "{said}");
        assert!(said.contains("error[T0501]"), "{said}");
    }
    std::fs::remove_dir_all(dir.0.join("scripts")).unwrap();
    assert_eq!(run(&dir.0, &["check"]).code, Some(0));
}

/// A space after `--instances` starts a positional argument, which would be left out of the comparison.
#[test]
fn instance_types_are_separated_by_commas() {
    let dir = starter("usage-instances");
    let tune = run(&dir.0, &["tune", "trainc.kdl", "--instances", "ml.p4d.24xlarge", "ml.nothing"]);
    assert_eq!((tune.code, tune.out.as_str()), (Some(2), ""), "{}", tune.err);
    let said = "separate instance types with a comma: --instances ml.p4d.24xlarge,ml.nothing";
    assert!(tune.err.contains(said), "{}", tune.err);
}

#[test]
fn emit_says_that_nothing_was_written() {
    let dir = starter("usage-emit-errors");
    let text = fs::read_to_string(dir.0.join("trainc.kdl")).unwrap();
    dir.write("trainc.kdl", text.replace("micro-batch 8", "micro-batch 0"));
    let emit = run(&dir.0, &["emit", "trainc.kdl", "--out", "out"]);
    assert_eq!(emit.code, Some(3));
    assert!(emit.err.ends_with("nothing was written to out\n"), "{}", emit.err);
    assert!(!dir.0.join("out").exists());
    let check = run(&dir.0, &["emit", "trainc.kdl", "--out", "out", "--check"]);
    assert!(check.err.ends_with("out was not compared\n"), "{}", check.err);
}

/// A profile that does not exist is no matter of the manifest, and each command names what helps it.
#[test]
fn a_missing_profile_is_named() {
    let dir = starter("usage-profile");
    dir.write("config", "[default]\n[profile prod]\nregion = us-west-2\n");
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_trainc"));
        for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
            command.env_remove(key);
        }
        command.current_dir(&dir.0).args(args).env("NO_COLOR", "1");
        command.env("AWS_PROFILE", "nope").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_CONFIG_FILE", "config").env("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let out = command.output().unwrap();
        let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // Lines are wrapped.
        (out.status.code(), text.concat().split_whitespace().collect::<Vec<_>>().join(" "))
    };
    for (command, alternative) in [
        (&["plan", "trainc.kdl"][..], Some("`trainc plan trainc.kdl --offline` needs no credentials")),
        (&["apply", "trainc.kdl", "--yes"], Some("`trainc apply trainc.kdl --simulate --yes` runs against")),
        (&["status", "trainc.kdl"], None),
        (&["stop", "trainc.kdl", "--yes"], None),
        (&["logs", "trainc.kdl"], None),
        (&["destroy", "trainc.kdl", "--yes"], None),
    ] {
        let (code, said) = run(command);
        assert_eq!(code, Some(6), "{said}");
        let profile = "the profile `nope` of AWS_PROFILE does not exist in config or credentials; they have \
            `default`, `prod`";
        assert!(said.contains(profile) && said.contains("log in with `aws sso login`"), "{said}");
        assert!(alternative.is_none_or(|words| said.contains(words)), "{said}");
        assert_eq!(said.contains("--offline"), command[0] == "plan", "{said}");
        // Nothing in the manifest is underlined.
        assert!(said.contains("[trainc.kdl]") && !said.contains("region \"us-west-2\""), "{said}");
        if command[0] == "plan" {
            assert_eq!(said.matches("aws sso login").count(), 1, "{said}");
            assert!(said.contains(" next trainc plan trainc.kdl --offline"), "{said}");
        }
    }
}

#[test]
fn a_plan_hides_only_the_files_that_it_lists() {
    let dir = starter("usage-plan-hides");
    let text = fs::read_to_string(dir.0.join("trainc.kdl")).unwrap();
    // A program beside a plan that somebody wrote is packed, but for what the plan lists.
    dir.write("scripts/own/plan.json", r#"{"trainc_version": "1", "files": ["listed.py", "../train.py"]}"#);
    dir.write("scripts/own/listed.py", "");
    dir.write("scripts/own/more.py", "");
    assert_eq!(run(&dir.0, &["emit", "-q", "--out", "out", "trainc.kdl"]).code, Some(0));
    let packed: Vec<bool> = ["train.py", "own/more.py", "own/listed.py", "own/plan.json"]
        .iter()
        .map(|file| dir.0.join("out/source").join(file).exists())
        .collect();
    assert_eq!(packed, [true, true, false, false]);
    // A broken manifest beside it is found.
    let broken =
        text.replace("my-first-job", "second").replace("    region \"us-west-2\"", "    region \"nowhere\"");
    assert_ne!(broken, text.replace("my-first-job", "second"));
    dir.write("jobs/broken.kdl", broken);
    for files in ["[]", r#"["other.kdl", "../jobs/broken.kdl"]"#] {
        dir.write("jobs/plan.json", format!(r#"{{"trainc_version": "1", "files": {files}}}"#));
        let ran = run(&dir.0, &["check", "."]);
        assert!(ran.code == Some(3) && (ran.out + &ran.err).contains("broken.kdl"), "{files}");
    }
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link_out_of_the_root() {
    let dir = starter("usage-link-out");
    let text = fs::read_to_string(dir.0.join("trainc.kdl")).unwrap();
    let ugly = text.replacen("    region", "  region", 1);
    dir.write("outside/outside.kdl", &ugly);
    dir.write("repository/.git/HEAD", "");
    let link = dir.0.join("repository/link.kdl");
    std::os::unix::fs::symlink("../outside/outside.kdl", &link).unwrap();
    dir.write("repository/inside/inside.kdl", &ugly);
    std::os::unix::fs::symlink("inside/inside.kdl", dir.0.join("repository/near.kdl")).unwrap();
    let here = dir.0.join("repository");
    for command in [&["fmt"][..], &["check", "--fix"], &["tune", "--write"]] {
        let ran = run(&here, &[command, &["link.kdl"]].concat());
        assert_eq!(
            fs::read_to_string(dir.0.join("outside/outside.kdl")).unwrap(),
            ugly,
            "{command:?}: {}",
            ran.err
        );
    }
    let ran = run(&here, &["fmt", "link.kdl"]);
    assert!(ran.code == Some(3) && ran.err.contains("leads outside the root directory"), "{}", ran.err);
    // Inside, a link is followed, and stays one.
    assert_eq!(run(&here, &["fmt", "near.kdl"]).code, Some(0));
    assert_ne!(fs::read_to_string(here.join("inside/inside.kdl")).unwrap(), ugly);
    assert!(here.join("near.kdl").is_symlink());
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_over_the_limit_is_refused_by_its_size() {
    let dir = starter("usage-large");
    for name in ["a.bin", "b.bin"] {
        // Sparse: it takes no room on the disk, only in the memory of who reads it.
        let file = fs::File::create(dir.0.join("scripts").join(name)).unwrap();
        file.set_len(300 << 20).unwrap();
    }
    let limited = format!("ulimit -d 262144 && exec {} check", env!("CARGO_BIN_EXE_trainc"));
    let ran = std::process::Command::new("sh").args(["-c", &limited]).current_dir(&dir.0).output().unwrap();
    let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.code() == Some(3) && text.contains("holds over 512"), "{text}");
}
