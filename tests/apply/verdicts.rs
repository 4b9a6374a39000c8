//! Every answer that a service can give: its class, its exit code, words without a debug form, a next step.

use super::{apply, cloud, plan, run};
use std::collections::BTreeSet;
use trainc_apply::account::Caller;
use trainc_apply::calls::Call;
use trainc_apply::diff::Choices;
use trainc_apply::fake::{Account, Fake, Faults, Refusal};
use trainc_apply::fault::{Class, Fault};
use trainc_apply::ledger::{Cause, Item};
use trainc_apply::verdict::{self, Verdict};
use trainc_emit::ResourceKind;

const EXAMPLE: &str = "llama-7b-fsdp";

#[track_caller]
fn sound(verdict: &Verdict, code: &str, exit: u8) {
    let one = &verdict.diagnostic;
    assert_eq!((one.code.id, verdict.exit), (code, exit), "{}", one.message);
    for words in std::iter::once(one.message.as_str())
        .chain(one.help.as_deref())
        .chain(one.notes.iter().map(trainc_diag::Note::as_str))
    {
        for sign in ["Some(", "None", "Err(", " { ", "Fault"] {
            assert!(!words.contains(sign), "`{words}` shows `{sign}`");
        }
        assert!(!words.ends_with('.') && !words.is_empty(), "`{words}`");
    }
    assert!(one.help.is_some() || !one.notes.is_empty(), "{}: no next step", one.message);
}

/// The answers of the service, call by call: HTTP status, code, text; the diagnostic and the exit code that it gives
/// when it does not pass.
const ANSWERS: &[(Call, u16, &str, &str, &str, u8)] = &[
    (Call::GetCallerIdentity, 403, "ExpiredToken", "The security token is expired", "T0602", 6),
    (Call::GetCallerIdentity, 403, "InvalidClientTokenId", "The security token is invalid.", "T0602", 6),
    (Call::GetCallerIdentity, 403, "UnrecognizedClientException", "invalid", "T0602", 6),
    (Call::GetCallerIdentity, 403, "OptInRequired", "The AWS Access Key Id needs a subscription", "T0601", 6),
    (Call::GetCallerIdentity, 403, "AccessDenied", "not authorized, with an explicit deny", "T0601", 6),
    (Call::GetCallerIdentity, 403, "SignatureDoesNotMatch", "Signature not yet current", "T0602", 6),
    (Call::GetRole, 403, "AccessDenied", "not authorized", "T0601", 6),
    (Call::DescribeTrainingJob, 400, "AccessDeniedException", "not authorized", "T0601", 6),
    (Call::HeadBucket, 403, "Forbidden", "", "T0601", 6),
    (Call::CreateRole, 409, "LimitExceeded", "Cannot exceed quota for RolesPerAccount: 1000", "T0603", 5),
    (Call::CreateRole, 400, "MalformedPolicyDocument", "Syntax errors in policy.", "T0608", 5),
    (Call::CreateRole, 400, "InvalidInput", "Duplicate tag keys found.", "T0608", 5),
    (Call::CreateRole, 409, "ConcurrentModification", "try again", "T0615", 5),
    (Call::CreateRole, 500, "ServiceFailure", "internal", "T0609", 5),
    (Call::PutRolePolicy, 409, "LimitExceeded", "Maximum policy size of 10240 bytes exceeded", "T0670", 5),
    (Call::CreateDataRepositoryAssociation, 400, "ServiceLimitExceeded", "", "T0670", 5),
    (Call::PutRolePolicy, 400, "UnmodifiableEntity", "service-linked", "T0608", 5),
    (
        Call::CreateFileSystem,
        400,
        "InvalidNetworkSettings",
        "do not permit Lustre LNET network traffic on port 988",
        "T0608",
        5,
    ),
    (Call::CreateFileSystem, 400, "ServiceLimitExceeded", "TOTAL_STORAGE", "T0603", 5),
    (Call::CreateFileSystem, 400, "BadRequest", "bad", "T0608", 5),
    (Call::CreateFileSystem, 400, "MissingFileSystemConfiguration", "lustre", "T0608", 5),
    (Call::CreateFileSystem, 500, "InternalServerError", "", "T0609", 5),
    (Call::CreateFileSystem, 400, "IncompatibleParameterError", "do not match the token", "T0613", 5),
    (
        Call::CreateDataRepositoryAssociation,
        400,
        "IncompatibleParameterError",
        "do not match the token",
        "T0613",
        5,
    ),
    (
        Call::CreateDataRepositoryAssociation,
        400,
        "UnsupportedOperation",
        "unable to validate access to the S3 bucket",
        "T0608",
        5,
    ),
    (Call::PutObject, 404, "NoSuchBucket", "The specified bucket does not exist", "T0618", 5),
    (Call::PutObject, 301, "PermanentRedirect", "must be addressed using the specified endpoint", "T0629", 3),
    (Call::PutObject, 403, "AccessDenied", "Access Denied", "T0601", 6),
    (Call::PutObject, 503, "SlowDown", "Please reduce your request rate.", "T0609", 5),
    (
        Call::CreateTrainingJob,
        400,
        "ResourceLimitExceeded",
        "The account-level service limit 'x' is 0 Instances",
        "T0603",
        5,
    ),
    (Call::CreateTrainingJob, 400, "ResourceNotFound", "Requested image does not exist", "T0608", 5),
    (
        Call::CreateTrainingJob,
        400,
        "ValidationException",
        "Could not assume role arn:aws:iam::1:role/x.",
        "T0607",
        5,
    ),
    (Call::CreateTrainingJob, 400, "ValidationException", "1 validation error detected", "T0608", 5),
    (Call::CreateTrainingJob, 400, "ThrottlingException", "Rate exceeded", "T0609", 5),
    (
        Call::CreateTrainingJob,
        400,
        "CapacityError",
        "Unable to provision requested ML compute capacity",
        "T0604",
        5,
    ),
];

