//! What the caller is not allowed to perform: every read that is refused in one run, the action that AWS names, the place of blame.

use super::commands::Repo;
use super::{cloud, plan, run};
use crate::support::read;
use std::collections::BTreeSet;
use trainc_apply::account::Question;
use trainc_apply::calls::{Call, Effect};
use trainc_apply::diff::Choices;
use trainc_apply::fake::{Account, Faults, Refusal};
use trainc_apply::fault::{Class, Fault};
use trainc_apply::ledger::{Cause, Item};
use trainc_apply::preflight::{self, Facts};
use trainc_apply::verdict::{self, Verdict};
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

const EXAMPLE: &str = "llama-7b-fsdp";
const MANIFEST: &str = "llama-7b-fsdp/trainc.kdl";

/// A refusal as the service words it.
fn refusal(call: Call, text: &'static str) -> Refusal {
    Refusal { call, times: u32::MAX, http: 403, code: "AccessDenied", text }
}

fn told(plan: &Plan, item: &Item, call: Call, http: u16, code: &str, text: &str) -> Verdict {
    let fault = Fault::from_answer(call, Some(http), code, text);
    verdict::verdict(plan, item, &Cause::Fault(fault))
}

fn job() -> Item {
    Item::new(ResourceKind::TrainingJob, "llama-7b-fsdp-7cdda7f2")
}

#[test]
fn every_refused_read_is_gathered_in_one_look() {
    let reads = [
        refusal(Call::GetRole, ""),
        refusal(Call::ListAttachedRolePolicies, ""),
        refusal(Call::DescribeFileSystems, ""),
        refusal(Call::ListTrainingJobs, ""),
        refusal(Call::HeadBucket, ""),
    ];
    let cloud = cloud(Account::default(), Faults { refusals: reads.into(), ..Faults::default() });
    let plan = plan(EXAMPLE, &[]);
    let look = super::look(&cloud);
    let survey = run(&cloud, look.survey(&plan, Choices::default())).unwrap();
    let actions: BTreeSet<String> = survey.faults.iter().map(Fault::action).collect();
    let expected = [
        "fsx:DescribeFileSystems",
        "iam:GetRole",
        "iam:ListAttachedRolePolicies",
        "s3:ListBucket",
        "sagemaker:ListTrainingJobs",
    ];
    assert_eq!(actions, expected.map(str::to_owned).into());
    assert_eq!(survey.faults.len(), expected.len(), "each is said once: {:?}", survey.faults);
    assert!(survey.prospect.is_some(), "the rest can be looked at");
    assert_eq!(survey.obstacles().count(), 0);
    // Who needs all of it gets none.
    assert!(run(&cloud, look.prospect(&plan, Choices::default())).unwrap().is_err());
    assert!(cloud.calls().iter().all(|call| call.row().effect == Effect::Read));
}

/// What else is wrong shows in the same run, and nothing is made.
#[test]
fn one_run_says_all_that_is_refused_and_all_that_is_wrong() {
    let repo = Repo::new("apply-refused", &[EXAMPLE]);
    let account = r#"{"denied": ["iam:GetRole", "fsx:DescribeFileSystems", "sagemaker:ListTrainingJobs",
        "servicequotas:GetServiceQuota"], "missing": ["sg-0123456789abcdef0"], "missing_buckets": ["example-runs"]}"#;
    repo.0.write("account.json", account);
    for command in [&["plan", MANIFEST][..], &["apply", MANIFEST, "--yes"]] {
        let ran = repo.run(command);
        assert_eq!(ran.code, Some(6), "{}{}", ran.out, ran.err);
        let said = format!("{}{}", ran.out, ran.err);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "the caller is not allowed to perform iam:GetRole",
            "the caller is not allowed to perform fsx:DescribeFileSystems",
            "the caller is not allowed to perform sagemaker:ListTrainingJobs",
            "servicequotas:GetServiceQuota",
            "sg-0123456789abcdef0",
            "bucket `example-runs` does not exist",
            "trainc catalog permissions --manifest llama-7b-fsdp/trainc.kdl",
        ] {
            assert!(said.contains(words), "{command:?}: {words}: {said}");
        }
        assert!(!said.contains("MANIFEST"), "{said}");
    }
    let json = repo.run(&["plan", MANIFEST, "-o", "json"]);
    let problems = json.json()["problems"].as_array().unwrap().clone();
    let refused: Vec<_> = problems.iter().filter(|one| one["code"] == "T0601").collect();
    assert_eq!(refused.len(), 3, "{refused:#?}");
    assert!(refused.iter().all(|one| one["severity"] == "error" && one["facts"]["action"].is_string()));
    let again: Vec<_> = problems.iter().filter(|one| one["code"] == "T0636").collect();
    assert!(again.iter().all(|one| one["facts"]["action"] != "sagemaker:ListTrainingJobs"), "{again:#?}");
    let permissions = repo.run_plain(&["catalog", "permissions", "--manifest", MANIFEST]);
    assert!(permissions.out.contains("iam:GetRole"), "{}{}", permissions.out, permissions.err);
}

