//! `trainc catalog`.

mod trust;

use crate::args::completion_values::any_text;
use crate::args::overlay::role_boundary;
use crate::args::{Global, problems};
use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::table::table;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use trainc_apply::calls::Command;
use trainc_apply::permissions::{self, PolicyScope};
use trainc_catalog::arn::Arn;
use trainc_catalog::listing::{self, Listing, TableSummary};
use trainc_catalog::{generic_listing, models, regions, rules};
use trainc_diag::text;
use trainc_diag::{Code, Format, Status, page};
use trainc_emit::canonical_json;
use trainc_emit::iam::{self, BoundaryScope, PolicyDocument};
use trainc_ir::Plan;
use trainc_ir::date::days_between;
use trainc_plan::Options;
use trainc_plan::resolve::Choices;
use trainc_project::manifests::compile_all;

/// List the known instances, images, models, prices and limits
#[derive(clap::Args, Debug)]
#[command(
    after_help = "`trainc catalog permissions [plan|emit|apply|watch|stop|destroy|import]` prints the least-privilege IAM policy for these commands; with `--manifest`, restricted to the buckets, keys and roles of these jobs. With `--boundary`, the policy only creates and changes roles that have this permissions boundary; `trainc catalog permissions boundary` prints the boundary's own policy, for the jobs of `--manifest`, or for any job that uses only the buckets, keys and subnets of `--bucket`, `--key` and `--subnet`. `trainc catalog permissions trust` prints the trust policy of a role for CI: of `apply`, or with `--pull-requests` of `plan`.\n\nWith `-v` or `-o json` each row has its source and date.\n\nExamples:\n  trainc catalog\n  trainc catalog permissions apply\n  trainc catalog permissions apply --manifest jobs/\n  trainc catalog permissions apply --boundary arn:aws:iam::111122223333:policy/training\n  trainc catalog permissions boundary --manifest jobs/\n  trainc catalog permissions boundary --bucket acme-runs/team/ --bucket acme-corpus\n  trainc catalog permissions trust --github acme/jobs --account 111122223333\n  trainc catalog instances us-west-2\n  trainc catalog instances g6e -v\n  trainc catalog models llama\n  trainc catalog prices -o json"
)]
pub(crate) struct Args {
    /// Name of a table, e.g. instances, accelerators, images, models, prices, regions, quotas, limits, fsx,
    /// support, rules or permissions [default: lists all tables]
    #[arg(value_name = "TABLE", value_parser = any_text(names), hide_possible_values = true)]
    table: Option<String>,
    /// Only rows that contain this text; of `instances` also a region, for its types and prices
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// With `permissions`: restrict the policy to the jobs of this manifest or directory
    #[arg(long = "manifest", value_name = "MANIFEST")]
    manifests: Vec<String>,
    /// With `permissions`: allow only roles with this permissions boundary, an ARN. Manifests set it by
    /// `role boundary=`, or take it from TRAINC_ROLE_BOUNDARY
    #[arg(long, value_name = "ARN")]
    boundary: Option<String>,
    /// With `permissions boundary`: a bucket of the account that jobs may use, or a prefix of its keys, e.g.
    /// acme-runs/team/
    #[arg(long = "bucket", value_name = "BUCKET[/PREFIX]")]
    buckets: Vec<String>,
    /// With `permissions boundary`: a KMS key that jobs may use, an ARN
    #[arg(long = "key", value_name = "ARN")]
    keys: Vec<String>,
    /// With `permissions boundary`: a subnet in which jobs may have network interfaces
    #[arg(long = "subnet", value_name = "ID")]
    subnets: Vec<String>,
    #[command(flatten)]
    trust: trust::TrustArgs,
    /// Output format: human or json
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let Some(name) = args.table.as_deref() else {
        return print_tables(io, global, args);
    };
    // Some tables used to have underscores.
    let name = name.replace('_', "-");
    let name = name.as_str();
    if name == "permissions" {
        return permissions(io, global, args);
    }
    for (is_given, flag) in
        [(!args.manifests.is_empty(), "--manifest"), (args.boundary.is_some(), "--boundary")]
            .into_iter()
            .chain(args.named_resources())
            .chain(args.trust.flags())
    {
        if is_given {
            io.note(&format!("error: `{flag}` is only valid with `trainc catalog permissions`\n"));
            return exit::USAGE;
        }
    }
    let region =
        args.filter.as_deref().filter(|filter| name == "instances" && regions::get(filter).is_some());
    let listing = match name {
        "instances" => Some(listing::instances_listing(region, io.today_in_days())),
        _ => match own_listing(name) {
            Some(listing) => Some(listing()),
            None => listing::by_table_name(name, io.today_in_days()),
        },
    };
    if let Some(mut listing) = listing {
        listing.add_provenance();
        let filter = args.filter.as_deref().filter(|_| region.is_none());
        let has_old = listing.rows.iter().flatten().any(|cell| cell.ends_with(listing::OLD));
        let code = print(io, global, listing, args, filter);
        if name == "instances" && code == exit::DONE && args.output != "json" && !global.quiet {
            let old = if has_old { ", * older than 90 days" } else { "" };
            io.note(&format!(
                "on-demand prices{old}; `trainc catalog instances REGION` shows those of a region, \
                `-v` all columns\n"
            ));
        }
        return code;
    }
    let known = names();
    let hint = match text::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected one of {}", known.join(", ")),
    };
    io.note(&format!("error: unknown table `{name}`; {hint}\n"));
    exit::USAGE
}

