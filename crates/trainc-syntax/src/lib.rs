//! Parses a manifest into an [`ast`], with every node checked against the language's tables; formats and
//! edits its text.
//!
//! In: the text of one file. Out: as much of [`ast::File`] as could be read, and problems; or new text. The
//! crate has its own parser, because the `kdl` crate returns nothing for a file with an error in it; tests
//! compare the two on valid text. Independent of defaults, the catalogue and other files.

mod braces;
mod characters;
pub mod codes;
pub mod cursor;
pub mod document;
pub mod edit;
mod fault;
mod fault_fixes;
mod fault_messages;
pub mod format;
mod lexer;
mod list_limit;
mod literal;
mod other_names;
mod property;
pub mod reader;
mod request;
pub mod required_values;
mod requirement;
pub mod schema;
pub mod suggested_edit;
pub mod suggestions;
mod top_level;
mod tree;
mod unclosed_string;
pub mod units;
pub mod value;

pub use trainc_language::{ast, nodes, spec};
pub use unclosed_string::trailing_properties;

use trainc_diag::source::SourceId;
use trainc_diag::{Code, Problems};

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    codes::ALL.to_vec()
}

/// Returns whether the fix of a problem keeps the value that the user wrote, and changes only its form or the
/// name of its node or property. The nearest valid word (T0127) is a guess, as is every fix of a later stage.
pub fn fix_keeps_value(code: &Code) -> bool {
    codes::ALL.contains(&code) && code.id != codes::T0127.id
}

/// Returns whether a text is KDL of another program: none of its nodes is one of the language, or resembles
/// one.
pub fn is_of_another_program(text: &str) -> bool {
    let own = || {
        let roots = cursor::top_level().into_iter().chain(nodes::JOB_CHILDREN.iter().copied());
        roots.chain([&nodes::ALLOW]).map(|spec| spec.name)
    };
    // Most manifests begin with a node of the language, and need no second parse.
    if first_word(text).is_some_and(|word| own().any(|one| one == word)) {
        return false;
    }
    let source = SourceId::default();
    if top_level::detect_json(text, source).or_else(|| top_level::detect_toml(text, source)).is_some() {
        return false;
    }
    let Some(document) = document::parse(source, text, &mut Problems::default()) else { return false };
    let is_own = |name: &str| {
        own().any(|one| one == name)
            || trainc_diag::text::nearest(name, own()).is_some()
            || suggestions::other_name(name).is_some()
    };
    let is_foreign = |node: &kdl::KdlNode| !is_own(node.name().value());
    !document.nodes().is_empty()
        && document.nodes().iter().all(is_foreign)
        && top_level::detect_yaml(&document, source).is_none()
}

/// Returns the first word of a text, after empty lines and lines of comments.
fn first_word(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("//"))?;
    line.split([' ', '\t', '"', '{', ';']).next()
}

/// Returns whether the language has a node of this name anywhere in a job.
pub fn is_node(name: &str) -> bool {
    !suggestions::parents_with_spec(name).is_empty()
}

/// Returns whether the language has a node of this name that may not be repeated.
pub fn is_unique_node(name: &str) -> bool {
    suggestions::parents_with_spec(name).iter().any(|(_, spec)| spec.repeat == spec::Repeat::Once)
}

/// Parses one file. Returns `None` if nothing could be read, or if the file is for other versions of trainc.
pub fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<ast::File> {
    let other_format = top_level::detect_json(text, source).or_else(|| top_level::detect_toml(text, source));
    if let Some(problem) = other_format {
        problems.push(problem);
        return None;
    }
    let mut found = Problems::default();
    let document = document::parse(source, text, &mut found);
    if let Some(yaml) = document.as_ref().and_then(|document| top_level::detect_yaml(document, source)) {
        // All other problems follow from that.
        problems.push(yaml);
        return None;
    }
    let other_version = document.as_ref().and_then(|document| requirement::unsatisfied(document, source));
    if let Some(problem) = other_version {
        // Another version may read the rest differently.
        problems.push(problem);
        return None;
    }
    problems.extend(found);
    let document = document?;
    let mut found = Problems::default();
    let file = top_level::read_top_level(&document, source, text, &mut found);
    top_level::limit_errors(&mut found);
    problems.extend(found);
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::is_of_another_program;

    #[test]
    fn a_text_without_a_node_of_the_language_is_of_another_program() {
        let others = [
            "vpc \"main\" { cidr \"10.0.0.0/16\" }\n",
            "config { theme \"dark\" }\n",
            "git \"https://example.com/a\"\n",
        ];
        for text in others {
            assert!(is_of_another_program(text), "{text}");
            assert!(!is_of_another_program(&format!("{text}job \"a\" {{ }}\n")), "{text}");
            // A word in a comment is no node.
            assert!(is_of_another_program(&format!("// job\n/* job */\n{text}")), "{text}");
        }
        for own in [
            "// A job.\n\njob \"a\"\n",
            "  job{}\n",
            "cluster nodes=2\n",
            "job = 1\n",
            "{\"job\": 1}\n",
            "",
            "job \"unclosed",
        ] {
            assert!(!is_of_another_program(own), "{own}");
        }
    }
}
