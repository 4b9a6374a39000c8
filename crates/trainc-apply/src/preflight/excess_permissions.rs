//! Permissions of the role in addition to the plan's.

use crate::desired::Desired;
use crate::observed::ObservedRole;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::iam::POLICY_NAME;
use trainc_ir::Plan;

declare_code!(
    T0667,
    "role-policies-added",
    Warning,
    "a created role to which someone added policies",
    found_in: Account
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0667];

/// Reports policies that someone added to the role that trainc created: the job has their permissions too.
pub fn excess_permissions(
    plan: &Plan,
    desired: &Desired,
    found: Option<&ObservedRole>,
    problems: &mut Problems,
) {
    let (Some(wanted), Some(found)) = (&desired.role, found) else { return };
    let name = wanted.create.role_name.as_str();
    let inline = found.inline.iter().filter(|policy| *policy != POLICY_NAME);
    let inline = inline.map(|policy| (policy, "delete-role-policy", "--policy-name"));
    let attached = found.attached.iter().map(|policy| (policy, "detach-role-policy", "--policy-arn"));
    let added: Vec<_> = inline.chain(attached).collect();
    let Some((policy, command, flag)) = added.first() else { return };
    let names: Vec<&str> = added.iter().map(|(policy, ..)| policy.as_str()).collect();
    let span = plan.job.role.as_ref().map_or(plan.job.span, |role| role.span);
    problems.push(
        Diagnostic::new(
            &T0667,
            span,
            format!(
                "someone added {} to role `{name}`: the job has more permissions than it needs",
                text::backtick_list(&names, "and")
            ),
        )
        .help(format!("aws iam {command} --role-name {name} {flag} {}", trainc_emit::quote(policy)))
        .note("trainc does not remove policies that it did not create")
        .fact("policies", names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()),
    );
}
