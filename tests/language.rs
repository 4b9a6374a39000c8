//! docs/language.md is what the declarations of the language say, and what they say is true: every example compiles,
//! every default changes nothing where it is written, and every code is reported where the page has it.

use crate::cases::{self, Case};
use crate::support::{Memory, Outcome, compile_in, options, over_base, read, root};
use kdl::{KdlDocument, KdlEntry, KdlNode, KdlValue};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_diag::source::SourceId;
use trainc_diag::{Problems, find};
use trainc_emit::Identity;

use trainc_plan::bind::{placeholder_example, placeholder_meaning, placeholder_paths, placeholder_values};
use trainc_plan::reference::{
    DeclaredValue, DefaultValue, Example, Item, Place, Style, all_places, codes_at, declared_values,
    describe, examples_of, examples_with, items, nodes_with_codes, roots,
};
use trainc_syntax::cursor::{Cursor, Part};
use trainc_syntax::nodes::{ENGINE_NAMES, engines_of};
use trainc_syntax::spec::Ty;

/// The nodes by what they are about: the heading, a sentence, the nodes.
const GROUPS: &[(&str, &str, &[&str])] = &[
    ("The job", "A file has one job.", &["job", "region", "account", "tags"]),
    (
        "What is trained",
        "The model, what of it is trained, and how.",
        &["model", "adapter", "quantize", "train"],
    ),
    ("Where it runs", "Instances and their network.", &["cluster", "network"]),
    ("How the work is divided", "The engine and its degrees.", &["parallel"]),
    ("The program", "What the container starts, and the container.", &["program", "image"]),
    (
        "Data and results",
        "What the job reads and writes.",
        &["channel", "storage", "checkpoint", "output", "bucket"],
    ),
    (
        "Permissions and monitoring",
        "As whom the job runs, and what watches it.",
        &[
            "role",
            "debugger",
            "profiler",
            "tensorboard",
            "experiment",
            "remote-debug",
            "health-check",
            "session-chaining",
        ],
    ),
    ("Limits", "What may end a job early.", &["budget", "probe"]),
    ("Several jobs, and all the rest", "", &["sweep", "request", "allow"]),
    (
        "Layers",
        "What jobs share, at the top of a file. [layers.md](layers.md) says how layers are merged.",
        &["extends", "env", "requires"],
    ),
];

/// What one may look for, and the nodes and values that it is.
const INDEX: &[(&str, &[&str])] = &[
    ("batch size", &["train.micro-batch", "train.accumulation", "train.global-batch"]),
    ("length of the run", &["train.steps", "train.tokens", "train.epochs"]),
    ("optimizer, learning rate and its schedule", &["train.optimizer"]),
    ("precision, recomputation, kernels", &["train"]),
    ("LoRA and QLoRA", &["adapter", "quantize"]),
    ("instances, spot, warm pools", &["cluster", "cluster.spot", "cluster.warm-pool"]),
    ("FSDP, ZeRO, tensor and pipeline degrees", &["parallel"]),
    ("schedule of a pipeline", &["parallel.pipeline-degree"]),
    ("training data, and its size", &["channel", "storage", "train.dataset"]),
    ("checkpoints", &["checkpoint"]),
    ("arguments, environment, secrets, metrics", &["program"]),
    ("container", &["image"]),
    ("cost limit", &["budget"]),
    ("settings that jobs share", &["extends", "env"]),
    ("a member of CreateTrainingJob without a node", &["request"]),
];

const HEAD: &str = "\
# The language of manifests

