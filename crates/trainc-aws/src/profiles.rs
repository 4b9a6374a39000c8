//! The profiles in the files of the AWS configuration, for a message that names them: the SDK ignores a
//! profile that does not exist, and looks for credentials elsewhere.

use std::collections::BTreeSet;

/// Maximum number of profiles in the message.
const MOST: usize = 8;

/// Describes a profile of `AWS_PROFILE` that exists in neither file; `None` if it exists or none is selected.
/// `read` returns the text of a file. Keys in the environment take precedence over a profile.
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
    let [(config, config_path), (keys, keys_path)] = files(given);
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

/// Returns the files of the configuration and of the credentials, each as shown and as a path.
fn files(given: impl Fn(&str) -> Option<String>) -> [(String, String); 2] {
    let home = given("HOME").or_else(|| given("USERPROFILE"));
    let path = |name: &str, usual: &str| {
        let shown = given(name).unwrap_or_else(|| usual.to_owned());
        let full = match (shown.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => format!("{home}/{rest}"),
            _ => shown.clone(),
        };
        (shown, full)
    };
    [path("AWS_CONFIG_FILE", "~/.aws/config"), path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")]
}

/// Returns the selected profile and the program of its `credential_process`, without its arguments, which may
/// be secret; also that of the profile whose credentials it uses (`source_profile`). Keys in the environment
/// take precedence.
pub(super) fn credential_process(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    /// Maximum number of profiles that name each other.
    const MOST_SOURCES: usize = 8;
    let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if given("AWS_ACCESS_KEY_ID").is_some() {
        return None;
    }
    let texts = files(given).map(|(_, path)| read(&path).unwrap_or_default());
    let [config, keys] = &texts;
    let setting = |profile: &str, name: &str| {
        setting(config, true, profile, name).or_else(|| setting(keys, false, profile, name))
    };
    let mut profile =
        given("AWS_PROFILE").map_or_else(|| "default".to_owned(), |name| name.trim().to_owned());
    for _ in 0..MOST_SOURCES {
        if let Some(command) = setting(&profile, "credential_process") {
            let program = match command.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next(),
                None => command.split_whitespace().next(),
            };
            return Some((profile, program.unwrap_or_default().to_owned()));
        }
        profile = setting(&profile, "source_profile")?;
    }
    None
}

/// Returns a setting of a profile in a file.
fn setting(text: &str, is_config: bool, profile: &str, name: &str) -> Option<String> {
    let mut is_here = false;
    text.lines().find_map(|line| {
        if line.trim_start().starts_with('[') {
            is_here = profiles(line, is_config).contains(profile);
        }
        let (key, value) = line.split_once('=').filter(|_| is_here)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Returns the names of the profiles in a file: `[profile NAME]` or `[default]` in the config, `[NAME]` in
/// the credentials (AWS SDKs and tools reference guide, "Shared config and credentials files").
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
    fn the_process_of_a_profile_is_found() {
        let config = "[default]\ncredential_process = /opt/one --secret x\n[profile a]\nsource_profile = \
            b\n[profile b]\ncredential_process=\"/opt/my helper\" y\n[profile c]\nregion = x\n[profile \
            d]\nsource_profile = d\n";
        let of = |profile: &str, key: Option<&str>| {
            let variable = |name: &str| match name {
                "AWS_PROFILE" => Some(profile.to_owned()),
                "AWS_ACCESS_KEY_ID" => key.map(str::to_owned),
                "HOME" => Some("/h".to_owned()),
                _ => None,
            };
            credential_process(variable, |path| (path == "/h/.aws/config").then(|| config.to_owned()))
        };
        let found = |profile: &str, program: &str| Some((profile.to_owned(), program.to_owned()));
        assert_eq!(of("", None), found("default", "/opt/one"));
        assert_eq!(of("a", None), found("b", "/opt/my helper"));
        assert_eq!((of("c", None), of("d", None), of("", Some("AKIA"))), (None, None, None));
    }

    #[test]
    fn a_profile_that_does_not_exist_is_named_with_those_that_do() {
        assert_eq!(
            missing("nope", &[]).unwrap(),
            "the profile `nope` of AWS_PROFILE does not exist in ~/.aws/config or \
                ~/.aws/credentials; they have `default`, `dev`, `old`, `prod`"
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
