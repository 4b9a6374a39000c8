//! The profiles in the files of the AWS configuration, for a message that names them: the SDK ignores a profile that does
//! not exist, and looks for credentials elsewhere.

use std::collections::BTreeSet;

/// Maximum number of profiles in the message.
const MOST: usize = 8;

/// Describes a profile of `AWS_PROFILE` that exists in neither file; `None` if it exists or none is selected. `read` returns
/// the text of a file. Keys in the environment take precedence over a profile.
pub(super) fn missing_profile(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let wanted = given("AWS_PROFILE")?;
    let wanted = wanted.trim();
    if given("AWS_ACCESS_KEY_ID").is_some() {
        return None;
    }
    let home = given("HOME").or_else(|| given("USERPROFILE"));
    let path = |name: &str, usual: &str| {
        let shown = given(name).unwrap_or_else(|| usual.to_owned());
        let full = match (shown.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => format!("{home}/{rest}"),
            _ => shown.clone(),
        };
        (shown, full)
    };
    let (config, config_path) = path("AWS_CONFIG_FILE", "~/.aws/config");
    let (keys, keys_path) = path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
    let mut known = profiles(&read(&config_path).unwrap_or_default(), true);
    known.extend(profiles(&read(&keys_path).unwrap_or_default(), false));
    if known.contains(wanted) {
        return None;
    }
    let shown: Vec<String> = known.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let have = match known.len() - shown.len() {
        _ if shown.is_empty() => "neither has a profile".to_owned(),
        0 => format!("they have {}", shown.join(", ")),
        more => format!("they have {} and {more} more", shown.join(", ")),
    };
    Some(format!("the profile `{wanted}` of AWS_PROFILE does not exist in {config} or {keys}; {have}"))
}

/// Returns the names of the profiles in a file: `[profile NAME]` or `[default]` in the config, `[NAME]` in the credentials
/// (AWS SDKs and tools reference guide, "Shared config and credentials files").
fn profiles(text: &str, is_config: bool) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| {
        let inside = line.trim_start().strip_prefix('[')?.split(']').next()?.trim();
        match inside.strip_prefix("profile").filter(|rest| rest.starts_with([' ', '\t'])) {
            Some(name) if is_config => Some(name),
            _ => (!is_config || inside == "default").then_some(inside),
        }
    });
    headings.map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str =
        "[default]\nregion = us-west-2\n[profile prod]\n[sso-session corp]\n  [ profile  dev ] # x\n";

    fn missing(profile: &str, more: &[(&str, &str)]) -> Option<String> {
        let all: Vec<(&str, &str)> =
            [("AWS_PROFILE", profile), ("HOME", "/h/a")].iter().chain(more).copied().collect();
        let variable =
            |name: &str| all.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
        missing_profile(variable, |path| match path {
            "/h/a/.aws/config" => Some(CONFIG.to_owned()),
            "/h/a/.aws/credentials" => Some("[old]\naws_access_key_id = x\n".to_owned()),
            "/etc/aws" => Some("[profile other]".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn a_profile_that_does_not_exist_is_named_with_those_that_do() {
        assert_eq!(
            missing("nope", &[]).unwrap(),
            "the profile `nope` of AWS_PROFILE does not exist in ~/.aws/config or ~/.aws/credentials; they have `default`, `dev`, `old`, `prod`"
        );
        for known in ["default", "prod", "dev", "old", ""] {
            assert_eq!(missing(known, &[]), None, "{known}");
        }
        // A section of another kind is no profile.
        assert!(missing("corp", &[]).is_some() && missing("sso-session corp", &[]).is_some());
        // The files can be elsewhere, and keys in the environment come first.
        let elsewhere = [("AWS_CONFIG_FILE", "/etc/aws"), ("AWS_SHARED_CREDENTIALS_FILE", "/none")];
        assert_eq!(missing("other", &elsewhere), None);
        let found = missing("prod", &elsewhere).unwrap();
        assert!(found.ends_with("does not exist in /etc/aws or /none; they have `other`"), "{found}");
        assert_eq!(missing("nope", &[("AWS_ACCESS_KEY_ID", "AKIA")]), None);
        let none = [("AWS_CONFIG_FILE", "/none"), ("AWS_SHARED_CREDENTIALS_FILE", "/none")];
        assert!(missing("nope", &none).unwrap().ends_with("; neither has a profile"));
    }
}
