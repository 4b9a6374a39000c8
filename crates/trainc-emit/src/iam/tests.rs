use super::{
    BoundaryScope, INLINE_POLICY_LIMIT, MANAGED_POLICY_LIMIT, Statement, boundary_of_jobs, create_role,
    files, fitting_policy, general_boundary, policy, statements, trust_policy,
};
use crate::{canonical_json, sample};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;
use trainc_catalog::iam_actions;
use trainc_ir::Plan;

fn sids(plan: &Plan) -> Vec<String> {
    statements(plan).into_iter().map(|statement| statement.sid).collect()
}

fn find(plan: &Plan, sid: &str) -> Statement {
    statements(plan).into_iter().find(|statement| statement.sid == sid).unwrap()
}

/// Checks the properties of every policy.
#[track_caller]
fn check_policy(plan: &Plan) {
    let statements = statements(plan);
    let names: BTreeSet<&str> = statements.iter().map(|statement| statement.sid.as_str()).collect();
    assert_eq!(names.len(), statements.len(), "a duplicate Sid");
    for statement in &statements {
        let Statement { sid, because, actions, resources, .. } = statement;
        assert!(!sid.is_empty() && sid.bytes().all(|b| b.is_ascii_alphanumeric()), "{sid}");
        assert!(!because.is_empty() && !resources.is_empty() && actions.is_sorted(), "{sid}");
        for name in actions {
            let Some(action) = iam_actions::get(name) else {
                // These two are not in the catalogue; both are on the ARN of the manifest.
                assert!(
                    matches!(*name, "lambda:InvokeFunction" | "sagemaker-mlflow:*")
                        && !resources.contains(&"*".to_owned()),
                    "{name}"
                );
                continue;
            };
            assert_eq!(action.star_only, *resources == ["*"], "{sid}: {name} on {resources:?}");
            assert!(
                action.star_only || resources.iter().any(|arn| action.matches_arn(arn)),
                "{sid}: {name} on {resources:?}"
            );
        }
    }
}

#[test]
fn a_small_job_gets_few_statements() {
    let plan = sample::small_plan("small", "");
    check_policy(&plan);
    assert_eq!(
        sids(&plan),
        [
            "ListBucket1",
            "ReadCode",
            "WriteOutput",
            "LogGroup",
            "LogStreams",
            "PutMetrics",
            "ImageToken",
            "ImagePull"
        ]
    );
    let output = find(&plan, "WriteOutput");
    assert_eq!(output.resources, ["arn:aws:s3:::example-runs/output/*"]);
    assert!(!output.actions.contains(&"s3:DeleteObject"));
    assert_eq!(find(&plan, "ReadCode").because, "`program`, in any version");
}

#[test]
fn a_job_with_everything_gets_every_statement() {
    let plan = sample::plan_with_all_nodes("full", "");
    check_policy(&plan);
    let all = [
        "ListBucket1",
        "ListBucket2",
        "ListBucket3",
        "ListBucket4",
        "ReadChannels",
        "ReadCode",
        "WriteOutput",
        "SyncCheckpoints",
        "EncryptOutput",
        "UseOutputKey",
        "GrantVolumeKey",
        "DescribeVolumeKey",
        "LogGroup",
        "LogStreams",
        "PutMetrics",
        "ImageToken",
        "ImagePull",
        "NetworkRead",
        "NetworkCreate",
        "NetworkUse",
        "ReadStorage",
        "ReadSecrets",
        "RemoteDebug",
        "RegistryLogin",
        "TrackRuns",
    ];
    assert_eq!(sids(&plan), all);
    assert!(policy(&plan).character_count() <= INLINE_POLICY_LIMIT && !fitting_policy(&plan).1);
    let reads = find(&plan, "ReadChannels").resources;
    assert_eq!(
        reads,
        [
            "arn:aws:s3:::example-in/dir/*",
            // One object or a directory, but not `open2/`.
            "arn:aws:s3:::example-in/open",
            "arn:aws:s3:::example-in/open/*",
            "arn:aws:s3:::example-all/*",
            "arn:aws:s3:::example-in/lists/a.manifest",
        ]
    );
    assert_eq!(
        find(&plan, "ListBucket1").conditions[0].values,
        ["dir/*", "open", "open/*", "lists/a.manifest"]
    );
    assert_eq!(find(&plan, "ListBucket2").conditions, [], "the whole bucket is a channel");
    assert_eq!(find(&plan, "ListBucket2").because, "channel `all`");
    assert_eq!(find(&plan, "NetworkCreate").resources.len(), 4);
    assert_eq!(find(&plan, "GrantVolumeKey").resources, ["arn:aws:kms:us-west-2:${account}:key/*"]);
    assert_eq!(find(&plan, "GrantVolumeKey").conditions[0].values, ["alias/volumes"]);
}

