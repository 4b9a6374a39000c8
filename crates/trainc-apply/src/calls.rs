//! The one table of AWS calls that trainc can make: which permission each needs, on what, and for which
//! command.
//!
//! The operator's least-privilege policy is generated from it (`policy`), and the adapter names each of its
//! requests by a row of it, so that a call without a row cannot be written.

use trainc_emit::ResourceKind;

/// A command of trainc that talks to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// `plan` online, and the same look before `apply` writes.
    Plan,
    /// `emit --resolve`.
    Emit,
    /// `apply`.
    Apply,
    /// `status`, `watch`, `logs`.
    Watch,
    /// `stop`.
    Stop,
    /// `destroy`.
    Destroy,
    /// `import` of a job's name.
    Import,
}

impl Command {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Plan, Self::Emit, Self::Apply, Self::Watch, Self::Stop, Self::Destroy, Self::Import];

    /// Its word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Emit => "emit",
            Self::Apply => "apply",
            Self::Watch => "watch",
            Self::Stop => "stop",
            Self::Destroy => "destroy",
            Self::Import => "import",
        }
    }
}

/// The tag condition under which a permission holds. The actions that have one know its condition key
/// (service authorization reference: Amazon FSx, Amazon SageMaker AI, AWS IAM; 2026-11-21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TagCondition {
    /// The changed resource carries the tag (`aws:ResourceTag`).
    Own,
    /// The request that creates or adopts the resource sets the tag (`aws:RequestTag`).
    New,
    /// The request that creates the resource sets the tag, and the service tells it from a later one
    /// (`sagemaker:TaggingAction`).
    Made,
    /// The changed resource carries the tag, and the request removes no tag but those of jobs that shared it
    /// (`aws:TagKeys`).
    Left,
}

impl TagCondition {
    /// Returns true if a permission under this tag is needed for these commands: only `apply` makes, or takes
    /// over. Whoever could give the tag to what has none, and delete what has it, could delete anything.
    pub fn is_for(self, commands: &[Command]) -> bool {
        matches!(self, Self::Own | Self::Left) || commands.contains(&Command::Apply)
    }
}

/// The resources that a permission covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The action knows no resource, or trainc must see all of them.
    All,
    /// The execution roles that trainc makes: `role/trainc/*`.
    Role,
    /// Any role: a manifest may name one of its own.
    AnyRole,
    /// The principals of a policy simulation: the role that a manifest names, and the caller if the job has a
    /// file system with `delete-after-job`.
    Judged,
    /// File systems and their associations of the region.
    FileSystem,
    /// Training jobs of the region.
    TrainingJob,
    /// The bucket of the source archive, and the buckets of data.
    Bucket,
    /// The one bucket that trainc makes: the SageMaker SDK's default one.
    DefaultBucket,
    /// Objects of these buckets.
    Object,
    /// The log group of training jobs.
    LogGroup,
    /// Customer keys.
    Key,
    /// Container images of the account.
    Image,
    /// Secrets.
    Secret,
}

macro_rules! calls {
    ($($name:ident $effect:ident $service:literal $operation:literal $scope:ident [$($guard:ident),*] [$($also:literal),*] [$($command:ident),*];)*) => {
        /// One AWS operation that trainc can call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the operation of its name")]
        pub enum Call { $($name),* }

        impl Call {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The row of this call.
            pub fn row(self) -> &'static CallRow {
                match self {
                    $(Self::$name => &CallRow {
                        effect: Effect::$effect,
                        service: $service,
                        operation: $operation,
                        scope: Scope::$scope,
                        guards: &[$(TagCondition::$guard),*],
                        also: &[$($also),*],
                        commands: &[$(Command::$command),*],
                    }),*
                }
            }
        }
    };
}

/// True if a call can change the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only reads.
    Read,
    /// It changes the account.
    Write,
}

