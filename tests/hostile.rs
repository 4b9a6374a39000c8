//! Input that is meant to hurt: the answer is quick, an exit code of ours, and nothing half done.

use crate::support::{Ran, Scratch, read, trainc_in};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs `check` on a file of a scratch directory: refused with 3, in a few seconds, without a panic.
#[track_caller]
fn refused(scratch: &Scratch, name: &str) -> Ran {
    let ran = trainc_in(&scratch.0, &["check", name, "-o", "json"], b"", Duration::from_mins(2));
    assert_eq!(
        ran.code,
        Some(3),
        "{name}: {:?} after {:?}\n{}",
        ran.code,
        ran.took,
        ran.err.chars().take(500).collect::<String>()
    );
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    assert!(ran.out.len() < 4 << 20, "{name}: an answer of {} bytes", ran.out.len());
    ran
}

#[track_caller]
fn codes(ran: &Ran) -> Vec<String> {
    let found = ran.json();
    let all =
        found["manifests"].as_array().unwrap().iter().flat_map(|m| m["problems"].as_array().unwrap().clone());
    all.map(|p| p["code"].as_str().unwrap().to_owned()).collect()
}

fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn too_much_text() {
    let scratch = Scratch::new("large");
    scratch.write("ten.kdl", "// nothing\n".repeat(1_000_000));
    assert_eq!(codes(&refused(&scratch, "ten.kdl")), ["T0107"]);
    let garbage: Vec<u8> = (0..1_000_000_u32)
        .map(|n| u8::try_from((n.wrapping_mul(2_654_435_761) >> 13) & 0x7f).unwrap())
        .collect();
    scratch.write("garbage.kdl", garbage);
    let ran = refused(&scratch, "garbage.kdl");
    assert!(codes(&ran).len() <= 200, "{} problems", codes(&ran).len());
    scratch.write("words.kdl", "banana ".repeat(140_000));
    refused(&scratch, "words.kdl");
    scratch.write("nodes.kdl", format!("job \"x\" {{\n{}}}\n", "banana 1\n".repeat(100_000)));
    refused(&scratch, "nodes.kdl");
    // Many of a kind: the work must not grow with the square of their number.
    let many = lines(40_000, |n| format!("hyperparameter a{n} 1\n"));
    scratch.write("many.kdl", format!("job \"x\" {{\nprogram \"t.py\" {{\n{many}}}\n}}\n"));
    refused(&scratch, "many.kdl");
    let props = lines(80_000, |n| format!(" k{n}=1"));
    scratch.write("props.kdl", format!("job \"x\" {{\ntags{props}\n}}\n"));
    refused(&scratch, "props.kdl");
    let texts = lines(20_000, |n| format!("hyperparameter a{n} \"{{{{ job.name }}}}\"\n"));
    scratch.write("texts.kdl", format!("job \"x\" {{\nprogram \"t.py\" {{\n{texts}}}\n}}\n"));
    refused(&scratch, "texts.kdl");
    // Those that are compared with each other, or looked up one by one.
    let channels = |n| lines(n, |n| format!("channel \"c{n}\" s3=\"s3://bbb/x{n}\"\n"));
    let members = lines(20_000, |n| format!("A{n} \"x\"\n"));
    for (name, list) in [("channels", channels(20_000)), ("request", format!("request {{\n{members}}}\n"))] {
        let name = format!("{name}.kdl");
        scratch.write(&name, format!("job \"x\" {{\n{list}}}\n"));
        assert_eq!(codes(&refused(&scratch, &name)), ["T0111"], "{name}");
    }
    // As many as are read.
    scratch.write("most.kdl", format!("job \"x\" {{\nrole create=#true\n{}}}\n", channels(999)));
    assert!(codes(&refused(&scratch, "most.kdl")).contains(&"T0418".to_owned()));
    scratch.write("line.kdl", format!("job \"x\" {{ region \"{}\" }}", "a".repeat(900_000)));
    refused(&scratch, "line.kdl");
    let human = trainc_in(&scratch.0, &["check", "line.kdl"], b"", Duration::from_mins(2));
    assert_eq!(human.code, Some(3));
    assert!(human.out.len() + human.err.len() < 4 << 20);
}