#[test]
fn content_of_a_hub_is_looked_up_in_its_hub() {
    let content = "arn:aws:sagemaker:us-west-2:111122223333:hub-content/ours/ModelReference/llama/1.0.0";
    let plan = sample::small_plan(
        "small",
        &format!("channel \"weights\" s3=\"s3://example-in/weights/\" hub=\"{content}\" accept-eula=#true"),
    );
    check_policy(&plan);
    let statement = find(&plan, "ReadHubContent");
    assert_eq!(statement.actions, ["sagemaker:DescribeHubContent"]);
    assert_eq!(
        statement.resources,
        [
            "arn:aws:sagemaker:us-west-2:111122223333:hub-content/ours/ModelReference/llama",
            content,
            "arn:aws:sagemaker:us-west-2:111122223333:hub/ours",
        ]
    );
}

#[test]
fn another_run_has_the_same_role() {
    let one = sample::plan_with_all_nodes("full", "");
    let other = sample::plan_with_all_nodes("full", "train { optimizer \"adamw\" lr=1e-4; }");
    assert_ne!(crate::identity(&one).digest, crate::identity(&other).digest);
    assert_eq!((policy(&one), trust_policy(&one)), (policy(&other), trust_policy(&other)));
    let any = "?".repeat(64);
    assert_eq!(
        find(&one, "SyncCheckpoints").resources,
        [format!("arn:aws:s3:::example-runs/{any}/checkpoints/*")]
    );
    assert_eq!(find(&one, "SyncCheckpoints").because, "`checkpoint` of any run");
}

#[test]
fn partitions_differ_in_arns_and_hosts_but_not_in_the_principal() {
    for (region, partition, suffix) in
        [("cn-north-1", "aws-cn", "amazonaws.com.cn"), ("us-gov-west-1", "aws-us-gov", "amazonaws.com")]
    {
        let image =
            format!("image uri=\"727897471807.dkr.ecr.{region}.{suffix}/pytorch-training:2.7.1-gpu\"");
        let key = "output s3=\"s3://example-runs/output/\" kms=\"1234abcd-12ab-34cd-56ef-1234567890ab\"";
        let plan = sample::small_plan("far", &format!("region \"{region}\"\n{image}\n{key}"));
        check_policy(&plan);
        let text = canonical_json::compact(&serde_json::to_value(policy(&plan)).unwrap());
        assert!(!text.contains("arn:aws:"), "{text}");
        assert_eq!(
            find(&plan, "EncryptOutput").resources,
            [format!("arn:{partition}:kms:{region}:${{account}}:key/1234abcd-12ab-34cd-56ef-1234567890ab")]
        );
        assert_eq!(find(&plan, "EncryptOutput").conditions[0].values, [format!("s3.{region}.{suffix}")]);
        assert_eq!(
            find(&plan, "ImagePull").resources,
            [format!("arn:{partition}:ecr:{region}:727897471807:repository/pytorch-training")]
        );
        let trust = serde_json::to_value(trust_policy(&plan)).unwrap();
        assert_eq!(trust["Statement"][0]["Principal"], json!({"Service": "sagemaker.amazonaws.com"}));
        let source = format!("arn:{partition}:sagemaker:{region}:${{account}}:training-job/far-*");
        assert_eq!(trust["Statement"][0]["Condition"]["ArnLike"]["aws:SourceArn"], source);
    }
}

#[test]
fn rules_run_as_processing_jobs_under_the_same_role() {
    let plan = sample::small_plan(
        "small",
        r#"debugger
        request { DebugRuleConfigurations { - {
            RuleConfigurationName "LossNotDecreasing"
            RuleEvaluatorImage "895741380848.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest"
        }; }; }"#,
    );
    check_policy(&plan);
    let trust = serde_json::to_value(trust_policy(&plan)).unwrap();
    let sources = trust["Statement"][0]["Condition"]["ArnLike"]["aws:SourceArn"].as_array().unwrap();
    assert_eq!(sources.len(), 2);
    assert_eq!(sources[1], "arn:aws:sagemaker:us-west-2:${account}:processing-job/*");
    assert_eq!(
        find(&plan, "RuleImages").resources,
        ["arn:aws:ecr:us-west-2:895741380848:repository/sagemaker-debugger-rules"]
    );
    assert!(find(&plan, "RuleLogGroup").resources[0].ends_with(":log-group:/aws/sagemaker/ProcessingJobs"));
    let without = sample::small_plan("small", "debugger");
    assert!(!sids(&without).iter().any(|sid| sid.starts_with("Rule")));
    assert!(!serde_json::to_string(&trust_policy(&without)).unwrap().contains("processing-job"));
}

