//! Fronts: how a manifest names an engine, and what starts its ranks.

use super::Law;
use crate::{Launcher, Mesh, Parallel, Plan, Scalar};
use std::fmt;

/// How the manifest names an engine, what starts its ranks, and the versions that it needs.
#[derive(Clone, Copy)]
pub struct Front {
    /// Its word in the language. Fronts whose program has several generations share it.
    pub word: &'static str,
    /// Its name in reports.
    pub title: &'static str,
    /// The generation of its program, once the image decides it: `v1`.
    pub generation: Option<&'static str>,
    /// The laws that a job of it may have, the usual one first. A strategy chooses the first law that has it,
    /// a file of the engine any of them.
    pub laws: &'static [&'static Law],
    /// Further laws that a file of the program selects.
    pub laws_of_files: &'static [&'static Law],
    /// What the manifest must say of it.
    pub needs: Needs,
    /// The table of the keys of its file, if it has one.
    pub file: Option<&'static str>,
    /// The option of the program that names its file; none: the launcher's own, or one that each program
    /// chooses.
    pub file_option: Option<&'static str>,
    /// Whose modules and kernels run, where the program does not say it; none: the default of the language.
    pub code: Option<&'static str>,
    /// Selects the generation by the image's family and PyTorch version; `None` if these do not decide it.
    pub in_image: fn(family: &str, pytorch: Option<&str>) -> Option<&'static Self>,
    /// The launchers with their words in the language, the default first. A single one has no word.
    pub launchers: &'static [(&'static str, Launcher)],
    /// The launcher's parameters by the names of the engine, in the order in which they are sent.
    pub parameters: fn(&Plan, &Parallel, &Mesh) -> Vec<(&'static str, Scalar)>,
    /// The path in the archive of the file that trainc writes for the engine, if the manifest names none.
    pub writes: Option<&'static str>,
    /// The prefix of the engine's own parameters in the catalogue.
    pub table: Option<&'static str>,
    /// AWS libraries of which the image must have one, by their names in the catalogue's table of supported
    /// versions.
    pub libraries: &'static [&'static str],
    /// True if the library's version decides which parameters it supports.
    pub has_versioned_parameters: bool,
    /// The family of images that only this engine uses.
    pub image_family: Option<&'static str>,
    /// False if trainc's own worker runs in place of a program.
    pub runs_program: bool,
    /// True if hosts need accelerators, unless MPI starts the processes.
    pub needs_gpu: bool,
    /// True if `group=` selects the instance group whose hosts run the ranks.
    pub takes_group: bool,
    /// True if SageMaker Debugger supports it.
    pub takes_debugger: bool,
    /// False if its program loads the model and the tokenizer from directories alone, never from a hub.
    pub loads_from_hub: bool,
    /// The values of `prefetch`.
    pub prefetch: Option<Prefetch>,
}

/// What a manifest must say of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: all has defaults.
    Nothing,
    /// A strategy, or the file that names one.
    StrategyOrFile,
    /// The file, which trainc reads and does not write.
    File,
}

/// The values of `prefetch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Words for the order of gathering and computing.
    Words(&'static [&'static str]),
    /// A number of units that are gathered ahead.
    Units,
}

impl Front {
    /// A front that starts a program without a library and without parameters, from which the others differ.
    pub const PLAIN: Self = Self {
        word: "none",
        title: "plain script",
        generation: None,
        laws: &[&Law::PLAIN],
        laws_of_files: &[],
        needs: Needs::Nothing,
        code: None,
        in_image: |_, _| None,
        launchers: &[("", Launcher::Plain)],
        parameters: |_, _, _| Vec::new(),
        file: None,
        file_option: None,
        writes: None,
        table: None,
        libraries: &[],
        has_versioned_parameters: false,
        image_family: None,
        runs_program: true,
        needs_gpu: true,
        takes_group: false,
        takes_debugger: true,
        loads_from_hub: true,
        prefetch: None,
    };

    /// Returns the usual law.
    pub const fn law(&self) -> &'static Law {
        match self.laws {
            [first, ..] => first,
            [] => &Law::PLAIN,
        }
    }

    /// Returns the law by the strategy of the manifest; without one, the usual law.
    pub fn law_by_strategy(&self, parallel: Option<&Parallel>) -> &'static Law {
        let word = parallel.and_then(|parallel| parallel.strategy.value());
        let law = word.and_then(|word| self.laws.iter().find(|law| law.strategy_named(word).is_some()));
        law.copied().unwrap_or_else(|| self.law())
    }

    /// Returns the law with a name.
    pub fn law_named(&self, name: &str) -> Option<&'static Law> {
        self.laws.iter().chain(self.laws_of_files).copied().find(|law| law.name == name)
    }

    /// Returns the words of `strategy`, of all its laws, each once.
    pub fn strategies(&self) -> impl Iterator<Item = &'static str> {
        let mut out: Vec<&'static str> = Vec::new();
        for strategy in self.laws.iter().flat_map(|law| law.strategies) {
            if !out.contains(&strategy.word) {
                out.push(strategy.word);
            }
        }
        out.into_iter()
    }

    /// Returns the launcher that `parallel` names, or the default one.
    pub fn launcher(&self, parallel: &Parallel) -> Launcher {
        let written = parallel.launcher.value().map(String::as_str);
        let named = self.launchers.iter().find(|(word, _)| Some(*word) == written);
        named.or(self.launchers.first()).map_or(Launcher::Plain, |(_, launcher)| *launcher)
    }

    /// Returns true if the launcher can be chosen with this word.
    pub fn takes_launcher(&self, word: &str) -> bool {
        self.launchers.iter().any(|(known, _)| *known == word)
    }

    /// Returns true if the image must have a library of AWS.
    pub fn needs_library(&self) -> bool {
        !self.libraries.is_empty()
    }
}

impl PartialEq for Front {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Front({})", self.title)
    }
}
