//! The help of every command, as a newcomer reads it: pictures in `tests/help/`.

use crate::support::{root, trainc};

/// The commands, by the program's own list.
fn commands() -> Vec<String> {
    let help = trainc(&["--help"]).out;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
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