/// A row of the table of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// True if it can change the account.
    pub effect: Effect,
    /// The prefix of its IAM action; also the name of the service.
    pub service: &'static str,
    /// The operation, which is also the IAM action, save for the rows that [`Call::action`] names.
    pub operation: &'static str,
    /// The resources that its permission covers.
    pub scope: Scope,
    /// The tags under which its permission holds, each by itself; none where the resource alone says what is
    /// meant, or the action knows no tags. [`TagCondition::is_for`] says which commands need which.
    pub guards: &'static [TagCondition],
    /// Further actions that the caller needs for it (service authorization reference, "dependent actions").
    pub also: &'static [&'static str],
    /// The commands that make it.
    pub commands: &'static [Command],
}

// Effect, service, operation, what it is about; the tags under which it is allowed: drifted tags are set
// again without the others, and `--adopt` gives them to what has none, before anything else is written into
// it, except to a training job, where the service tells such a request from the one that creates it; what
// else it needs; who makes it.
calls! {
    GetCallerIdentity Read "sts" "GetCallerIdentity" All [] [] [Plan, Emit, Apply, Watch, Stop, Destroy];
    GetRole Read "iam" "GetRole" AnyRole [] [] [Plan, Emit, Apply, Destroy];
    GetRolePolicy Read "iam" "GetRolePolicy" Role [] [] [Plan, Apply, Destroy];
    ListRolePolicies Read "iam" "ListRolePolicies" Role [] [] [Plan, Apply, Destroy];
    ListAttachedRolePolicies Read "iam" "ListAttachedRolePolicies" Role [] [] [Plan, Apply, Destroy];
    SimulatePrincipalPolicy Read "iam" "SimulatePrincipalPolicy" Judged [] [] [Plan, Apply];
    DescribeFileSystems Read "fsx" "DescribeFileSystems" All [] [] [Plan, Emit, Apply, Watch, Destroy];
    DescribeDataRepositoryAssociations Read "fsx" "DescribeDataRepositoryAssociations" All [] [] [Plan, Apply, Destroy];
    DescribeTrainingJob Read "sagemaker" "DescribeTrainingJob" TrainingJob [] [] [Plan, Apply, Watch, Stop, Destroy, Import];
    ListTrainingJobs Read "sagemaker" "ListTrainingJobs" All [] [] [Plan, Apply, Watch, Stop, Destroy];
    ListTags Read "sagemaker" "ListTags" TrainingJob [] [] [Plan, Apply, Watch, Stop, Destroy];
    HeadBucket Read "s3" "HeadBucket" Bucket [] [] [Plan, Apply, Destroy];
    ListObjectsV2 Read "s3" "ListObjectsV2" Bucket [] [] [Plan, Apply, Watch, Destroy];
    HeadObject Read "s3" "HeadObject" Object [] [] [Plan, Apply, Destroy];
    DescribeSubnets Read "ec2" "DescribeSubnets" All [] [] [Plan, Apply];
    DescribeSecurityGroups Read "ec2" "DescribeSecurityGroups" All [] [] [Plan, Apply];
    DescribeRouteTables Read "ec2" "DescribeRouteTables" All [] [] [Plan, Apply];
    DescribeVpcEndpoints Read "ec2" "DescribeVpcEndpoints" All [] [] [Plan, Apply];
    DescribeInstanceTypeOfferings Read "ec2" "DescribeInstanceTypeOfferings" All [] [] [Plan, Apply];
    GetServiceQuota Read "servicequotas" "GetServiceQuota" All [] [] [Plan, Apply];
    GetAWSDefaultServiceQuota Read "servicequotas" "GetAWSDefaultServiceQuota" All [] [] [Plan, Apply];
    DescribeKey Read "kms" "DescribeKey" Key [] [] [Plan, Apply];
    DescribeImages Read "ecr" "DescribeImages" Image [] [] [Plan, Apply];
    DescribeSecret Read "secretsmanager" "DescribeSecret" Secret [] [] [Plan, Apply];
    DescribeLogStreams Read "logs" "DescribeLogStreams" LogGroup [] [] [Watch, Apply];
    GetLogEvents Read "logs" "GetLogEvents" LogGroup [] [] [Watch, Apply];
    CreateRole Write "iam" "CreateRole" Role [New] ["iam:TagRole"] [Apply];
    PutRolePolicy Write "iam" "PutRolePolicy" Role [Own] [] [Apply];
    UpdateAssumeRolePolicy Write "iam" "UpdateAssumeRolePolicy" Role [Own] [] [Apply];
    TagRole Write "iam" "TagRole" Role [Own, New] [] [Apply];
    DeleteRolePolicy Write "iam" "DeleteRolePolicy" Role [Own] [] [Destroy];
    DeleteRole Write "iam" "DeleteRole" Role [Own] [] [Destroy];
    CreateFileSystem Write "fsx" "CreateFileSystem" FileSystem [New] ["fsx:TagResource", "ec2:GetSecurityGroupsForVpc"] [Apply];
    UpdateFileSystem Write "fsx" "UpdateFileSystem" FileSystem [Own] [] [Apply];
    TagResource Write "fsx" "TagResource" FileSystem [Own, New] [] [Apply, Destroy];
    UntagResource Write "fsx" "UntagResource" FileSystem [Left] [] [Destroy];
    DeleteFileSystem Write "fsx" "DeleteFileSystem" FileSystem [Own] [] [Destroy];
    CreateDataRepositoryAssociation Write "fsx" "CreateDataRepositoryAssociation" FileSystem [New] ["fsx:TagResource"] [Apply];
    DeleteDataRepositoryAssociation Write "fsx" "DeleteDataRepositoryAssociation" FileSystem [Own] [] [Destroy];
    CreateBucket Write "s3" "CreateBucket" DefaultBucket [] [] [Apply];
    PutObject Write "s3" "PutObject" Object [] [] [Apply];
    ListMultipartUploads Read "s3" "ListMultipartUploads" Bucket [] [] [Apply, Destroy];
    ListParts Read "s3" "ListParts" Object [] [] [Apply];
    CreateMultipartUpload Write "s3" "CreateMultipartUpload" Object [] [] [Apply];
    UploadPart Write "s3" "UploadPart" Object [] [] [Apply];
    CompleteMultipartUpload Write "s3" "CompleteMultipartUpload" Object [] [] [Apply];
    AbortMultipartUpload Write "s3" "AbortMultipartUpload" Object [] [] [Apply, Destroy];
    DeleteObject Write "s3" "DeleteObject" Object [] [] [Destroy];
    CreateTrainingJob Write "sagemaker" "CreateTrainingJob" TrainingJob [New] ["sagemaker:AddTags", "iam:PassRole"] [Apply];
    AddTags Write "sagemaker" "AddTags" TrainingJob [Own, Made] [] [Apply];
    StopTrainingJob Write "sagemaker" "StopTrainingJob" TrainingJob [Own] [] [Apply, Stop, Destroy];
}

