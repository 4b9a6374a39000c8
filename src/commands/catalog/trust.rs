//! `trainc catalog permissions trust`.

use crate::exit;
use crate::terminal::io::Io;
use trainc_catalog::arn::Arn;
use trainc_catalog::ci_identities::{Runs, identity};
use trainc_emit::canonical_json;
use trainc_emit::iam::TrustPolicy;

/// The flags of `permissions trust`.
#[derive(clap::Args, Debug)]
pub(super) struct TrustArgs {
    /// With `permissions trust`: the repository on GitHub whose workflows may assume the role; with the IDs
    /// of both, if its tokens have them
    #[arg(long, value_name = "OWNER/REPO", value_parser = parse_repository)]
    github: Option<String>,
    /// With `permissions trust`: the project on gitlab.com whose pipelines may assume the role
    #[arg(long, value_name = "GROUP/PROJECT", value_parser = parse_repository)]
    gitlab: Option<String>,
    /// With `permissions trust`: trust pull and merge requests, for a role that only reads
    #[arg(long)]
    pull_requests: bool,
    /// With `permissions trust --github`: the environment whose jobs may assume the role [default:
    /// production]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    environment: Option<String>,
    /// With `permissions trust --gitlab`: the branch whose pipelines may assume the role [default: main]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    branch: Option<String>,
    /// With `permissions trust`: the AWS account of the role [default: that of `--boundary`, or ${account}]
    #[arg(long, value_name = "ID", value_parser = parse_account)]
    account: Option<String>,
}

impl TrustArgs {
    /// Returns the flags, each with whether it is given.
    pub(super) fn flags(&self) -> [(bool, &'static str); 6] {
        [
            (self.github.is_some(), "--github"),
            (self.gitlab.is_some(), "--gitlab"),
            (self.pull_requests, "--pull-requests"),
            (self.environment.is_some(), "--environment"),
            (self.branch.is_some(), "--branch"),
            (self.account.is_some(), "--account"),
        ]
    }
}

/// Parses a repository: names joined by slashes, none of which is a pattern of IAM.
fn parse_repository(written: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'@');
        !part.is_empty() && part.bytes().all(plain)
    };
    if written.contains('/') && written.split('/').all(is_part) {
        return Ok(written.to_owned());
    }
    Err("expected e.g. `acme/jobs`".to_owned())
}

/// Parses the name of an environment or a branch, which is no pattern of IAM.
fn parse_name(written: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
    if !written.is_empty() && written.bytes().all(plain) {
        return Ok(written.to_owned());
    }
    Err("expected letters, digits, `-`, `.`, `_` and `/`".to_owned())
}

fn parse_account(written: &str) -> Result<String, String> {
    if written.len() == 12 && written.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(written.to_owned());
    }
    Err("expected an AWS account ID, twelve digits".to_owned())
}

/// Prints the trust policy of a role for CI.
pub(super) fn print(io: &mut Io, args: &TrustArgs, boundary: Option<&str>) -> u8 {
    let refuse = |io: &mut Io, why: &str| {
        io.note(&format!("error: {why}\n"));
        exit::USAGE
    };
    if args.github.is_none() && args.gitlab.is_none() {
        let why = "pass the repository whose CI may assume the role: `--github OWNER/REPO` or \
            `--gitlab GROUP/PROJECT`";
        return refuse(io, why);
    }
    if args.github.as_deref().is_some_and(|repository| repository.matches('/').count() != 1) {
        return refuse(io, "`--github` expects OWNER/REPO");
    }
    for (flag, needed, is_lone) in [
        ("--environment", "--github", args.environment.is_some() && args.github.is_none()),
        ("--branch", "--gitlab", args.branch.is_some() && args.gitlab.is_none()),
    ] {
        if is_lone {
            return refuse(io, &format!("`{flag}` requires `{needed}`"));
        }
    }
    if args.pull_requests && (args.environment.is_some() || args.branch.is_some()) {
        return refuse(io, "`--pull-requests` is not valid with `--environment` or `--branch`");
    }
    let github = match (args.pull_requests, &args.environment) {
        (true, _) => Runs::PullRequests,
        (false, name) => Runs::Environment(name.as_deref().unwrap_or("production")),
    };
    let gitlab = match (args.pull_requests, &args.branch) {
        (true, _) => Runs::MergeRequests,
        (false, name) => Runs::Branch(name.as_deref().unwrap_or("main")),
    };
    let of = |repository: &Option<String>, runs: Runs| identity(repository.as_deref()?, runs);
    let identities: Vec<_> =
        [of(&args.github, github), of(&args.gitlab, gitlab)].into_iter().flatten().collect();
    let arn = boundary.and_then(|arn| Arn::parse(arn).ok());
    let known = arn.as_ref().map(|arn| arn.account);
    let account = args.account.as_deref().or(known).unwrap_or("${account}");
    let policy = TrustPolicy::of_ci(arn.as_ref().map_or("aws", |arn| arn.partition), account, &identities);
    io.print_json(&canonical_json::pretty(&serde_json::json!(policy)));
    for identity in &identities {
        io.note(&format!(
            "note: the account needs the identity provider https://{} with the audience {}\n",
            identity.host, identity.audience
        ));
    }
    if args.github.as_deref().is_some_and(|repository| !repository.contains('@')) {
        io.note(
            "note: the tokens of repositories on github.com that were created or renamed since July 2026 \
            also have the IDs of owner and repository: for these pass `--github OWNER@ID/REPO@ID`, as the \
            OIDC settings of the repository show it\n",
        );
    }
    exit::DONE
}
