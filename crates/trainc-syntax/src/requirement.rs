//! The versions of trainc that a file requires, compared with this one before the rest of the file is read.

use super::ast::Node;
use super::codes::{T0134, T0135};
use super::document;
use super::nodes::{REQUIRES, Requires};
use super::reader::Reader;
use super::required_values::check_required;
use kdl::{KdlDocument, KdlEntry, KdlNode};
use semver::{Prerelease, Version, VersionReq};
use trainc_diag::Diagnostic;
use trainc_diag::source::SourceId;
use trainc_language::NodeType;

/// The version of the workspace, whose crates are released together.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the diagnostic of a file that is for other versions of trainc than this one.
pub(super) fn unsatisfied(document: &KdlDocument, source: SourceId) -> Option<Diagnostic> {
    let version = Version::parse(VERSION).ok()?;
    let named = document.nodes().iter().filter(|node| node.name().value() == REQUIRES.name);
    let (entry, written) =
        named.flat_map(KdlNode::entries).filter_map(requirement).find(|(_, written)| {
            VersionReq::parse(written).is_ok_and(|required| !is_satisfied(&required, &version))
        })?;
    Some(
        Diagnostic::new(
            &T0134,
            document::value_span(source, entry),
            format!("this file requires trainc `{written}`; this is trainc {VERSION}"),
        )
        .help(
            "use a version of trainc that the file requires; if this one reads it as well, extend the range",
        )
        .note("the rest of the file is not checked: another version may read it differently"),
    )
}

/// Returns the text of `trainc=`, if it is well-formed.
fn requirement(entry: &KdlEntry) -> Option<(&KdlEntry, &str)> {
    let is_own = entry.name().is_some_and(|name| REQUIRES.prop(name.value()).is_some());
    let text = entry.value().as_string().filter(|_| is_own && !document::is_recovered(entry))?;
    Some((entry, text))
}

/// Returns whether a version is one of those required. A pre-release also counts as the release that it comes
/// before, whose language it has.
fn is_satisfied(required: &VersionReq, version: &Version) -> bool {
    let release = Version { pre: Prerelease::EMPTY, ..version.clone() };
    required.matches(version) || required.matches(&release)
}

impl Reader<'_> {
    /// Reports a requirement that is missing or is not of the expected form.
    pub(super) fn check_requirement(&mut self, node: &Node) {
        check_required(node, &[], self.problems);
        let Some(written) = Requires::read(node).and_then(|read| read.trainc.val().cloned()) else { return };
        let Err(fault) = VersionReq::parse(&written.value) else { return };
        let span = written.span_or(node.name.span);
        let diagnostic = Diagnostic::new(
            &T0135,
            span,
            format!("invalid version requirement `{}`: {fault}", written.value),
        );
        let diagnostic = match as_in_cargo(&written.value) {
            Some(meant) => diagnostic.write(format!("trainc=\"{meant}\"")),
            None => diagnostic,
        };
        self.push(
            diagnostic
                .note("expected versions as in a Cargo.toml, such as `>=0.1, <0.3`, `~0.1.2` or `=0.1.0`"),
        );
    }
}

