//! Subjects of the identity tokens of CI: which runs of which repository a role trusts.

use super::table::Table;
use serde::Deserialize;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("ci-identities", include_str!("data/ci_identities.toml"));

#[derive(Clone, Deserialize)]
struct IdentityRow {
    host: String,
    audience: String,
    subject: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Runs that a role may trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs<'a> {
    /// Jobs of an environment, after its protection rules (GitHub).
    Environment(&'a str),
    /// Pipelines of a branch (GitLab).
    Branch(&'a str),
    /// Pull requests of GitHub, in which no fork gets a token.
    PullRequests,
    /// Merge requests of GitLab: pipelines of any branch of the project.
    MergeRequests,
}

/// Whose tokens a role accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiIdentity {
    /// The issuer without its scheme.
    pub host: String,
    /// The audience of the token.
    pub audience: String,
    /// The subject of the token; `*` matches any text.
    pub subject: String,
    /// The source of its form.
    pub provenance: Provenance,
}

/// Returns the identity of these runs of a repository: `OWNER/REPO` or `GROUP/PROJECT`.
pub fn identity(repository: &str, runs: Runs) -> Option<CiIdentity> {
    let (key, mark, name) = match runs {
        Runs::Environment(name) => ("github/environment", "{environment}", name),
        Runs::Branch(name) => ("gitlab/branch", "{branch}", name),
        Runs::PullRequests => ("github/pull-request", "", ""),
        Runs::MergeRequests => ("gitlab/pull-request", "{any}", "*"),
    };
    let row: IdentityRow = TABLE.row(key).cloned()?;
    let subject = row.subject.replace("{repository}", repository);
    let subject = if mark.is_empty() { subject } else { subject.replace(mark, name) };
    Some(CiIdentity { host: row.host, audience: row.audience, subject, provenance: row.provenance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_name_the_repository_and_its_runs() {
        let subject = |repository, runs| identity(repository, runs).unwrap().subject;
        for (runs, wanted) in [
            (Runs::Environment("production"), "repo:acme/jobs:environment:production"),
            (Runs::PullRequests, "repo:acme/jobs:pull_request"),
            (Runs::Branch("main"), "project_path:acme/jobs:ref_type:branch:ref:main"),
            (Runs::MergeRequests, "project_path:acme/jobs:ref_type:branch:ref:*"),
        ] {
            assert_eq!(subject("acme/jobs", runs), wanted);
        }
        assert_eq!(TABLE.keys().count(), 4);
    }
}
