//! What is found before the first write: every code of preflight, its place, its exit code.

use super::{look, plan, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::task::{Context, Poll, Waker};
use trainc_apply::account::{Endpoint, GroupRule, Route, RouteTable, SecurityGroup, Subnet};
use trainc_apply::calls::{Call, Effect};
use trainc_apply::diff::{Choices, Obstacle, Target};
use trainc_apply::fake::{Account, Fake};
use trainc_apply::preflight;
use trainc_catalog::quotas;
use trainc_diag::{Problems, Severity};
use trainc_ir::Plan;

fn findings(example: &str, sets: &[&str], account: Account) -> Problems {
    // Jobs that are there are looked at one by one, and a bucket that refuses is asked a second time.
    let is_usual = account.jobs.is_empty() && account.foreign_buckets.is_empty();
    let most = if is_usual { 25 } else { 30 };
    let cloud = Fake::new(account);
    let plan = plan(example, sets);
    let problems = run(&cloud, async {
        let look = look(&cloud);
        let prospect = look.prospect(&plan, Choices::default()).await.unwrap().unwrap();
        let facts = Box::pin(look.facts(&plan, &prospect, true)).await;
        preflight::judge(&plan, &facts)
    });
    assert!(cloud.calls().iter().all(|call| call.row().effect == Effect::Read));
    assert!(cloud.calls().len() < most, "{example}: {} calls", cloud.calls().len());
    problems.unwrap()
}

#[track_caller]
fn finds(
    example: &str,
    sets: &[&str],
    expected: &[&str],
    exit: u8,
    change: impl FnOnce(&mut Account),
) -> Problems {
    let mut account = Account::default();
    change(&mut account);
    let problems = findings(example, sets, account);
    let found: BTreeSet<&str> = problems.iter().map(|one| one.code.id).collect();
    let lines: Vec<_> = problems.iter().map(|one| &one.message).collect();
    assert_eq!(found, expected.iter().copied().collect(), "{lines:#?}");
    assert_eq!(preflight::exit_code(&problems), exit, "{lines:#?}");
    problems
}

const LLAMA: &str = "llama-7b-fsdp";
const SUBNET: &str = "subnet-0123456789abcdef0";
const GROUP: &str = "sg-0123456789abcdef0";

fn group(ingress: Vec<GroupRule>, egress: Vec<GroupRule>) -> SecurityGroup {
    SecurityGroup { id: GROUP.to_owned(), vpc: "vpc-0a1b2c3d4e5f60718".to_owned(), ingress, egress }
}

fn missing(account: &mut Account, name: &str) {
    account.missing.insert(name.to_owned());
}

#[test]
fn who_may_not_delete_hears_of_it_before_anything_is_made() {
    let goes = &["storage.corpus.delete-after-job=#true"];
    finds(LLAMA, goes, &[], 0, |_| {});
    let problems = finds(LLAMA, goes, &["T0641"], 0, |account| {
        account.role_lacks.insert("fsx:DeleteFileSystem".to_owned());
    });
    let one = problems.iter().next().unwrap();
    assert!(
        one.message.contains("`fsx:DeleteFileSystem`") && !one.message.contains("Association"),
        "{one:?}"
    );
    // Who may not ask is told that nobody looked, and nothing that stays is asked about.
    finds(LLAMA, goes, &["T0636"], 0, |account| {
        account.denied.insert("iam:SimulatePrincipalPolicy".to_owned());
    });
    finds(LLAMA, &[], &[], 0, |account| {
        account.role_lacks.insert("fsx:DeleteFileSystem".to_owned());
    });
}

#[test]
fn an_account_that_has_everything_has_no_findings() {
    for example in
        [LLAMA, "starter", "distilbert-spot", "gpt2-30b-sharded", "falcon-40b-qlora", "neox-20b-fsdp"]
    {
        finds(example, &[], &[], 0, |_| {});
    }
}

/// Consoles mark a folder by an empty object: there is nothing in it to train on.
#[test]
fn a_folder_without_files_is_empty() {
    let plan = plan("starter", &[]);
    let uri = plan.job.channels.iter().find_map(|channel| channel.s3.value().cloned()).unwrap();
    let path = uri.strip_prefix("s3://").unwrap().to_owned();
    finds("starter", &[], &["T0630"], 3, |account| {
        account.objects.insert(path.clone(), 0);
        account.objects.insert(format!("{path}inner/"), 0);
    });
    finds("starter", &[], &[], 0, |account| {
        account.objects.insert(path.clone(), 0);
        account.objects.insert(format!("{path}part-0"), 0);
    });
}

/// Two versions of a job that run side by side share one role: what both may do must fit into its policy.
#[test]
fn a_policy_without_room_for_two_versions_is_said_before_anything_is_made() {
    let read = |at: usize| format!("arn:aws:s3:::example-corpus-of-team-{at:03}-with-a-long-name/tokens/*");
    let mut account = Account::default();
    let first = Fake::new(account.clone());
    let plan_of = |lr: &str| plan("starter", &[&format!("train.steps={lr}")]);
    let end = run(&first, super::apply(&first, &plan_of("77"), Choices::default())).unwrap();
    assert!(matches!(end, super::End::Done(_)), "{end:?}");
    account = first.account();
    // The older version was given much: its part alone is near the limit.
    let policy = account.roles.values_mut().next().unwrap().policies.get_mut("trainc").unwrap();
    let mut document: serde_json::Value = serde_json::from_str(policy).unwrap();
    let much = serde_json::json!({"Sid": "ReadMuch", "Effect": "Allow", "Action": "s3:GetObject",
        "Resource": (0..140).map(read).collect::<Vec<_>>()});
    document["Statement"].as_array_mut().unwrap().push(much);
    *policy = document.to_string();
    let cloud = Fake::new(account);
    let choices = Choices { new_run: true, ..Choices::default() };
    let (second, mut problems) = (plan_of("78"), Problems::default());
    let prospect = run(&cloud, look(&cloud).prospect(&second, choices)).unwrap().unwrap().unwrap();
    preflight::combined_policy(&second, &prospect.desired, &mut problems);
    let codes: Vec<&str> = problems.iter().map(|one| one.code.id).collect();
    assert_eq!((codes.as_slice(), preflight::exit_code(&problems)), (&["T0648"][..], 5));
    let name = cloud.account().jobs.keys().next().unwrap().clone();
    assert!(problems.iter().all(|one| one.message.contains(&name)), "{problems:?}");
    // Alone it fits.
    let calm = Fake::default();
    let prospect = run(&calm, look(&calm).prospect(&second, choices)).unwrap().unwrap().unwrap();
    let mut problems = Problems::default();
    preflight::combined_policy(&second, &prospect.desired, &mut problems);
    assert!(problems.is_empty());
}

#[test]
fn the_network() {
    finds(LLAMA, &[], &["T0623"], 3, |account| missing(account, SUBNET));
    finds(LLAMA, &[], &["T0625"], 3, |account| missing(account, GROUP));
    let zones = finds(LLAMA, &[], &["T0622"], 3, |account| {
        account.zones.insert("p4d.24xlarge".to_owned(), vec!["usw2-az3".to_owned()]);
    });
    let note = &zones.iter().next().unwrap().notes[0];
    assert!(note.contains("usw2-az3"), "{note}");
    let subnet = |vpc: &str, free| Subnet {
        id: SUBNET.to_owned(),
        vpc: vpc.to_owned(),
        zone: "us-west-2a".to_owned(),
        zone_id: "usw2-az1".to_owned(),
        free_addresses: free,
    };
    let full = finds(LLAMA, &[], &["T0624"], 3, |account| {
        account.subnets.insert(SUBNET.to_owned(), subnet("vpc-0a1b2c3d4e5f60718", 39));
    });
    assert!(full.iter().next().unwrap().message.contains("39 free addresses, but 8 instances need 40"));
    finds(LLAMA, &[], &["T0639"], 3, |account| {
        account.subnets.insert(SUBNET.to_owned(), subnet("vpc-0b", 4_000));
    });
    // All traffic to 0.0.0.0/0 is enough for Lustre on the way out, and not for EFA.
    let all =
        GroupRule { protocol: "-1".to_owned(), ranges: vec!["0.0.0.0/0".to_owned()], ..GroupRule::default() };
    let own = GroupRule { protocol: "-1".to_owned(), groups: vec![GROUP.to_owned()], ..GroupRule::default() };
    finds(LLAMA, &[], &["T0627"], 3, |account| {
        account.security_groups.insert(GROUP.to_owned(), group(vec![own.clone()], vec![all.clone()]));
    });
    let web =
        GroupRule { protocol: "tcp".to_owned(), from_port: Some(443), to_port: Some(443), ..all.clone() };
    let closed = finds(LLAMA, &[], &["T0626", "T0627"], 3, |account| {
        account.security_groups.insert(GROUP.to_owned(), group(vec![web], vec![all]));
    });
    assert!(
        closed
            .iter()
            .any(|one| one.message == "Lustre requires TCP 988 in and 1018-1023 in, which no rule allows")
    );
}

#[test]
fn the_way_to_s3() {
    let table = |destination: &str, target: &str| RouteTable {
        id: "rtb-1".to_owned(),
        is_main: true,
        subnets: Vec::new(),
        routes: [("172.31.0.0/16", "local"), (destination, target)]
            .map(|(to, by)| Route { destination: to.to_owned(), target: by.to_owned() })
            .to_vec(),
    };
    let shut = finds(LLAMA, &[], &["T0640"], 3, |account| {
        account.route_tables = vec![table("pl-1", "vpce-of-another-service")];
    });
    let one = shut.iter().next().unwrap();
    assert!(one.message.contains("`rtb-1` has no default route"), "{}", one.message);
    assert!(one.help.as_deref().unwrap().contains("com.amazonaws.us-west-2.s3 --route-table-ids rtb-1"));
    // A subnet with a table of its own does not use the main one.
    finds(LLAMA, &[], &[], 0, |account| {
        let mut own = table("0.0.0.0/0", "nat-1");
        own.is_main = false;
        own.subnets = vec![SUBNET.to_owned()];
        account.route_tables = vec![table("10.0.0.0/8", "pcx-1"), own];
    });
    let public = finds(LLAMA, &[], &["T0640"], 0, |account| {
        account.route_tables = vec![table("0.0.0.0/0", "igw-1")];
    });
    assert_eq!(public.iter().next().unwrap().severity, Severity::Warning);
    let gateway = |state: &str, to: &str| Endpoint {
        id: "vpce-1".to_owned(),
        kind: "Gateway".to_owned(),
        state: state.to_owned(),
        route_tables: vec![to.to_owned()],
        private_dns: false,
    };
    for (state, to, expected, exit) in [
        ("available", "rtb-1", &[][..], 0),
        ("available", "rtb-2", &["T0640"], 3),
        ("deleting", "rtb-1", &["T0640"], 3),
    ] {
        finds(LLAMA, &[], expected, exit, |account| {
            account.route_tables = vec![table("10.0.0.0/8", "pcx-1")];
            account.endpoints = vec![gateway(state, to)];
        });
    }
    finds(LLAMA, &[], &["T0636"], 0, |account| {
        account.route_tables = vec![table("10.0.0.0/8", "pcx-1")];
        account.denied.insert("ec2:DescribeVpcEndpoints".to_owned());
    });
}

#[test]
fn room() {
    let spot = "L-09D56C4F";
    let quota = finds(LLAMA, &[], &["T0621"], 5, |account| {
        account.quotas.insert(spot.to_owned(), 4.0);
    });
    let one = quota.iter().next().unwrap();
    assert_eq!(
        one.message,
        "the quota `ml.p4d.24xlarge for spot training job usage` is 4 instances, but the job \
            needs 8 instances"
    );
    assert!(one.help.as_deref().unwrap().contains("--quota-code L-09D56C4F --desired-value 8"), "{one:?}");
    // What a new account has is enough for the longest run, and nobody is asked about it; the number of
    // instances is more than the catalogue's default, which may have aged.
    let fake = Fake::default();
    let plan = plan(LLAMA, &[]);
    run(&fake, async {
        let look = look(&fake);
        let prospect = look.prospect(&plan, Choices::default()).await.unwrap().unwrap();
        Box::pin(look.facts(&plan, &prospect, true)).await
    });
    let asked = |call: Call| fake.calls().iter().filter(|made| **made == call).count();
    assert_eq!((asked(Call::GetServiceQuota), asked(Call::GetAWSDefaultServiceQuota)), (5, 1));
    // The longest run, and the storage.
    finds(LLAMA, &[], &["T0621"], 5, |account| {
        account.quotas.insert("L-33A961FD".to_owned(), 3_600.0);
        account.quotas.insert("L-8F1B9C74".to_owned(), 1_200.0);
    });
}

#[test]
fn file_systems_that_are_there_take_of_their_quota() {
    let first = Fake::default();
    run(&first, super::apply(&first, &plan(LLAMA, &[]), Choices::default())).unwrap();
    let made = first.account();
    let beside = |deployment: &str, tagged: bool, quota: f64| {
        let mut account = Account { jobs: BTreeMap::new(), ..made.clone() };
        for system in account.file_systems.values_mut() {
            system.system.deployment = Some(deployment.to_owned());
            if !tagged {
                system.system.tags.clear();
            }
        }
        account.quotas.insert("L-8F1B9C74".to_owned(), quota);
        findings(LLAMA, &[], account)
    };
    let found = beside("PERSISTENT_2", false, 9_000.0);
    let one = found.iter().find(|one| one.message.contains("storage capacity")).unwrap();
    assert!(
        one.message.contains("is 9,000 GiB, of which 4,800 GiB are in use, but the job needs 4,800 GiB"),
        "{one:?}"
    );
    assert!(one.help.as_deref().unwrap().contains("--desired-value 9600"), "{one:?}");
    assert!(!one.notes.iter().any(|note| note.contains("wait-for-capacity")), "{one:?}");
    // Enough for both; of another type; the job's own.
    for (deployment, tagged, quota) in
        [("PERSISTENT_2", false, 9_600.0), ("SCRATCH_2", false, 9_000.0), ("PERSISTENT_2", true, 4_800.0)]
    {
        let found = beside(deployment, tagged, quota);
        let said = found.iter().any(|one| one.message.contains("storage capacity"));
        assert!(!said, "{deployment}, {tagged}, {quota}");
    }
}

#[test]
fn each_group_has_its_quota() {
    let plan = super::plan_with("tests/requests/groups-smddp.kdl", &[], None);
    let mut account = Account::default();
    account.quotas.insert("L-81482A8C".to_owned(), 1.0);
    account.quotas.insert("L-09B4A649".to_owned(), 2.0);
    let cloud = Fake::new(account);
    let problems = run(&cloud, async {
        let look = look(&cloud);
        let prospect = look.prospect(&plan, Choices::default()).await.unwrap().unwrap();
        let facts = Box::pin(look.facts(&plan, &prospect, true)).await;
        preflight::judge(&plan, &facts)
    });
    let found: Vec<_> = problems.unwrap().iter().filter(|one| one.code.id == "T0621").cloned().collect();
    let [one] = found.as_slice() else { panic!("{found:#?}") };
    assert!(one.message.contains("`ml.c5.18xlarge for training job usage` is 1 instance"), "{}", one.message);
}

#[test]
fn what_runs_now_counts() {
    let plan_of = plan(LLAMA, &[]);
    let first = Fake::default();
    run(&first, super::apply(&first, &plan_of, Choices::default())).unwrap();
    let mut account = first.account();
    account.quotas.insert("L-09D56C4F".to_owned(), 15.0);
    let new_run = Choices { new_run: true, ..Choices::default() };
    let (_, problems) = planned(account, &plan(LLAMA, &["output.s3=s3://example-runs/elsewhere/"]), new_run);
    let one = problems.iter().find(|one| one.code.id == "T0621").unwrap();
    assert!(one.message.contains("15 instances, of which 8 instances are in use"), "{}", one.message);
}

#[test]
fn the_jobs_of_colleagues_cost_a_plan_two_calls_at_most() {
    // Jobs of another name on the same machines, each of eight instances.
    let first = Fake::default();
    run(&first, super::apply(&first, &plan(LLAMA, &[]), Choices::default())).unwrap();
    let job = first.account().jobs.into_values().next().unwrap();
    let colleagues = |quota: Option<f64>| {
        let mut account = Account { now: first.account().now, ..Account::default() };
        for at in 0..12 {
            let mut job = job.clone();
            job.job.name = format!("colleague-{at}");
            job.job.arn = job.job.arn.replace("llama-7b-fsdp", &job.job.name);
            job.job.created -= f64::from(at);
            job.tags.clear();
            account.jobs.insert(job.job.name.clone(), job);
        }
        let quotas = ["L-09D56C4F", "L-93958082", "L-DB62C864"];
        account.quotas.extend(quotas.into_iter().filter_map(|code| Some((code.to_owned(), quota?))));
        let cloud = Fake::new(account);
        let plan = plan(LLAMA, &[]);
        let problems = run(&cloud, async {
            let look = look(&cloud);
            let prospect = look.prospect(&plan, Choices::default()).await.unwrap().unwrap();
            let facts = Box::pin(look.facts(&plan, &prospect, true)).await;
            preflight::judge(&plan, &facts)
        });
        let calls = cloud.calls();
        let described = calls.iter().filter(|call| **call == Call::DescribeTrainingJob).count();
        assert!(calls.len() < 25, "{quota:?}: {} calls: {calls:?}", calls.len());
        (problems.unwrap(), described)
    };
    let (problems, described) = colleagues(Some(20.0));
    let one = problems.iter().find(|one| one.code.id == "T0621");
    let one = one.unwrap_or_else(|| panic!("{described}: {problems:#?}"));
    assert!(
        one.message.contains("20 instances, of which at least 16 instances are in use"),
        "{}",
        one.message
    );
    assert_eq!(described, 3, "its own, and the two newest");
    let (problems, _) = colleagues(Some(120.0));
    assert!(!problems.iter().any(|one| one.code.id == "T0621"), "{problems:?}");
    // Where it does not fit even alone, nobody is asked what runs.
    let (problems, described) = colleagues(Some(4.0));
    let one = problems.iter().find(|one| one.code.id == "T0621").unwrap();
    assert!(one.message.contains("is 4 instances, but the job needs 8"), "{}", one.message);
    assert_eq!(described, 1);
    colleagues(None);
}

#[test]
fn data_keys_secrets() {
    finds(LLAMA, &[], &["T0628"], 3, |account| {
        account.missing_buckets.insert("example-runs".to_owned());
    });
    finds(LLAMA, &[], &["T0629"], 3, |account| {
        account.buckets.insert("example-corpus".to_owned(), "eu-west-1".to_owned());
    });
    // Whose it is: what others own may be read; a name that holds the account's number must be the account's.
    let foreign =
        |name: &'static str| move |account: &mut Account| account.foreign_buckets.extend([name.to_owned()]);
    let theirs = finds(LLAMA, &[], &["T0642"], 0, foreign("example-corpus"));
    let one = theirs.iter().next().unwrap();
    assert_eq!(one.message, "bucket `example-corpus` does not belong to account 111122223333");
    // Nothing is written to it, wherever the manifest names it, unless the manifest names its owner.
    let theirs = "s3://theirs/x/";
    for place in ["output.s3", "checkpoint.s3", "program.upload", "tensorboard.s3", "profiler.s3"] {
        let set = format!("{place}={theirs}");
        let found = finds(LLAMA, &[&set], &["T0642"], 3, foreign("theirs"));
        let one = found.iter().find(|one| one.code.id == "T0642").unwrap();
        assert!(one.message.ends_with("but the job writes to it"), "{}", one.message);
        finds(LLAMA, &[&set, "bucket.theirs.owner=222233334444"], &[], 0, foreign("theirs"));
        // Only the owner that the manifest names.
        finds(LLAMA, &[&set, "bucket.theirs.owner=333344445555"], &["T0642"], 3, foreign("theirs"));
    }
    finds(LLAMA, &["bucket.example-runs.owner=222233334444"], &["T0642"], 3, |_| {});
    let taken = "runs-111122223333";
    let sets = [&*format!("output.s3=s3://{taken}/out/")];
    finds(LLAMA, &sets, &["T0642"], 3, foreign(taken));
    finds(LLAMA, &["output.s3=s3://runs-${account}/out/"], &["T0642"], 3, foreign(taken));
    finds(LLAMA, &["output.s3=s3://runs-${account}/out/"], &["T0629"], 3, |account| {
        account.buckets.insert(taken.to_owned(), "eu-west-1".to_owned());
    });
    // "Create folder" of the console is no data, and a marker before the data is no lack of it.
    let marker = "example-corpus/tokens/";
    finds(LLAMA, &[], &["T0630"], 3, |account| {
        account.objects.insert(marker.to_owned(), 0);
    });
    finds(LLAMA, &[], &[], 0, |account| {
        account.objects.insert(marker.to_owned(), 0);
        account.objects.insert(format!("{marker}part-0"), 1);
    });
    finds(LLAMA, &[], &["T0630"], 3, |account| {
        account.empty.insert("example-corpus/tokens/".to_owned());
    });
    finds(LLAMA, &[], &["T0635"], 3, |account| {
        missing(account, "arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf");
    });
    let key = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    finds(LLAMA, &[&format!("output.kms={key}")], &["T0631"], 3, |account| missing(account, key));
    let image = "111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:7";
    finds("distilbert-spot", &[&format!("image.uri={image}")], &["T0634"], 3, |account| {
        missing(account, image)
    });
}

/// The default bucket under its own name in another account: nothing is uploaded to it.
#[test]
fn a_default_bucket_that_somebody_took_is_in_the_way() {
    let mut account = Account::default();
    account.foreign_buckets.insert("sagemaker-us-west-2-111122223333".to_owned());
    let cloud = Fake::new(account);
    let adopt = Choices { adopt: true, ..Choices::default() };
    let plan = plan("starter", &[]);
    let end = run(&cloud, super::apply(&cloud, &plan, adopt)).unwrap();
    assert!(matches!(&end, super::End::Stopped(why) if why == &[Obstacle::Foreign]), "{end:?}");
    assert!(cloud.account().objects.is_empty());
}

#[test]
fn a_role_of_ones_own() {
    let example = "distilbert-spot";
    finds(example, &[], &["T0632"], 3, |account| {
        account.denied.clear();
        missing(account, "sagemaker_execution_role");
    });
    let lacking = finds(example, &[], &["T0633"], 6, |account| {
        account.role_lacks.insert("s3:PutObject".to_owned());
    });
    let one = lacking.iter().next().unwrap();
    assert_eq!(one.message, "the role is not allowed to perform `s3:PutObject`");
    assert!(one.notes.iter().any(|note| note.starts_with("s3:PutObject on arn:aws:s3:::")), "{one:?}");
}

#[test]
fn file_systems_that_exist() {
    let example = "gpt2-30b-sharded";
    let id = plan(example, &[]).job.storage.first().and_then(|storage| storage.id.value().cloned()).unwrap();
    finds(example, &[], &["T0637"], 3, |account| missing(account, &id));
    let elsewhere = finds(example, &[], &["T0638"], 0, |account| {
        let mut state = trainc_apply::fake::FileSystemState::default();
        state.system.id.clone_from(&id);
        state.system.lifecycle = "AVAILABLE".to_owned();
        state.system.subnets = vec!["subnet-0bbbbbbbbbbbbbbbb".to_owned()];
        account.file_systems.insert(id.clone(), state);
    });
    assert_eq!(elsewhere.iter().next().unwrap().severity, Severity::Warning);
}

#[test]
fn who_may_not_look_gets_notes() {
    let problems = finds(LLAMA, &[], &["T0636"], 0, |account| {
        for action in
            ["ec2:DescribeSubnets", "servicequotas:GetServiceQuota", "secretsmanager:DescribeSecret"]
        {
            account.denied.insert(action.to_owned());
        }
    });
    assert!(problems.iter().all(|one| one.severity == Severity::Note));
    assert!(problems.iter().any(|one| one.message
        == "skipped check: the subnets; the caller is not allowed to perform ec2:DescribeSubnets"));
}

#[test]
fn everything_is_found_at_once_and_points_into_the_manifest() {
    let problems = finds(LLAMA, &[], &["T0621", "T0622", "T0625", "T0628", "T0635"], 3, |account| {
        account.quotas.insert("L-09D56C4F".to_owned(), 0.0);
        account.zones.insert("p4d.24xlarge".to_owned(), Vec::new());
        missing(account, GROUP);
        account.missing_buckets.insert("example-runs".to_owned());
        missing(account, "arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf");
    });
    let text = crate::support::read("examples/llama-7b-fsdp/trainc.kdl");
    for one in problems.iter() {
        let place = text.get(one.span.start as usize..one.span.end as usize).unwrap();
        assert!(!place.is_empty(), "{} points nowhere", one.code.id);
    }
}

/// What `plan` asks of an account, as it asks it: which calls, and what was found.
fn planned(account: Account, plan: &Plan, choices: Choices) -> (Vec<Call>, Problems) {
    let (calls, problems, _) = planned_in(account, plan, choices);
    (calls, problems)
}

/// The same, and how many answers it waited for, one after the other: each call of the simulated account
/// gives way once, so that what is asked at the same time is answered when the whole is polled next.
fn planned_in(account: Account, plan: &Plan, choices: Choices) -> (Vec<Call>, Problems, usize) {
    let cloud = Fake::new(account);
    let mut future = Box::pin(async { Box::pin(look(&cloud).survey_with_facts(plan, choices)).await });
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = 0;
    let (_, facts) = loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(out) => break out,
            Poll::Pending => waits += 1,
        }
    };
    (cloud.calls(), preflight::judge(plan, &facts.unwrap()), waits)
}