#[test]
fn every_answer_has_its_exit_code_and_its_words() {
    let plan = plan(EXAMPLE, &[]);
    for (call, http, code, text, expected, exit) in ANSWERS {
        let fault = Fault::from_answer(*call, Some(*http), code, text).with_request_id(Some("req-1"));
        let item = Item::new(ResourceKind::TrainingJob, "job-7cdda7f2");
        let verdict = verdict::verdict(&plan, &item, &Cause::Fault(fault));
        sound(&verdict, expected, *exit);
        let has_id = verdict.diagnostic.notes.iter().any(|note| note == "AWS request ID req-1");
        assert!(has_id, "{}: no request id", verdict.diagnostic.message);
    }
}

/// Waiting is advised only where the end of other jobs makes room.
#[test]
fn a_quota_is_waited_for_only_where_that_helps() {
    let plan = plan(EXAMPLE, &[]);
    let help = |call: Call, code: &str, text: &str| {
        let cause = Cause::Fault(Fault::from_answer(call, Some(400), code, text));
        let verdict = verdict::verdict(&plan, &Item::new(ResourceKind::TrainingJob, "job-1"), &cause);
        assert_eq!(verdict.diagnostic.code.id, "T0603");
        format!("{:?} {:?}", verdict.diagnostic.help, verdict.diagnostic.notes)
    };
    let job = |limit: u32, used: u32| {
        let text = format!(
            "The account-level service limit 'ml.p4d.24xlarge for training job usage' is {limit} Instances, with current utilization of {used} Instances and a request delta of 8 Instances."
        );
        help(Call::CreateTrainingJob, "ResourceLimitExceeded", &text)
    };
    assert!(job(8, 4).contains("--wait-for-capacity"));
    assert!(job(10, 10).contains("--wait-for-capacity"));
    assert!(!job(4, 0).contains("--wait-for-capacity") && job(0, 0).contains("even when no other job runs"));
    let roles = help(Call::CreateRole, "LimitExceeded", "Cannot exceed quota for RolesPerAccount: 1000");
    assert!(!roles.contains("--wait-for-capacity") && roles.contains("Service Quotas"), "{roles}");
}

