//! Permissions of the job on KMS keys.

use super::statement::{Condition, Scope, Statement};
use trainc_diag::text;

impl Scope<'_> {
    /// Adds a statement for each key of a bucket that the job reads or writes checkpoints to.
    fn bucket_keys(&self, out: &mut Vec<Statement>) {
        let job = &self.plan.job;
        let mut readings: Vec<(&str, Vec<String>)> = Vec::new();
        for channel in &job.channels {
            let Some(key) = channel.kms.text() else { continue };
            let name = format!("channel `{}`", channel.name.value().map_or("", String::as_str));
            match readings.iter_mut().find(|(known, _)| *known == key) {
                Some((_, names)) => names.push(name),
                None => readings.push((key, vec![name])),
            }
        }
        for (at, (key, channels)) in readings.into_iter().enumerate() {
            let (resource, alias) = self.key_arn(key);
            out.push(Statement {
                sid: if at == 0 {
                    "DecryptChannels".to_owned()
                } else {
                    format!("DecryptChannels{}", at + 1)
                },
                because: format!("`kms=` of {}, through S3", text::list(&channels, "and")),
                actions: vec!["kms:Decrypt"],
                resources: vec![resource],
                conditions: alias.into_iter().chain(Some(self.via_service("s3"))).collect(),
            });
        }
        if let Some(key) = job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.kms.text()) {
            let (resource, alias) = self.key_arn(key);
            out.push(Statement {
                sid: "EncryptCheckpoints".to_owned(),
                because: "`checkpoint kms=`, through S3".to_owned(),
                actions: vec!["kms:Decrypt", "kms:GenerateDataKey"],
                resources: vec![resource],
                conditions: alias.into_iter().chain(Some(self.via_service("s3"))).collect(),
            });
        }
    }

    /// Adds statements for the keys of output, volumes and buckets.
    pub(super) fn keys(&self, out: &mut Vec<Statement>) {
        self.bucket_keys(out);
        let job = &self.plan.job;
        if let Some(key) = job.output.as_ref().and_then(|output| output.kms.text()) {
            let (resource, alias) = self.key_arn(key);
            let with = |condition: Option<Condition>| alias.clone().into_iter().chain(condition).collect();
            // S3 encrypts with a data key, and reads parts of multipart uploads back; SageMaker's
            // documentation also lists Encrypt, without naming the calling service.
            out.push(Statement {
                sid: "EncryptOutput".to_owned(),
                because: "`output kms=`, through S3".to_owned(),
                actions: vec!["kms:Decrypt", "kms:GenerateDataKey"],
                resources: vec![resource.clone()],
                conditions: with(Some(self.via_service("s3"))),
            });
            out.push(Statement {
                sid: "UseOutputKey".to_owned(),
                because: "`output kms=`, which SageMaker checks".to_owned(),
                actions: vec!["kms:DescribeKey", "kms:Encrypt"],
                resources: vec![resource],
                conditions: with(None),
            });
        }
        if let Some(key) = job.cluster.as_ref().and_then(|cluster| cluster.volume_kms.text()) {
            let (resource, alias) = self.key_arn(key);
            let with = |condition: Option<Condition>| alias.clone().into_iter().chain(condition).collect();
            out.push(Statement {
                sid: "GrantVolumeKey".to_owned(),
                because: "`volume kms=`, for EBS".to_owned(),
                actions: vec!["kms:CreateGrant"],
                resources: vec![resource.clone()],
                conditions: with(Some(Condition::single("Bool", "kms:GrantIsForAWSResource", "true"))),
            });
            out.push(Statement {
                sid: "DescribeVolumeKey".to_owned(),
                because: "`volume kms=`, which SageMaker checks".to_owned(),
                actions: vec!["kms:DescribeKey"],
                resources: vec![resource],
                conditions: with(None),
            });
        }
    }

    /// Returns the ARN of a key. Policies cannot name an alias as resource, so it becomes a condition on all
    /// keys.
    fn key_arn(&self, key: &str) -> (String, Option<Condition>) {
        let aliased = |alias: &str| {
            Some(Condition::single(
                "ForAnyValue:StringEquals",
                "kms:ResourceAliases",
                format!("alias/{alias}"),
            ))
        };
        if let Some((arn, alias)) = key.split_once(":alias/") {
            return (format!("{arn}:key/*"), aliased(alias));
        }
        if let Some(alias) = key.strip_prefix("alias/") {
            return (self.arn("kms", "key/*"), aliased(alias));
        }
        if key.starts_with("arn:") {
            (key.to_owned(), None)
        } else {
            (self.arn("kms", &format!("key/{key}")), None)
        }
    }
}