/// The calls of a kind of resources, from its creation to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// The calls that find it.
    pub reads: &'static [Call],
    /// The calls with which `apply` creates or changes it.
    pub makes: &'static [Call],
    /// The calls with which `destroy` removes it; none for what is kept.
    pub removes: &'static [Call],
}

impl Lifecycle {
    /// Returns the calls of a kind. A new kind needs some, and each has a row with its permission.
    pub const fn of_kind(kind: ResourceKind) -> Self {
        #[allow(clippy::enum_glob_use, reason = "a table of calls")]
        use Call::*;
        let (reads, makes, removes): (&[Call], &[Call], &[Call]) = match kind {
            ResourceKind::Role => (
                &[GetRole, ListRolePolicies, ListAttachedRolePolicies],
                &[CreateRole, TagRole, UpdateAssumeRolePolicy],
                &[DeleteRole],
            ),
            ResourceKind::RolePolicy => (&[GetRolePolicy], &[PutRolePolicy], &[DeleteRolePolicy]),
            ResourceKind::FileSystem => (
                &[DescribeFileSystems],
                &[CreateFileSystem, UpdateFileSystem, TagResource],
                &[TagResource, UntagResource, DeleteFileSystem],
            ),
            ResourceKind::Association => (
                &[DescribeDataRepositoryAssociations],
                &[CreateDataRepositoryAssociation],
                &[DeleteDataRepositoryAssociation],
            ),
            // It may contain data of other jobs.
            ResourceKind::Bucket => (&[HeadBucket], &[CreateBucket], &[]),
            ResourceKind::Source | ResourceKind::Worker => (
                &[HeadObject, ListObjectsV2, ListMultipartUploads, ListParts],
                &[
                    PutObject,
                    CreateMultipartUpload,
                    UploadPart,
                    CompleteMultipartUpload,
                    AbortMultipartUpload,
                ],
                &[DeleteObject, AbortMultipartUpload],
            ),
            ResourceKind::TrainingJob => (
                &[ListTrainingJobs, DescribeTrainingJob, ListTags],
                &[CreateTrainingJob, AddTags, StopTrainingJob],
                &[StopTrainingJob],
            ),
        };
        Self { reads, makes, removes }
    }
}