/// FSx names its quota and not what it would have to be: what the account's file systems take together is known.
#[test]
fn a_quota_of_file_systems_is_asked_for_with_a_figure() {
    let plan = plan(EXAMPLE, &[]);
    let calm = Fake::default();
    run(&calm, apply(&calm, &plan, Choices::default())).unwrap();
    let own = calm.account().file_systems.values().next().unwrap().clone();
    let other = |id: &str, kind: &str, capacity: u64| {
        let mut state = own.clone();
        state.system.id = id.to_owned();
        state.system.tags.clear();
        state.system.deployment = Some(kind.to_owned());
        state.system.capacity_gib = capacity;
        (id.to_owned(), state)
    };
    let all = [
        other("fs-0aaaaaaaaaaaaaaa1", "PERSISTENT_2", 90_000),
        other("fs-0aaaaaaaaaaaaaaa2", "PERSISTENT_2", 9_600),
        other("fs-0aaaaaaaaaaaaaaa3", "SCRATCH_2", 1_200),
    ];
    let account = Account { file_systems: all.into(), ..Account::default() };
    let wanted = own.system.capacity_gib;
    for (text, code, value) in [
        ("Reached Service Limit: TOTAL_STORAGE", "L-8F1B9C74", 99_600 + wanted),
        ("Reached Service Limit: FILE_SYSTEM_COUNT", "L-FD6F2F22", 3),
    ] {
        let refusal = Refusal {
            call: Call::CreateFileSystem,
            times: u32::MAX,
            http: 400,
            code: "ServiceLimitExceeded",
            text,
        };
        let cloud = cloud(account.clone(), Faults { refusals: vec![refusal], ..Faults::default() });
        let end = run(&cloud, apply(&cloud, &plan, Choices::default())).unwrap();
        let super::End::Failed(failed) = end else { panic!("{end:?}") };
        let helps: Vec<String> = failed
            .iter()
            .filter_map(|(item, cause)| verdict::verdict(&plan, item, cause).diagnostic.help)
            .map(|help| help.to_string())
            .collect();
        let help = format!(
            "aws service-quotas request-service-quota-increase --service-code fsx --quota-code {code} --desired-value {value} --region us-west-2"
        );
        assert!(helps.contains(&help), "{helps:?}");
    }
}

/// What no quota raises is no quota: nobody is sent to ask for more of it.
#[test]
fn a_limit_of_form_is_no_quota() {
    let plan = plan(EXAMPLE, &[]);
    let told = |call: Call, code: &str, name: &str| {
        let cause = Cause::Fault(Fault::from_answer(call, Some(409), code, "too much"));
        let one = verdict::verdict(&plan, &Item::new(ResourceKind::RolePolicy, name), &cause).diagnostic;
        assert_eq!((one.code.id, one.code.name), ("T0670", "hard-limit-exceeded"));
        format!(
            "{} {}",
            one.help.unwrap(),
            one.notes.iter().map(trainc_diag::Note::as_str).collect::<Vec<_>>().join(" ")
        )
    };
    let policy = told(Call::PutRolePolicy, "LimitExceeded", "trainc-a-0a1b2c3d/trainc");
    assert!(policy.contains("shorter prefixes") && policy.contains("10,240 characters"), "{policy}");
    assert!(policy.contains("aws iam list-role-policies --role-name trainc-a-0a1b2c3d"), "{policy}");
    let links = told(Call::CreateDataRepositoryAssociation, "ServiceLimitExceeded", "corpus/a");
    assert!(links.contains("at most 8 data repository associations"), "{links}");
    assert!(links.contains("describe-data-repository-associations --region us-west-2"), "{links}");
    for text in [policy, links] {
        assert!(!text.contains("Service Quotas") && !text.contains("--wait-for-capacity"), "{text}");
    }
}

#[test]
fn an_apply_that_meets_the_answer_ends_with_it() {
    let plan = plan(EXAMPLE, &[]);
    for (call, http, code, text, expected, exit) in ANSWERS {
        let refusal = Refusal { call: *call, times: u32::MAX, http: *http, code, text };
        let cloud = cloud(Account::default(), Faults { refusals: vec![refusal], ..Faults::default() });
        let end = run(&cloud, apply(&cloud, &plan, Choices::default())).unwrap();
        let super::End::Failed(failed) = end else { panic!("{call:?} {code}: {end:?}") };
        let verdicts: Vec<Verdict> =
            failed.iter().map(|(item, cause)| verdict::verdict(&plan, item, cause)).collect();
        let found: Vec<&str> = verdicts.iter().map(|one| one.diagnostic.code.id).collect();
        // What is waited for until it is late says so, and what it waited for.
        assert!(found.contains(expected), "{call:?} {code}: {found:?}");
        assert_eq!(verdict::worst_exit(verdicts.iter().map(|one| one.exit)), Some(*exit), "{call:?} {code}");
        assert!(cloud.account().jobs.is_empty());
    }
}

