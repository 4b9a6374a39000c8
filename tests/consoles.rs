//! The console blocks on the pages of codes: what they type is what trainc takes, and what they show is what it says.
//!
//! A block whose commands need nothing but a shell and trainc is run, in a directory of small jobs; of the others, which
//! speak to an account or to the network, each command must be one that trainc takes.

use crate::support::{Scratch, files_of_crates, page_files, read, root, sources, trainc_in};
use regex::Regex;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

/// What a block may call to be run here.
const RUNNABLE: &[&str] =
    &["trainc", "printf", "echo", "seq", "cp", "sed", "rm", "ln", "for", "cat", "long=$(printf"];
/// Commands of trainc that ask an account.
const ASKING: &[&str] = &["apply", "plan job", "plan sweep", "status", "watch", "logs", "stop", "destroy"];
/// Pages whose commands need a network (T0503), files of a model that is not ours to ship, or a script of the user and the
/// packages that it imports, which the Python tests have.
const NOT_HERE: &[&str] = &["T0503", "T0523", "T0526", "T0527", "T0690", "T0691", "T0692", "T0693", "T0770"];

struct Block {
    section: String,
    commands: Vec<String>,
    shown: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let (mut section, mut open) = (String::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            open = line == "```console";
            if open {
                out.push(Block { section: section.clone(), commands: Vec::new(), shown: Vec::new() });
            }
        } else if open {
            let block = out.last_mut().unwrap();
            match line.strip_prefix("$ ") {
                Some(command) => block.commands.push(command.to_owned()),
                None => block.shown.push(line.to_owned()),
            }
        } else if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
    }
    out
}

fn pages() -> Vec<(String, Vec<Block>)> {
    let mut pages = Vec::new();
    for path in page_files() {
        let code = Path::new(&path).file_stem().unwrap().to_string_lossy().into_owned();
        pages.push((code, blocks(&read(&path))));
    }
    pages
}

/// A directory with what the pages name: `trainc.kdl`, `job.kdl`, `first.kdl` with a shared checkpoint, `jobs/`, `corpus/` with a file system.
fn world(name: &str) -> Scratch {
    let dir = Scratch::new(&format!("console-{name}"));
    let starter = read("examples/starter/trainc.kdl");
    let named = |name: &str| starter.replace("job \"my-first-job\"", &format!("job \"{name}\""));
    fs::create_dir_all(dir.0.join(".git")).unwrap();
    dir.write(
        "trainc.kdl",
        named("example").replace("region \"us", "account \"111122223333\"\n    region \"us"),
    );
    dir.write("job.kdl", named("job"));
    dir.write("first.kdl", named("first").replace("{{ job.digest }}/checkpoints/", "checkpoints/"));
    dir.write("jobs/pretrain.kdl", named("pretrain"));
    let network =
        "network { subnets \"subnet-0123456789abcdef0\"; security-groups \"sg-0123456789abcdef0\"; }";
    let storage =
        "storage \"lustre\" name=\"corpus\" capacity=\"1200GiB\" deployment=\"persistent-2\" throughput=125";
    let of_storage =
        named("first").replace("region \"us", &format!("{network}\n    {storage}\n    region \"us"));
    dir.write("corpus/first.kdl", of_storage);
    for place in ["scripts", "jobs/scripts", "corpus/scripts"] {
        for file in ["train.py", "requirements.txt"] {
            dir.write(&format!("{place}/{file}"), read(&format!("examples/starter/scripts/{file}")));
        }
    }
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        dir.write(file, read(&format!("tests/packing/bytes/{file}")));
    }
    dir
}

/// Runs the lines as one script, trainc first on the path. What they printed, and how they ended.
fn run(dir: &Path, commands: &[String]) -> (String, i32) {
    let binary = Path::new(env!("CARGO_BIN_EXE_trainc")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("exec 2>&1\n{}", commands.join("\n")))
        .current_dir(dir)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "400")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1))
}

fn is_run(code: &str, block: &Block) -> bool {
    !NOT_HERE.contains(&code)
        && block.commands.iter().all(|command| {
            let first = command.split_whitespace().next().unwrap_or("");
            RUNNABLE.contains(&first)
                && !command
                    .strip_prefix("trainc ")
                    .is_some_and(|rest| ASKING.iter().any(|asking| rest.starts_with(asking)))
        })
}

