//! A role that trainc makes: its path, its boundary, its name.

use crate::{Context, s3};
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Plan, Role};

declare_code!(T0494, "invalid-role-path", Error, "an invalid path of a role");
declare_code!(
    T0495,
    "invalid-permissions-boundary",
    Error,
    "a permissions boundary that is not the ARN of a policy"
);
declare_code!(T0497, "policy-widened", Warning, "a policy that grants more than the manifest names");
declare_code!(
    T0504,
    "manifest-objects-unreadable",
    Warning,
    "a created role that cannot read the objects that a manifest lists"
);
declare_code!(T0647, "policy-too-long", Error, "a role policy that exceeds the IAM limit");
declare_code!(
    T0512,
    "access-point-with-created-role",
    Error,
    "an access point with a created role, which cannot use it"
);
declare_code!(T0499, "role-name-truncated", Note, "a job name that is truncated in the name of its role");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0494, &T0495, &T0497, &T0499, &T0504, &T0512, &T0647];

/// Judges the role.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(role) = &plan.job.role else { return };
    if role.create.get() == Some(true) {
        path(role, problems);
        boundary(role, problems);
        name_cut(plan, role, problems);
        widened(plan, role, problems);
        listed(plan, role, problems);
        access_points(plan, role, problems);
    }
}

/// A request through an access point is judged against the access point and against its bucket, which the address does
/// not name: a policy made from it would be refused, or grant nothing.
fn access_points(plan: &Plan, role: &Role, problems: &mut Problems) {
    if !plan.deployable {
        return;
    }
    for (field, fallback, what) in super::s3_uris::all(plan) {
        // FSx follows links by a role of its own.
        let Some(uri) = field.val().filter(|_| what != "import" && what != "export") else { continue };
        let Some(parts) = s3::parse(&uri.value) else { continue };
        if !(parts.bucket.starts_with("arn:") || parts.bucket.ends_with("-s3alias")) {
            continue;
        }
        problems.push(
            Diagnostic::new(
                &T0512,
                uri.span_or(fallback),
                format!("`{what}` goes through an access point, which the role that is made may not use"),
            )
            .label(role.span, "the role that is made")
            .help("name the bucket itself, as `s3://BUCKET/…`, or write `role arn=\"…\"` with a role that may")
            .note("S3 asks for the permission on the access point and on its bucket (Amazon S3 user guide, \"Configuring IAM policies for using access points\"); the address names only one of the two"),
        );
    }
}

/// What a manifest lists stands in the manifest, which only the service reads: the policy cannot name it.
fn listed(plan: &Plan, role: &Role, problems: &mut Problems) {
    if !plan.deployable || !role.reads.is_empty() {
        return;
    }
    for channel in &plan.job.channels {
        let Some(uri) = channel.manifest.val().or_else(|| channel.augmented_manifest.val()) else { continue };
        let Some(parts) = s3::parse(&uri.value) else { continue };
        problems.push(
            Diagnostic::new(
                &T0504,
                uri.span_or(channel.span),
                "the role may read the manifest, and none of the objects that it lists",
            )
            .label(role.span, "the role that is made")
            .help(format!(
                "write `role create=#true {{ read \"s3://{}/\" }}`, with the prefix of what the manifest lists",
                parts.bucket
            ))
            .note("SageMaker reads each listed object with the job's role (developer guide, \"SageMaker Roles\", CreateTrainingJob: s3:GetObject on the input)"),
        );
    }
}

/// Inline policies of a role have a limit together, so long prefixes are cut to directories above them.
fn widened(plan: &Plan, role: &Role, problems: &mut Problems) {
    if !plan.deployable {
        return;
    }
    let most = trainc_emit::iam::INLINE_POLICY_LIMIT;
    let (policy, widened) = trainc_emit::iam::fitted(plan);
    let has = policy.characters();
    if has > most {
        let words = format!(
            "the role's policy has {} characters where IAM takes {}, however far its prefixes are widened",
            text::group(has as u64),
            text::group(most as u64)
        );
        problems.push(
            Diagnostic::new(&T0647, role.span, words)
                .help("read from fewer buckets and name fewer secrets, or name a role of your own: `role arn=\"…\"`")
                .note("all inline policies of a role together, white space not counted (IAM quotas)")
                .fact("characters", has as u64)
                .fact("limit_characters", most as u64),
        );
        return;
    }
    if !widened {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0497,
            role.span,
            "the job's prefixes do not fit into the role's policy, so it reaches directories above them",
        )
        .help("write shorter prefixes or fewer of them, or name a role of your own: `role arn=\"…\"`")
        .note(format!("the inline policies of a role have {most} characters at most (IAM quotas); `trainc emit` shows what the policy grants"))
        .fact("limit_characters", u64::try_from(most).unwrap_or(u64::MAX)),
    );
}

fn path(role: &Role, problems: &mut Problems) {
    let (Some(path), Some(shape)) = (role.path.val(), shapes::member("CreateRole", "Path")) else { return };
    if shape.takes_text(&path.value) {
        return;
    }
    let span = path.span_or(role.span);
    let inner = path.value.trim_matches('/');
    let fixed = if inner.is_empty() { "/".to_owned() } else { format!("/{inner}/") };
    let diagnostic = Diagnostic::new(&T0494, span, format!("`{}` is no path of a role", path.value))
        .note("a path is `/`, or begins and ends with `/`, with 512 visible ASCII characters at most (botocore, CreateRole)");
    problems.push(if fixed != path.value && shape.takes_text(&fixed) {
        diagnostic.help(format!("write `path=\"{fixed}\"`")).fix(span, format!("\"{fixed}\""))
    } else {
        diagnostic
    });
}

fn boundary(role: &Role, problems: &mut Problems) {
    let Some(boundary) = role.boundary.val() else { return };
    let parts: Vec<&str> = boundary.value.splitn(6, ':').collect();
    let is_policy = matches!(
        parts.as_slice(),
        ["arn", partition, "iam", "", account, resource]
            if partition.starts_with("aws")
                && (*account == "aws" || (account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit())))
                && resource.strip_prefix("policy/").is_some_and(|name| !name.is_empty() && !name.ends_with('/'))
    );
    let fits = shapes::member("CreateRole", "PermissionsBoundary")
        .is_none_or(|shape| shape.takes_text(&boundary.value));
    if !is_policy || !fits {
        problems.push(
            Diagnostic::new(
                &T0495,
                boundary.span_or(role.span),
                format!("`{}` is no ARN of a policy", boundary.value),
            )
            .help("write `boundary=\"arn:aws:iam::111122223333:policy/…\"`")
            .note("PermissionsBoundary takes the ARN of a managed policy (AWS IAM, CreateRole)"),
        );
    }
}

fn name_cut(plan: &Plan, role: &Role, problems: &mut Problems) {
    let (Some(job), Some(limit)) = (plan.job.name.val(), limits::get("iam.role-name")) else { return };
    // `trainc-`, the job, `-` and eight hexadecimal digits, as the role is named.
    let room = usize::try_from(limit.value).unwrap_or(usize::MAX).saturating_sub("trainc-".len() + 1 + 8);
    let length = job.value.chars().count();
    if length > room {
        let kept: String = job.value.chars().take(room).collect();
        problems.push(
            Diagnostic::new(&T0499, job.span_or(role.span), format!("the role's name keeps {room} of the {} of the job's name", text::count(length as u64, "character")))
                .note(format!("it begins with `trainc-{}` and ends with a digest, so it stays unique; a role's name has {} characters at most", kept.trim_end_matches('-'), limit.value)),
        );
    }
}
