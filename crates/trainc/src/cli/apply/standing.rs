//! What an apply that was cut off leaves behind that costs money: file systems without their job.

use trainc_diag::text;

/// A line for those that only this job uses, and one for each that others use as well: whoever made it, it stays for them.
/// `systems` are names with the other jobs; `again` is what follows a command about this one.
pub(super) fn standing(systems: &[(String, Vec<String>)], again: &str) -> String {
    let (own, shared): (Vec<_>, Vec<_>) = systems.iter().partition(|(_, others)| others.is_empty());
    let mut out = String::new();
    if !own.is_empty() {
        let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let (systems, stay, it) = match names.len() {
            1 => ("system", "stays and is billed", "it"),
            _ => ("systems", "stay and are billed", "them"),
        };
        out.push_str(&format!(
            "  file {systems} {} {stay}: trainc destroy {again} --delete-data removes {it}\n",
            text::ticked(&names, "and")
        ));
    }
    for (name, others) in shared {
        let (uses, them) = if others.len() == 1 { ("uses", "that job") } else { ("use", "those jobs") };
        out.push_str(&format!(
            "  file system `{name}` stays, for {} {uses} it, too: trainc destroy {again} leaves it to {them}\n",
            text::ticked(others, "and")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::standing;

    #[test]
    fn what_others_use_stays_for_them_whoever_made_it() {
        let of = |name: &str, others: &[&str]| {
            (name.to_owned(), others.iter().map(|other| (*other).to_owned()).collect())
        };
        assert_eq!(standing(&[], "c.kdl"), "");
        assert_eq!(
            standing(&[of("corpus", &[])], "c.kdl"),
            "  file system `corpus` stays and is billed: trainc destroy c.kdl --delete-data removes it\n"
        );
        assert_eq!(
            standing(&[of("corpus", &["a"]), of("spill", &[]), of("more", &[])], "c.kdl"),
            "  file systems `spill` and `more` stay and are billed: trainc destroy c.kdl --delete-data removes them\n  \
             file system `corpus` stays, for `a` uses it, too: trainc destroy c.kdl leaves it to that job\n"
        );
        let both = standing(&[of("corpus", &["a", "b"])], "c.kdl");
        assert!(both.contains("for `a` and `b` use it, too") && both.ends_with("leaves it to those jobs\n"));
    }
}