#[test]
fn a_role_reads_its_granted_prefixes() {
    let plan = sample::small_plan(
        "small",
        r#"channel "list" manifest="s3://example-in/lists/a.manifest"
        role create=#true { read "s3://example-in/images/"; read "s3://example-more/{{ job.name }}/"; }"#,
    );
    check_policy(&plan);
    let granted = find(&plan, "ReadGranted");
    assert_eq!(granted.actions, ["s3:GetObject"]);
    assert_eq!(granted.resources, ["arn:aws:s3:::example-in/images/*", "arn:aws:s3:::example-more/small/*"]);
    assert_eq!(granted.because, "`role { read … }`");
    assert!(find(&plan, "ListBucket1").conditions[0].values.contains(&"images/*".to_owned()));
}

#[test]
fn web_addresses_are_the_bucket_and_key_that_they_name() {
    let plan = sample::small_plan(
        "small",
        r#"channel "train" s3="https://example-in.s3.us-west-2.amazonaws.com/dir/""#,
    );
    check_policy(&plan);
    assert_eq!(find(&plan, "ReadChannels").resources, ["arn:aws:s3:::example-in/dir/*"]);
}

#[test]
fn the_role_is_created_with_its_trust_policy() {
    let plan = sample::plan_with_all_nodes("full", "");
    let role = create_role(&plan, "d1ge57").unwrap();
    let trust: serde_json::Value = serde_json::from_str(&role.assume_role_policy_document).unwrap();
    assert_eq!(trust, serde_json::to_value(trust_policy(&plan)).unwrap());
    assert_eq!(
        trust["Statement"][0]["Action"],
        json!(["sts:AssumeRole", "sts:TagSession"]),
        "session-chaining"
    );
    assert_eq!(role.path.as_deref(), Some("/trainc/edge/"), "the path of roles with this boundary");
    assert_eq!(role.permissions_boundary.as_deref(), Some("arn:aws:iam::111122223333:policy/edge"));
    let tags: Vec<(&str, &str)> =
        role.tags.iter().map(|tag| (tag.key.as_str(), tag.value.as_str())).collect();
    let resource = format!("role/{}", role.role_name);
    let digest = role.tags.iter().find(|tag| tag.key == "trainc:digest").unwrap().value.clone();
    assert_eq!(digest.len(), 16);
    // The digest is that of the role, not of the run.
    let later = create_role(&plan, "d1ge58").unwrap().tags;
    assert!(later.iter().any(|tag| tag.value == "d1ge58") && later.iter().any(|tag| tag.value == digest));
    let other = create_role(&sample::plan_with_all_nodes("other", ""), "d1ge57").unwrap().tags;
    assert!(other.iter().all(|tag| tag.value != digest));
    assert_eq!(
        tags,
        [
            ("team", "nlp"),
            ("run", "d1ge57"),
            ("trainc:job", "full"),
            ("trainc:digest", &digest),
            ("trainc:resource", &resource),
            ("trainc:version", env!("CARGO_PKG_VERSION"))
        ]
    );
    assert_eq!(files(&plan, "d1ge57").len(), 3);
}

/// Returns the conditions of a statement as operator, key and values.
fn conditions(plan: &Plan, sid: &str) -> Vec<(&'static str, &'static str, Vec<String>)> {
    find(plan, sid).conditions.into_iter().map(|one| (one.operator, one.key, one.values)).collect()
}

