//! Matching of the manifests before and after a change.

/// Key of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Its path, if it means the same on both sides; else empty.
    pub path: String,
    /// Its job's name.
    pub job: Option<String>,
}

/// Returns the old manifest of each new one: the one with the same path and job, else the only remaining one
/// with its path (the job was renamed), else the only remaining one with its job (the file was moved).
pub fn match_old_manifests(new: &[Key], old: &[Key]) -> Vec<Option<usize>> {
    let mut out: Vec<Option<usize>> = vec![None; new.len()];
    let rules: [fn(&Key, &Key) -> bool; 3] =
        [|a, b| a == b, |a, b| a.path == b.path, |a, b| a.job.is_some() && a.job == b.job];
    for fits in rules {
        for (at, key) in new.iter().enumerate() {
            let open = |at: usize| out.get(at).is_some_and(Option::is_none);
            let rivals = new.iter().enumerate().filter(|(at, other)| open(*at) && fits(key, other)).count();
            let mut left =
                old.iter().enumerate().filter(|(at, other)| !out.contains(&Some(*at)) && fits(key, other));
            let found = match (left.next(), left.next()) {
                (Some((found, _)), None) if open(at) && rivals == 1 => Some(found),
                _ => continue,
            };
            if let Some(slot) = out.get_mut(at) {
                *slot = found;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[(&str, &str)]) -> Vec<Key> {
        of.iter()
            .map(|(path, job)| Key {
                path: (*path).to_owned(),
                job: (!job.is_empty()).then(|| (*job).to_owned()),
            })
            .collect()
    }

    #[test]
    fn manifests_are_known_by_path_and_job() {
        let old = keys(&[("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")]);
        let new = keys(&[("b", "two"), ("a", "other"), ("moved", "three"), ("e", "five")]);
        assert_eq!(match_old_manifests(&new, &old), [Some(1), Some(0), Some(2), None]);
        // Two jobs of a sweep became three: jobs with the same name match.
        let (old, new) =
            (keys(&[("s", "s-1"), ("s", "s-2")]), keys(&[("s", "s-1"), ("s", "s-2"), ("s", "s-3")]));
        assert_eq!(match_old_manifests(&new, &old), [Some(0), Some(1), None]);
        // A single file against another matches, whatever their names; an unreadable one has no job.
        assert_eq!(match_old_manifests(&keys(&[("", "x")]), &keys(&[("", "y")])), [Some(0)]);
        assert_eq!(match_old_manifests(&keys(&[("a", "")]), &keys(&[("a", "x")])), [Some(0)]);
        assert_eq!(match_old_manifests(&keys(&[("a", "")]), &keys(&[("b", "")])), [None]);
    }
}