A manifest describes one training job in [KDL](https://kdl.dev). This page has all its nodes: what they mean, their types,
what holds where nothing is written, and where a value goes. `trainc explain cluster.spot` prints the entry of a node, of a
value or of a placeholder, and an [editor](editors.md) shows it under the pointer. The page is generated from the
declarations of the language.

```kdl
cluster \"ml.p4d.24xlarge\" nodes=4 {    // <instance> is an argument, nodes= a property
    max-run \"2d\"                       // max-run is a node with an argument of its own
}
```

- A **size**, a **duration**, a **data rate** and **steps** have their unit: `\"500GiB\"`, `\"5d\"`, `\"600GB/s\"`, `\"200 steps\"`.
- A **switch** alone is on: `isolation` is `isolation #true`.
- **→** says what a value reaches: a member of CreateTrainingJob, such as `ResourceConfig.InstanceCount`; a placeholder by
  which the program gets it; an argument that trainc passes where `program takes=` names its class; the file of an engine.
- **[T0301]** and its like are the problems that are reported at a value, each with its page.
";

/// Expressions of placeholders, each with its value in `tests/fixtures/base.kdl`, and what it shows.
const EXPRESSIONS: &[(&str, &str, &str)] = &[
    ("batch.micro * 2 + 1", "9", "`+`, `-`, `*`, `/`, `//` (rounded down), `%`, `**`, parentheses"),
    ("batch.global_tokens // 1024", "64", "whole numbers stay whole, except with `/`"),
    ("train.lr / 2", "0.0001", "numbers"),
    (
        "1 if cluster.nodes > 1 else 0",
        "1",
        "conditions: `==`, `!=`, `<`, `<=`, `>`, `>=`, `and`, `or`, `not`",
    ),
    ("job.name ~ '-' ~ batch.micro", "example-4", "`~` joins texts"),
    ("'bf16' in train.precision", "true", "`in`"),
];

const DS_CONFIG: &str = r#"{
    "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}
}"#;

/// A world with the files that examples name.
fn world() -> Memory {
    Memory::default().with("team.kdl", "tags team=\"nlp\"\n").with("ds_config.json", DS_CONFIG).with(
        "arguments.yaml",
        "bf16: true\nper_device_train_batch_size: 4\nlearning_rate: 2e-4\nmax_steps: 100\n",
    )
}

/// A layer, and the job over it.
type Manifest = (String, String);

/// The jobs that an example is laid over, in the order in which they are tried: a job with the nodes of the example
/// merged into its own, one without nodes of their names, and one of the worker. None has the value of the path.
fn manifests(example: &Example, text: &str, without: &[&str]) -> Vec<Manifest> {
    let names: BTreeSet<String> =
        kdl(text).nodes().iter().map(|node| node.name().value().to_owned()).collect();
    let layer = |name: &str| {
        let mut layer = kdl(&read(&format!("tests/fixtures/{name}.kdl")));
        set(&mut layer, without, None, is_property(without));
        layer
    };
    let (base, mut others, mut worker) = (layer("base"), layer("base"), layer("worker"));
    others.nodes_mut().retain(|node| !names.contains(node.name().value()));
    // The worker needs both.
    for node in worker.nodes_mut().iter_mut().filter(|node| node.name().value() == "train") {
        let optimizer = kdl("optimizer \"adamw\" lr=2e-4").nodes().to_vec();
        node.children_mut().as_mut().unwrap().nodes_mut().extend(optimizer);
    }
    if !names.contains("channel") {
        let channel = kdl("channel \"train\" s3=\"s3://example-corpus/tokens/\"").nodes().to_vec();
        worker.nodes_mut().extend(channel);
    }
    let over = match example.node.as_str() {
        "job" => text.to_owned(),
        "extends" | "requires" | "env" => format!("{text}\nextends \"layer.kdl\"\njob \"example\" {{\n}}\n"),
        _ => format!("extends \"layer.kdl\"\njob \"example\" {{\n{text}\n}}\n"),
    };
    [base, others, worker].map(|layer| (layer.to_string(), over.clone())).to_vec()
}

fn kdl(text: &str) -> KdlDocument {
    KdlDocument::parse_v2(text).unwrap_or_else(|error| panic!("{text}\n{error:?}"))
}

fn compiled((layer, text): &Manifest) -> Outcome {
    compile_in(world().with("layer.kdl", layer), "job.kdl", text, &options(""))
}

/// Compiles an example over the first job with which it has no error.
fn compiled_example(example: &Example) -> Result<Outcome, String> {
    let mut faults = String::new();
    for manifest in manifests(example, example.text, &[]) {
        let outcome = compiled(&manifest);
        if outcome.compiled.problems.errors() == 0 {
            return Ok(outcome);
        }
        faults.push_str(&outcome.lines());
    }
    Err(faults)
}

fn examples() -> impl Iterator<Item = &'static Example> {
    roots().flat_map(|root| examples_of(root.spec.name))
}

