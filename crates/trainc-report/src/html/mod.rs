//! report.html: the plan with pictures, in a self-contained file for screen and paper; and the page of a
//! layout search.
//!
//! In: a subject with its document, and the job on other numbers of nodes. Out: one page. Pictures are pure
//! functions of figures and a width, drawn for wide and for narrow pages; a table below each has the same
//! figures. Reads no files, and computes only shares and sums.

mod axis;
mod cost;
mod format;
mod memory;
mod mesh;
mod page;
mod pareto_front;
mod scaling;
mod stacked_bar;
mod summary;
mod svg;
#[cfg(test)]
mod tests;
mod timeline;

pub use pareto_front::{FrontLayout, ParetoFront, PlotPoint, RunnerUp};
pub use scaling::{Outcome, Point, Runs, Scaling};

use super::json::Document;
use super::{Subject, sections};

/// Renders the page of a job.
pub fn report(subject: &Subject, document: &Document, scaling: &Scaling) -> String {
    let mut page = summary::page(subject, document);
    if let Some(plan) = subject.plan {
        let unknown = |what: &'static str, member: &'static str| {
            move || format::unknown_sentence(what, document, member)
        };
        if plan.names_model() {
            page.sections.push(memory::section(document, unknown("The memory of a GPU is", "memory")));
            page.sections.push(timeline::section(
                document,
                subject.prediction.speed.as_ref(),
                unknown("The time of a step is", "speed"),
            ));
        }
        page.sections.extend(sections::shows_mesh(plan).then(|| mesh::section(plan, document)));
        page.sections.extend(plan.names_model().then(|| scaling::section(scaling)));
        page.sections.extend([
            cost::section(document, plan),
            summary::job(document, plan),
            summary::resources(subject, document),
            summary::origins_section(subject, plan),
        ]);
    }
    page::render(&page)
}

/// Renders the page of a layout search.
pub fn pareto_front(front: &ParetoFront) -> String {
    page::render(&pareto_front::page(front))
}