#[test]
fn writes_and_network_interfaces_are_restricted_with_and_without_a_boundary() {
    let network = r#"network { subnets "subnet-0123456789abcdef0"; security-groups "sg-0123456789abcdef0"; }
        checkpoint s3="s3://example-runs/checkpoints/""#;
    let plans = vec![
        (
            sample::plan_with_all_nodes("full", ""),
            &["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"] as &[_],
        ),
        (sample::small_plan("free", network), &["subnet-0123456789abcdef0"]),
    ];
    for (plan, ids) in plans {
        let account = crate::names::account(&plan).to_owned();
        let owner = ("StringEquals", "aws:ResourceAccount", vec![account.clone()]);
        for statement in statements(&plan).iter().filter(|one| one.actions.contains(&"s3:PutObject")) {
            assert_eq!(conditions(&plan, &statement.sid), std::slice::from_ref(&owner), "{}", statement.sid);
        }
        let subnets =
            ids.iter().map(|id| format!("arn:aws:ec2:us-west-2:{account}:subnet/{id}")).collect::<Vec<_>>();
        assert_eq!(conditions(&plan, "NetworkUse"), [("ArnEquals", "ec2:Subnet", subnets)]);
    }
    assert_eq!(
        conditions(&sample::plan_with_all_nodes("full", ""), "ReadChannels"),
        [],
        "public data is read"
    );
}

#[test]
fn a_bucket_of_another_account_is_written_to_as_that_account_s() {
    let plan = sample::small_plan(
        "small",
        r#"bucket "acme-artifacts" owner="222233334444"
        checkpoint s3="s3://acme-artifacts/checkpoints/"
        tensorboard s3="s3://acme-artifacts/tensorboard/""#,
    );
    check_policy(&plan);
    let of = |sid, arn: &str, account: &str| {
        let one = find(&plan, sid);
        assert_eq!(one.resources, [arn], "{sid}");
        assert_eq!(
            conditions(&plan, sid),
            [("StringEquals", "aws:ResourceAccount", vec![account.to_owned()])],
            "{sid}"
        );
    };
    of("WriteOutput", "arn:aws:s3:::example-runs/output/*", "${account}");
    of("WriteOutput2", "arn:aws:s3:::acme-artifacts/tensorboard/*", "222233334444");
    of("SyncCheckpoints", "arn:aws:s3:::acme-artifacts/checkpoints/*", "222233334444");
}

#[test]
fn the_boundary_of_jobs_contains_their_policies() {
    let plans = vec![sample::plan_with_all_nodes("full", ""), sample::plan_with_all_nodes("other", "")];
    let boundary = serde_json::to_value(boundary_of_jobs(&plans)).unwrap();
    let allowed = boundary["Statement"].as_array().unwrap();
    for plan in &plans {
        let policy = serde_json::to_value(policy(plan)).unwrap();
        for one in policy["Statement"].as_array().unwrap() {
            let covers = |wide: &&serde_json::Value| {
                let has = |arn| wide["Resource"].as_array().unwrap().contains(arn);
                wide["Action"] == one["Action"]
                    && wide["Condition"] == one["Condition"]
                    && one["Resource"].as_array().unwrap().iter().all(has)
            };
            assert!(allowed.iter().any(|wide| covers(&wide)), "{one}");
        }
    }
    let sids: std::collections::BTreeSet<String> = allowed.iter().map(|one| one["Sid"].to_string()).collect();
    assert_eq!(sids.len(), allowed.len(), "a Sid is unique");
}