/// Returns the requirement that one in the form of pip or npm stands for: `==0.1.0`, `>=0.1 <0.3`.
fn as_in_cargo(written: &str) -> Option<String> {
    let mut comparators: Vec<String> = Vec::new();
    for word in written.split([',', ' ']).filter(|word| !word.is_empty()) {
        match comparators.last_mut().filter(|last| last.ends_with(['=', '<', '>', '~', '^'])) {
            Some(operator) => operator.push_str(word),
            None => comparators.push(word.to_owned()),
        }
    }
    let meant = comparators.join(", ").replace("==", "=");
    VersionReq::parse(&meant).is_ok().then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{T0102, T0120, T0121, T0122, T0124, T0129};

    /// The expectations are those of Cargo (The Cargo Book, "Specifying Dependencies").
    #[test]
    fn requirements_are_those_of_cargo() {
        for (required, version, expected) in [
            (">=0.1, <0.3", "0.1.0", true),
            (">=0.1, <0.3", "0.2.9", true),
            (">=0.1, <0.3", "0.3.0", false),
            ("<0.1", "0.1.0", false),
            ("<=0.1", "0.1.7", true),
            (">0.1", "0.1.7", false),
            ("~0.1.2", "0.1.9", true),
            ("~0.1.2", "0.2.0", false),
            ("0.1.2", "0.1.3", true),
            ("0.1.2", "0.2.0", false),
            ("=0.1", "0.1.5", true),
            ("*", "7.0.0", true),
            (">=0.2", "0.2.0-rc.1", true),
            (">=0.2.0-rc.2", "0.2.0-rc.1", true),
            ("=0.2.0-rc.1", "0.2.0-rc.1", true),
            (">=0.3", "0.2.0-rc.1", false),
        ] {
            let (required_versions, found) =
                (VersionReq::parse(required).unwrap(), Version::parse(version).unwrap());
            assert_eq!(is_satisfied(&required_versions, &found), expected, "{required} {version}");
        }
        assert!(Version::parse(VERSION).is_ok(), "no file would be checked");
    }

    #[test]
    fn forms_of_other_tools_are_translated() {
        assert_eq!(as_in_cargo("==0.1.0").as_deref(), Some("=0.1.0"));
        assert_eq!(as_in_cargo(">= 0.1 <0.3").as_deref(), Some(">=0.1, <0.3"));
        assert_eq!(as_in_cargo("!=0.2"), None);
        assert_eq!(as_in_cargo("latest"), None);
        assert_eq!(as_in_cargo(""), None);
    }

    /// Returns the codes of a file and the texts that they blame.
    fn problems_of(text: &str) -> Vec<(&'static str, &str)> {
        let mut problems = trainc_diag::Problems::default();
        let _ = crate::parse(SourceId(0), text, &mut problems);
        let blamed = |at: trainc_diag::source::Span| text.get(at.start as usize..at.end as usize).unwrap();
        problems.iter().map(|one| (one.code.id, blamed(one.span))).collect()
    }

    #[test]
    fn nothing_else_is_said_of_a_file_for_other_versions() {
        let new = "job \"x\" tomorrow=1 {\n    hologram 5d\n    region \"us-west-2\"\n}\n";
        assert_eq!(problems_of(&format!("requires trainc=\"<0.1\"\n{new}")), [(T0134.id, "\"<0.1\"")]);
        assert_eq!(problems_of(&format!("{new}requires trainc=\"<0.1\"\n")), [(T0134.id, "\"<0.1\"")]);
        let satisfied = format!("requires trainc=\">=0.1\"\n{new}");
        assert_eq!(
            problems_of(&satisfied),
            [(T0102.id, "5d"), (T0121.id, "tomorrow"), (T0120.id, "hologram")]
        );
        assert_eq!(problems_of("requires trainc=\"<0.1\"\nregion 7\n"), [(T0134.id, "\"<0.1\"")], "a layer");
    }

    #[test]
    fn requirements_are_checked_themselves() {
        assert_eq!(problems_of("requires trainc=\"==0.1.0\"\n"), [(T0135.id, "\"==0.1.0\"")]);
        assert_eq!(problems_of("requires trainc=0.1\n"), [(T0124.id, "0.1")]);
        assert_eq!(problems_of("requires trainc=#null\n"), [(T0124.id, "#null")]);
        assert_eq!(problems_of("requires\n"), [(T0129.id, "requires")]);
        assert_eq!(
            problems_of("requires trainc=\">=0.1\"\nrequires trainc=\">=0.1\"\n"),
            [(T0122.id, "requires")]
        );
        assert_eq!(problems_of("job \"x\" { requires trainc=\">=0.1\"; }\n"), [(T0120.id, "requires")]);
    }
}