/// A placeholder goes to a template engine, which nests as deep as it is long and computes constants as it reads.
#[test]
fn placeholders_that_ask_for_much() {
    let scratch = Scratch::new("placeholders");
    let job = |name: &str, value: &str| {
        format!(
            "job \"{name}\" {{\n region \"us-west-2\"\n program \"t.py\" source=\"./s\" {{ hyperparameter \"a\" \"{value}\"; }}\n}}\n"
        )
    };
    for (at, expression) in [
        format!("1{}", " + 1".repeat(200_000)),
        format!("'a'{}", " ~ 'a'".repeat(100_000)),
        format!("{}1", "-".repeat(300_000)),
        format!("{}1", "not ".repeat(200_000)),
        format!("a{}", ".a".repeat(300_000)),
        format!("a{}", "[1]".repeat(200_000)),
        format!("{}1", "1 if 1 else ".repeat(60_000)),
        format!("1{}", "|a".repeat(300_000)),
        "'a' * 100000000".to_owned(),
        "job.name * 100000000".to_owned(),
        "[1] * 100000000".to_owned(),
        format!("'a' * 100000000{}", " ~ 'a' * 100000000".repeat(20)),
    ]
    .iter()
    .enumerate()
    {
        scratch.write("asks.kdl", job("x", &format!("{{{{ {expression} }}}}")));
        let found = codes(&refused(&scratch, "asks.kdl"));
        assert!(found.contains(&"T0231".to_owned()), "{at}: {found:?}");
    }
    // As long as may be, in all the ways that nest: read or refused, on the stack of a thread.
    for piece in [" + 1", "+-1", "-1", " and 1", "|a", ".a", "[0]", " if 1 else 1", " ~ (1", "**1"] {
        let most = 490 / piece.len();
        scratch.write("longest.kdl", job("x", &format!("{{{{ 1{} }}}}", piece.repeat(most))));
        let open = format!("{{{{ {}1 }}}}", "- ".repeat(240));
        scratch.write("signs.kdl", job("x", &open));
        for name in ["longest.kdl", "signs.kdl"] {
            let ran = trainc_in(&scratch.0, &["check", name, "-o", "json"], b"", Duration::from_mins(2));
            assert!(matches!(ran.code, Some(0 | 3)), "{piece}: {:?} {}", ran.code, ran.err);
        }
    }
    // A long name, named often.
    scratch.write("often.kdl", job(&"x".repeat(400_000), &"{{job.name}}".repeat(30_000)));
    let found = codes(&refused(&scratch, "often.kdl"));
    assert_eq!(found.iter().filter(|code| *code == "T0231").count(), 1, "{found:?}");
}

#[test]
fn too_deep() {
    let scratch = Scratch::new("deep");
    for (name, unit, close) in [("braces.kdl", "a {", "}"), ("open.kdl", "a {", ""), ("close.kdl", "}", "")] {
        scratch.write(name, unit.repeat(100_000) + &close.repeat(100_000));
        let found = codes(&refused(&scratch, name));
        if name != "close.kdl" {
            assert_eq!(found, ["T0108"], "{name}");
        }
    }
    scratch.write("comments.kdl", "/*".repeat(100_000));
    refused(&scratch, "comments.kdl");
    scratch.write("slashdash.kdl", "/-".repeat(100_000));
    refused(&scratch, "slashdash.kdl");
    scratch.write("parens.kdl", "(".repeat(100_000));
    refused(&scratch, "parens.kdl");
    let braces = "{{ ".repeat(50_000);
    scratch.write(
        "placeholder.kdl",
        format!("job \"x\" {{\n program \"t.py\" {{\n hyperparameter \"a\" \"{braces}\"\n }}\n}}\n"),
    );
    refused(&scratch, "placeholder.kdl");
    let nested = format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000));
    scratch.write(
        "expression.kdl",
        format!("job \"x\" {{\n program \"t.py\" {{\n hyperparameter \"a\" \"{nested}\"\n }}\n}}\n"),
    );
    refused(&scratch, "expression.kdl");
}

