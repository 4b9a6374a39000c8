//! The cases of `tests/suite/`, one file a code: manifests, each with the problems that it must give beside the lines that
//! cause them. The manifests of a code's page are cases of its file. CONTRIBUTING.md has the form.

use crate::support::{Memory, Outcome, compile_in, has_job, options, over_base, root};
use std::fs;
use trainc_diag::Code;

/// The columns before a line of a manifest; what is said of a line begins with `//` in the first of them.
pub const GUTTER: &str = "    ";

/// The name under which a case's manifest is compiled.
pub const MANIFEST: &str = "job.kdl";

/// The manifest of a case, or a file beside it.
pub struct Part {
    pub name: String,
    pub text: String,
}

/// Where a page says that its manifest is wrong or right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Wrong,
    Right,
}

/// A manifest with what is expected of it.
pub struct Case {
    /// The code whose file has the case.
    pub code: String,
    /// The name, words with blanks.
    pub name: String,
    /// The flags of the command line.
    pub flags: String,
    /// The section of the page that has the manifest, if one does.
    pub section: Option<Section>,
    /// The text as it is in the file: header, manifest, and what is said of it. Empty for a manifest of a page of which
    /// nothing is said.
    pub written: String,
    /// The manifest, then the files beside it.
    pub parts: Vec<Part>,
    /// `// alone`: the manifest is not laid over anything, although it has no job.
    pub stands_alone: bool,
    /// `// picture`: the whole output is compared, too.
    pub has_picture: bool,
}

impl Case {
    fn new(code: &str, name: &str) -> Self {
        Self {
            code: code.to_owned(),
            name: name.to_owned(),
            flags: String::new(),
            section: None,
            written: String::new(),
            parts: vec![Part { name: MANIFEST.to_owned(), text: String::new() }],
            stands_alone: false,
            has_picture: false,
        }
    }

    /// The name of its test: `T0421::the_pool_lives_too_long`.
    pub fn id(&self) -> String {
        let words = self.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        format!("{}::{}", self.code, words.collect::<Vec<_>>().join("_"))
    }

    /// The file that has the case.
    pub fn path(&self) -> String {
        format!("tests/suite/{}.kdl", self.code)
    }

    /// The manifest as it is written, without what it is laid over.
    pub fn manifest(&self) -> &str {
        &self.parts[0].text
    }

    /// Whether the manifest is compiled as it stands, and not laid over `tests/fixtures/base.kdl`.
    pub fn is_alone(&self) -> bool {
        self.stands_alone || has_job(self.manifest())
    }

    /// The manifest as it is compiled.
    pub fn whole(&self) -> String {
        if self.is_alone() { self.manifest().to_owned() } else { over_base(self.manifest()) }
    }

    /// Whether the case is its manifest alone: no flags, no files.
    pub fn is_plain(&self) -> bool {
        self.flags.is_empty() && self.parts.len() == 1
    }

    /// The files around the manifest.
    pub fn world(&self) -> Memory {
        let beside = self.parts[1..].iter();
        beside.fold(Memory::default(), |world, part| world.with(&part.name, &part.text))
    }

    /// Compiles the manifest.
    pub fn compile(&self) -> Outcome {
        compile_in(self.world(), MANIFEST, &self.whole(), &options(&self.flags))
    }

    /// Takes one line of the file.
    fn read_line(&mut self, line: &str) {
        self.written.push_str(line);
        self.written.push('\n');
        if let Some(name) = line.strip_prefix("+++ ") {
            self.parts.push(Part { name: name.to_owned(), text: String::new() });
        } else if let Some(flags) = line.strip_prefix("// args: ") {
            flags.clone_into(&mut self.flags);
        } else if line == "// alone" {
            self.stands_alone = true;
        } else if line == "// picture" {
            self.has_picture = true;
        } else if !line.starts_with("//") {
            let text = line.strip_prefix(GUTTER).or_else(|| line.is_empty().then_some(""));
            let text = text.unwrap_or_else(|| panic!("{}: {}: `{line}`", self.path(), self.name));
            let part = self.parts.last_mut().unwrap();
            part.text.push_str(text);
            part.text.push('\n');
        }
    }
}

