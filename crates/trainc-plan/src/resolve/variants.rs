//! Other jobs of one file, which are checked with the job itself.

use super::Merged;
use super::duplicates::{ActiveDuplicate, activate_second_duplicates};
use super::preferred_types::preferred_types;
use trainc_diag::source::Spanned;

/// Another job of one file.
#[derive(Debug)]
pub struct Variant {
    /// What differs from the job.
    pub change: Change,
    /// The job.
    pub merged: Merged,
}

/// What differs in a variant.
#[derive(Debug)]
pub enum Change {
    /// The second of each set of duplicates replaces the first: the user may keep either, so the problems of
    /// both are reported in one run.
    SecondDuplicates(Vec<ActiveDuplicate>),
    /// Another of the preferred instance types is the first, for which the job is planned.
    PreferredType(Spanned<String>),
}

/// Returns the variants of a job: that with its second duplicates, then one for each further preferred type.
pub fn variants(merged: &Merged) -> Vec<Variant> {
    let mut out: Vec<Variant> = activate_second_duplicates(merged).into_iter().collect();
    out.extend(preferred_types(merged));
    out
}