/// What is in the way of what was seen is said beside what was not seen; no run is judged from a part of them.
#[test]
fn what_is_in_the_way_shows_beside_a_refused_read() {
    let plan = plan(EXAMPLE, &[]);
    let calm = cloud(Account::default(), Faults::default());
    run(&calm, super::apply(&calm, &plan, Choices::default())).unwrap();
    let mut account = calm.account();
    account.roles.values_mut().for_each(|role| role.role.tags.clear());
    account.denied.insert("sagemaker:ListTags".to_owned());
    let seen = cloud(account, Faults::default());
    let survey = run(&seen, super::look(&seen).survey(&plan, Choices::default())).unwrap();
    let kinds: Vec<ResourceKind> = survey.obstacles().map(|(change, _)| change.kind).collect();
    assert_eq!(kinds, [ResourceKind::Role], "whose the role's policy is, its role says");
    assert_eq!(survey.faults.iter().map(Fault::action).collect::<Vec<_>>(), ["sagemaker:ListTags"]);
}

/// A call needs more than the action of its name: AWS's sentence says which was missing (service authorization reference,
/// "dependent actions").
#[test]
fn a_dependent_action_is_named() {
    let plan = plan(EXAMPLE, &[]);
    let rows = [
        (Call::CreateTrainingJob, "iam:PassRole", "arn:aws:iam::111122223333:role/trainc/x"),
        (
            Call::CreateTrainingJob,
            "sagemaker:AddTags",
            "arn:aws:sagemaker:us-west-2:111122223333:training-job/x",
        ),
        (
            Call::CreateFileSystem,
            "iam:CreateServiceLinkedRole",
            "arn:aws:iam::111122223333:role/aws-service-role/x",
        ),
        (Call::CreateFileSystem, "fsx:TagResource", "arn:aws:fsx:us-west-2:111122223333:file-system/*"),
        (Call::CreateRole, "iam:TagRole", "arn:aws:iam::111122223333:role/trainc/x"),
        (Call::PutObject, "kms:GenerateDataKey", "arn:aws:kms:us-west-2:111122223333:key/x"),
    ];
    for (call, action, resource) in rows {
        let text = format!(
            "User: arn:aws:iam::111122223333:user/ci is not authorized to perform: {action} on resource: {resource} because no identity-based policy allows the {action} action"
        );
        let verdict = told(&plan, &job(), call, 403, "AccessDenied", &text);
        let one = &verdict.diagnostic;
        assert_eq!((one.code.id, verdict.exit), ("T0601", 6));
        assert!(
            one.message
                .contains(&format!("is not allowed to perform {action}, which {} requires", call.describe())),
            "{one:?}"
        );
        assert_eq!((&one.facts["action"], &one.facts["resource"]), (&action.into(), &resource.into()));
        assert_eq!(one.facts["call"], call.describe());
        let help = one.help.as_deref().unwrap();
        assert!(help.starts_with("`trainc catalog permissions --manifest MANIFEST`"), "{help}");
    }
    // Where nothing is named it is the call's own.
    let own = told(&plan, &job(), Call::PutObject, 403, "AccessDenied", "Access Denied");
    assert!(
        own.diagnostic.message.ends_with("is not allowed to perform s3:PutObject"),
        "{:?}",
        own.diagnostic.message
    );
}

