//! Reads the denied action and resource from the text of an AWS access-denied error.
//!
//! "User: arn:… is not authorized to perform: iam:PassRole on resource: arn:… because no identity-based
//! policy allows the iam:PassRole action" (IAM user guide, "Access denied error messages", 2026-11-21). S3
//! quotes the ARN; the message of EC2 begins with "you are not authorized to perform this operation".

/// Returns the action in a message, such as `iam:PassRole`.
pub(super) fn action(text: &str) -> Option<&str> {
    let performed = words_after(text, "authorized to perform").find(|word| is_action(word));
    performed.or_else(|| words_after(text, "policy allows the").find(|word| is_action(word)))
}

/// Returns the resource's ARN in a message.
pub(super) fn resource(text: &str) -> Option<&str> {
    words_after(text, "on resource").find(|word| word.starts_with("arn:"))
}

/// Returns the word after each occurrence of a phrase, without punctuation.
fn words_after<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(phrase).filter_map(move |(at, _)| {
        let rest = text.get(at + phrase.len()..)?;
        let word = rest.trim_start_matches(':').split_whitespace().next()?;
        Some(word.trim_matches(['"', '\'', '`', ',', ';', '.', '(', ')']))
    })
}

/// Returns true for a word of the form `service:Operation`.
fn is_action(word: &str) -> bool {
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    word.split_once(':').is_some_and(|(service, operation)| plain(service) && plain(operation))
}

#[cfg(test)]
mod tests {
    use super::{action, resource};

    #[test]
    fn a_refusal_names_the_action_and_the_resource() {
        let role = "arn:aws:iam::111122223333:role/training";
        let passed = format!(
            "User: arn:aws:sts::111122223333:assumed-role/ci/x is not authorized to perform: \
                iam:PassRole on resource: {role} because no identity-based policy allows the iam:PassRole \
                action"
        );
        assert_eq!((action(&passed), resource(&passed)), (Some("iam:PassRole"), Some(role)));
        let quoted = r#"User: arn:aws:iam::1:user/x is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::b/k" with an explicit deny in a service control policy"#;
        assert_eq!((action(quoted), resource(quoted)), (Some("s3:PutObject"), Some("arn:aws:s3:::b/k")));
        let twice = "You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not \
            authorized to perform: ec2:DescribeSubnets because no identity-based policy allows the \
            ec2:DescribeSubnets action";
        assert_eq!((action(twice), resource(twice)), (Some("ec2:DescribeSubnets"), None));
        let allows = "Access denied: no permissions boundary policy allows the fsx:TagResource action.";
        assert_eq!(action(allows), Some("fsx:TagResource"));
        let ends = "User: x is not authorized to perform: iam:CreateServiceLinkedRole.";
        assert_eq!(action(ends), Some("iam:CreateServiceLinkedRole"));
        for silent in ["Access Denied", "", "You are not authorized to perform this operation.", "perform: x"]
        {
            assert_eq!((action(silent), resource(silent)), (None, None), "{silent}");
        }
    }
}