/// Returns the names of all tables.
fn names() -> Vec<&'static str> {
    let listed =
        listing::NAMES.iter().copied().chain(OWN_LISTINGS.map(|(name, _)| name)).chain(["permissions"]);
    let all: BTreeSet<&str> = listed.chain(generic_listing::names()).collect();
    all.into_iter().collect()
}

/// Prints the IAM policy for one command or all, or the boundary of roles, for any job or those of
/// `--manifest`.
fn permissions(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let word = args.filter.as_deref();
    let commands: Vec<Command> =
        Command::ALL.iter().copied().filter(|one| word.is_none_or(|word| one.word() == word)).collect();
    let wants_boundary = word == Some("boundary");
    let wants_trust = word == Some("trust");
    if commands.is_empty() && !wants_boundary && !wants_trust {
        let words = Command::ALL.iter().map(|one| one.word());
        let known: Vec<&str> = words.chain(["boundary", "trust"]).collect();
        io.note(&format!("error: expected one of {}\n", known.join(", ")));
        return exit::USAGE;
    }
    if let Some((_, flag)) = args.named_resources().into_iter().find(|(is_given, _)| *is_given)
        && !(wants_boundary && args.manifests.is_empty())
    {
        io.note(&format!(
            "error: `{flag}` is only valid with `trainc catalog permissions boundary` without `--manifest`\n"
        ));
        return exit::USAGE;
    }
    if let Some((_, flag)) = args.trust.flags().into_iter().find(|(is_given, _)| *is_given)
        && !wants_trust
    {
        io.note(&format!("error: `{flag}` is only valid with `trainc catalog permissions trust`\n"));
        return exit::USAGE;
    }
    let given = args.boundary.clone().or_else(role_boundary);
    if let Some(arn) = &given
        && !Arn::parse(arn).is_ok_and(|arn| arn.is_of_account() && arn.policy().is_some())
    {
        let arn = arn.escape_debug();
        io.note(&format!(
            "error: `{arn}` is not the ARN of a policy of an account; expected \
                `arn:aws:iam::ACCOUNT:policy/NAME`\n"
        ));
        return exit::USAGE;
    }
    if wants_trust {
        return trust::print(io, &args.trust, given.as_deref());
    }
    if args.manifests.is_empty() {
        if wants_boundary {
            return print_general_boundary(io, args, given.as_deref());
        }
        let scope = given.as_deref().map_or_else(PolicyScope::default, PolicyScope::for_boundary);
        print_policy(io, &commands, &[scope]);
        return exit::DONE;
    }
    let choices = Choices { role_boundary: given, ..Choices::default() };
    let options =
        Options { today: io.today.clone(), later_codes: crate::later_codes(), choices, ..Options::default() };
    let set = compile_all(&args.manifests, &options);
    if set.manifests.iter().any(|one| one.compiled.plan_without_errors().is_none()) {
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note_colored(&text);
        return exit::MANIFEST;
    }
    let deployable: Vec<&Plan> =
        set.manifests.iter().filter_map(|one| one.compiled.sagemaker_plan()).collect();
    if deployable.is_empty() {
        io.note("error: none of these jobs runs on SageMaker: no permissions are required\n");
        return exit::USAGE;
    }
    if let Some(boundary) = &args.boundary
        && let Some((job, other)) = deployable.iter().find_map(|plan| other_boundary(plan, boundary))
    {
        io.note(&format!("error: the role of job `{job}` has another permissions boundary, `{other}`\n"));
        return exit::USAGE;
    }
    if wants_boundary {
        return print_boundary_of_jobs(io, &deployable);
    }
    let scopes: Vec<PolicyScope> = deployable.into_iter().map(PolicyScope::for_job).collect();
    print_policy(io, &commands, &scopes);
    exit::DONE
}