/// The same, with everything looked at that there is before anything is asked that the manifest names.
fn planned_in_turn(account: Account, plan: &Plan, choices: Choices) -> Problems {
    let cloud = Fake::new(account);
    let problems = run(&cloud, async {
        let look = look(&cloud);
        let prospect = look.prospect(plan, choices).await.unwrap().unwrap();
        let starting = matches!(prospect.target, Target::Start(_));
        let facts = Box::pin(look.facts(plan, &prospect, starting)).await;
        preflight::judge(plan, &facts)
    });
    problems.unwrap()
}

/// Jobs of other names on the same machines.
fn with_colleagues(account: &mut Account, from: &Account) {
    let job = from.jobs.values().next().unwrap();
    for at in 0..12 {
        let mut job = job.clone();
        job.job.name = format!("colleague-{at}");
        job.job.arn = job.job.arn.replace("llama-7b-fsdp", &job.job.name);
        "InProgress".clone_into(&mut job.job.status);
        job.job.created -= f64::from(at);
        job.tags.clear();
        account.jobs.insert(job.job.name.clone(), job);
    }
}

/// Runs of other digests of the job, so many, in this state.
fn with_others(account: &mut Account, from: &Account, others: usize, status: &str) {
    let job = from.jobs.values().next().unwrap();
    account.jobs.clear();
    for at in 0..others {
        let mut job = job.clone();
        job.job.name = format!("llama-7b-fsdp-0000000{at}");
        job.job.arn = format!("arn:aws:sagemaker:us-west-2:111122223333:training-job/{}", job.job.name);
        status.clone_into(&mut job.job.status);
        job.tags.insert("trainc:digest".to_owned(), format!("0000000{at}00000000"));
        job.tags.insert("trainc:new-run".to_owned(), "true".to_owned());
        account.jobs.insert(job.job.name.clone(), job);
    }
}

