//! What a sweep varies: paths that lead somewhere, and values that differ.

use super::{pick, set};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::digest::sha256_hex;
use trainc_ir::{Val, Vary};
use trainc_syntax::ast::Node;

declare_code!(T0213, "duplicate-sweep-value", Warning, "a sweep lists the same value twice");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0213];

/// Looks at every `vary` of the job once, so that each job of the sweep need not.
pub(super) fn look(job: &Node, problems: &mut Problems) {
    for vary in job.children_named("sweep").flat_map(|sweep| sweep.children_named("vary")) {
        if let Some((path, arg)) = vary.first_text().zip(vary.arg(0))
            && let Some(problem) = set::nowhere(path, arg.span, &job.children)
        {
            problems.push(problem);
        }
        let mut seen = Vec::new();
        for arg in vary.args.iter().skip(1) {
            let Some(value) = pick::scalar_of(&arg.value) else { continue };
            match seen.iter().find(|(other, _)| *other == value) {
                Some((_, first)) => problems.push(
                    Diagnostic::new(
                        &T0213,
                        arg.span,
                        "the sweep has one value twice: it is one job".to_owned(),
                    )
                    .here("the second")
                    .label(*first, "the first")
                    .help("remove one; runs of other seeds differ by `vary \"train.seed\" 1 2 3`"),
                ),
                None => seen.push((value, arg.span)),
            }
        }
    }
}

/// The longest text of values in a job's name, characters; what is longer gives way to a digest.
const LONGEST: usize = 20;

/// What each job of a sweep adds to the job's name, by what it sets (`path=value`) and the values alone, as text.
///
/// It is the values, not their place in the list: a job keeps its name and what it made when others come or go. Where
/// they make a long name, or two jobs the same one, it is a digest of what is set.
pub fn suffixes(jobs: &[Vec<(String, String)>]) -> Vec<String> {
    let written: Vec<Option<String>> = jobs.iter().map(|sets| words(sets)).collect();
    let name = |(sets, words): (&Vec<(String, String)>, &Option<String>)| {
        if let Some(words) = words
            && written.iter().flatten().filter(|other| *other == words).count() == 1
        {
            return format!("-{words}");
        }
        let all: Vec<&str> = sets.iter().map(|(set, _)| set.as_str()).collect();
        format!("-{}", sha256_hex(all.join("\n").as_bytes()).get(..8).unwrap_or_default())
    };
    jobs.iter().zip(&written).map(name).collect()
}

/// Values as a job's name can hold them: letters and digits, with hyphens for all else between them; none where nothing
/// of a value is left, or all are too long.
fn words(sets: &[(String, String)]) -> Option<String> {
    let word = |(_, value): &(String, String)| {
        let parts: Vec<&str> =
            value.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("-"))
    };
    let words = sets.iter().map(word).collect::<Option<Vec<_>>>()?.join("-");
    (words.len() <= LONGEST).then_some(words)
}

/// What `sweep` varies: paths and their values.
pub(super) fn read(node: &Node) -> Vec<Vary> {
    node.children_named("vary")
        .filter_map(|vary| {
            let path = Val::written(vary.first_text()?.to_owned(), vary.arg(0)?.span);
            let values = vary
                .args
                .get(1..)?
                .iter()
                .filter_map(|arg| Some(Val::written(pick::scalar_of(&arg.value)?, arg.span)));
            Some(Vary { path, values: values.collect() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::suffixes;

    fn named(jobs: &[&[&str]]) -> Vec<String> {
        let set = |value: &&str| (format!("train.micro-batch={value}"), (*value).to_owned());
        suffixes(&jobs.iter().map(|values| values.iter().map(set).collect()).collect::<Vec<_>>())
    }

    #[test]
    fn a_job_keeps_its_name_when_others_come_or_go() {
        assert_eq!(named(&[&["1"], &["2"]]), ["-1", "-2"]);
        assert_eq!(named(&[&["2"], &["4"]]), ["-2", "-4"]);
        assert_eq!(named(&[&["bf16", "1e-05"], &["bf16", "0.5"]]), ["-bf16-1e-05", "-bf16-0-5"]);
    }

    #[test]
    fn what_a_name_cannot_tell_apart_has_a_digest() {
        let names = named(&[&["1.5"], &["1-5"], &["2"], &["#"], &["s3://a-bucket/and/a/long/prefix/"]]);
        assert_eq!(names[2], "-2");
        let digests = [&names[0], &names[1], &names[3], &names[4]];
        for (at, name) in digests.iter().enumerate() {
            assert!(name.len() == 9 && !digests[..at].contains(name), "{names:?}");
        }
    }
}
