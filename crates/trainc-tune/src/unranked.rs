//! Layouts of a job whose step time cannot be predicted: those that fit by memory and pass every check,
//! unranked.

use super::choice::Choice;
use super::fitting::{Fits, Fitting, fitting};
use super::reasons::Refusal;
use super::space::{Limits, Space};
use std::collections::BTreeMap;
use trainc_diag::{Diagnostic, text};
use trainc_plan::Compiled;
use trainc_predict::{Constants, Fit, Interval};

/// Largest number of layouts that are compiled.
pub const MAX_COMPILED: usize = 400;

/// Number of shapes that one code must reject at the instance type before the type is given up.
pub const REFUSALS_PER_TYPE: usize = 3;

/// Error of a layout, and true if it points at the instance type.
pub type Rejection = Box<(Diagnostic, bool)>;

/// A layout that fits and passes every check.
pub struct UnrankedLayout {
    /// Layout and its memory.
    pub fitting: Fitting,
    /// Result of its compilation.
    pub compiled: Compiled,
    /// Warnings that the manifest does not have without the layout.
    pub warnings: Vec<String>,
}

impl UnrankedLayout {
    /// Returns the upper end of its memory in bytes if a GPU has less.
    pub fn exceeding_high_bytes(&self) -> Option<f64> {
        let one = &self.fitting;
        let interval = Interval { low: one.memory_low_bytes, high: one.memory_high_bytes };
        let is_sure = Fit::from_bytes(one.memory_bytes, interval, one.capacity_bytes) == Fit::Surely;
        (!is_sure).then_some(one.memory_high_bytes)
    }
}

/// Layouts of a space without step times.
pub struct Unranked<'a> {
    /// Space that was searched.
    pub space: &'a Space<'a>,
    /// Number of layouts in the space.
    pub searched: usize,
    /// Number of layouts on machines whose memory is unknown.
    pub unknown: usize,
    /// Number of layouts that fit.
    pub fit: usize,
    /// For each machine, the layout closest to the manifest that no check rejects.
    pub layouts: Vec<UnrankedLayout>,
    /// First layout of each refusal.
    pub refused: Vec<(Choice, Refusal)>,
    /// Number of layouts that were rejected, or share a shape with one that was.
    pub dropped: usize,
    /// True if there were too many layouts to compile all.
    pub is_cut: bool,
    /// True if the search has a bound on time or cost.
    pub is_bounded: bool,
}

impl<'a> Unranked<'a> {
    /// Compiles the layout of each machine that is closest to the manifest, and if a check rejects it the
    /// next one of another shape. `compile` returns the result with the new warnings, or the first error.
    pub fn new(
        space: &'a Space<'a>,
        limits: &Limits,
        constants: &Constants,
        mut compile: impl FnMut(&Choice) -> Result<(Compiled, Vec<String>), Rejection>,
    ) -> Self {
        let Fits { machines, searched, unknown, fit } = fitting(space, constants);
        let mut out = Self {
            space,
            searched,
            unknown,
            fit,
            layouts: Vec::new(),
            refused: Vec::new(),
            dropped: 0,
            is_cut: false,
            is_bounded: limits.max_usd.is_some() || limits.deadline_seconds.is_some(),
        };
        let mut refusals: BTreeMap<(usize, &'static str), usize> = BTreeMap::new();
        let mut compiled = 0;
        for machine in machines {
            for fitting in machine {
                let site = fitting.choice.site;
                if refusals.iter().any(|((at, _), count)| *at == site && *count >= REFUSALS_PER_TYPE) {
                    break;
                }
                if compiled >= MAX_COMPILED {
                    out.is_cut = true;
                    return out;
                }
                compiled += 1;
                match compile(&fitting.choice) {
                    Ok((compiled, warnings)) => {
                        out.layouts.push(UnrankedLayout { fitting, compiled, warnings });
                        break;
                    }
                    Err(rejection) => {
                        let (error, is_at_instance) = *rejection;
                        *refusals.entry((site, error.code.id)).or_default() += usize::from(is_at_instance);
                        out.record_refusal(&fitting, error.code.id, error.text().into_owned());
                    }
                }
            }
        }
        out
    }

    fn record_refusal(&mut self, fitting: &Fitting, code: &str, message: String) {
        self.dropped += fitting.alike;
        let same = |(_, known): &&mut (Choice, Refusal)| known.code == code && known.message == message;
        match self.refused.iter_mut().find(same) {
            Some((_, refusal)) => refusal.layouts += 1,
            None => {
                self.refused.push((fitting.choice, Refusal { code: code.to_owned(), message, layouts: 1 }));
            }
        }
    }

    /// Returns true if the memory of all its machines is unknown.
    pub fn is_memory_unknown(&self) -> bool {
        self.unknown > 0 && self.unknown == self.searched
    }

    /// Describes the counts: `525 layouts searched, 40 fit, 3 refused by checks`.
    pub fn describe_counts(&self) -> String {
        let refused = match self.dropped {
            0 => String::new(),
            dropped => format!(", {} refused by checks", text::group_digits(dropped as u64)),
        };
        let searched = text::count(self.searched as u64, "layout");
        if self.is_memory_unknown() {
            return format!(
                "{searched} searched: the memory of these machines is unknown, so none can be checked"
            );
        }
        format!("{searched} searched, {} fit{refused}", text::group_digits(self.fit as u64))
    }
}