#[test]
fn a_plan_makes_fewer_than_25_calls_in_whatever_account() {
    let first = Fake::default();
    let llama = plan(LLAMA, &[]);
    run(&first, super::apply(&first, &llama, Choices::default())).unwrap();
    let made = first.account();
    let fresh = || Account { now: made.now, ..Account::default() };
    let left = || Account { jobs: BTreeMap::new(), ..made.clone() };
    let half = || Account { associations: BTreeMap::new(), ..left() };
    let beside = |others: usize, status: &str| {
        let mut account = made.clone();
        with_others(&mut account, &made, others, status);
        account
    };
    let unlinked = |others: usize| Account { associations: BTreeMap::new(), ..beside(others, "InProgress") };
    let states: Vec<(&str, Account)> = vec![
        ("nothing of the job", fresh()),
        ("role, file system and link", left()),
        ("role and file system", half()),
        ("the job itself", made.clone()),
        ("an older digest that runs", beside(1, "InProgress")),
        ("six older digests that run", beside(6, "InProgress")),
        ("six older digests that are over", beside(6, "Completed")),
        ("an older digest that runs, another link", unlinked(1)),
        ("six older digests that run, another link", unlinked(6)),
    ];
    let edited = plan(LLAMA, &["output.s3=s3://example-runs/elsewhere/"]);
    let local = Route { destination: "172.31.0.0/16".to_owned(), target: "local".to_owned() };
    let shut = RouteTable { id: "rtb-1".to_owned(), is_main: true, subnets: Vec::new(), routes: vec![local] };
    let endpoint = Endpoint {
        id: "vpce-1".to_owned(),
        kind: "Gateway".to_owned(),
        state: "available".to_owned(),
        route_tables: vec!["rtb-1".to_owned()],
        private_dns: false,
    };
    let new_run = Choices { new_run: true, ..Choices::default() };
    let words = |found: &Problems| -> Vec<String> { found.iter().map(|one| one.message.clone()).collect() };
    let mut table =
        String::from("plan beside                                    quotas  colleagues  calls  waits\n");
    let mut most = 0;
    for (name, account) in &states {
        for quota in [None, Some(4.0), Some(1_000.0)] {
            for colleagues in [false, true] {
                let mut account = account.clone();
                if colleagues {
                    with_colleagues(&mut account, &made);
                }
                let codes = ["L-09D56C4F", "L-93958082", "L-DB62C864", "L-33A961FD", "L-8F1B9C74"];
                account.quotas.extend(codes.into_iter().filter_map(|code| Some((code.to_owned(), quota?))));
                let (mut worst, mut longest) = (0, 0);
                for hard in ["", "a bucket of somebody else's", "a network that nothing leads out of"] {
                    // Each is asked about once more.
                    account.foreign_buckets.clear();
                    account
                        .foreign_buckets
                        .extend(hard.contains("bucket").then(|| "example-runs".to_owned()));
                    let is_shut = hard.contains("network");
                    account.route_tables = is_shut.then(|| shut.clone()).into_iter().collect();
                    account.endpoints = is_shut.then(|| endpoint.clone()).into_iter().collect();
                    for (plan, choices) in [
                        (&llama, Choices::default()),
                        (&llama, new_run),
                        (&edited, Choices::default()),
                        (&edited, new_run),
                    ] {
                        let (calls, found, waits) = planned_in(account.clone(), plan, choices);
                        if hard.is_empty() {
                            let in_turn = planned_in_turn(account.clone(), plan, choices);
                            assert_eq!(words(&found), words(&in_turn), "{name}, {quota:?}, {colleagues}");
                        }
                        // A new job and one that is there wait least; nobody waits for more than what depends
                        // on what.
                        let is_first = std::ptr::eq(plan, &raw const llama) && !choices.new_run;
                        let most = match *name {
                            "nothing of the job" if !colleagues => 3,
                            "the job itself" if is_first && hard.is_empty() => 2,
                            _ => 5,
                        };
                        assert!(waits <= most, "{name}, {quota:?}, {colleagues}, {choices:?}: {waits} waits");
                        longest = longest.max(waits);
                        assert!(calls.len() < 25, "{name}, {quota:?}, {colleagues}, {choices:?}: {calls:?}");
                        let quotas =
                            calls.iter().filter(|call| **call == Call::GetAWSDefaultServiceQuota).count();
                        assert!(quotas <= 1, "{name}, {quota:?}: {calls:?}");
                        worst = worst.max(calls.len());
                    }
                }
                most = most.max(worst);
                let quota = quota.map_or("never raised".to_owned(), |quota| quota.to_string());
                let _ = writeln!(table, "{name:<45}{quota:>8}{colleagues:>12}{worst:>7}{longest:>7}");
            }
        }
    }
    println!("{table}");
    assert!(most >= 20, "{table}");
}