#[test]
fn every_example_compiles_and_is_formatted() {
    let mut faults = Vec::new();
    for example in examples() {
        if let Err(problems) = compiled_example(example) {
            faults.push(format!("{}\n{problems}", example.text));
        }
        let formatted = trainc_syntax::format::format(&format!("{}\n", example.text)).unwrap();
        if formatted.trim_end() != example.text {
            faults.push(format!("not formatted:\n{}\n{formatted}", example.text));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_node_and_every_property_is_in_an_example() {
    let places = all_places();
    let properties = places
        .iter()
        .flat_map(|place| place.spec.props.iter().map(move |prop| format!("{}.{}", place.path, prop.name)));
    let paths = places.iter().map(|place| place.path.clone()).chain(properties);
    let missing: Vec<String> = paths.filter(|path| examples_with(path).next().is_none()).collect();
    assert!(missing.is_empty(), "in no example: {missing:?}");
}

#[test]
fn every_value_says_what_holds_without_it_and_what_it_reaches() {
    let mut faults = Vec::new();
    for value in declared_values() {
        if value.is_required != (value.default == DefaultValue::None) {
            faults.push(format!("{}: a value has a default unless it is required", value.path));
        }
        if !value.is_reaching {
            faults.push(format!("{}: it reaches nothing", value.path));
        }
        if let DefaultValue::OfSmp(name) = value.default {
            let known =
                [SmpVersion::V1, SmpVersion::V2].iter().any(|version| parameter(*version, name).is_some());
            assert!(known, "{}: {name}", value.path);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Gives a path of a document this value alone, or none. Returns whether its node is there.
fn set(document: &mut KdlDocument, path: &[&str], value: Option<&KdlValue>, is_property: bool) -> bool {
    let [name, rest @ ..] = path else { return false };
    let Some(at) = document.nodes().iter().position(|node| node.name().value() == *name) else {
        return false;
    };
    let node: &mut KdlNode = &mut document.nodes_mut()[at];
    match (rest, value) {
        ([], None) => {
            document.nodes_mut().remove(at);
            true
        }
        ([], Some(value)) => {
            node.entries_mut().clear();
            node.push(KdlEntry::new(value.clone()));
            true
        }
        ([property], value) if is_property => {
            node.entries_mut().retain(|entry| entry.name().is_none_or(|key| key.value() != *property));
            if let Some(value) = value {
                node.push(KdlEntry::new_prop(*property, value.clone()));
            }
            true
        }
        _ => node.children_mut().as_mut().is_some_and(|block| set(block, rest, value, is_property)),
    }
}

/// Whether a path names a property, and no node.
fn is_property(path: &[&str]) -> bool {
    let path = path.join(".");
    all_places().iter().all(|place| place.path != path)
}

fn kdl_value(ty: Ty, text: &str) -> KdlValue {
    let is_number = !matches!(ty, Ty::Text | Ty::Plain | Ty::Word(_));
    match text {
        "#true" | "true" if is_number => KdlValue::Bool(true),
        "#false" | "false" if is_number => KdlValue::Bool(false),
        _ if is_number && text.parse::<i128>().is_ok() => KdlValue::Integer(text.parse().unwrap()),
        _ if is_number && text.parse::<f64>().is_ok() => KdlValue::Float(text.parse().unwrap()),
        _ => KdlValue::String(text.to_owned()),
    }
}

/// What a plan predicts, and its request.
fn figures(outcome: &Outcome, identity: &Identity) -> (String, Value) {
    let plan = outcome.compiled.plan.as_ref().unwrap();
    let batch = plan.batch.as_ref().map(|batch| batch.global_sequences.value);
    let request = trainc_emit::training_job_request(plan, identity);
    (format!("{batch:?} {:?}", outcome.compiled.prediction), request)
}

/// Says what differs between two outcomes: not the member of a value where one of them does not send it, and not the
/// degrees that launchers get.
fn difference(without: &Outcome, with: &Outcome, value: &DeclaredValue) -> Option<String> {
    let identity = trainc_emit::identity(without.compiled.plan.as_ref().unwrap());
    let ((figures, request), (other_figures, mut other)) =
        (self::figures(without, &identity), self::figures(with, &identity));
    if let Some(member) = value.member {
        let mut rest = request.clone();
        remove(&mut rest, member);
        if rest == request {
            remove(&mut other, member);
        }
    }
    if figures != other_figures {
        return Some(format!("{figures}\n{other_figures}"));
    }
    let is_same = request == other || value.path.starts_with("parallel.");
    (!is_same).then(|| format!("{request:#}\n{other:#}"))
}

fn remove(value: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let name = first.trim_end_matches("[]");
    let Some(object) = value.as_object_mut() else { return };
    let Some(rest) = rest else {
        object.remove(name);
        return;
    };
    match object.get_mut(name) {
        Some(Value::Array(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        Some(inner) => {
            remove(inner, rest);
            if inner.as_object().is_some_and(serde_json::Map::is_empty) {
                object.remove(name);
            }
        }
        None => {}
    }
}

/// Writes a default into an example of the value or of its node, and compares with the same example without the value.
fn fault_of_default(value: &DeclaredValue, default: &str) -> Result<(), String> {
    let path: Vec<&str> = value.path.split('.').collect();
    let node = value.path.rsplit_once('.').map_or("", |(node, _)| node);
    let mut faults = Vec::new();
    for example in examples_with(&value.path).chain(examples_with(node)) {
        let (mut without, mut with) = (kdl(example.text), kdl(example.text));
        let (written, property) = (kdl_value(value.ty, default), is_property(&path));
        if !set(&mut without, &path, None, property) || !set(&mut with, &path, Some(&written), property) {
            continue;
        }
        let without = manifests(example, &without.to_string(), &path);
        let with = manifests(example, &with.to_string(), &path);
        for (without, with) in without.iter().zip(&with) {
            let (without, with) = (compiled(without), compiled(with));
            if without.compiled.problems.errors() + with.compiled.problems.errors() > 0 {
                faults.push(format!("{}{}", without.lines(), with.lines()));
                continue;
            }
            return match difference(&without, &with, value) {
                Some(difference) => {
                    Err(format!("{}: `{default}` is not what holds without it\n{difference}", value.path))
                }
                None => Ok(()),
            };
        }
    }
    Err(format!("{}: not compared\n{}", value.path, faults.join("\n")))
}

#[test]
fn a_default_that_is_written_changes_nothing() {
    let mut faults = Vec::new();
    for value in declared_values() {
        if let DefaultValue::Value(default) = value.default {
            faults.extend(fault_of_default(&value, default).err());
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The paths of the language at which the cases of each code report it.
fn codes_of_cases() -> BTreeMap<String, BTreeSet<&'static str>> {
    let known: BTreeSet<String> = declared_values()
        .into_iter()
        .map(|value| value.path)
        .chain(all_places().into_iter().map(|place| place.path))
        .collect();
    let mut out: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    // Codes of the first stage are about the text of any node.
    for code in trainc::codes().iter().filter(|code| !code.id.starts_with("T01")) {
        let is_giving = |case: &Case| case.written.contains(&format!("[{}]: ", code.id));
        let mut paths = BTreeSet::new();
        for case in cases::of_code(code).into_iter().filter(is_giving) {
            let outcome = case.compile();
            for problem in outcome.compiled.problems.iter().filter(|one| one.code.id == code.id) {
                let source = outcome.sources.get(problem.span.source).unwrap();
                if source.name.ends_with(".kdl") {
                    paths.extend(path_at(&source.text, problem.span.start as usize));
                }
            }
        }
        paths.retain(|path| known.contains(path));
        let nodes: BTreeSet<&str> = paths.iter().filter_map(|path| path.split('.').next()).collect();
        // A code about any node is not about one of them.
        if nodes.len() < 6 {
            for path in paths {
                out.entry(path).or_default().insert(code.id);
            }
        }
    }
    out
}

/// The path of the node or the value at a byte.
fn path_at(text: &str, offset: usize) -> Option<String> {
    let document = trainc_syntax::document::parse(SourceId(0), text, &mut Problems::default())?;
    let cursor = Cursor::at(&document, text, offset);
    let names = cursor.names();
    let inside = match names.as_slice() {
        ["job" | "env", inside @ ..] if !inside.is_empty() => inside,
        all => all,
    };
    let path = inside.join(".");
    let spec = cursor.node()?.spec?;
    Some(match cursor.part {
        Part::Key(entry) | Part::Value(entry) => format!("{path}.{}", entry.name()?.value()),
        Part::Argument(at, _) => {
            let own = format!("{path}.{}", spec.arg(at)?.name);
            if declared_values().iter().any(|value| value.path == own) { own } else { path }
        }
        _ => path,
    })
}

#[test]
fn codes_of_nodes_are_those_of_the_cases() {
    let path = "crates/trainc-plan/src/reference/codes.csv";
    let mut rendered = "path,codes\n".to_owned();
    for (path, codes) in codes_of_cases() {
        let _ = writeln!(rendered, "{path},{}", codes.into_iter().collect::<Vec<_>>().join(" "));
    }
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::write(root().join(path), &rendered).unwrap();
    }
    assert!(read(path) == rendered, "{path} is not what the cases say; TRAINC_BLESS=1 writes it");
    for code in nodes_with_codes().flat_map(codes_at) {
        assert!(find(trainc::codes(), code).is_some(), "{code}");
    }
}

/// One node with all that is in it.
fn section(place: &Place, level: usize, out: &mut String) {
    let heading = place.spec.name;
    let above = place.path.rsplit_once('.').map_or(String::new(), |(above, _)| format!("{above} "));
    let _ = writeln!(out, "\n{} <a id=\"{}\"></a>{above}{heading}\n", "#".repeat(level), place.path);
    // A value says in its own line what it is.
    if !place.is_value() {
        let mut letters = place.spec.doc.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        let _ = writeln!(out, "{first}{}.", letters.as_str());
    }
    if let Some(engines) = engines_of(place.spec) {
        let _ = writeln!(out, "\nEngines: {}.", engines.join(", "));
    }
    let examples: Vec<&Example> =
        if level == 3 { examples_of(place.spec.name).collect() } else { Vec::new() };
    let fence = |example: &&Example| match example.node.as_str() {
        "extends" | "env" | "requires" => example.in_markdown().replacen("```kdl", "```kdl layer", 1),
        _ => example.in_markdown(),
    };
    if let Some((first, others)) = examples.split_first() {
        let _ = writeln!(out, "\n{}", fence(first));
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(fence).collect();
            let _ = writeln!(
                out,
                "\n<details><summary>More examples</summary>\n\n{}\n\n</details>",
                others.join("\n\n")
            );
        }
    }
    let (own, of_one_engine): (Vec<Item>, Vec<Item>) =
        items(place, Style::Links).into_iter().partition(|item| item.engine.is_none());
    if !own.is_empty() {
        let text: String = own.into_iter().map(|item| item.text).collect();
        let _ = write!(out, "\n{}", text.replacen(&format!("<a id=\"{}\"></a>", place.path), "", 1));
    }
    for engine in ENGINE_NAMES {
        let of_engine = of_one_engine.iter().filter(|item| item.engine == Some(*engine));
        let text: String = of_engine.map(|item| item.text.as_str()).collect();
        if !text.is_empty() {
            let _ = writeln!(
                out,
                "\n<details><summary>Only with <code>{engine}</code></summary>\n\n{text}\n</details>"
            );
        }
    }
    let own = codes_at(&place.path);
    if !own.is_empty() {
        let linked: Vec<String> = own.iter().map(|id| format!("[{id}]")).collect();
        let _ = writeln!(out, "\nProblems: {}", linked.join(" "));
    }
    for child in place.children().filter(|child| !child.is_value()) {
        section(&child, (level + 1).min(5), out);
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let link = |path: &&str| format!("[`{path}`](#{path})");
    out.push_str("\n| what you look for | where it is |\n| --- | --- |\n");
    for (words, paths) in INDEX {
        let _ = writeln!(out, "| {words} | {} |", paths.iter().map(link).collect::<Vec<_>>().join(", "));
    }
    out.push_str("\n## Contents\n\n");
    for (heading, _, nodes) in GROUPS {
        let _ = writeln!(out, "- {heading}: {}", nodes.iter().map(link).collect::<Vec<_>>().join(", "));
    }
    out.push_str("- [Placeholders](#placeholders): values of the plan in texts\n");
    for (heading, words, nodes) in GROUPS {
        let _ = writeln!(out, "\n## {heading}");
        if !words.is_empty() {
            let _ = writeln!(out, "\n{words}");
        }
        for name in *nodes {
            section(&roots().find(|root| root.spec.name == *name).unwrap(), 3, &mut out);
        }
    }
    placeholders(&mut out);
    let used: BTreeSet<&str> =
        trainc::codes().iter().map(|code| code.id).filter(|id| out.contains(&format!("[{id}]"))).collect();
    out.push('\n');
    for id in used {
        let code = find(trainc::codes(), id).unwrap();
        let _ = writeln!(out, "[{id}]: ../{} \"{}\"", code.page_path(), code.name);
    }
    out
}

fn placeholders(out: &mut String) {
    out.push_str(
        "\n## Placeholders\n\nA text may read values of the plan: `hyperparameter \"micro_batch\" \"{{ batch.micro }}\"`. So a \
         number is\nwritten once. A text that is one placeholder keeps the type of its value. An unknown path is an error, and \
         so is one\nwithout a value in this job. Predicted figures are no placeholders, because a new price must not make \
         another job.\nValues of the type `plain` in `trainc schema manifest` take no placeholders: the plan depends on them.\n\n\
         What may be calculated:\n\n| in `{{ … }}` | value | |\n| --- | --- | --- |\n",
    );
    for (expression, value, words) in EXPRESSIONS {
        let _ = writeln!(out, "| `{expression}` | `{value}` | {words} |");
    }
    out.push_str(
        "\nThere are no filters, functions and statements (`{% … %}` is passed on as it is). Where a placeholder multiplies, it \
         has\nnumbers alone. It has at most 500 characters. `{{ \"{{\" }}` writes two braces.\n\nThe last column is the value in \
         [examples/starter](../examples/starter/trainc.kdl), where that job has one:\n\n| path | what it is | starter |\n\
         | --- | --- | --- |\n",
    );
    for path in placeholder_paths() {
        let value = placeholder_example(path).map_or_else(String::new, |value| format!("`{value}`"));
        let _ = writeln!(
            out,
            "| <a id=\"{{{{{path}}}}}\"></a>`{path}` | {} | {value} |",
            placeholder_meaning(path).unwrap().replace('|', "\\|")
        );
    }
}

#[test]
fn the_page_of_the_language_is_fresh() {
    let path = "docs/language.md";
    let rendered = page();
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::write(root().join(path), &rendered).unwrap();
    }
    assert!(read(path) == rendered, "{path} is not what the declarations say; TRAINC_BLESS=1 writes it");
}

#[test]
fn the_page_has_every_node_and_its_links_lead_somewhere() {
    let page = page();
    let in_groups: BTreeSet<&str> = GROUPS.iter().flat_map(|(.., nodes)| nodes.iter().copied()).collect();
    let all: BTreeSet<&str> = roots().map(|root| root.spec.name).collect();
    assert_eq!(in_groups, all);
    for captures in regex::Regex::new(r"\]\(#([^)]*)\)").unwrap().captures_iter(&page) {
        let target = &captures[1];
        assert!(target == "placeholders" || page.contains(&format!("<a id=\"{target}\"></a>")), "{target}");
    }
    for place in all_places() {
        assert!(page.contains(&format!("<a id=\"{}\"></a>", place.path)), "{} has no anchor", place.path);
    }
}

#[test]
fn expressions_have_the_values_of_the_page() {
    for (expression, value, _) in EXPRESSIONS {
        let text = over_base(&format!(
            "program \"train.py\" {{ hyperparameter \"x\" \"{{{{ {expression} }}}}\"; }}"
        ));
        let outcome = compile_in(Memory::default(), "job.kdl", &text, &options(""));
        let program = outcome.compiled.plan.as_ref().unwrap().job.program.as_ref().unwrap();
        let found = program.hyperparameters.iter().find(|one| one.name == "x").unwrap();
        let found = found.value.value().unwrap_or_else(|| panic!("{expression}: {}", outcome.lines()));
        let found = match found {
            trainc_ir::Scalar::Bool(on) => on.to_string(),
            other => other.written(),
        };
        assert_eq!(found, *value, "{expression}");
    }
}

#[test]
fn placeholders_have_their_values_in_the_starter() {
    let text = read("examples/starter/trainc.kdl");
    let outcome = compile_in(Memory::default(), "trainc.kdl", &text, &options(""));
    let values = placeholder_values(outcome.compiled.plan.as_ref().unwrap());
    let mut faults = Vec::new();
    for path in placeholder_paths().filter(|path| *path != "job.digest") {
        let found = values[path].as_deref();
        if found != placeholder_example(path) {
            faults.push(format!("{path}: {found:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_entry_has_the_facts_of_its_declaration() {
    let of = |path: &str| describe(path, trainc::codes()).unwrap();
    let (spot, nodes, batch) = (of("cluster.spot"), of("cluster.nodes"), of("train.micro-batch"));
    assert!(
        spot.contains("spot max-wait=") && spot.contains("StoppingCondition.MaxWaitTimeInSeconds"),
        "{spot}"
    );
    assert!(nodes.contains("default: `1`") && nodes.contains("`ResourceConfig.InstanceCount`"), "{nodes}");
    assert!(batch.contains("per_device_train_batch_size") && batch.contains("{{ batch.micro }}"), "{batch}");
    let shard = of("parallel.shard-degree");
    assert!(
        shard.contains("engines: fsdp, accelerate") && shard.contains("T0301 degree-does-not-divide"),
        "{shard}"
    );
}
