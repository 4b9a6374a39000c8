//! Reads and checks the paths and values of a sweep.

use super::set_flag;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Scalar;
use trainc_ir::digest::sha256_hex;
use trainc_syntax::ast::Node;

declare_code!(T0213, "duplicate-sweep-value", Warning, "a sweep lists the same value twice");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0213];

/// Checks every `vary` once for all jobs of the sweep.
pub(super) fn check(job: &Node, problems: &mut Problems) {
    for vary in job.children_named("sweep").flat_map(|sweep| sweep.children_named("vary")) {
        if let Some((path, arg)) = vary.first_text().zip(vary.arg(0))
            && let Some(problem) = set_flag::check_path(path, arg.span, &job.children)
        {
            problems.push(problem);
        }
        let mut seen = Vec::new();
        for arg in vary.args.iter().skip(1) {
            let Some(value) = Scalar::from_value(&arg.value) else { continue };
            match seen.iter().find(|(other, _)| *other == value) {
                Some((_, first)) => problems.push(
                    Diagnostic::new(
                        &T0213,
                        arg.span,
                        "duplicate value in `vary`: both give the same job".to_owned(),
                    )
                    .primary_label("duplicate")
                    .label(*first, "first occurrence")
                    .help("remove one; to repeat a run with other seeds, write `vary \"train.seed\" 1 2 3`"),
                ),
                None => seen.push((value, arg.span)),
            }
        }
    }
}

/// Maximum length of the values in a job's name, in characters; longer values are replaced by a digest.
const MAX_SUFFIX: usize = 20;

/// Returns the name suffix of each job of a sweep, from its settings (`path=value`) and their values as text.
///
/// The suffix consists of the values, not of their position in the list: a job keeps its name and its outputs
/// when values are added or removed. If the suffix is too long or not unique, it is a digest of the settings.
pub fn sweep_suffixes(jobs: &[Vec<(String, String)>]) -> Vec<String> {
    let written: Vec<Option<String>> = jobs.iter().map(|sets| values_as_name_suffix(sets)).collect();
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

/// Returns the values as a job name allows them: letters and digits, other characters replaced by hyphens.
/// `None` if nothing of a value is left or the result is too long.
fn values_as_name_suffix(sets: &[(String, String)]) -> Option<String> {
    let word = |(_, value): &(String, String)| {
        let parts: Vec<&str> =
            value.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("-"))
    };
    let words = sets.iter().map(word).collect::<Option<Vec<_>>>()?.join("-");
    (words.len() <= MAX_SUFFIX).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::sweep_suffixes;

    fn named(jobs: &[&[&str]]) -> Vec<String> {
        let set = |value: &&str| (format!("train.micro-batch={value}"), (*value).to_owned());
        sweep_suffixes(&jobs.iter().map(|values| values.iter().map(set).collect()).collect::<Vec<_>>())
    }

    #[test]
    fn a_job_keeps_its_name_when_values_are_added_or_removed() {
        assert_eq!(named(&[&["1"], &["2"]]), ["-1", "-2"]);
        assert_eq!(named(&[&["2"], &["4"]]), ["-2", "-4"]);
        assert_eq!(named(&[&["bf16", "1e-05"], &["bf16", "0.5"]]), ["-bf16-1e-05", "-bf16-0-5"]);
    }

    #[test]
    fn ambiguous_and_long_values_become_a_digest() {
        let names = named(&[&["1.5"], &["1-5"], &["2"], &["#"], &["s3://a-bucket/and/a/long/prefix/"]]);
        assert_eq!(names[2], "-2");
        let digests = [&names[0], &names[1], &names[3], &names[4]];
        for (at, name) in digests.iter().enumerate() {
            assert!(name.len() == 9 && !digests[..at].contains(name), "{names:?}");
        }
    }
}