#[test]
fn a_clock_that_is_off_is_not_credentials_that_ran_out() {
    let plan = plan(EXAMPLE, &[]);
    let of = |call: Call, code: &str, text: &str| {
        let verdict = verdict::read_failed(&plan, &Fault::from_answer(call, Some(403), code, text));
        assert_eq!((verdict.diagnostic.code.id, verdict.exit), ("T0602", 6), "{code}");
        (verdict.diagnostic.message, verdict.diagnostic.help.unwrap())
    };
    let expired = "Signature expired: 20261121T000000Z is now earlier than 20261121T001000Z";
    for (call, code, text) in [
        (Call::DescribeSubnets, "RequestExpired", "Request has expired."),
        (
            Call::HeadBucket,
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
        ),
        (Call::GetCallerIdentity, "SignatureDoesNotMatch", expired),
        (Call::DescribeTrainingJob, "InvalidSignatureException", expired),
        (
            Call::GetRole,
            "SignatureDoesNotMatch",
            "Signature not yet current: 20261121T001000Z is still later",
        ),
    ] {
        let (message, help) = of(call, code, text);
        assert!(message.contains("this machine's clock is wrong"), "{message}");
        assert!(help.contains("timedatectl set-ntp true") && !help.contains("log in"), "{help}");
    }
    for (code, text) in [
        ("ExpiredToken", "The security token included in the request is expired"),
        ("ExpiredTokenException", "The security token included in the request is expired"),
    ] {
        let (message, help) = of(Call::GetCallerIdentity, code, text);
        assert!(help.contains("aws sso login") && !message.contains("clock"), "{message} {help}");
    }
    let wrong = "The request signature we calculated does not match the signature you provided. Check your key and signing method.";
    let (message, help) = of(Call::GetCallerIdentity, "SignatureDoesNotMatch", wrong);
    assert!(!message.contains("clock") && help.contains("secret access key"), "{message} {help}");
}

#[test]
fn a_policy_that_is_too_long_is_no_quota_to_ask_for() {
    let item = Item::new(ResourceKind::Role, "trainc-llama-7b-fsdp-8c5d5efe");
    let text = "Maximum policy size of 10240 bytes exceeded for role trainc-llama-7b-fsdp-8c5d5efe";
    let verdict = told(&plan(EXAMPLE, &[]), &item, Call::PutRolePolicy, 409, "LimitExceeded", text);
    assert_eq!((verdict.diagnostic.code.id, verdict.exit), ("T0670", 5));
    let one = verdict.diagnostic;
    assert!(one.help.as_deref().is_some_and(|help| help.contains("fewer or shorter prefixes")), "{one:?}");
    assert!(one.notes.iter().any(|note| note.contains("10,240 characters")), "{one:?}");
    let list = "aws iam list-role-policies --role-name trainc-llama-7b-fsdp-8c5d5efe";
    assert!(one.notes.iter().any(|note| note.contains(list)), "{one:?}");
    assert!(
        one.help
            .as_deref()
            .into_iter()
            .chain(one.notes.iter().map(trainc_diag::Note::as_str))
            .all(|words| !words.contains("Service Quotas"))
    );
}

/// A request is long, and its answer names one thing in it: that is the place of blame.
#[test]
fn a_refused_request_points_at_what_it_names() {
    let (network, job_role) = (plan(EXAMPLE, &[]), plan("distilbert-spot", &[]));
    let text = |plan: &Plan, example: &str, call: Call, code: &str, words: &str| {
        let verdict = told(plan, &job(), call, 400, code, words);
        let span = verdict.diagnostic.span;
        let manifest = read(&format!("examples/{example}/trainc.kdl"));
        manifest.get(span.start as usize..span.end as usize).unwrap().to_owned()
    };
    let of = |call: Call, code: &str, words: &str| text(&network, EXAMPLE, call, code, words);
    let (start, file_system) = (Call::CreateTrainingJob, Call::CreateFileSystem);
    let group = of(start, "ValidationException", "The security group 'sg-0123456789abcdef0' does not exist");
    assert!(group.contains("sg-0123456789abcdef0"), "{group}");
    let subnet = of(start, "ValidationException", "The subnet ID 'subnet-0123456789abcdef0' does not exist");
    assert!(subnet.contains("subnet-0123456789abcdef0"), "{subnet}");
    let kind = of(
        file_system,
        "InvalidNetworkSettings",
        "One or more security groups do not permit traffic on port 988",
    );
    assert!(kind.contains("security-groups") || kind.contains("sg-"), "{kind}");
    assert_eq!(of(file_system, "InvalidNetworkSettings", "not valid"), "network");
    // What the manifest does not say is the job's.
    let other = of(start, "ValidationException", "1 validation error detected");
    assert!(other.contains("llama-7b-fsdp"), "{other}");
    let own = plan(EXAMPLE, &["image.uri=111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1"]);
    let image = told(&own, &job(), start, 400, "ResourceNotFound", "Requested image not found.");
    assert_ne!(
        image.diagnostic.span,
        told(&own, &job(), start, 400, "ValidationException", "1 error").diagnostic.span
    );
    let arn = job_role.job.role.as_ref().and_then(|role| role.arn.value()).unwrap().clone();
    let words = format!("Could not assume role {arn}. Please ensure that the role exists");
    let role = text(&job_role, "distilbert-spot", start, "ValidationException", &words);
    assert!(role.contains(arn.as_str()), "{role}");
}