#[test]
fn numbers_beyond_counting() {
    let scratch = Scratch::new("numbers");
    let digits = "9".repeat(100_000);
    scratch.write("digits.kdl", format!("job \"x\" {{\n train {{\n steps {digits}\n micro-batch -{digits}\n }}\n cluster \"ml.p4d.24xlarge\" nodes={digits}\n}}\n"));
    assert!(codes(&refused(&scratch, "digits.kdl")).iter().filter(|code| *code == "T0109").count() == 3);
    scratch.write(
        "float.kdl",
        format!("job \"x\" {{\n train {{\n optimizer \"adamw\" lr=1e{digits}\n }}\n}}\n"),
    );
    refused(&scratch, "float.kdl");
    let most = u64::MAX;
    scratch.write(
        "most.kdl",
        format!(
            "job \"x\" {{\n model \"gpt2\" {{\n hidden {most}\n layers {most}\n heads {most}\n vocab {most}\n positions {most}\n }}\n \
             cluster \"custom\" nodes=1000000 {{\n gpu \"A100-SXM4-80GB\" per-node=1024\n intra \"99999999TB/s\"\n inter \"1B/s\"\n volume \"99999999999TiB\"\n max-run \"9999999999999w\"\n }}\n \
             parallel engine=\"smp\" {{\n shard-degree {most}\n tensor-degree {most}\n pipeline-degree {most} microbatches={most}\n context-degree {most}\n }}\n \
             train {{\n sequence-length {most}\n micro-batch {most}\n accumulation {most}\n tokens {most}\n optimizer \"adamw\" lr=1e6\n }}\n}}\n"
        ),
    );
    refused(&scratch, "most.kdl");
}

/// One number that is far too large in a job that is right otherwise: refused, or all that the program is given is there.
#[test]
fn one_number_beyond_counting() {
    let scratch = Scratch::new("number");
    let starter = read("examples/starter/trainc.kdl");
    let program = "hyperparameter \"peak_tflops\" 70";
    assert!(starter.contains(program));
    let more = format!(
        "{program}\n hyperparameter \"tokens\" \"{{{{ run.tokens }}}}\"\n hyperparameter \"global\" \"{{{{ batch.global_sequences }}}}\""
    );
    scratch.write("job.kdl", starter.replace(program, &more));
    scratch.write(
        "epochs.kdl",
        starter.replace(program, &more).replace("steps 1000", "epochs 1\n dataset sequences=64"),
    );
    for file in ["train.py", "requirements.txt"] {
        scratch.write(&format!("scripts/{file}"), read(&format!("examples/starter/scripts/{file}")));
    }
    let emitted = |manifest: &str, sets: &[String]| {
        let _ = fs::remove_dir_all(scratch.0.join("out"));
        let mut args = vec!["emit", manifest, "--out", "out"];
        for set in sets {
            args.extend(["--set", set.as_str()]);
        }
        let ran = trainc_in(&scratch.0, &args, b"", Duration::from_mins(2));
        assert!(matches!(ran.code, Some(0 | 3)), "{sets:?}: {:?}\n{}", ran.code, ran.err);
        // What is refused is planned all the same, as far as it goes.
        if !sets.is_empty() {
            args.splice(..4, ["plan", "--offline", manifest, "-o", "json"]);
            let planned = trainc_in(&scratch.0, &args, b"", Duration::from_mins(2));
            assert!(matches!(planned.code, Some(0 | 3)), "{sets:?}: {:?}\n{}", planned.code, planned.err);
        }
        if ran.code == Some(3) {
            assert!(ran.err.contains("error["), "{sets:?}: {}", ran.err);
            return None;
        }
        let text = fs::read_to_string(scratch.0.join("out/sagemaker/training-job.json")).unwrap();
        let request: serde_json::Value = serde_json::from_str(&text).unwrap();
        let all = request["HyperParameters"].as_object().unwrap().clone();
        Some(all.into_iter().map(|(key, _)| key).collect::<Vec<String>>())
    };
    let mut refused = 0;
    for (manifest, fields) in [
        (
            "job.kdl",
            &[
                "train.micro-batch",
                "train.global-batch",
                "train.accumulation",
                "train.steps",
                "train.sequence-length",
                "cluster.nodes",
                "train.seed",
            ][..],
        ),
        ("epochs.kdl", &["train.epochs", "train.dataset.sequences"]),
    ] {
        let whole = emitted(manifest, &[]).unwrap();
        for field in fields {
            for value in [i64::MAX, i64::MAX / 2 + 1, 1 << 40] {
                match emitted(manifest, &[format!("{field}={value}")]) {
                    Some(keys) => assert_eq!(keys, whole, "{field}={value}"),
                    None => refused += 1,
                }
            }
        }
    }
    assert!(refused >= 12, "{refused}");
}

