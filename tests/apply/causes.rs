//! What `watch` and `status` say of the cause of a failed job: rules that exist, commands that can be typed.

use trainc_apply::account::TrainingJob;
use trainc_apply::autopsy::Finding;
use trainc_diag::{FailureKind, codes_that_explain};

/// What a rule that speaks of a class has in its name or its summary, and what the next command says.
fn speaks(kind: FailureKind) -> (&'static [&'static str], &'static str) {
    match kind {
        FailureKind::Probe => (&["rate"], "of the probe"),
        FailureKind::Budget => (&["budget"], "`usd`"),
        FailureKind::Memory => (&["memory than its GPUs"], "micro-batch"),
        FailureKind::HostMemory => (&["host memory"], "instance type with more memory"),
        FailureKind::Disk => (&["volume", "disk"], "`volume`"),
        FailureKind::Permission => (&["role"], "role"),
        FailureKind::Image => (&["image"], "image"),
        FailureKind::Capacity => (&["capacity"], "--wait-for-capacity"),
        FailureKind::Service => (&[], "--new-run"),
        FailureKind::Input => (&["bucket", "input"], "buckets"),
        FailureKind::Program => (
            &[
                "argument",
                "entry",
                "requirement",
                "module",
                "toolkit",
                "downloads",
                "NeuronCores",
                "allocator",
            ],
            "program",
        ),
        FailureKind::Collective => (&["efa"], "logs"),
        FailureKind::Stopped => (&[], "--new-run"),
        FailureKind::Time => (&["max-run", "longest run"], "`max-run`"),
        FailureKind::Wait => (&["spot", "interruptions"], "`max-wait`"),
        FailureKind::Quota => (&["quota"], "quota"),
        FailureKind::Unknown => (&[], "logs"),
    }
}

#[test]
fn every_class_names_rules_that_speak_of_it_and_a_command_that_bears_on_it() {
    let plan = super::plan_with("examples/starter/trainc.kdl", &[], None);
    for kind in FailureKind::ALL {
        let (subjects, next) = speaks(*kind);
        let rules = codes_that_explain(trainc::codes(), *kind);
        assert_eq!(rules.is_empty(), subjects.is_empty(), "{kind:?}");
        for id in rules {
            let code = trainc_diag::find(trainc::codes(), id).unwrap_or_else(|| panic!("{id} of {kind:?}"));
            let title = format!("{} {} {}", code.id, code.name, code.summary);
            assert!(subjects.iter().any(|subject| title.contains(subject)), "{kind:?}: {title}");
        }
        let said = Finding { kind: *kind, cause: None }.help(&plan, &TrainingJob::default());
        assert!(said.contains(next) && said.contains("trainc "), "{kind:?}: {said}");
    }
}

/// What a failed job says to type next is something that can be typed.
#[test]
fn every_class_names_commands_and_flags_that_there_are() {
    let app = trainc::cli::command();
    let plan = super::plan_with("examples/starter/trainc.kdl", &[], None);
    for kind in FailureKind::ALL {
        let said = Finding { kind: *kind, cause: None }.help(&plan, &TrainingJob::default());
        let mut commands = said.split("trainc ");
        commands.next();
        for typed in commands {
            let mut words = typed.split(|c: char| c.is_whitespace() || ",;:()".contains(c));
            let name = words.next().unwrap_or_default();
            let command = app.find_subcommand(name).unwrap_or_else(|| panic!("{kind:?}: {said}"));
            for flag in words.filter_map(|word| word.strip_prefix("--")) {
                let known = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
                assert!(known, "{kind:?}: --{flag} of {name}");
            }
        }
    }
}

#[test]
fn a_process_killed_by_the_host_needs_host_memory() {
    let plan = super::plan_with("examples/starter/trainc.kdl", &[], None);
    let next = Finding { kind: FailureKind::HostMemory, cause: None }.help(&plan, &TrainingJob::default());
    assert!(!next.contains("micro-batch") && next.contains("catalog instances"), "{next}");
}
