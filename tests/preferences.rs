//! An instance type is judged the same way, whether it is the type of the cluster or a preferred type.

use crate::cases;
use crate::support::{compile_in, options, over_base, read};
use trainc_ir::Fleet;

/// Cases that another node changes, each with the reason.
const ABOUT_CLUSTER: [(&str, &str); 6] = [
    ("T0101::comma", "the text cannot be read"),
    ("T0104::page_wrong", "the text cannot be read"),
    ("T0105::page_wrong", "the text cannot be read"),
    ("T0128::name_left_out", "the text cannot be read"),
    ("T0128::read_on", "the text cannot be read"),
    ("T0320::allowed", "the `allow` is in `cluster`, and not where the type is"),
];

/// Moves the instance type out of the `cluster` of a text. Returns the text without it and the type; `None`
/// without one plain `cluster "ml.…"`.
fn without_type(text: &str) -> Option<(String, &str)> {
    const START: &str = "cluster \"ml.";
    let is_node = |at: usize| {
        let line = &text[..at][text[..at].rfind('\n').map_or(0, |end| end + 1)..];
        line.trim().is_empty()
    };
    let mut places = text.match_indices(START).map(|(at, _)| at).filter(|at| is_node(*at));
    let at = places.next()?;
    if places.next().is_some() {
        return None;
    }
    let from = at + "cluster \"".len();
    let end = from + text[from..].find('"')?;
    Some((format!("{}cluster{}", &text[..at], &text[end + 1..]), &text[from..end]))
}

/// Adds a preferred type to the last node of a text, its job.
fn with_preference(text: &str, instance: &str) -> Option<String> {
    let at = text.trim_end().rfind('}')?;
    let request = format!(
        "request {{ ResourceConfig {{ InstancePreferences {{ - InstanceType=\"{instance}\"\n }}\n }}\n }}\n"
    );
    Some(format!("{}\n{request}{}", &text[..at], &text[at..]))
}

#[test]
fn a_preferred_type_has_the_problems_of_a_type_of_the_cluster() {
    let base = read("tests/fixtures/base.kdl");
    let (base, of_base) = without_type(&base).unwrap();
    let (mut faults, mut moved) = (Vec::new(), 0);
    for case in cases::all() {
        let (id, text, alone) = (case.id(), case.manifest(), case.is_alone());
        // Preferences exclude spot, placements and groups, and a request has one `ResourceConfig`.
        let words =
            ["ResourceConfig", "spot", "placement", "group \"", "request", "--set", "sweep", "env \""];
        if words.iter().any(|word| text.contains(word) || case.flags.contains(word))
            || ABOUT_CLUSTER.iter().any(|(one, _)| id == *one)
        {
            continue;
        }
        if alone
            && (text.contains("extends")
                || text.matches("\njob ").count() + usize::from(text.starts_with("job ")) != 1)
        {
            continue;
        }
        let (changed, instance) = match without_type(text) {
            Some(found) => found,
            None if !alone && !text.contains("cluster") => (text.to_owned(), of_base),
            None => continue,
        };
        let whole = |text: &str| if alone { text.to_owned() } else { over_base(text) };
        let Some(changed) = with_preference(&whole(&changed), instance) else { continue };
        let before = case.compile();
        let world = case.world().with("base.kdl", &base);
        let after = compile_in(world, cases::MANIFEST, &changed, &options(&case.flags));
        moved += 1;
        // A type that is missing or invalid is an error, not a job without rules.
        for outcome in [&before, &after] {
            let plan = outcome.compiled.plan.as_deref();
            if plan.is_some_and(|plan| plan.fleet == Fleet::Unreadable)
                && outcome.compiled.problems.errors() == 0
            {
                faults.push(format!("{id}: no instances, and no error"));
            }
        }
        if before.codes() != after.codes() {
            faults.push(format!("{id}: {:?}, preferred {:?}", before.codes(), after.codes()));
        }
    }
    assert!(moved > 500, "{moved}");
    assert!(faults.is_empty(), "{} of {moved}\n{}", faults.len(), faults.join("\n"));
}
