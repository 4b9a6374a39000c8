//! A program's `requirements.txt`: its packages, and the versions that each line accepts (PEP 508, PEP 440).

use std::sync::LazyLock;
use trainc_catalog::images::version_key;
use trainc_diag::source::{SourceId, Span, Spanned};

/// A package of the requirements.
#[derive(Debug)]
pub(super) struct Requirement {
    /// Its name in the form of PyPI.
    pub(super) package: String,
    /// The version, where the line accepts a single one.
    pub(super) exact: Option<Spanned<String>>,
    /// All conditions: an operator and a version.
    conditions: Vec<(String, String)>,
}

impl Requirement {
    /// Returns whether a version meets all conditions of the line.
    pub(super) fn accepts(&self, version: &str) -> bool {
        let found = version_key(version);
        self.conditions.iter().all(|(operator, wanted)| {
            let wildcard = wanted.strip_suffix(".*");
            let wanted = version_key(wildcard.unwrap_or(wanted));
            match operator.as_str() {
                "==" | "===" if wildcard.is_some() => found.starts_with(&wanted),
                "!=" if wildcard.is_some() => !found.starts_with(&wanted),
                "==" | "===" => found == wanted,
                "!=" => found != wanted,
                ">=" => found >= wanted,
                "<=" => found <= wanted,
                ">" => found > wanted,
                "<" => found < wanted,
                // `~= 1.4.2` is `>= 1.4.2, == 1.4.*`.
                _ => found >= wanted && wanted.split_last().is_some_and(|(_, all)| found.starts_with(all)),
            }
        })
    }
}

/// Returns the packages of a text. Also returns whether it names other files or addresses, which may bring
/// further packages.
pub(super) fn parse(text: &str, source: SourceId) -> (Vec<Requirement>, bool) {
    let mut at = 0;
    let (mut out, mut names_others) = (Vec::new(), false);
    for line in text.split_inclusive('\n') {
        match parse_line(line, at, source) {
            Some(requirement) => out.push(requirement),
            None => names_others |= !line.trim().is_empty() && !line.trim_start().starts_with('#'),
        }
        at += line.len();
    }
    (out, names_others)
}

/// Returns the package of a line that starts at a byte of the text; `None` for an option, an address or an
/// empty line.
fn parse_line(line: &str, at: usize, source: SourceId) -> Option<Requirement> {
    static LINE: LazyLock<Option<regex::Regex>> = LazyLock::new(|| {
        regex::Regex::new(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;#@/]*?)\s*(?:[;#].*)?$")
            .ok()
    });
    static CONDITION: LazyLock<Option<regex::Regex>> =
        LazyLock::new(|| regex::Regex::new(r"^\(?\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s)]+)\s*\)?$").ok());
    let found = LINE.as_ref()?.captures(line.trim_end())?;
    let package = found.get(1)?.as_str().to_ascii_lowercase().replace(['_', '.'], "-");
    let mut conditions = Vec::new();
    let mut exact = None;
    for part in found.get(2)?.as_str().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let condition = CONDITION.as_ref()?.captures(part)?;
        let (operator, version) = (condition.get(1)?.as_str(), condition.get(2)?.as_str());
        if matches!(operator, "==" | "===") && !version.ends_with('*') {
            let start = at + line.find(version).unwrap_or(0);
            let span = Span::new(source, start, start + version.len());
            exact = Some(Spanned::new(version.to_owned(), span));
        }
        conditions.push((operator.to_owned(), version.to_owned()));
    }
    Some(Requirement { package, exact, conditions })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(line: &str) -> Option<(String, Option<String>)> {
        let found = parse_line(line, 0, SourceId(0))?;
        Some((found.package, found.exact.map(|version| version.value)))
    }

    #[test]
    fn requirements_pin_packages() {
        let pin =
            |package: &str, version: Option<&str>| Some((package.to_owned(), version.map(str::to_owned)));
        assert_eq!(exact("transformers==5.24.0\n"), pin("transformers", Some("5.24.0")));
        assert_eq!(
            exact("Flash_Attn[extra] == 2.8.3 ; python_version > '3.9'"),
            pin("flash-attn", Some("2.8.3"))
        );
        assert_eq!(exact("accelerate>=1.0,<2"), pin("accelerate", None));
        assert_eq!(exact("trl==1.*"), pin("trl", None));
        assert_eq!(exact("trl # ==1.0"), pin("trl", None));
        for none in ["-r other.txt", "# transformers==5", "", "trl @ https://host/trl.whl", "./local"] {
            assert_eq!(exact(none), None, "{none}");
        }
    }

    /// The examples of PEP 440, and common lines.
    #[test]
    fn a_line_accepts_versions() {
        let accepts = |line: &str, version: &str| parse_line(line, 0, SourceId(0)).unwrap().accepts(version);
        for (line, yes, no) in [
            ("a", "0.1", None),
            ("a>=1.0", "1.10.1", Some("0.34.2")),
            ("a~=1.4.2", "1.4.9", Some("1.5.0")),
            ("a~=2.2", "2.9", Some("3.0")),
            ("a==1.2.*", "1.2.7", Some("1.3.0")),
            ("a!=1.2.*,<2", "1.3.0", Some("1.2.7")),
            ("a (>1.0, <=1.5)", "1.5", Some("1.5.1")),
        ] {
            assert!(accepts(line, yes), "{line} {yes}");
            assert!(no.is_none_or(|no| !accepts(line, no)), "{line} {no:?}");
        }
    }

    #[test]
    fn other_files_may_bring_packages() {
        let others = |text: &str| parse(text, SourceId(0)).1;
        assert!(
            others("trl==1.0\n-r more.txt\n") && others("git+https://host/x.git\n") && others("./wheel\n")
        );
        assert!(!others("# a comment\n\ntrl==1.0\n"));
    }
}
