//! Each adapter: recorded responses in; typed objects, fault classes and the sent requests out.

use super::client::all_pages;
use super::replay::{Recorded, Replay};
use serde_json::{Value, json};
use std::future::Future;
use trainc_apply::account::{FileSystemChange, LogFrom, Question, Upload};
use trainc_apply::calls::Call;
use trainc_apply::cloud::{Cloud, Observe};
use trainc_apply::fault::Class;
use trainc_emit::Tag;
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem, LustreConfiguration};
use trainc_emit::iam::CreateRole;

const GONE: Recorded =
    Some((400, r#"{"__type":"ValidationException","message":"Requested resource not found."}"#));
const BUSY: Recorded = Some((400, r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#));

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn a_described_job_keeps_what_was_asked_by_the_services_names() {
    let answer = include_str!("../testdata/describe-training-job.json");
    let (account, replay) = Replay::account(&[Some((200, answer))]);
    let job = run(account.training_job("llama")).unwrap();
    assert_eq!((job.status.as_str(), job.secondary.as_str()), ("InProgress", "Training"));
    assert_eq!(job.transitions.len(), 3);
    assert_eq!((job.transitions[0].end, job.transitions[2].end), (Some(1_700_000_060.5), None));
    assert_eq!(
        (job.instance_count(), job.instance_type(), job.is_spot()),
        (8, Some("ml.p4d.24xlarge"), true)
    );
    assert_eq!(job.request.get("TrainingJobStatus"), None);
    assert_eq!(job.request.pointer("/HyperParameters/lr"), Some(&json!("0.0003")));
    assert_eq!(replay.sent()[0].header("x-amz-target"), Some("SageMaker.DescribeTrainingJob"));
}

#[test]
fn a_job_is_sent_as_it_stands() {
    let request = json!({"TrainingJobName": "a", "Member": {"of": ["tomorrow", 1, null]}});
    let (account, replay) = Replay::account(&[BUSY, Some((200, r#"{"TrainingJobArn":"arn"}"#))]);
    run(account.create_training_job(&request)).unwrap();
    let sent = replay.sent();
    assert_eq!(sent.len(), 2, "throttled once, sent again");
    for one in &sent {
        assert_eq!(serde_json::from_str::<Value>(&one.body).unwrap(), request);
        assert_eq!(one.header("content-length"), Some(one.body.len().to_string().as_str()));
        assert!(one.header("authorization").unwrap().contains("/us-west-2/sagemaker/aws4_request"));
    }
}

/// The request may have been carried out: its answer was lost, so the state is read again.
#[test]
fn an_unreadable_answer_to_a_creation_is_a_lost_one() {
    for answer in [
        r#"{"TrainingJobArn":"arn:aws:sag"#,
        "<html><body>sign in</body></html>",
        "",
        "[]",
        "null",
        "OK",
        r#"{"TrainingJobArn":7}"#,
        r#"{"FileSystem":{"FileSystemId":"fs-1"#,
        r#"{"FileSystem":{"FileSystemId":7}}"#,
        r#"{"__type":"X","message":"a proxy's own"}"#,
        "<GetRoleResponse/>",
    ] {
        let answers = &[Some((200, answer)); 3];
        let fault = run(Replay::account(answers).0.create_training_job(&json!({"TrainingJobName": "a"})));
        assert_eq!(fault.unwrap_err().class, Class::NoResponse, "{answer}");
        let fault = run(Replay::account(answers).0.create_file_system(&CreateFileSystem::default()));
        assert_eq!(fault.unwrap_err().class, Class::NoResponse, "{answer}");
        let association = CreateDataRepositoryAssociation::default();
        let fault = run(Replay::account(answers).0.create_association(&association));
        assert_eq!(fault.unwrap_err().class, Class::NoResponse, "{answer}");
        let fault = run(Replay::account(answers).0.create_role(&CreateRole::default()));
        assert_eq!(fault.unwrap_err().class, Class::NoResponse, "{answer}");
    }
}

/// Nothing is read from it, above all not that something does not exist.
#[test]
fn an_unreadable_answer_to_a_read_says_nothing() {
    for answer in ["", "{}", "[]", "null", r#""x""#, "OK", r#"{"message":"no Route matched"}"#] {
        for status in [200, 404] {
            let answers = &[Some((status, answer)); 3];
            let account = || Replay::account(answers).0;
            let faults = [
                run(account().training_job("a")).map(|_| ()),
                run(account().training_jobs("a")).map(|_| ()),
                run(account().file_system("fs-1")).map(|_| ()),
                run(account().quota("sagemaker", "L-09D56C4F")).map(|_| ()),
                run(account().kms_key("alias/a")).map(|_| ()),
                run(account().check_secret("arn:aws:secretsmanager:us-west-2:111122223333:secret:k-AbCdEf")),
                run(account().check_image("111122223333.dkr.ecr.us-west-2.amazonaws.com/a:1")),
                run(account().role("a")).map(|_| ()),
                run(account().subnets(&["subnet-1".to_owned()])).map(|_| ()),
            ];
            for (fault, at) in faults.into_iter().zip(0..) {
                assert_eq!(fault.unwrap_err().class, Class::NoResponse, "{at}, {status}: {answer}");
            }
        }
    }
    // An empty list may be left out, but an object of another sender is none.
    let other = r#"{"message":"no Route matched"}"#;
    let lists = [(other, true), ("{}", false)];
    for (answer, is_foreign) in lists {
        let account = || Replay::account(&[Some((200, answer)); 3]).0;
        let found = [
            run(account().file_systems()).map(|all| all.len()),
            run(account().associations("fs-1")).map(|all| all.len()),
            run(account().log_streams("a/")).map(|all| all.len()),
            run(account().job_tags("arn")).map(|all| all.len()),
        ];
        for (found, at) in found.into_iter().zip(0..) {
            let class = found.as_ref().map_err(|fault| fault.class).copied();
            let expected = if is_foreign { Err(Class::NoResponse) } else { Ok(0) };
            assert_eq!(class, expected, "{at}: {answer}");
        }
    }
}

#[test]
fn a_file_system_is_sent_as_it_stands_with_its_token() {
    let request = CreateFileSystem {
        client_request_token: "trainc-fs-1".to_owned(),
        storage_capacity: 1200,
        lustre_configuration: LustreConfiguration {
            efa_enabled: Some(false),
            ..LustreConfiguration::default()
        },
        ..CreateFileSystem::default()
    };
    let answer = r#"{"FileSystem":{"FileSystemId":"fs-1"}}"#;
    let (account, replay) = Replay::account(&[None, Some((200, answer))]);
    assert_eq!(run(account.create_file_system(&request)).unwrap(), "fs-1");
    let bodies: Vec<String> = replay.sent().into_iter().map(|sent| sent.body).collect();
    assert_eq!(bodies, vec![serde_json::to_string(&request).unwrap(); 2], "a lost answer is asked for again");
}

#[test]
fn described_file_systems_are_read_whole() {
    let answer = include_str!("../testdata/describe-file-systems.json");
    let (account, _) = Replay::account(&[Some((200, answer))]);
    let found = run(account.file_systems()).unwrap();
    assert_eq!(found.len(), 2);
    let lustre = &found[0];
    assert_eq!(
        (lustre.lifecycle.as_str(), lustre.capacity_gib, lustre.throughput),
        ("AVAILABLE", 4800, Some(250))
    );
    assert_eq!(
        (lustre.mount.as_deref(), lustre.deployment.as_deref()),
        (Some("3x5lhbmv"), Some("PERSISTENT_2"))
    );
    assert_eq!((lustre.metadata_iops, lustre.metadata_mode.as_deref()), (Some(6000), Some("AUTOMATIC")));
    assert_eq!(lustre.tags["trainc:job"], "llama");
    assert_eq!((found[1].lifecycle.as_str(), found[1].failure.as_deref()), ("FAILED", Some("no room")));
}

#[test]
fn an_update_names_only_what_changes() {
    let (account, replay) = Replay::account(&[Some((200, "{}"))]);
    let change = FileSystemChange { capacity_gib: Some(9600), ..FileSystemChange::default() };
    run(account.update_file_system("fs-1", &change)).unwrap();
    let sent: Value = serde_json::from_str(&replay.sent()[0].body).unwrap();
    assert_eq!(sent["StorageCapacity"], 9600);
    assert_eq!(sent.get("LustreConfiguration"), None);
}

#[test]
fn a_role_is_read_with_its_documents_decoded() {
    let answer = include_str!("../testdata/get-role.xml");
    let (account, replay) = Replay::account(&[Some((200, answer))]);
    let role = run(account.role("trainc-llama")).unwrap();
    assert_eq!((role.path.as_str(), role.tags["trainc:job"].as_str()), ("/trainc/", "llama"));
    let trust: Value = serde_json::from_str(&role.trust).unwrap();
    assert_eq!(trust["Statement"][0]["Action"], "sts:AssumeRole");
    assert!(replay.sent()[0].uri.starts_with("https://iam.amazonaws.com/"), "{}", replay.sent()[0].uri);
}

#[test]
fn a_simulation_answers_each_question() {
    let answer = include_str!("../testdata/simulate-principal-policy.xml");
    let (account, _) = Replay::account(&[Some((200, answer))]);
    let question = |action: &str, resource: &str| Question {
        action: action.to_owned(),
        resource: resource.to_owned(),
        context: Vec::new(),
    };
    let questions = [
        question("s3:GetObject", "arn:aws:s3:::b/k"),
        question("s3:PutObject", "arn:aws:s3:::b/k"),
        question("s3:GetObject", "arn:aws:s3:::other/k"),
    ];
    assert_eq!(run(account.simulate("arn:aws:iam::1:role/r", &questions)).unwrap(), [true, false, false]);
}

#[test]
fn an_upload_is_checked_encrypted_and_put_only_once() {
    let (account, replay) = Replay::account(&[Some((412, "<Error><Code>PreconditionFailed</Code></Error>"))]);
    let upload = Upload {
        bucket: "runs".to_owned(),
        key: "source/ab/sourcedir.tar.gz".to_owned(),
        bytes: b"hello".to_vec(),
        sha256: String::new(),
        kms: Some("arn:aws:kms:us-west-2:1:key/k".to_owned()),
        owner: "111122223333".to_owned(),
    };
    assert_eq!(run(account.put_object(&upload, false)).unwrap_err().class, Class::Exists);
    let sent = &replay.sent()[0];
    assert_eq!(sent.header("if-none-match"), Some("*"));
    assert_eq!(sent.header("x-amz-checksum-sha256"), Some("LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="));
    assert_eq!(sent.header("x-amz-server-side-encryption"), Some("aws:kms"));
    assert_eq!(sent.header("x-amz-expected-bucket-owner"), Some("111122223333"));
    assert!(sent.uri.starts_with("https://runs.s3.us-west-2.amazonaws.com/source/ab/"), "{}", sent.uri);
}

#[test]
fn an_overwriting_upload_has_no_condition() {
    let upload = hello();
    let (account, replay) = Replay::account(&[Some((200, ""))]);
    run(account.put_object(&upload, true)).unwrap();
    let sent = &replay.sent()[0];
    assert_eq!((sent.method.as_str(), sent.header("if-none-match")), ("PUT", None));
}

fn hello() -> Upload {
    Upload {
        bucket: "runs".to_owned(),
        key: "k".to_owned(),
        bytes: b"hello".to_vec(),
        sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".to_owned(),
        kms: None,
        owner: "111122223333".to_owned(),
    }
}

/// For a multipart object S3 shows the checksum of the parts' checksums, which proves the content if the parts are
/// ours.
#[test]
fn a_checksum_proves_the_content_of_an_upload() {
    let (account, replay) = Replay::account(&[
        Some((200, "content-length: 5\nx-amz-checksum-sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=")),
        Some((
            200,
            "content-length: 5\nx-amz-checksum-sha256: lZXJ35AHUUjrBoYDZd8zWEt1v/eCpRDGzUiDpBmDPVA=-1",
        )),
        // Some stores omit the number of parts.
        Some((
            200,
            "content-length: 5\netag: \"9b2cf535f27731c974343645a3985328-1\"\nx-amz-checksum-sha256: lZXJ35AHUUjrBoYDZd8zWEt1v/eCpRDGzUiDpBmDPVA=",
        )),
        // Other parts: the same content in parts of another size, or other content.
        Some((
            200,
            "content-length: 5\nx-amz-checksum-sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=-5",
        )),
        Some((403, "")),
        Some((200, "content-length: 5")),
        Some((404, "")),
    ]);
    let upload = hello();
    for _ in 0..3 {
        let found = run(account.uploaded_object(&upload)).unwrap();
        assert_eq!((found.bytes, found.sha256.as_ref()), (5, Some(&upload.sha256)));
    }
    for _ in 0..2 {
        let unverified = run(account.uploaded_object(&upload)).unwrap();
        assert_eq!((unverified.bytes, unverified.sha256), (5, None));
    }
    assert_eq!(run(account.uploaded_object(&upload)).unwrap_err().class, Class::NotFound);
    let modes: Vec<bool> =
        replay.sent().iter().map(|one| one.header("x-amz-checksum-mode") == Some("ENABLED")).collect();
    assert_eq!(modes, [true, true, true, true, true, false, true]);
}

#[test]
fn a_large_upload_goes_on_where_it_stopped_and_leaves_no_parts() {
    let bytes: Vec<u8> = (0..2_500_u32).map(|n| (n % 251) as u8).collect();
    let first = aws_smithy_types::base64::encode(sha2::Digest::finalize(
        <sha2::Sha256 as sha2::Digest>::new_with_prefix(&bytes[..1_024]),
    ));
    let upload = Upload {
        bucket: "runs".to_owned(),
        key: "k".to_owned(),
        bytes,
        sha256: String::new(),
        kms: None,
        owner: "111122223333".to_owned(),
    };
    let left = |id: &str| {
        format!(
            "<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>{id}</UploadId></Upload><Upload><Key>k2</Key><UploadId>other</UploadId></Upload></ListMultipartUploadsResult>"
        )
    };
    let parts = format!(
        "<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>e1</ETag><ChecksumSHA256>{first}</ChecksumSHA256></Part><Part><PartNumber>2</PartNumber><ETag>e2</ETag><ChecksumSHA256>another</ChecksumSHA256></Part></ListPartsResult>"
    );
    let [before, after, parts] = [left("mine"), left("second"), parts].map(|text| &*text.leak());
    let done = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
    let (account, replay) = Replay::account(&[
        Some((200, before)),
        Some((200, parts)),
        Some((200, "")),
        Some((200, "")),
        Some((200, done)),
        Some((200, after)),
        Some((204, "")),
    ]);
    assert_eq!(run(account.put_object(&upload, false)).unwrap().as_deref(), Some("e"));
    let sent = replay.sent();
    let lines: Vec<String> = sent
        .iter()
        .map(|one| format!("{} {}", one.method, one.uri.split_once(".com/").map_or("", |(_, rest)| rest)))
        .collect();
    assert!(lines[0].starts_with("GET ?uploads"), "{lines:#?}");
    assert!(lines[1].starts_with("GET k?") && lines[1].contains("uploadId=mine"), "{lines:#?}");
    // The first part exists with its checksum; the second has other content, and the third is missing.
    assert!(lines[2].contains("partNumber=2") && lines[3].contains("partNumber=3"), "{lines:#?}");
    assert!(lines[4].starts_with("POST k?") && sent[4].body.contains(&first), "{lines:#?}");
    assert_eq!(sent[4].header("if-none-match"), Some("*"));
    assert!(lines[6].starts_with("DELETE k?") && lines[6].contains("uploadId=second"), "{lines:#?}");
    assert_eq!(lines.len(), 7, "uploads of other keys are left alone");
}

/// A change is carried out once, although it is sent twice; a second change has another token.
#[test]
fn a_change_that_is_sent_again_has_the_same_token() {
    let (account, replay) = Replay::account(&[None, Some((200, "{}")), Some((200, "{}"))]);
    for _ in 0..2 {
        run(account.delete_file_system("fs-1")).unwrap();
    }
    let tokens: Vec<String> = replay
        .sent()
        .iter()
        .map(|sent| serde_json::from_str::<Value>(&sent.body).unwrap()["ClientRequestToken"].to_string())
        .collect();
    assert_eq!(tokens[0], tokens[1]);
    assert_ne!(tokens[1], tokens[2]);
}

#[test]
fn all_pages_of_a_list_are_read() {
    let job = |name: &str| {
        json!({
            "TrainingJobName": name,
            "TrainingJobArn": format!("arn:{name}"),
            "TrainingJobStatus": "InProgress",
            "CreationTime": 5.5,
        })
        .to_string()
    };
    let page = |jobs: &str, token: &str| {
        &*format!(r#"{{"TrainingJobSummaries":[{jobs}],"NextToken":{token}}}"#).leak()
    };
    // The service filters after paging: a page without jobs need not be the last.
    let pages = [page(&job("a"), r#""t1""#), page("", r#""t2""#), page(&job("b"), "null")];
    let (account, replay) = Replay::account(&pages.map(|page| Some((200, page))));
    let found = run(account.training_jobs("llama")).unwrap();
    assert_eq!(found.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(found[0].created, 5.5);
    let asked: Vec<Value> =
        replay.sent().iter().map(|sent| serde_json::from_str(&sent.body).unwrap()).collect();
    assert_eq!(asked[0].get("NextToken"), None);
    assert_eq!((&asked[1]["NextToken"], &asked[2]["NextToken"]), (&json!("t1"), &json!("t2")));
    assert!(asked.iter().all(|asked| asked["NameContains"] == "llama"));

    let same = page("", r#""t1""#);
    let (account, replay) = Replay::account(&[Some((200, same)); 3]);
    assert_eq!(run(account.training_jobs("llama")).unwrap_err().class, Class::NoResponse);
    assert_eq!(replay.sent().len(), 2);
}

#[test]
fn a_list_whose_pages_do_not_end_is_an_error() {
    let (mut asked, call) = (0, Call::ListTrainingJobs);
    let pages = all_pages(call, async |_| {
        asked += 1;
        Ok((vec![()], Some(asked.to_string())))
    });
    let fault = run(pages).unwrap_err();
    assert_eq!((fault.class, asked), (Class::NoResponse, 10_000));
    let odd = r#"{"TrainingJobSummaries":[],"NextToken":5}"#;
    let (account, _) = Replay::account(&[Some((200, odd)); 3]);
    assert_eq!(run(account.training_jobs("a")).unwrap_err().class, Class::NoResponse);
}

/// Otherwise trainc would set such a tag again with every apply.
#[test]
fn values_of_tags_are_read_as_they_are() {
    let answer = "<GetRoleResponse><GetRoleResult><Role><RoleName>a</RoleName><Arn>arn</Arn><Tags><member>\
        <Key>team</Key><Value> ml &amp; data </Value></member><member><Key>empty</Key><Value/></member>\
        </Tags></Role></GetRoleResult></GetRoleResponse>";
    let (account, _) = Replay::account(&[Some((200, answer))]);
    let tags = run(account.role("a")).unwrap().tags;
    assert_eq!((tags["team"].as_str(), tags["empty"].as_str()), (" ml & data ", ""));
}

/// A wrong clock costs one rejected request, not one of each call.
#[test]
fn the_clock_of_the_service_is_learned() {
    let late = "date: Wed, 01 Jan 2031 00:00:00 GMT\n\
        {\"__type\":\"InvalidSignatureException\",\"message\":\"Signature expired\"}";
    let (account, replay) = Replay::account(&[Some((403, late)), Some((200, "{}")), Some((200, "{}"))]);
    for _ in 0..2 {
        run(account.stop_training_job("a")).unwrap();
    }
    let signed: Vec<String> =
        replay.sent().iter().map(|sent| sent.header("x-amz-date").unwrap().to_owned()).collect();
    assert!(!signed[0].starts_with("2031") && signed[1].starts_with("2031"), "{signed:?}");
    assert!(signed[2].starts_with("2031"), "{signed:?}");
}

#[test]
fn all_policies_of_a_role_are_read() {
    let page = |names: &str, more: &str| {
        &*format!(
            "<ListRolePoliciesResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">\
             <ListRolePoliciesResult><PolicyNames>{names}</PolicyNames>{more}</ListRolePoliciesResult>\
             </ListRolePoliciesResponse>"
        )
        .leak()
    };
    let first = page("<member>a</member>", "<IsTruncated>true</IsTruncated><Marker>m/1</Marker>");
    let last = page("<member>b</member>", "<IsTruncated>false</IsTruncated>");
    let (account, replay) = Replay::account(&[Some((200, first)), Some((200, last))]);
    assert_eq!(run(account.inline_policies("trainc-llama")).unwrap(), ["a", "b"]);
    let sent = replay.sent();
    assert_eq!(sent[0].body, "Action=ListRolePolicies&Version=2010-05-08&RoleName=trainc-llama");
    assert!(sent[1].body.contains("&Marker=m%2F1&"), "{}", sent[1].body);
    // IAM has one endpoint for all regions of a partition, which lies in another one.
    assert!(sent[0].header("authorization").unwrap().contains("/us-east-1/iam/aws4_request"));
    let (account, replay) = Replay::account(&[Some((200, first)); 3]);
    assert!(run(account.inline_policies("trainc-llama")).is_err());
    assert_eq!(replay.sent().len(), 2);
}

#[test]
fn a_role_is_created_as_it_is_emitted() {
    let request = CreateRole {
        path: Some("/trainc/".to_owned()),
        role_name: "trainc-llama".to_owned(),
        assume_role_policy_document: r#"{"a": "b+c"}"#.to_owned(),
        description: "of trainc".to_owned(),
        permissions_boundary: None,
        tags: vec![Tag { key: "trainc:job".to_owned(), value: "llama".to_owned() }],
    };
    let (account, replay) = Replay::account(&[Some((200, "<CreateRoleResponse/>"))]);
    run(account.create_role(&request)).unwrap();
    assert_eq!(
        replay.sent()[0].body,
        "Action=CreateRole&Version=2010-05-08&AssumeRolePolicyDocument=%7B%22a%22%3A%20%22b%2Bc%22%7D\
         &Description=of%20trainc&Path=%2Ftrainc%2F&RoleName=trainc-llama&Tags.member.1.Key=trainc%3Ajob\
         &Tags.member.1.Value=llama"
    );
    let exists = "<ErrorResponse><Error><Type>Sender</Type><Code>EntityAlreadyExists</Code><Message>Role \
        with name trainc-llama already exists.</Message></Error><RequestId>r</RequestId></ErrorResponse>";
    let (account, _) = Replay::account(&[Some((409, exists))]);
    let fault = run(account.create_role(&request)).unwrap_err();
    assert_eq!((fault.class, fault.code.as_str()), (Class::Exists, "EntityAlreadyExists"));
}

/// The settings `use_fips_endpoint` and `use_dualstack_endpoint` hold for every service.
#[test]
fn endpoints_follow_the_settings_of_aws_tools() {
    let settings = |config: aws_types::sdk_config::Builder| config.use_fips(true).use_dual_stack(false);
    let (account, replay) = Replay::with_settings(&[Some((200, r#"{"ARN":"arn"}"#)); 2], settings);
    run(account.stop_training_job("llama")).unwrap();
    run(account.check_secret("arn:aws:secretsmanager:us-west-2:111122223333:secret:k-AbCdEf")).unwrap();
    let hosts: Vec<String> = replay.sent().into_iter().map(|sent| sent.uri).collect();
    assert_eq!(
        hosts,
        [
            "https://api-fips.sagemaker.us-west-2.amazonaws.com/",
            "https://secretsmanager-fips.us-west-2.amazonaws.com/"
        ]
    );
    let settings = |config: aws_types::sdk_config::Builder| config.use_dual_stack(true);
    let (account, replay) = Replay::with_settings(&[Some((200, "{}"))], settings);
    run(account.stop_training_job("llama")).unwrap();
    assert_eq!(replay.sent()[0].uri, "https://api.sagemaker.us-west-2.api.aws/");
    // Of a configured endpoint the path is kept.
    let settings = |config: aws_types::sdk_config::Builder| config.endpoint_url("http://127.0.0.1:9/aws/");
    let (account, replay) = Replay::with_settings(&[Some((200, "{}"))], settings);
    run(account.stop_training_job("llama")).unwrap();
    assert_eq!(replay.sent()[0].uri, "http://127.0.0.1:9/aws/");
}

#[test]
fn codes_are_read_wherever_services_write_them() {
    for answer in [
        r#"{"__type":"com.amazon.coral.service#ResourceNotFound","message":"no"}"#,
        r#"{"code":"ResourceNotFound:http://internal.amazon.com/coral/","Message":"no"}"#,
        r#"{"__type":"ResourceNotFound","errorMessage":"no"}"#,
    ] {
        let (account, _) = Replay::account(&[Some((400, answer))]);
        let fault = run(account.training_job("a")).unwrap_err();
        assert_eq!(
            (fault.class, fault.code.as_str(), fault.message.as_str()),
            (Class::NotFound, "ResourceNotFound", "no"),
            "{answer}"
        );
    }
    let answer = "<Response><Errors><Error><Code>InvalidSubnetID.NotFound</Code><Message>The subnet ID \
        'subnet-1' does not exist</Message></Error></Errors><RequestID>r-1</RequestID></Response>";
    let (account, _) = Replay::account(&[Some((400, answer))]);
    let fault = run(account.subnets(&["subnet-1".to_owned()])).unwrap_err();
    assert_eq!((fault.class, fault.request_id.as_deref()), (Class::NotFound, Some("request-1")));
    // An error without a code does not come from AWS.
    for answer in ["proxy says no", "[]", "null"] {
        let (account, _) = Replay::account(&[Some((403, answer))]);
        assert_eq!(run(account.training_job("a")).unwrap_err().class, Class::NoResponse, "{answer}");
    }
    let gateway = r#"{"message":"blocked by policy 17"}"#;
    let (account, _) = Replay::account(&[Some((403, gateway))]);
    let fault = run(account.training_job("a")).unwrap_err();
    assert_eq!(fault.message, "something other than AWS answered: HTTP 403: blocked by policy 17");
    assert_eq!((fault.class, fault.request_id.as_deref()), (Class::NoResponse, Some("request-1")));
}

#[test]
fn network_queries_are_sent_again() {
    let answer = include_str!("../testdata/describe-subnets.xml");
    let busy = "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>";
    let (account, replay) = Replay::account(&[Some((503, busy)), None, Some((200, answer))]);
    let found = run(account.subnets(&["subnet-1".to_owned()])).unwrap();
    assert_eq!((found[0].zone_id.as_str(), found[0].free_addresses), ("usw2-az1", 251));
    let sent = replay.sent();
    assert_eq!(sent.len(), 3, "throttled, cut, answered");
    assert_eq!(sent[2].uri, "https://ec2.us-west-2.amazonaws.com/");
    assert_eq!(sent[2].body, "Action=DescribeSubnets&Version=2016-11-15&SubnetId.1=subnet-1");
    assert!(sent[2].header("authorization").unwrap().contains("/us-west-2/ec2/aws4_request"));
}

/// The region in a manifest becomes part of the host name, so it must be a known region.
#[test]
fn no_text_of_a_manifest_names_the_host() {
    let (account, replay) = Replay::account(&[Some((200, r#"{"ARN":"arn"}"#))]);
    let attack = "x@127.0.0.1:9/#";
    for fault in [
        run(account.check_secret(&format!("arn:aws:secretsmanager:{attack}:111122223333:secret:k-AbCdEf"))),
        run(account.check_secret(&format!("arn:{attack}:secretsmanager:us-west-2:111122223333:secret:k"))),
        run(account.kms_key(&format!("arn:aws:kms:{attack}:111122223333:key/k"))).map(|_| ()),
        run(account.check_image("111122223333.dkr.ecr.x@127.0.0.1:9.amazonaws.com/r:1")),
        run(account.check_image("111122223333.dkr.ecr.127.0.0.1/r:1")),
        run(account.check_image("111122223333.dkr.ecr.evil.amazonaws.com/r:1")),
    ] {
        let class = fault.unwrap_err().class;
        assert!(matches!(class, Class::Invalid | Class::NotSupported), "{class:?}");
    }
    assert!(replay.sent().is_empty());
    run(account.check_secret("arn:aws-cn:secretsmanager:cn-north-1:111122223333:secret:k-AbCdEf")).unwrap();
    assert_eq!(replay.sent()[0].uri, "https://secretsmanager.cn-north-1.amazonaws.com.cn/");
}

#[test]
fn a_quota_that_was_never_changed_is_not_there_and_has_a_default() {
    let none = r#"{"__type":"NoSuchResourceException","message":"no"}"#;
    let (account, replay) = Replay::account(&[Some((400, none)), Some((200, r#"{"Quota":{"Value":4.0}}"#))]);
    let fault = run(account.quota("sagemaker", "L-09D56C4F")).unwrap_err();
    assert_eq!(fault.class, Class::NotFound);
    assert_eq!(run(account.default_quota("sagemaker", "L-09D56C4F")).unwrap(), 4.0);
    let targets: Vec<String> =
        replay.sent().iter().map(|sent| sent.header("x-amz-target").unwrap().to_owned()).collect();
    assert_eq!(targets[1], "ServiceQuotasV20190624.GetAWSDefaultServiceQuota");
}

#[test]
fn a_group_without_logs_has_no_streams() {
    let none =
        r#"{"__type":"ResourceNotFoundException","message":"The specified log group does not exist."}"#;
    let (account, _) = Replay::account(&[Some((400, none))]);
    assert!(run(account.log_streams("llama/")).unwrap().is_empty());
    let page = r#"{"events":[{"timestamp":5,"message":"a"}],"nextForwardToken":"f/1"}"#;
    let (account, _) = Replay::account(&[Some((200, page))]);
    let page = run(account.log_events("llama/algo-1-1", LogFrom::default(), 100)).unwrap();
    assert_eq!((page.events[0].time, page.next.as_deref()), (5, Some("f/1")));
}

#[test]
fn faults_have_classes_and_no_debug_forms() {
    let (account, _) = Replay::account(&[GONE]);
    let fault = run(account.training_job("a")).unwrap_err();
    assert_eq!((fault.class, fault.request_id.as_deref()), (Class::NotFound, Some("request-1")));
    let (account, _) = Replay::account(&[None; 3]);
    let fault = run(account.training_job("a")).unwrap_err();
    assert_eq!(fault.class, Class::NoResponse);
    assert_eq!(fault.message, "the connection was closed before a response arrived");
    let expired = r#"{"__type":"ExpiredTokenException","message":"The security token is expired"}"#;
    let (account, _) = Replay::account(&[Some((400, expired))]);
    assert_eq!(run(account.training_job("a")).unwrap_err().class, Class::Credentials);
    let (account, _) = Replay::account(&[Some((400, ""))]);
    assert_eq!(run(account.bucket("b", None)).unwrap_err().class, Class::Credentials);
    let html = "<html>Internal Server Error</html>";
    let (account, _) = Replay::account(&[Some((500, html)); 3]);
    let fault = run(account.file_systems()).unwrap_err();
    assert_eq!((fault.class, fault.message.as_str()), (Class::Unavailable, "HTTP 500 without a reason"));
    let (account, _) = Replay::account(&[Some((503, html)); 3]);
    let fault = run(account.subnets(&["subnet-1".to_owned()])).unwrap_err();
    assert_eq!(fault.class, Class::Unavailable);
}

#[test]
fn without_credentials_nothing_is_sent() {
    let (account, replay) = Replay::with_credentials(&[], None);
    for class in [
        run(account.caller_identity()).unwrap_err(),
        run(account.subnets(&[])).unwrap_err(),
        run(account.bucket("b", None)).unwrap_err(),
    ] {
        assert_eq!(class.class, Class::Credentials, "{class}");
        assert!(
            class.message.starts_with("no credentials found") && !class.message.contains("dispatch"),
            "{}",
            class.message
        );
    }
    assert!(replay.sent().is_empty());
}

#[test]
fn a_list_whose_page_token_repeats_is_an_error() {
    let page = "<DescribeSubnetsResponse><subnetSet/><nextToken>t</nextToken></DescribeSubnetsResponse>";
    let (account, replay) = Replay::account(&[Some((200, page)); 3]);
    assert!(run(account.subnets(&["subnet-1".to_owned()])).is_err());
    assert_eq!(replay.sent().len(), 2);
}
