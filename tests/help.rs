//! The help of every command, as a newcomer reads it: pictures in `tests/help/`.

use crate::support::{root, trainc};

/// The commands, by the program's own list.
fn commands() -> Vec<String> {
    let help = trainc(&["--help"]).out;
    let list = help.split("\nOptions:\n").next().unwrap();
    // Further lines of a command's words are indented deeper.
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_has_a_help_that_is_pictured() {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join("tests/help"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let commands = commands();
    assert!(commands.len() >= 11 && commands.contains(&"lsp".to_owned()), "{commands:?}");
    settings.bind(|| {
        insta::assert_snapshot!("trainc", trainc(&["--help"]).out);
        for command in &commands {
            let ran = trainc(&[command, "--help"]);
            assert_eq!(ran.code, Some(0), "{command}");
            assert!(ran.out.contains("\nExamples:\n  trainc "), "{command} --help shows no example");
            for line in ran.out.lines() {
                assert!(line.chars().count() <= 100, "{command} --help: {line}");
            }
            insta::assert_snapshot!(command.as_str(), ran.out);
        }
    });
    let pictures = crate::support::files("tests/help", &[".snap"]);
    assert_eq!(pictures.len(), commands.len() + 1, "a picture of a command that is gone: {pictures:?}");
}

/// What bash offers for the last of these words.
fn completed(script: &str, words: &[&str]) -> Vec<String> {
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let asked = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_trainc trainc '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1
    );
    let ran = std::process::Command::new("bash").args(["-c", &asked]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn shells_complete_commands_and_what_they_take() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = trainc(&["completions", shell]).out;
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    let script = trainc(&["completions", "bash"]).out;
    for (words, offered) in [
        (&["trainc", "pl"][..], "plan"),
        (&["trainc", "explain", "T030"], "T0301"),
        (&["trainc", "explain", "unit-un"], "unit-unknown"),
        (&["trainc", "catalog", "inst"], "instances"),
        (&["trainc", "check", "-o", "sa"], "sarif"),
        (&["trainc", "check", "--fix", "al"], "all"),
    ] {
        let found = completed(&script, words);
        assert!(found.iter().any(|one| one == offered), "{words:?}: {found:?}");
    }
}
