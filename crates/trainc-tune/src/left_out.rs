//! Instance types that were requested for comparison but are not ranked.

use super::search::{Point, Status};
use super::space::Space;
use trainc_diag::text;
use trainc_predict::Constants;
use trainc_predict::speed::speed;

/// Returns the instance types without a ranked layout, because their time is unknown or nothing fits, with
/// the reason; of types that the user did not name only the manifest's own.
pub fn unranked_instances<'a>(
    space: &'a Space,
    constants: &Constants,
    points: &[Point],
) -> Vec<(&'a str, String)> {
    // For a single type this is the whole answer, and is reported as such.
    if space.sites.len() < 2 {
        return Vec::new();
    }
    let of = |site: usize| points.iter().filter(move |point| point.choice.site == site);
    let does_not_fit = |point: &Point| matches!(point.status, Status::TooLarge | Status::Tight);
    let own = space.as_written().map(|written| written.site);
    let is_asked = |site: &usize| !space.has_all_types || Some(*site) == own;
    let sites = (0..space.sites.len()).filter(is_asked);
    let found = sites.filter(|site| of(*site).all(does_not_fit)).map(|site| {
        let why = match of(site).count() as u64 {
            0 => why_no_time(space, constants, site).to_owned(),
            1 => "its layout does not fit".to_owned(),
            layouts => format!("none of its {} fits", text::count(layouts, "layout")),
        };
        (space.instance_name(site), why)
    });
    found.collect()
}

/// Returns the reason why no layout of an instance type has a predicted time.
fn why_no_time(space: &Space, constants: &Constants, site: usize) -> &'static str {
    let mut why = None;
    space.visit(|choice, layout| {
        if choice.site == site && why.is_none() {
            why = speed(layout, constants).err().map(|unknown| unknown.0);
        }
    });
    why.unwrap_or("the job cannot be distributed over its GPUs")
}