/// A link of a directory is one like that of a file; one inside of the repository is followed.
#[test]
fn nothing_is_written_through_a_directory_outside() {
    let scratch = Scratch::new("written-outside");
    let loose = "region    \"us-west-2\"\n";
    fs::create_dir_all(scratch.0.join("repo/.git")).unwrap();
    for path in ["outside/t.kdl", "repo/inside/t.kdl"] {
        fs::create_dir_all(scratch.0.join(path).parent().unwrap()).unwrap();
        scratch.write(path, loose);
    }
    symlink("../outside", scratch.0.join("repo/out")).unwrap();
    symlink("inside", scratch.0.join("repo/in")).unwrap();
    for argument in ["repo/out/t.kdl", "repo/out"] {
        let ran = trainc_in(&scratch.0, &["fmt", argument], b"", Duration::from_mins(1));
        assert_eq!(ran.code, Some(3), "{argument}: {}", ran.err);
        assert_eq!(fs::read_to_string(scratch.0.join("outside/t.kdl")).unwrap(), loose);
    }
    let ran = trainc_in(&scratch.0, &["fmt", "repo/in/t.kdl"], b"", Duration::from_mins(1));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_ne!(fs::read_to_string(scratch.0.join("repo/inside/t.kdl")).unwrap(), loose);
}

#[test]
fn layers_that_lead_astray() {
    let scratch = Scratch::new("layers");
    fs::create_dir_all(scratch.0.join("repo/.git")).unwrap();
    scratch.write("outside.kdl", "region \"us-west-2\"\n");
    scratch.write("repo/a.kdl", "extends \"b.kdl\"\nregion \"us-west-2\"\n");
    scratch.write("repo/b.kdl", "extends \"c.kdl\"\n");
    scratch.write("repo/c.kdl", "extends \"./a.kdl\"\n");
    symlink("../outside.kdl", scratch.0.join("repo/link.kdl")).unwrap();
    fs::create_dir(scratch.0.join("repo/dir.kdl")).unwrap();
    scratch.write("repo/bytes.kdl", b"region \"\xff\xfe\"\n");
    assert!(Command::new("mkfifo").arg(scratch.0.join("repo/fifo.kdl")).status().unwrap().success());
    for (name, layer, code) in [
        ("circle", "a.kdl", "T0201"),
        ("self", "job-self.kdl", "T0201"),
        ("dots", "../outside.kdl", "T0203"),
        ("deep-dots", "../../../../../../../../etc/passwd", "T0203"),
        ("absolute", "/etc/passwd", "T0203"),
        ("link", "link.kdl", "T0203"),
        ("directory", "dir.kdl", "T0202"),
        ("fifo", "fifo.kdl", "T0202"),
        ("bytes", "bytes.kdl", "T0202"),
        ("nul", "a\\u{0}b", "T0202"),
        ("long", &"x".repeat(5_000), "T0202"),
    ] {
        scratch.write(&format!("repo/job-{name}.kdl"), format!("extends \"{layer}\"\njob \"x\" {{\n}}\n"));
        let found = codes(&refused(&scratch, &format!("repo/job-{name}.kdl")));
        assert_eq!(found, [code], "{name}");
    }
    // A chain of many layers, each sound.
    for at in 0..40 {
        scratch.write(&format!("repo/chain{at}.kdl"), format!("extends \"chain{}.kdl\"\n", at + 1));
    }
    scratch.write("repo/chain40.kdl", "region \"us-west-2\"\n");
    scratch.write("repo/chain.kdl", "extends \"chain0.kdl\"\njob \"x\" {\n}\n");
    assert_eq!(codes(&refused(&scratch, "repo/chain.kdl")), ["T0201"]);
    // Layers that each extend two others: no work beyond the files there are.
    for at in 0..15 {
        scratch.write(
            &format!("repo/fan{at}.kdl"),
            format!("extends \"fan{n}.kdl\"\nextends \"./fan{n}.kdl\"\n", n = at + 1),
        );
    }
    scratch.write("repo/fan15.kdl", "region \"us-west-2\"\n");
    scratch.write("repo/fan.kdl", "extends \"fan0.kdl\"\njob \"x\" {\n}\n");
    refused(&scratch, "repo/fan.kdl");
}

