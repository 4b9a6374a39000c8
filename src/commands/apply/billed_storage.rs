//! File systems that are billed after an interrupted `apply`.

use trainc_diag::{Invocation, NextCommand, text};

/// Formats a line for the file systems that only this job uses, and one for each shared with other jobs.
/// `systems` are names with the other jobs.
pub(super) fn billed_storage(systems: &[(String, Vec<String>)], invocation: &Invocation) -> String {
    let destroy = NextCommand::new("destroy");
    let (own, shared): (Vec<_>, Vec<_>) = systems.iter().partition(|(_, others)| others.is_empty());
    let mut out = String::new();
    if !own.is_empty() {
        let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let (systems, stay, it) = match names.len() {
            1 => ("system", "remains and is billed", "it"),
            _ => ("systems", "remain and are billed", "them"),
        };
        out.push_str(&format!(
            "  file {systems} {} {stay}: {} deletes {it}\n",
            text::backtick_list(&names, "and"),
            invocation.command_line(&destroy.clone().flag("--delete-data"))
        ));
    }
    for (name, others) in shared {
        let (uses, them) = if others.len() == 1 { ("uses", "that job") } else { ("use", "those jobs") };
        out.push_str(&format!(
            "  file system `{name}` remains because {} also {uses} it: {} leaves it to {them}\n",
            text::backtick_list(others, "and"),
            invocation.command_line(&destroy)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::billed_storage;
    use trainc_diag::Invocation;

    #[test]
    fn shared_file_systems_remain_for_the_other_jobs() {
        let invocation = Invocation::new("c.kdl", Vec::new());
        let of = |name: &str, others: &[&str]| {
            (name.to_owned(), others.iter().map(|other| (*other).to_owned()).collect())
        };
        assert_eq!(billed_storage(&[], &invocation), "");
        assert_eq!(
            billed_storage(&[of("corpus", &[])], &invocation),
            "  file system `corpus` remains and is billed: trainc destroy c.kdl --delete-data deletes it\n"
        );
        assert_eq!(
            billed_storage(&[of("corpus", &["a"]), of("spill", &[]), of("more", &[])], &invocation),
            "  file systems `spill` and `more` remain and are billed: trainc destroy c.kdl \
                --delete-data deletes them\n  file system `corpus` remains because `a` also uses it: trainc \
                destroy c.kdl leaves it to that job\n"
        );
        let both = billed_storage(&[of("corpus", &["a", "b"])], &invocation);
        assert!(
            both.contains("because `a` and `b` also use it") && both.ends_with("leaves it to those jobs\n")
        );
    }
}