#[test]
fn every_example_asks_fewer_than_25_times() {
    let first = Fake::default();
    run(&first, super::apply(&first, &plan(LLAMA, &[]), Choices::default())).unwrap();
    let made = first.account();
    for entry in std::fs::read_dir(crate::support::root().join("examples")).unwrap() {
        let example = entry.unwrap().file_name().to_string_lossy().into_owned();
        if !crate::support::root().join(format!("examples/{example}/trainc.kdl")).exists() {
            continue;
        }
        let plan = plan(&example, &[]);
        if plan.on_sagemaker.is_none() {
            continue;
        }
        for quota in [None, Some(1_000_000.0)] {
            let mut account = Account { now: made.now, ..Account::default() };
            with_colleagues(&mut account, &made);
            let all = quotas::general_keys().filter_map(|key| quotas::general(key)?.code);
            let all = all.chain(quotas::of_instances().filter_map(|(_, row)| row.code));
            account.quotas.extend(all.filter_map(|code| Some((code, quota?))));
            let (calls, _) = planned(account, &plan, Choices::default());
            println!("{example}: {} calls", calls.len());
            assert!(calls.len() < 25, "{example}: {} calls: {calls:?}", calls.len());
        }
    }
}

#[test]
fn a_figure_of_the_catalogue_refuses_nothing_that_the_service_allows() {
    // Never raised, and the service's own default has room: the catalogue's is smaller than the job.
    let (calls, problems) = planned(Account::default(), &plan(LLAMA, &[]), Choices::default());
    assert_eq!(calls.iter().filter(|call| **call == Call::GetAWSDefaultServiceQuota).count(), 1);
    assert!(!problems.iter().any(|one| one.code.id == "T0621"), "{problems:?}");
}

#[test]
fn what_is_linked_already_is_not_looked_at_again() {
    let first = Fake::default();
    let llama = plan(LLAMA, &[]);
    run(&first, super::apply(&first, &llama, Choices::default())).unwrap();
    let mut account = Account { jobs: BTreeMap::new(), ..first.account() };
    // What was imported lies in the file system: S3 may be empty by now.
    account.empty.insert("example-corpus/tokens/".to_owned());
    let (calls, problems) = planned(account.clone(), &llama, Choices::default());
    assert!(!calls.contains(&Call::ListObjectsV2) && problems.is_empty(), "{calls:?} {problems:?}");
    assert_eq!(calls.iter().filter(|call| **call == Call::GetServiceQuota).count(), 4, "no room for storage");
    account.associations.clear();
    let (calls, problems) = planned(account, &llama, Choices::default());
    assert!(calls.contains(&Call::ListObjectsV2));
    assert!(problems.iter().any(|one| one.code.id == "T0630"), "{problems:?}");
}