#[test]
fn the_boundary_of_any_job_covers_what_is_named() {
    let document = |buckets: &[(String, String)], keys: &[String], subnets: &[String]| {
        let scope = BoundaryScope { partition: "aws", account: Some("111122223333"), buckets, keys, subnets };
        let general = general_boundary(scope);
        assert!(general.character_count() <= MANAGED_POLICY_LIMIT);
        serde_json::to_value(&general).unwrap()
    };
    let allowed = |document: &serde_json::Value, action: &str| -> Vec<String> {
        let statements = document["Statement"].as_array().unwrap().iter();
        let allowing = statements.filter(|one| one["Action"].as_array().unwrap().contains(&json!(action)));
        let resources = allowing.flat_map(|one| one["Resource"].as_array().unwrap().clone());
        resources.map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let nothing = document(&[], &[], &[]);
    for action in
        ["s3:PutObject", "s3:DeleteObject", "kms:Decrypt", "kms:CreateGrant", "ec2:DeleteNetworkInterface"]
    {
        assert!(allowed(&nothing, action).is_empty(), "{action}");
    }
    assert_eq!(allowed(&nothing, "s3:GetObject"), ["arn:aws:s3:::sagemaker-*-111122223333/trainc/*"]);
    assert!(!nothing.to_string().contains("iam:"), "no role changes permissions");
    let bucket = |name: &str, prefix: &str| (name.to_owned(), prefix.to_owned());
    let key = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab".to_owned();
    let named = document(
        &[bucket("acme-runs", "team/"), bucket("acme-data", "")],
        std::slice::from_ref(&key),
        &["subnet-0123456789abcdef0".to_owned()],
    );
    let objects = ["arn:aws:s3:::acme-runs/team/*", "arn:aws:s3:::acme-data/*"];
    assert_eq!(allowed(&named, "s3:PutObject"), objects);
    assert_eq!(allowed(&named, "s3:DeleteObject"), objects);
    for action in ["kms:Decrypt", "kms:Encrypt", "kms:CreateGrant"] {
        assert_eq!(allowed(&named, action), std::slice::from_ref(&key), "{action}");
    }
    for statement in named["Statement"].as_array().unwrap() {
        let actions = statement["Action"].as_array().unwrap();
        let condition = &statement["Condition"];
        if actions.contains(&json!("ec2:DeleteNetworkInterface")) {
            let subnet = "arn:aws:ec2:*:111122223333:subnet/subnet-0123456789abcdef0";
            assert_eq!(condition["ArnLike"]["ec2:Subnet"], json!([subnet]));
        }
        if actions.contains(&json!("s3:PutObject")) {
            assert_eq!(condition["StringEquals"]["aws:ResourceAccount"], json!(["111122223333"]));
        }
        if statement["Resource"] == json!(["arn:aws:s3:::acme-runs"]) {
            assert_eq!(condition["StringLike"]["s3:prefix"], json!(["team/*"]));
        }
    }
}

#[test]
fn an_existing_role_gets_no_files() {
    let plan =
        sample::small_plan("given", "role create=#false arn=\"arn:aws:iam::111122223333:role/training\"");
    assert_eq!(files(&plan, ""), []);
    assert!(!statements(&plan).is_empty(), "its permissions can still be shown");
}

#[test]
fn long_keys_are_widened_until_the_policy_fits() {
    let channel = |n| {
        format!(
            "channel \"c{n}\" s3=\"s3://example-in/{}/{n}/{}{}/\"",
            "a".repeat(20),
            "b/".repeat(40),
            "c".repeat(700)
        )
    };
    let plan = sample::small_plan("wide", &(0..20).map(channel).collect::<Vec<_>>().join("\n"));
    check_policy(&plan);
    assert!(fitting_policy(&plan).1 && policy(&plan).character_count() <= INLINE_POLICY_LIMIT);
    let reads = find(&plan, "ReadChannels");
    assert!(
        reads.resources.iter().all(|arn| arn.starts_with("arn:aws:s3:::example-in/aaaa")),
        "never the whole bucket: {reads:?}"
    );
    assert_eq!(find(&plan, "WriteOutput").resources, ["arn:aws:s3:::example-runs/output/*"], "reads first");
}

#[test]
fn wildcards_of_a_key_are_escaped() {
    let plan = sample::small_plan("odd", "channel \"c\" s3=\"s3://example-in/a*b?c$/\"");
    assert_eq!(find(&plan, "ReadChannels").resources, ["arn:aws:s3:::example-in/a${*}b${?}c${$}/*"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_policy_is_valid(
        job in "[a-z][a-z0-9-]{0,61}[a-z0-9]",
        keys in prop::collection::vec("[a-c*?$/]{0,12}", 0..12),
        checkpoint in "[a-z/]{0,9}",
        everything in any::<bool>(),
    ) {
        let channel = |(n, key)| format!("channel \"c{n}\" s3=\"s3://bucket-{}/{key}\"", n % 3);
        let channels = keys.iter().enumerate().map(channel).collect::<Vec<_>>().join("\n");
        let more = format!("{channels}\ncheckpoint s3=\"s3://bucket-9/{checkpoint}\"\n");
        let make = if everything { sample::plan_with_all_nodes } else { sample::small_plan };
        let plan = make(&job, &more);
        check_policy(&plan);
        let text = canonical_json::to_file_bytes(&policy(&plan));
        prop_assert_eq!(&text, &canonical_json::to_file_bytes(&policy(&plan)));
        prop_assert!(policy(&plan).character_count() <= INLINE_POLICY_LIMIT);
        // Apply fills in the account, with the same result as an account in the manifest.
        let known = make(&job, &format!("{more}\naccount \"444455556666\""));
        let filled = String::from_utf8(text).unwrap().replace("${account}", "444455556666");
        prop_assert_eq!(filled.into_bytes(), canonical_json::to_file_bytes(&policy(&known)));
        let role = create_role(&plan, "").unwrap();
        prop_assert!(role.role_name.len() <= 64 && role.assume_role_policy_document.len() <= 2048);
    }
}
