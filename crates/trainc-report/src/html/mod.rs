//! report.html: the plan with pictures, one file that loads nothing, for screen and paper; and the same for a search.
//!
//! In: a subject with its document, what the job becomes on other numbers of nodes. Out: one page. Pictures are made by
//! pure functions of figures and a width, once for wide pages and once for narrow ones; what a picture shows stands
//! below it as a table. Knows no files; computes no figure but shares and sums.

mod axis;
mod cost;
mod facts;
mod front;
mod memory;
mod mesh;
mod page;
mod scaling;
mod stack;
mod svg;
#[cfg(test)]
mod tests;
mod timeline;
mod words;

pub use front::{Choice, Front, Lost, Spot};
pub use scaling::{Outcome, Point, Runs, Scaling};

use super::Subject;
use super::json::Document;

/// The page of one job.
pub fn report(subject: &Subject, document: &Document, scaling: &Scaling) -> String {
    let mut page = facts::page(subject, document);
    if let Some(plan) = subject.plan {
        let unknown =
            |what: &'static str, member: &'static str| move || words::unknown(what, document, member);
        page.sections = vec![
            memory::section(document, unknown("What a GPU needs is", "memory")),
            timeline::section(
                document,
                subject.prediction.speed.as_ref(),
                unknown("How long a step takes is", "speed"),
            ),
            mesh::section(plan),
            scaling::section(scaling),
            cost::section(document, plan),
            facts::job(document, plan),
            facts::resources(subject, document),
            facts::values(subject, plan),
        ];
    }
    page::render(&page)
}

/// The page of a search.
pub fn front(front: &Front) -> String {
    page::render(&front::page(front))
}
