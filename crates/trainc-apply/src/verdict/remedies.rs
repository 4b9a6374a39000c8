//! Remedies for rejected requests, by a part of the error text (`remedies.toml`).

use super::Verdict;
use crate::fault::{Class, Fault};
use serde::Deserialize;
use std::sync::LazyLock;
use trainc_emit::quote;
use trainc_ir::Plan;

/// A remedy for errors whose code or message contains a text.
#[derive(Deserialize)]
struct Remedy {
    /// A part of the error code or message.
    says: String,
    /// The help; `{region}` and `{named}` (the first ARN or ID in the message) are filled in.
    help: String,
}

#[derive(Deserialize)]
struct Remedies {
    step: Vec<Remedy>,
}

static REMEDIES: LazyLock<Vec<Remedy>> = LazyLock::new(|| {
    toml::from_str::<Remedies>(include_str!("remedies.toml")).map_or_else(|_| Vec::new(), |all| all.step)
});

/// Replaces the help of a verdict with the remedy for its error, if one is known.
pub(super) fn with_remedy(plan: &Plan, fault: &Fault, verdict: Verdict) -> Verdict {
    if !matches!(fault.class, Class::Invalid | Class::NotFound | Class::NotSupported) {
        return verdict;
    }
    let Some(step) =
        REMEDIES.iter().find(|step| fault.code.contains(&step.says) || fault.message.contains(&step.says))
    else {
        return verdict;
    };
    let region = plan.job.region.value().map_or("REGION", String::as_str);
    let help = step.help.replace("{region}", region).replace("{named}", &first_identifier(fault));
    Verdict { diagnostic: verdict.diagnostic.help(help), ..verdict }
}

/// Returns the first ARN or ID in a message, quoted for a shell.
fn first_identifier(fault: &Fault) -> String {
    let is_name =
        |word: &&str| word.starts_with("arn:") || word.starts_with("sg-") || word.starts_with("subnet-");
    let word = fault.message.split([' ', ',', '\'', '"']).find(is_name);
    word.map_or_else(|| "NAME".to_owned(), |word| quote(word.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_can_be_read() {
        assert!(REMEDIES.len() >= 9, "{}", REMEDIES.len());
        for step in REMEDIES.iter() {
            assert!(step.says.len() > 8 && !step.help.ends_with('.'), "{}", step.says);
        }
    }
}