/// Returns the job and its boundary, if its role has another one.
fn other_boundary<'a>(plan: &'a Plan, boundary: &str) -> Option<(&'a str, &'a str)> {
    let other = plan.job.role.as_ref()?.boundary.text().filter(|other| *other != boundary)?;
    Some((plan.job.name.value().map_or("", String::as_str), other))
}

fn print_policy(io: &mut Io, commands: &[Command], scopes: &[PolicyScope]) {
    io.print_json(&canonical_json::pretty(&permissions::policy(commands, scopes)));
    if permissions::allows_any_role(commands, scopes) {
        io.note(
            "warning: the holder of this policy can become an administrator of the account: it \
            allows creating roles with any permissions; restrict it by `--boundary ARN`\n",
        );
    }
}

impl Args {
    /// Returns the flags that name what a boundary covers, each with whether it is given.
    fn named_resources(&self) -> [(bool, &'static str); 3] {
        [
            (!self.buckets.is_empty(), "--bucket"),
            (!self.keys.is_empty(), "--key"),
            (!self.subnets.is_empty(), "--subnet"),
        ]
    }
}

/// Parses a bucket and a prefix of its keys. A `*`, `?` or `$` would be a pattern of IAM.
fn parse_bucket(written: &str) -> Result<(String, String), String> {
    let bare = written.strip_prefix("s3://").unwrap_or(written);
    let (bucket, prefix) = bare.split_once('/').unwrap_or((bare, ""));
    let is_name = |name: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
        (3..=63).contains(&name.len()) && name.bytes().all(plain)
    };
    if is_name(bucket) && !prefix.contains(['*', '?', '$']) {
        // Keys below a prefix follow a slash: `team` is not `team2/`.
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        return Ok((bucket.to_owned(), prefix));
    }
    Err(format!(
        "`{}` is not a bucket or a prefix of one; expected e.g. `acme-runs/team/`",
        written.escape_debug()
    ))
}

/// Parses the ARN of one KMS key.
fn parse_key(written: &str) -> Result<String, String> {
    let is_key = |arn: &Arn| arn.service == "kms" && arn.resource.strip_prefix("key/").is_some_and(is_id);
    match Arn::parse(written) {
        Ok(arn) if arn.is_of_account() && is_key(&arn) => Ok(written.to_owned()),
        _ => Err(format!(
            "`{}` is not the ARN of a KMS key; expected `arn:aws:kms:REGION:ACCOUNT:key/ID`",
            written.escape_debug()
        )),
    }
}

/// Parses the ID of a subnet.
fn parse_subnet(written: &str) -> Result<String, String> {
    if written.strip_prefix("subnet-").is_some_and(is_id) {
        return Ok(written.to_owned());
    }
    Err(format!(
        "`{}` is not the ID of a subnet; expected e.g. `subnet-0123456789abcdef0`",
        written.escape_debug()
    ))
}