#[test]
fn what_needs_no_account_is_run() {
    let (mut faults, mut wrong, mut right) = (Vec::new(), 0, 0);
    for (code, blocks) in pages().iter().filter(|(_, blocks)| !blocks.is_empty()) {
        let dir = world(code);
        for block in blocks.iter().filter(|block| is_run(code, block)) {
            let (said, _) = run(&dir.0, &block.commands);
            let head = said.lines().any(|line| {
                let is_head = |kind| line.starts_with(&format!("{kind}[{code}]"));
                ["error", "warning", "note"].into_iter().any(is_head)
                    // What the reader of the command line refuses.
                    || line.starts_with("error: ") && line.contains(&format!("({code})"))
            });
            let wanted = block.section == "Wrong";
            *(if wanted { &mut wrong } else { &mut right }) += 1;
            if head != wanted {
                faults.push(format!("{code}, {}: {:?} printed\n{said}", block.section, block.commands));
            }
            for shown in &block.shown {
                if !said.lines().any(|line| line.trim() == shown.trim()) {
                    faults.push(format!("{code}: `{shown}` is not in\n{said}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n\n"));
    assert!(wrong >= 18 && right >= 12, "only {wrong} and {right} blocks were run");
}

/// The words of a command as a shell would part them; its redirections and its comment left out.
pub fn words(command: &str) -> Vec<String> {
    let (mut out, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in command.chars() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '#') if word.is_empty() => break,
            (None, '>' | '|' | ';') => break,
            (None, ' ') => {
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(letter),
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

#[test]
fn every_command_is_one_that_trainc_takes() {
    let mut faults = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (code, blocks) in pages() {
        for command in blocks.iter().flat_map(|block| &block.commands) {
            let Some(rest) = command.strip_prefix("trainc ") else { continue };
            let mut args = words(rest);
            // The flags before it are read first, and one that is unknown or has a wrong value ends the reading there.
            args.push("--help".to_owned());
            if seen.insert(args.clone()) {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let ran = trainc_in(root(), &args, b"", Duration::from_mins(1));
                // What is wrong on purpose, and a file that is built in the line above it.
                let is_meant = ran.err.contains(&format!("({code})")) || ran.err.contains("no such file");
                if (ran.code != Some(0) || !ran.out.contains("Usage:")) && !is_meant {
                    faults.push(format!("{code}: `{command}`\n{}", ran.err));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen.len() > 60, "only {} commands were seen", seen.len());
}

/// A diagnostic on a page looks as trainc prints it, and its words are trainc's, as far as they do not vary.
#[test]
fn what_is_shown_is_what_trainc_says() {
    let head = Regex::new(r"^(error|warning|note)\[(T\d{4})\] ([a-z0-9-]+): (.+)$").unwrap();
    let detail = Regex::new(r"^  (?:help|note): (.+)$").unwrap();
    // Names, figures, ids and what AWS answered: everything that differs from job to job.
    let varies = Regex::new(
        r"`[^`]*`|[A-Z][A-Za-z]+(?:Exception|Error|Exceeded|Token|Request|Conflict|Unavailable): .*$|\S*\d\S*(?: (?:instances?|hosts?|packages?|in)\b)?|\b\w+:\w+\b|is CREATING|the subnets|outbound is|missing outbound|but its role|belongs to |no capacity in the zone|\w+[a-z][A-Z]\w+|…",
    )
    .unwrap();
    let mut code = String::new();
    for path in sources() {
        code.push_str(&read(&path));
    }
    let sources = Regex::new(r"\\\n\s*").unwrap().replace_all(&code, "").into_owned();
    let mut faults = Vec::new();
    let mut seen = 0;
    for (code, blocks) in pages() {
        let name = trainc::codes().iter().find(|one| one.id == code).unwrap().name;
        for line in blocks.iter().flat_map(|block| &block.shown) {
            let message = if let Some(found) = head.captures(line) {
                if (&found[2], &found[3]) != (code.as_str(), name) {
                    faults.push(format!("{code}: `{line}` is not a {name}"));
                }
                found[4].to_owned()
            } else if let Some(found) = detail.captures(line) {
                found[1].to_owned()
            } else {
                faults.push(format!("{code}: `{line}` has no form of trainc's"));
                continue;
            };
            seen += 1;
            for fixed in varies.split(&message).flat_map(|part| part.split(": ")) {
                let fixed = fixed.trim_matches([' ', ',', ':', ';']);
                if fixed.len() > 8 && !sources.contains(fixed) {
                    faults.push(format!("{code}: nothing says `{fixed}` of `{message}`"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(seen > 40, "only {seen} lines were seen");
}

/// Commands in the texts of the source, `trainc COMMAND …`, up to where they end: a backtick, a quote, a sign of a sentence.
fn typed(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    let code = Regex::new(r"\\\n\s*").unwrap().replace_all(&code, "").into_owned();
    let begins =
        Regex::new(r#"(?:[`"(]|\\n|  |then |with |or |it: |over: |&& )trainc ([a-z]+[^`"\n]*)"#).unwrap();
    let found = begins.captures_iter(&code).map(|found| found[1].to_owned());
    found
        .map(|text| {
            let ends = ["\\n", " && ", "; ", ", ", ": ", ") ", ")."];
            let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
            text[..end].trim_end_matches([')', ',', ';', ':']).to_owned()
        })
        .collect()
}

/// What a help, a note or a next step says to type: a command that there is, and flags that it has.
#[test]
fn every_command_that_a_message_says_is_there_with_its_flags() {
    let list = trainc_in(root(), &["--help"], b"", Duration::from_mins(1)).out;
    let mut helps = std::collections::BTreeMap::new();
    let (mut faults, mut seen) = (Vec::new(), 0);
    for path in files_of_crates(&[".rs", ".toml"]).into_iter().filter(|path| path.contains("src/")) {
        for command in typed(&read(&path)) {
            let mut args: Vec<&str> = command.split_whitespace().collect();
            let verb = args.remove(0);
            if !list.lines().any(|line| line.split_whitespace().next() == Some(verb)) {
                // A sentence: "trainc makes …".
                continue;
            }
            seen += 1;
            let sub = args.first().copied().filter(|sub| verb == "data" && *sub == "pack");
            let help = helps.entry(format!("{verb} {}", sub.unwrap_or_default())).or_insert_with(|| {
                let words: Vec<&str> = [verb].into_iter().chain(sub).chain(["--help"]).collect();
                trainc_in(root(), &words, b"", Duration::from_mins(1)).out
            });
            for word in args.iter().filter(|word| word.starts_with("--")) {
                let flag: String = word
                    .chars()
                    .take_while(|c| c.is_ascii_lowercase() || *c == '-' || c.is_ascii_digit())
                    .collect();
                if flag.len() > 2
                    && !help.contains(&format!("{flag} "))
                    && !help.contains(&format!("{flag}\n"))
                    && !help.contains(&format!("{flag}["))
                {
                    faults.push(format!("{path}: `{flag}` of `trainc {command}`"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 100, "only {seen} commands were seen");
}