#[test]
fn the_rest_of_the_verdicts() {
    let plan = plan(EXAMPLE, &[]);
    let item = Item::new(ResourceKind::FileSystem, "corpus");
    let late = Cause::Late { state: "fs-1 is CREATING".to_owned(), seconds: 2_400 };
    sound(&verdict::verdict(&plan, &item, &late), "T0614", 5);
    let mismatch =
        Fault::from_answer(Call::CreateFileSystem, Some(400), "IncompatibleParameterError", "token");
    sound(&verdict::verdict(&plan, &item, &Cause::Fault(mismatch)), "T0613", 5);
    let conflict =
        Fault::from_answer(Call::DeleteRole, Some(409), "DeleteConflict", "someone added `debug` to it");
    sound(&verdict::verdict(&plan, &item, &Cause::Fault(conflict)), "T0615", 7);
    sound(&verdict::not_deployable(&plan), "T0616", 3);
    assert!(verdict::worker(&plan).is_none());
    let caller =
        Caller { account: "444455556666".to_owned(), arn: "arn:aws:iam::444455556666:user/me".to_owned() };
    let named = super::plan(EXAMPLE, &["account=\"111122223333\""]);
    sound(&verdict::account_mismatch(&named, &caller).unwrap(), "T0619", 3);
    assert!(verdict::account_mismatch(&plan, &caller).is_none());
}

#[test]
fn every_class_has_a_verdict() {
    let plan = plan(EXAMPLE, &[]);
    let classes = [
        Class::NotFound,
        Class::Exists,
        Class::Throttled,
        Class::Unavailable,
        Class::NoResponse,
        Class::Unreachable,
        Class::NotPropagated,
        Class::Busy,
        Class::Denied,
        Class::Credentials,
        Class::Quota,
        Class::Capacity,
        Class::Mismatch,
        Class::Invalid,
        Class::NotSupported,
        Class::Bug,
    ];
    let mut codes = BTreeSet::new();
    for class in classes {
        let fault = Fault::new(Call::CreateRole, class, "");
        let verdict = verdict::verdict(&plan, &Item::new(ResourceKind::Role, "r"), &Cause::Fault(fault));
        assert!((1..=8).contains(&verdict.exit));
        codes.insert(verdict.diagnostic.code.id);
    }
    assert!(codes.len() >= 10, "{codes:?}");
}

#[test]
fn obstacles_say_whose_they_are_and_what_differs() {
    let calm = Fake::default();
    run(&calm, apply(&calm, &plan(EXAMPLE, &[]), Choices::default())).unwrap();
    let verdicts = |sets: &[&str], change: &dyn Fn(&mut Account)| {
        let mut account = calm.account();
        change(&mut account);
        let cloud = Fake::new(account);
        let plan = plan(EXAMPLE, sets);
        let prospect =
            run(&cloud, super::look(&cloud).prospect(&plan, Choices::default())).unwrap().unwrap().unwrap();
        prospect.obstacles().map(|(change, _)| verdict::plan_obstacle(&plan, change)).collect::<Vec<_>>()
    };
    let changed = verdicts(&["program.hyperparameter.lr=1e-4"], &|_| {});
    sound(&changed[0], "T0606", 4);
    assert!(
        changed[0].diagnostic.notes[0].contains("`0.0003` in the account, `0.0001` in the plan"),
        "{changed:?}"
    );
    let foreign =
        verdicts(&[], &|account| account.roles.values_mut().for_each(|role| role.role.tags.clear()));
    sound(&foreign[0], "T0605", 7);
    let replaced = verdicts(&["network.subnets=subnet-0bbbbbbbbbbbbbbbb"], &|_| {});
    assert!(replaced.iter().any(|one| one.diagnostic.code.id == "T0610"));
    // Storage only grows: with as much as is there nothing has to go.
    let shrunk = verdicts(&["storage.corpus.capacity=2400GiB"], &|_| {});
    let help = shrunk[0].diagnostic.help.as_deref().unwrap();
    assert!(help.contains("capacity=\"4800GiB\"") && !help.contains("delete"), "{help}");
    let broken = verdicts(&[], &|account| {
        for state in account.file_systems.values_mut() {
            state.system.lifecycle = "MISCONFIGURED".to_owned();
        }
    });
    sound(&broken[0], "T0611", 5);
    // FSx goes on with it once its reason is mended: nobody is told to delete what is in it.
    let help = |one: &Verdict| one.diagnostic.help.clone().unwrap();
    assert!(help(&broken[0]).contains("fix what FSx names") && !help(&broken[0]).contains("delete"));
    let link = |state: &str| {
        let found = verdicts(&[], &|account| {
            for link in account.associations.values_mut() {
                link.association.lifecycle = state.to_owned();
            }
        });
        sound(&found[0], "T0611", 5);
        help(&found[0])
    };
    assert!(link("MISCONFIGURED").contains("within 15 minutes"));
    // A failed link goes alone.
    let failed = link("FAILED");
    assert!(
        failed.starts_with(
            "aws fsx delete-data-repository-association --region us-west-2 --association-id dra-"
        ) && failed.ends_with(" && trainc apply MANIFEST"),
        "{failed}"
    );
}