impl Call {
    /// The IAM action that the call needs. S3 names some of its actions otherwise than its operations
    /// (service authorization reference, Amazon S3).
    pub fn action(self) -> String {
        let row = self.row();
        let action = match self {
            Self::HeadBucket | Self::ListObjectsV2 => "ListBucket",
            Self::HeadObject => "GetObject",
            Self::CreateMultipartUpload | Self::UploadPart | Self::CompleteMultipartUpload => "PutObject",
            Self::ListMultipartUploads => "ListBucketMultipartUploads",
            Self::ListParts => "ListMultipartUploadParts",
            _ => row.operation,
        };
        format!("{}:{action}", row.service)
    }

    /// The tags under which an IAM action is allowed, also one that a call only needs besides: those of the
    /// call of its name.
    pub fn guards_of(action: &str) -> &'static [TagCondition] {
        Self::ALL.iter().find(|call| call.action() == action).map_or(&[], |call| call.row().guards)
    }

    /// `iam CreateRole`, as messages say it.
    pub fn describe(self) -> String {
        format!("{} {}", self.row().service, self.row().operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_only_looks_needs_no_write() {
        for call in Call::ALL {
            let row = call.row();
            if row.effect == Effect::Write {
                assert!(!row.commands.contains(&Command::Plan), "{call:?}");
                assert!(!row.commands.contains(&Command::Emit), "{call:?}");
                assert!(!row.commands.contains(&Command::Watch), "{call:?}");
                assert!(!row.commands.contains(&Command::Import), "{call:?}");
            }
            assert!(!row.commands.is_empty(), "{call:?} is made by no command");
        }
        assert_eq!(Call::HeadBucket.action(), "s3:ListBucket");
    }

    /// So that the operator's policy, which is made from the rows, covers each kind of resources.
    #[test]
    fn each_kind_can_be_found_made_and_removed() {
        let mut written: Vec<Call> = Vec::new();
        for kind in ResourceKind::ALL {
            let Lifecycle { reads, makes, removes } = Lifecycle::of_kind(*kind);
            let is_for = |calls: &[Call], effect, command| {
                let fits =
                    |call: &Call| call.row().effect == effect && call.row().commands.contains(&command);
                assert!(calls.iter().all(fits), "{kind}: {calls:?} for {}", command.word());
            };
            is_for(reads, Effect::Read, Command::Apply);
            is_for(makes, Effect::Write, Command::Apply);
            is_for(removes, Effect::Write, Command::Destroy);
            assert!(!reads.is_empty() && !makes.is_empty(), "{kind}");
            written.extend([makes, removes].concat());
        }
        for call in Call::ALL.iter().filter(|call| call.row().effect == Effect::Write) {
            assert!(written.contains(call), "{call:?} writes to no kind of resources");
        }
    }

    #[test]
    fn what_is_made_is_given_a_tag_and_what_is_changed_has_one() {
        for call in Call::ALL {
            let row = call.row();
            // S3 knows no tags of objects that are not there yet; their keys lie below trainc's.
            let tagged = matches!(row.service, "iam" | "fsx" | "sagemaker") && row.effect == Effect::Write;
            assert_eq!(!row.guards.is_empty(), tagged, "{call:?}");
        }
        assert_eq!(Call::guards_of("iam:TagRole"), [TagCondition::Own, TagCondition::New]);
        assert!(Call::guards_of("ec2:GetSecurityGroupsForVpc").is_empty());
        // A command that makes nothing is not let by the tag that a request gives.
        for call in Call::ALL.iter().filter(|call| call.row().guards == [TagCondition::New]) {
            assert_eq!(call.row().commands, [Command::Apply], "{call:?}");
        }
    }
}
