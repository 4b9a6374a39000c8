//! The IAM role that trainc creates: path, permissions boundary, name and policy.

use crate::Context;
use crate::queries::s3;
use trainc_catalog::arn::Arn;
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

/// Checks a created role.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(role) = &plan.job.role else { return };
    if role.create.get() == Some(true) {
        check_path(role, problems);
        check_boundary(role, problems);
        check_name(plan, role, problems);
        check_policy(plan, role, problems);
        check_manifest_objects(plan, role, problems);
        check_access_points(plan, role, problems);
    }
}

/// Reports access points: a request requires permission on the access point and its bucket, which the address
/// does not contain, so a generated policy would be rejected or grant nothing.
fn check_access_points(plan: &Plan, role: &Role, problems: &mut Problems) {
    for (field, fallback, what) in s3::uris(plan) {
        // FSx accesses links through its service-linked role.
        let Some(uri) = field.val().filter(|_| what != "import" && what != "export") else { continue };
        let Some(parts) = s3::parse(&uri.value) else { continue };
        if !(parts.bucket.starts_with("arn:") || parts.bucket.ends_with("-s3alias")) {
            continue;
        }
        problems.push(
            Diagnostic::new(
                &T0512,
                uri.span_or(fallback),
                format!("`{what}` uses an access point, which the created role cannot access"),
            )
            .label(role.span, "the created role")
            .help("write the bucket itself, e.g. `s3://BUCKET/…`, or `role arn=\"…\"` with a role that \
                has access")
            .note("S3 requires permission on the access point and on its bucket (Amazon S3 user guide, \
                \"Configuring IAM policies for using access points\"), but the address contains only one of \
                them"),
        );
    }
}

/// Reports S3 manifests: only the service reads them, so the policy cannot cover the objects they list.
fn check_manifest_objects(plan: &Plan, role: &Role, problems: &mut Problems) {
    if !role.reads.is_empty() {
        return;
    }
    for channel in &plan.job.channels {
        let Some(uri) = channel.manifest.val().or_else(|| channel.augmented_manifest.val()) else { continue };
        let Some(parts) = s3::parse(&uri.value) else { continue };
        problems.push(
            Diagnostic::new(
                &T0504,
                uri.span_or(channel.span),
                "the created role can read the S3 manifest file, but not the objects it lists",
            )
            .label(role.span, "the created role")
            .help(format!(
                "write `role create=#true {{ read \"s3://{}/\" }}` with the prefix of the listed objects",
                parts.bucket
            ))
            .note("SageMaker reads each listed object with the job's role (developer guide, \
                \"SageMaker Roles\", CreateTrainingJob: s3:GetObject on the input)"),
        );
    }
}

/// Reports a policy that is too long for IAM, or that had to be widened to parent directories to fit.
fn check_policy(plan: &Plan, role: &Role, problems: &mut Problems) {
    let most = trainc_emit::iam::INLINE_POLICY_LIMIT;
    let (policy, widened) = trainc_emit::iam::fitting_policy(plan);
    let has = policy.character_count();
    if has > most {
        let words = format!(
            "the role's policy has {} characters even with widened prefixes; IAM allows {}",
            text::group_digits(has as u64),
            text::group_digits(most as u64)
        );
        problems.push(
            Diagnostic::new(&T0647, role.span, words)
                .help("use fewer buckets and secrets, or an existing role: `role arn=\"…\"`")
                .note("the limit applies to all inline policies of a role together, without white \
                    space (IAM quotas)")
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
            "the job's prefixes do not fit into the role's policy, so it grants access to their \
                parent directories",
        )
        .help("use shorter or fewer prefixes, or an existing role: `role arn=\"…\"`")
        .note(format!("the inline policies of a role have at most {most} characters (IAM quotas); `trainc \
            emit` writes the policy"))
        .fact("limit_characters", u64::try_from(most).unwrap_or(u64::MAX)),
    );
}

fn check_path(role: &Role, problems: &mut Problems) {
    let (Some(path), Some(shape)) = (role.path.val(), shapes::member_at_path("CreateRole", "Path")) else { return };
    if shape.takes_text(&path.value) {
        return;
    }
    let span = path.span_or(role.span);
    let inner = path.value.trim_matches('/');
    let fixed = if inner.is_empty() { "/".to_owned() } else { format!("/{inner}/") };
    let diagnostic = Diagnostic::new(&T0494, span, format!("`{}` is not a valid role path", path.value))
        .note("a role path is `/`, or starts and ends with `/`, with at most 512 visible ASCII \
            characters (botocore, CreateRole)");
    problems.push(if fixed != path.value && shape.takes_text(&fixed) {
        diagnostic.help(format!("write `path=\"{fixed}\"`")).fix(span, format!("\"{fixed}\""))
    } else {
        diagnostic
    });
}

fn check_boundary(role: &Role, problems: &mut Problems) {
    let Some(boundary) = role.boundary.val() else { return };
    let is_policy = Arn::parse(&boundary.value).is_ok_and(|arn| arn.policy().is_some());
    let fits = shapes::member_at_path("CreateRole", "PermissionsBoundary")
        .is_none_or(|shape| shape.takes_text(&boundary.value));
    if !is_policy || !fits {
        let (from, help) = match boundary.origin.span() {
            Some(_) => ("", "write `boundary=\"arn:aws:iam::111122223333:policy/…\"`"),
            None => {
                ("TRAINC_ROLE_BOUNDARY ", "set TRAINC_ROLE_BOUNDARY to `arn:aws:iam::111122223333:policy/…`")
            }
        };
        problems.push(
            Diagnostic::new(
                &T0495,
                boundary.span_or(role.span),
                format!("{from}`{}` is not the ARN of a policy", boundary.value),
            )
            .help(help)
            .note("PermissionsBoundary must be the ARN of a managed policy (AWS IAM, CreateRole)"),
        );
    }
}

fn check_name(plan: &Plan, role: &Role, problems: &mut Problems) {
    let (Some(job), Some(limit)) = (plan.job.name.val(), limits::get("iam.role-name")) else { return };
    // The role is named `trainc-<job>-<8 hexadecimal digits>`.
    let room = usize::try_from(limit.value).unwrap_or(usize::MAX).saturating_sub("trainc-".len() + 1 + 8);
    let length = job.value.chars().count();
    if length > room {
        let kept: String = job.value.chars().take(room).collect();
        problems.push(
            Diagnostic::new(&T0499, job.span_or(role.span), format!("the role's name keeps {room} of the {} \
                of the job's name", text::count(length as u64, "character")))
                .note(format!("the name starts with `trainc-{}` and ends with a digest, so it stays unique; \
                    role names have at most {} characters", kept.trim_end_matches('-'), limit.value)),
        );
    }
}