#[test]
fn all_that_a_role_of_ones_own_lacks_is_said() {
    let plan = plan("distilbert-spot", &[]);
    let actions: Vec<String> = (1..=9).map(|number| format!("s3:Action{number}")).collect();
    let question = |action: &String, resource: &str| {
        let resource = format!("arn:aws:s3:::{resource}");
        (Question { action: action.clone(), resource, context: Vec::new() }, false)
    };
    let mut answers: Vec<_> = actions.iter().map(|action| question(action, "first/*")).collect();
    answers.push(question(&actions[0], "second/*"));
    let facts = Facts { permissions: Some(Ok(answers)), ..Facts::default() };
    let problems = preflight::judge(&plan, &facts);
    let one = problems.iter().find(|one| one.code.id == "T0633").unwrap();
    assert!(one.message.contains("`s3:Action6` and 3 more"), "{}", one.message);
    for action in &actions {
        let named =
            one.notes.iter().filter(|note| note.starts_with(&format!("{action} on arn:aws:s3:::first/*")));
        assert_eq!(named.count(), 1, "{action}: {:?}", one.notes);
    }
    let lacking = serde_json::json!(["arn:aws:s3:::first/*", "arn:aws:s3:::second/*"]);
    assert_eq!(one.facts["lacking"]["s3:Action1"], lacking);
    assert_eq!(one.facts["actions"], serde_json::json!(actions));
}

#[test]
fn only_a_refusal_names_an_action() {
    let text = "no identity-based policy allows the s3:ListBucket action";
    let role = Fault::from_answer(Call::CreateTrainingJob, Some(400), "ValidationException", text);
    assert_eq!((role.class, role.action()), (Class::NotPropagated, "sagemaker:CreateTrainingJob".to_owned()));
}

/// The bucket that trainc would make must be seen, for that decides what is made; one that the manifest names is only looked
/// at beforehand, and who may not is told.
#[test]
fn a_bucket_that_may_not_be_seen_stops_only_who_would_make_it() {
    let repo = Repo::new("apply-unseen-bucket", &[EXAMPLE]);
    let account = r#"{"denied": ["s3:ListBucket"]}"#;
    repo.0.write("account.json", account);
    let ran = repo.run(&["apply", MANIFEST, "--yes"]);
    assert_eq!(ran.code, Some(6), "{}{}", ran.out, ran.err);
    let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            "bucket `sagemaker-us-west-2-111122223333`: the caller is not allowed to perform s3:ListBucket"
        ),
        "{said}"
    );
    assert!(said.contains("`upload=\"s3://…\"` in `program` need not be visible"), "{said}");
    repo.0.write("account.json", account);
    let own = repo.run(&["apply", MANIFEST, "--yes", "--set", "program.upload=s3://example-code/archives/"]);
    assert_eq!(own.code, Some(0), "{}{}", own.out, own.err);
    repo.0.write("account.json", account);
    let planned =
        repo.run(&["plan", MANIFEST, "-o", "json", "--set", "program.upload=s3://example-code/archives/"]);
    let problems = planned.json()["problems"].as_array().unwrap().clone();
    let unseen = problems.iter().filter(|one| one["code"] == "T0636" && one["severity"] == "note");
    assert!(
        unseen.clone().any(|one| one["message"].as_str().unwrap().contains("`example-code`")),
        "{problems:#?}"
    );
}