/// Returns whether a text is an ID: letters, digits and hyphens.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Prints the boundary for any job that uses only the buckets, keys and subnets of the flags.
fn print_general_boundary(io: &mut Io, args: &Args, boundary: Option<&str>) -> u8 {
    let buckets: Result<Vec<_>, _> = args.buckets.iter().map(|one| parse_bucket(one)).collect();
    let keys: Result<Vec<_>, _> = args.keys.iter().map(|one| parse_key(one)).collect();
    let subnets: Result<Vec<_>, _> = args.subnets.iter().map(|one| parse_subnet(one)).collect();
    let (buckets, keys, subnets) = match (buckets, keys, subnets) {
        (Ok(buckets), Ok(keys), Ok(subnets)) => (buckets, keys, subnets),
        (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => {
            io.note(&format!("error: {why}\n"));
            return exit::USAGE;
        }
    };
    if buckets.is_empty() {
        io.note(
            "error: a boundary for any job requires the buckets that jobs may use: pass `--bucket \
            BUCKET/PREFIX` for each, or `--manifest`\n",
        );
        return exit::USAGE;
    }
    let arn = boundary.and_then(|arn| Arn::parse(arn).ok());
    let scope = BoundaryScope {
        partition: arn.map_or("aws", |arn| arn.partition),
        account: arn.map(|arn| arn.account),
        buckets: &buckets,
        keys: &keys,
        subnets: &subnets,
    };
    let policy = iam::general_boundary(scope);
    if let Some(why) = describe_excess(&policy) {
        io.note(&format!("error: {why}; pass fewer buckets, keys and subnets\n"));
        return exit::USAGE;
    }
    io.print_json(&canonical_json::pretty(&json!(policy)));
    io.note(
        "note: it covers the buckets, KMS keys and subnets of `--bucket`, `--key` and `--subnet`, \
        and no secrets; `--manifest` takes them from jobs\n",
    );
    exit::DONE
}

/// Describes by how much a boundary exceeds the size limit of IAM.
fn describe_excess(policy: &PolicyDocument) -> Option<String> {
    let (has, most) = (policy.character_count(), iam::MANAGED_POLICY_LIMIT);
    (has > most).then(|| {
        let digits = |count: usize| text::group_digits(count as u64);
        format!("the boundary has {} characters, and IAM allows {}", digits(has), digits(most))
    })
}

/// Prints the boundary for these jobs, if it is known of which account it is, and unless it exceeds the size
/// limit of IAM.
fn print_boundary_of_jobs(io: &mut Io, plans: &[&Plan]) -> u8 {
    let creates = plans
        .iter()
        .filter(|plan| plan.job.role.as_ref().is_some_and(|role| role.create.get() == Some(true)));
    let account = |plan: &&Plan| {
        let boundary = plan.job.role.as_ref()?.boundary.text()?;
        Some(Arn::parse(boundary).ok().filter(Arn::is_of_account)?.account.to_owned())
    };
    let bound: Option<Vec<Plan>> =
        creates.map(|plan| Some((*plan).clone().with_account(&account(plan)?))).collect();
    let Some(bound) = bound else {
        io.note(
            "error: expected the ARN that the boundary will have: pass `--boundary \
            arn:aws:iam::ACCOUNT:policy/NAME`\n",
        );
        return exit::USAGE;
    };
    if bound.is_empty() {
        io.note("error: none of these jobs creates a role: no boundary is required\n");
        return exit::USAGE;
    }
    let policy = iam::boundary_of_jobs(&bound);
    if let Some(why) = describe_excess(&policy) {
        io.note(&format!("error: {why}; pass fewer manifests, or `--bucket` for any job that uses it\n"));
        return exit::USAGE;
    }
    io.print_json(&canonical_json::pretty(&json!(policy)));
    exit::DONE
}

/// Returns the error for a filter that matches no row, with the most similar name.
fn no_match(name: &str, filter: &str, rows: &[Vec<String>]) -> String {
    // Also compared without the owner of a model and the `ml.` of an instance type.
    let names = rows.iter().filter_map(|row| row.first()).flat_map(|name| {
        let short = name.rsplit('/').next().unwrap_or(name);
        [name.as_str(), short, name.strip_prefix("ml.").unwrap_or(name)]
    });
    let hint = match text::nearest(filter, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`trainc catalog {name}` lists all"),
    };
    format!("error: no row of `{name}` contains `{filter}`; {hint}\n")
}

fn print(io: &mut Io, global: &Global, mut listing: Listing, args: &Args, filter: Option<&str>) -> u8 {
    let mut none = None;
    if global.verbose {
        listing.add_sources();
    }
    if let Some(filter) = filter {
        let wanted = filter.to_lowercase();
        let keep: Vec<bool> = listing
            .rows
            .iter()
            .map(|row| row.iter().any(|cell| cell.to_lowercase().contains(&wanted)))
            .collect();
        if let Some(name) = args.table.as_deref().filter(|_| !keep.contains(&true)) {
            none = Some(no_match(name, filter, &listing.rows));
        }
        let mut at = keep.iter();
        listing.rows.retain(|_| at.next().copied().unwrap_or(true));
        if let Value::Array(items) = &mut listing.json {
            let mut at = keep.iter();
            items.retain(|_| at.next().copied().unwrap_or(true));
        }
    }
    if args.output == "json" {
        let text = serde_json::to_string_pretty(&listing.json).unwrap_or_default();
        io.print_json(&format!("{text}\n"));
    } else if none.is_none() {
        if !global.verbose {
            listing.shorten();
        }
        // In a pipe each row is a line, for `grep`.
        io.print(&table(&listing, io.wrap));
    }
    match none {
        Some(words) => {
            io.note(&words);
            exit::USAGE
        }
        None => exit::DONE,
    }
}

/// Prints the list of tables: by default those with columns of their own; the others are data of the rules,
/// read by who asks why.
fn print_tables(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let mut all = tables(&io.today);
    let mut hidden = 0;
    if !global.verbose && args.output != "json" {
        let before = all.rows.len();
        all.rows.retain(|row| row.first().is_some_and(|name| has_columns(name)));
        hidden = before - all.rows.len();
    }
    let code = print(io, global, all, args, None);
    if hidden > 0 && !global.quiet {
        io.note(&format!("{hidden} more tables hold the data of rules: `trainc catalog -v` lists them\n"));
    }
    code
}

fn own_listing(name: &str) -> Option<Make> {
    OWN_LISTINGS.iter().find(|(own, _)| *own == name).map(|(_, listing)| *listing)
}

/// Returns whether a table is listed in columns of its own.
fn has_columns(name: &str) -> bool {
    listing::NAMES.contains(&name) || own_listing(name).is_some()
}

/// The tables whose listings are made here.
const OWN_LISTINGS: [(&str, Make); 2] = [("models", models_listing), ("rules", rules_listing)];

/// Makes a listing.
type Make = fn() -> Listing;

/// Returns the tables with the number of rows and, for its newest row, the date and the age in days.
fn tables(today: &str) -> Listing {
    let mut tables = listing::table_summaries();
    tables.extend(OWN_LISTINGS.map(|(name, listing)| TableSummary::new(name, &listing())));
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let rows = tables.iter().map(|table| {
        let (oldest, newest) = table.dates.clone().unzip();
        let age = newest.as_deref().and_then(|newest| days_between(newest, today)).map(|days| days.max(0));
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let json = json!({
            "table": table.name, "rows": table.rows, "oldest": oldest, "newest": newest, "age_days": age,
        });
        let age = cell(age.map(|days| text::count(days.unsigned_abs(), "day")));
        (vec![table.name.clone(), table.rows.to_string(), cell(oldest), cell(newest), age], json)
    });
    let (rows, json): (Vec<_>, Vec<_>) = rows.unzip();
    Listing {
        headers: vec!["table", "rows", "oldest row", "newest row", "age"],
        rows,
        json: Value::Array(json),
        brief: usize::MAX,
    }
}

fn models_listing() -> Listing {
    let rows: Vec<models::ModelRow> = models::ids().filter_map(models::find).collect();
    Listing {
        headers: vec![
            "model",
            "architecture",
            "parameters",
            "layers",
            "hidden",
            "heads",
            "kv",
            "vocab",
            "source",
            "date",
        ],
        rows: rows
            .iter()
            .map(|row| {
                let a = &row.architecture;
                vec![
                    row.name.to_owned(),
                    a.family.name().to_owned(),
                    text::group_digits(row.parameters),
                    a.layers.to_string(),
                    a.hidden.to_string(),
                    a.heads.to_string(),
                    a.kv_heads.to_string(),
                    a.vocab.to_string(),
                    row.source.clone(),
                    row.date.clone(),
                ]
            })
            .collect(),
        json: Value::Array(
            rows.iter()
                .map(|row| {
                    let a = &row.architecture;
                    json!({
                        "name": row.name, "aliases": row.aliases, "architecture": a.family.name(),
                        "class": row.class.name(), "parameters": row.parameters, "layers": a.layers,
                        "hidden": a.hidden, "heads": a.heads, "kv_heads": a.kv_heads, "head_dim": a.head_dim,
                        "ffn": a.ffn, "vocab": a.vocab, "positions": a.positions, "experts": a.experts,
                        "active_experts": a.active_experts, "tied": a.tied, "license": row.license,
                        "gated": row.gated, "source": row.source, "date": row.date,
                    })
                })
                .collect(),
        ),
        brief: 8,
    }
}

fn rules_listing() -> Listing {
    let codes: Vec<_> = crate::codes().iter().filter(|code| code.status == Status::Active).collect();
    // The page names its source, or the row does.
    let of = |code: &Code| {
        let row = rules::get(code.id);
        let (source, date) = page::rule_source(code.page).unzip();
        let source = source.or_else(|| row?.source.clone());
        (source, date.flatten().or_else(|| row.map(|row| row.date.clone())))
    };
    Listing {
        headers: vec!["code", "name", "severity", "what is wrong"],
        rows: codes
            .iter()
            .map(|code| [code.id, code.name, code.severity.word(), code.summary].map(str::to_owned).to_vec())
            .collect(),
        json: Value::Array(
            codes
                .iter()
                .map(|code| {
                    let (source, date) = of(code);
                    json!({
                        "code": code.id, "name": code.name, "severity": code.severity.word(), "summary": code.summary,
                        "why": page::rationale(code.page), "source": source, "date": date,
                    })
                })
                .collect(),
        ),
        brief: usize::MAX,
    }
}
