//! The output formats, and the rendering of a run in any of them.

use super::position::Paths;
use super::{Run, github, gitlab, human, json, markdown, sarif, short};

/// The output format of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a terminal: snippets and labels, optionally in colour.
    Human,
    /// One document for tools, `schemas/diagnostic.v1.json`.
    Json,
    /// A comment for a pull request.
    Markdown,
    /// One line each, for editors and pipes.
    Short,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Workflow commands of GitHub Actions.
    Github,
    /// GitLab's Code Quality report.
    Gitlab,
}

impl Format {
    /// All formats, in the order of the help text.
    pub const ALL: [Self; 7] =
        [Self::Human, Self::Json, Self::Markdown, Self::Short, Self::Sarif, Self::Github, Self::Gitlab];

    /// Returns the word after `-o`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Short => "short",
            Self::Sarif => "sarif",
            Self::Github => "github",
            Self::Gitlab => "gitlab",
        }
    }

    /// Returns the format of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The options of the formats.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// For `human`.
    pub human: human::Options,
    /// For `sarif`, `github`, `gitlab` and `markdown`, whose paths are relative to the repository's root.
    pub paths: Paths<'a>,
    /// For `markdown`: the maximum length of a comment.
    pub markdown_limit: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            human: human::Options::default(),
            paths: Paths::default(),
            markdown_limit: markdown::COMMENT_LIMIT,
        }
    }
}

/// Renders the problems of a run. The text ends with a line end, or is empty.
pub fn render(format: Format, run: &Run<'_>, options: &Options<'_>) -> String {
    match format {
        Format::Human => human::render(run, options.human),
        Format::Json => json::render(run),
        Format::Markdown => markdown::render(run, options.paths, options.markdown_limit),
        Format::Short => short::render(run),
        Format::Sarif => sarif::render(run, options.paths),
        Format::Github => github::render(run, options.paths),
        Format::Gitlab => gitlab::render(run, options.paths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceMap;

    #[test]
    fn every_format_has_a_name_and_takes_an_empty_run() {
        let sources = SourceMap::default();
        let run = Run { sources: &sources, manifests: &[] };
        for format in Format::ALL {
            assert_eq!(Format::parse(format.name()), Some(format));
            let text = render(format, &run, &Options::default());
            assert!(text.is_empty() || text.ends_with('\n'), "{format:?}: {text:?}");
        }
        assert_eq!(Format::parse("xml"), None);
    }
}