#[test]
fn files_that_are_none() {
    let scratch = Scratch::new("none");
    assert!(Command::new("mkfifo").arg(scratch.0.join("fifo.kdl")).status().unwrap().success());
    assert_eq!(codes(&refused(&scratch, "fifo.kdl")), ["T0140"]);
    assert_eq!(codes(&refused(&scratch, "/dev/zero")), ["T0140"]);
    scratch.write("middle.kdl", b"job \"x\" {\n  tags a=\"\xff\xfe\"\n  region 7\n}\n");
    let found = codes(&refused(&scratch, "middle.kdl"));
    assert!(found.contains(&"T0110".to_owned()) && found.contains(&"T0124".to_owned()), "{found:?}");
    scratch.write("nul.kdl", "job \"x\" {\n  region \"a\0b\"\n}\n");
    refused(&scratch, "nul.kdl");
    scratch.write("utf16.kdl", "job \"x\" {}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    refused(&scratch, "utf16.kdl");
    scratch.write("empty.kdl", "");
    assert_eq!(codes(&refused(&scratch, "empty.kdl")), ["T0207"]);
    // A loop of links and a program directory that leads into itself.
    symlink("loop.kdl", scratch.0.join("loop.kdl")).unwrap();
    assert_eq!(codes(&refused(&scratch, "loop.kdl")), ["T0140"]);
    fs::create_dir_all(scratch.0.join("scripts")).unwrap();
    symlink(".", scratch.0.join("scripts/again")).unwrap();
    scratch.write("circle.kdl", "job \"x\" {\n program \"t.py\" source=\"./scripts\"\n}\n");
    assert!(codes(&refused(&scratch, "circle.kdl")).contains(&"T0501".to_owned()));
}

fn fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_search_reads_only_regular_files() {
    let scratch = Scratch::new("walked");
    emitting(&scratch);
    fifo(&scratch.0.join("emitted/plan.json"));
    fifo(&scratch.0.join("out/trainc/plan.json"));
    fs::create_dir(scratch.0.join("endless")).unwrap();
    symlink("/dev/zero", scratch.0.join("endless/plan.json")).unwrap();
    let limit = Duration::from_mins(1);
    let run = |args: &[&str]| trainc_in(&scratch.0, args, b"", limit);
    for args in [
        &["check", "."][..],
        &["plan", "--offline", "."],
        &["fmt", "--check", "."],
        &["emit", ".", "--out", "emitted"],
        &["emit", ".", "--out", "out"],
        &["emit", ".", "--out", "out", "--check"],
        &["status", ".", "--simulate"],
        &["apply", ".", "--simulate", "--yes"],
        &["tune", "."],
        &["run", "."],
    ] {
        let ran = run(args);
        assert!(ran.code.is_some_and(|code| code != 101), "{args:?}: {:?} after {:?}", ran.code, ran.took);
    }
    assert_eq!(run(&["check", "."]).code, Some(0));
    // A manifest that is not a file is an error, and the others are checked.
    fifo(&scratch.0.join("jobs/pipe.kdl"));
    symlink("/dev/zero", scratch.0.join("jobs/endless.kdl")).unwrap();
    for args in [&["check", "."][..], &["fmt", "--check", "."]] {
        let ran = run(args);
        assert_eq!(ran.code, Some(3), "{args:?}");
        let said = ran.out + &ran.err;
        assert!(said.contains("jobs/pipe.kdl` cannot be read: not a regular file"), "{said}");
    }
}

/// What the shell makes of `<(…)`.
#[test]
fn a_named_pipe_is_read_once_and_used_as_often_as_needed() {
    let scratch = Scratch::new("pipe");
    emitting(&scratch);
    let swept = read("examples/distilbert-spot/trainc.kdl").replacen(
        '{',
        "{\n  sweep { vary \"cluster.nodes\" 1 2; }\n",
        1,
    );
    let limit = Duration::from_mins(1);
    for path in ["-", "/dev/stdin"] {
        let ran = trainc_in(&scratch.0, &["check", path, "-o", "json"], swept.as_bytes(), limit);
        let manifests = ran.json()["manifests"].as_array().unwrap().clone();
        assert_eq!(manifests.len(), 2, "{path}");
        assert!(manifests.iter().all(|one| !one["job"].is_null()), "{path}: {}", ran.out);
        let plan = ["apply", path, "--simulate", "--yes"];
        let applied = trainc_in(&scratch.0, &plan, swept.as_bytes(), limit);
        assert_eq!(applied.code, Some(0), "{path}: {}", applied.err);
        let formatted = trainc_in(&scratch.0, &["fmt", path], b"job \"x\" {}", limit);
        assert_eq!((formatted.code, formatted.out.starts_with("job")), (Some(0), true), "{}", formatted.err);
    }
    let ran = trainc_in(&scratch.0, &["import", "/dev/stdin"], b"{}", limit);
    assert!(!ran.err.contains("cannot be read"), "{}", ran.err);
    // Nobody writes to it.
    fifo(&scratch.0.join("fifo"));
    let commands = [
        &["check", "fifo"][..],
        &["fmt", "fifo"],
        &["import", "fifo"],
        &["calibrate", "fifo"],
        &["apply", "fifo", "--simulate", "--yes"],
        &["check", "trainc.kdl", "--calibration", "fifo"],
    ];
    // All at once, since each waits until it gives up.
    std::thread::scope(|scope| {
        let scratch = &scratch;
        let running = commands.map(|args| scope.spawn(move || trainc_in(&scratch.0, args, b"", limit)));
        for (args, ran) in commands.into_iter().zip(running) {
            let ran = ran.join().unwrap();
            assert!(matches!(ran.code, Some(2 | 3)), "{args:?}: {:?} {}", ran.code, ran.err);
            let said = ran.out + &ran.err;
            assert!(said.contains("no process writes to this pipe"), "{args:?}: {said}");
        }
    });
}

/// An example that emits, copied so that a test may do with it what it likes.
fn emitting(scratch: &Scratch) {
    for path in crate::support::files("examples/distilbert-spot", &[".kdl", ".py", ".txt"]) {
        scratch.write(path.trim_start_matches("examples/distilbert-spot/"), read(&path));
    }
}

/// What lies in a directory, hidden things too.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn emit_writes_whole_or_not_at_all() {
    let scratch = Scratch::new("emit");
    emitting(&scratch);
    let limit = Duration::from_mins(2);
    let emit = |out: &str| trainc_in(&scratch.0, &["emit", "trainc.kdl", "--out", out], b"", limit);
    let before = names(&scratch.0);
    scratch.write("file", "here");
    let under_file = emit("file/out");
    assert!(
        !under_file.err.contains("panicked") && under_file.code.is_some_and(|code| code != 0 && code != 101),
        "{:?} {}",
        under_file.code,
        under_file.err
    );
    let onto_file = emit("file");
    assert!(
        onto_file.code.is_some_and(|code| code != 0 && code != 101),
        "{:?} {}",
        onto_file.code,
        onto_file.err
    );
    assert_eq!(fs::read_to_string(scratch.0.join("file")).unwrap(), "here");
    fs::remove_file(scratch.0.join("file")).unwrap();
    assert_eq!(names(&scratch.0), before, "something was left behind");
    // A manifest with an error writes nothing.
    scratch.write("bad.kdl", read("examples/distilbert-spot/trainc.kdl").replace("us-", "su-"));
    let bad = trainc_in(&scratch.0, &["emit", "bad.kdl", "--out", "out"], b"", limit);
    assert_eq!(bad.code, Some(3), "{}", bad.err);
    assert!(!scratch.0.join("out").exists());
    fs::remove_file(scratch.0.join("bad.kdl")).unwrap();
    assert_eq!(emit("out").code, Some(0));
    assert_eq!(names(&scratch.0).len(), before.len() + 1);
    // A second time over the first.
    assert_eq!(emit("out").code, Some(0));
    assert_eq!(names(&scratch.0).len(), before.len() + 1);
    // A directory of somebody else is left alone.
    scratch.write("theirs/notes.txt", "mine");
    let theirs = emit("theirs");
    assert_eq!(theirs.code, Some(2), "{}", theirs.err);
    assert_eq!(names(&scratch.0.join("theirs")), ["notes.txt"]);
    // So it is with a plan in it: `plan -o json` writes one beside the manifest, and other tools have theirs.
    for plan in [read(scratch.0.join("out/plan.json").to_str().unwrap()), "{}".to_owned()] {
        scratch.write("theirs/plan.json", plan);
        assert_eq!(emit("theirs").code, Some(2));
        assert_eq!(names(&scratch.0.join("theirs")), ["notes.txt", "plan.json"]);
    }
    // Root may write anywhere, so a directory without rights stops only others.
    fs::create_dir(scratch.0.join("sealed")).unwrap();
    fs::set_permissions(scratch.0.join("sealed"), fs::Permissions::from_mode(0o500)).unwrap();
    let sealed = emit("sealed/out");
    assert!(matches!(sealed.code, Some(code) if code != 101), "{:?}", sealed.code);
    if sealed.code != Some(0) {
        assert!(names(&scratch.0.join("sealed")).is_empty());
    }
    fs::set_permissions(scratch.0.join("sealed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn emits_into_one_directory_at_once() {
    let scratch = Scratch::new("at-once");
    emitting(&scratch);
    for at in 0..200 {
        scratch.write(&format!("scripts/data/{at}.txt"), "x".repeat(2_000));
    }
    let before = names(&scratch.0).len();
    let emit = || trainc_in(&scratch.0, &["emit", "trainc.kdl", "--out", "out"], b"", Duration::from_mins(1));
    // The directory is new, then replaced.
    for _ in 0..2 {
        let all: Vec<Ran> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..20).map(|_| scope.spawn(emit)).collect();
            started.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(all.iter().any(|ran| ran.code == Some(0)));
        for ran in all.iter().filter(|ran| ran.code != Some(0)) {
            assert_eq!(ran.code, Some(5), "{}", ran.err);
            assert!(ran.err.contains("another `emit` is writing `out`"), "{}", ran.err);
        }
        assert_eq!(names(&scratch.0).len(), before + 1, "{:?}", names(&scratch.0));
        let check = ["emit", "trainc.kdl", "--out", "out", "--check"];
        assert_eq!(trainc_in(&scratch.0, &check, b"", Duration::from_mins(1)).code, Some(0));
    }
    scratch.write(".out.trainc-new/notes.txt", "mine");
    let ran = emit();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert_eq!(names(&scratch.0.join(".out.trainc-new")), ["notes.txt"]);
}

#[test]
fn emit_killed_leaves_no_partial_directory() {
    let scratch = Scratch::new("killed");
    emitting(&scratch);
    // Enough files that writing takes a while.
    for at in 0..400 {
        scratch.write(&format!("scripts/data/{at}.txt"), "x".repeat(20_000));
    }
    let whole = trainc_in(&scratch.0, &["emit", "trainc.kdl", "--out", "whole"], b"", Duration::from_mins(1));
    assert_eq!(whole.code, Some(0), "{}", whole.err);
    let wanted = count(&scratch.0.join("whole"));
    for part in 1..8_u32 {
        let limit = whole.took * part / 8;
        trainc_in(&scratch.0, &["emit", "trainc.kdl", "--out", "out"], b"", limit);
        let out = scratch.0.join("out");
        assert!(!out.exists() || count(&out) == wanted, "a partial directory after {limit:?}");
    }
    // What a killed run left does not stand in the way of the next.
    let again = trainc_in(&scratch.0, &["emit", "trainc.kdl", "--out", "out"], b"", Duration::from_mins(1));
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_eq!(count(&scratch.0.join("out")), wanted);
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 })
        .sum()
}
