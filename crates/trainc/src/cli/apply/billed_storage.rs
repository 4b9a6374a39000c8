//! What an apply that was cut off leaves behind that costs money: file systems without their job.

use trainc_diag::{Invocation, NextCommand, text};

/// A line for those that only this job uses, and one for each that others use as well: whoever made it, it stays for them.
/// `systems` are names with the other jobs.
pub(super) fn billed_storage(systems: &[(String, Vec<String>)], invocation: &Invocation) -> String {
    let destroy = NextCommand::new("destroy");
    let (own, shared): (Vec<_>, Vec<_>) = systems.iter().partition(|(_, others)| others.is_empty());
    let mut out = String::new();
    if !own.is_empty() {
        let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let (systems, stay, it) = match names.len() {
            1 => ("system", "stays and is billed", "it"),
            _ => ("systems", "stay and are billed", "them"),
        };
        out.push_str(&format!(
            "  file {systems} {} {stay}: {} removes {it}\n",
            text::backtick_list(&names, "and"),
            invocation.command(&destroy.clone().flag("--delete-data"))
        ));
    }
    for (name, others) in shared {
        let (uses, them) = if others.len() == 1 { ("uses", "that job") } else { ("use", "those jobs") };
        out.push_str(&format!(
            "  file system `{name}` stays, for {} {uses} it, too: {} leaves it to {them}\n",
            text::backtick_list(others, "and"),
            invocation.command(&destroy)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::billed_storage;
    use trainc_diag::Invocation;

    #[test]
    fn what_others_use_stays_for_them_whoever_made_it() {
        let invocation = Invocation::new("c.kdl", Vec::new());
        let of = |name: &str, others: &[&str]| {
            (name.to_owned(), others.iter().map(|other| (*other).to_owned()).collect())
        };
        assert_eq!(billed_storage(&[], &invocation), "");
        assert_eq!(
            billed_storage(&[of("corpus", &[])], &invocation),
            "  file system `corpus` stays and is billed: trainc destroy c.kdl --delete-data removes it\n"
        );
        assert_eq!(
            billed_storage(&[of("corpus", &["a"]), of("spill", &[]), of("more", &[])], &invocation),
            "  file systems `spill` and `more` stay and are billed: trainc destroy c.kdl --delete-data removes them\n  \
             file system `corpus` stays, for `a` uses it, too: trainc destroy c.kdl leaves it to that job\n"
        );
        let both = billed_storage(&[of("corpus", &["a", "b"])], &invocation);
        assert!(both.contains("for `a` and `b` use it, too") && both.ends_with("leaves it to those jobs\n"));
    }
}