/// The texts of the cases in a file.
pub fn texts(file: &str) -> impl Iterator<Item = &str> {
    let starts = file.match_indices("--- ").map(|(at, _)| at);
    let mut starts: Vec<usize> = starts.filter(|at| *at == 0 || file[..*at].ends_with('\n')).collect();
    assert!(file.trim().is_empty() || starts.first() == Some(&0), "text before the first case");
    starts.push(file.len());
    (0..starts.len() - 1).map(move |at| &file[starts[at]..starts[at + 1]])
}

/// The cases of a file.
fn parse(code: &str, file: &str) -> Vec<Case> {
    let parse = |text: &str| {
        let text = text.trim_end();
        let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
        let name = head.strip_prefix("--- ").and_then(|rest| rest.strip_suffix(" ---"));
        let mut case = Case::new(code, name.unwrap_or_else(|| panic!("{code}: `{head}`")));
        case.written = format!("{head}\n");
        rest.lines().for_each(|line| case.read_line(line));
        for part in &mut case.parts {
            part.text = format!("{}\n", part.text.trim_end_matches('\n'));
        }
        case
    };
    texts(file).map(parse).collect()
}

/// A block of code on a page.
pub struct Block<'a> {
    pub section: &'a str,
    pub tags: Vec<&'a str>,
    pub text: String,
}

/// The blocks of code on a page.
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut out: Vec<Block> = Vec::new();
    let (mut section, mut open) = ("", false);
    for line in page.lines() {
        if let Some(tags) = line.strip_prefix("```") {
            open = !open;
            if open {
                out.push(Block { section, tags: tags.split_whitespace().collect(), text: String::new() });
            }
        } else if open {
            let block = out.last_mut().unwrap();
            block.text.push_str(line);
            block.text.push('\n');
        } else if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        }
    }
    assert!(!open, "a block is not closed");
    out
}

/// The cases of a page without what is said of them: `page: wrong`, `page: wrong 2`, `page: right`.
fn of_page(code: &Code) -> Vec<Case> {
    let mut out = Vec::new();
    for (section, heading, word) in [(Section::Wrong, "Wrong", "wrong"), (Section::Right, "Right", "right")] {
        let is_here = |block: &Block| block.section == heading && block.tags.first() == Some(&"kdl");
        for (number, block) in blocks(code.page).into_iter().filter(is_here).enumerate() {
            let number = if number == 0 { String::new() } else { format!(" {}", number + 1) };
            let mut case = Case::new(code.id, &format!("page: {word}{number}"));
            case.section = Some(section);
            case.stands_alone = block.tags.contains(&"alone");
            case.parts[0].text = block.text;
            out.push(case);
        }
    }
    out
}

/// The cases of a code: those of its page, then the others of its file.
pub fn of_code(code: &Code) -> Vec<Case> {
    let mut cases = of_page(code);
    let path = root().join(format!("tests/suite/{}.kdl", code.id));
    for case in parse(code.id, &fs::read_to_string(path).unwrap_or_default()) {
        if let Some(of_page) = cases.iter_mut().find(|one| one.name == case.name && one.written.is_empty()) {
            of_page.written = case.written;
            of_page.has_picture = case.has_picture;
            continue;
        }
        assert!(!case.name.starts_with("page: "), "{}: no block for `{}`", case.path(), case.name);
        let is_new = cases.iter().all(|one| one.id() != case.id());
        assert!(is_new, "{}: two cases `{}`", case.path(), case.name);
        cases.push(case);
    }
    cases
}

/// All cases.
pub fn all() -> Vec<Case> {
    trainc::codes().iter().flat_map(|code| of_code(code)).collect()
}
