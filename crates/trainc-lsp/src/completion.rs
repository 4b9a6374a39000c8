//! Completion: nodes, properties, values, names from the catalogue, and placeholders.

use super::hover::path_of;
use super::open_document::OpenDocument;
use super::positions::Encoding;
use kdl::KdlDocument;
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, MarkupContent, MarkupKind,
    TextEdit,
};
use trainc_catalog::{images, instances, models, prices, regions};
use trainc_diag::Code;
use trainc_diag::text::{dollars, short_number};
use trainc_plan::bind::{placeholder_meaning, placeholder_paths, placeholder_values};
use trainc_plan::reference;
use trainc_syntax::cursor::{self, Cursor, Part, Step, top_level};
use trainc_syntax::nodes::{ENGINE_NAMES, JOB_CHILDREN, engines_of};
use trainc_syntax::spec::{NodeSpec, Repeat, Ty};

/// The minor version, whose releases all plan the same jobs.
const MINOR_VERSION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// Returns the completions at a byte of the text. `opened` is the document as it was last compiled.
pub(super) fn completions(
    opened: Option<&OpenDocument>,
    document: &KdlDocument,
    text: &str,
    offset: usize,
    encoding: Encoding,
    codes: &[&Code],
) -> Vec<CompletionItem> {
    if let Some(start) = cursor::placeholder_start(text, offset) {
        return placeholder_completions(opened, text, (start, offset), encoding);
    }
    let region = region(opened, document);
    let value_texts =
        |step: Step, spec: &NodeSpec, name: &str, ty: Ty| value_texts(step, spec, name, ty, region);
    let cursor = Cursor::at(document, text, offset);
    let Some(step) = cursor.node() else { return node_completions(&[], document, codes) };
    match cursor.part {
        Part::Block => node_completions(&cursor.steps, step.node.children().unwrap_or(document), codes),
        Part::Name => {
            let above = cursor.steps.get(..cursor.steps.len() - 1).unwrap_or_default();
            let siblings = above.last().map_or(Some(document), |parent| parent.node.children());
            node_completions(above, siblings.unwrap_or(document), codes)
        }
        Part::Gap | Part::Key(_) => {
            let Some(spec) = step.spec else { return Vec::new() };
            let mut out = property_completions(step, spec);
            let arguments = step.node.entries().iter().filter(|entry| entry.name().is_none()).count();
            if let (Part::Gap, Some(arg)) = (cursor.part, spec.arg(arguments)) {
                out.extend(value_completions(
                    &value_texts(step, spec, arg.name, arg.ty),
                    text,
                    (offset, offset),
                    encoding,
                ));
            }
            out
        }
        Part::Argument(at, entry) => {
            let Some(spec) = step.spec else { return Vec::new() };
            let Some(arg) = spec.arg(at) else { return Vec::new() };
            value_completions(
                &value_texts(step, spec, arg.name, arg.ty),
                text,
                cursor::value_range(entry),
                encoding,
            )
        }
        Part::Value(entry) => {
            let Some((spec, key)) = step.spec.zip(entry.name()) else { return Vec::new() };
            let Some(prop) = spec.prop(key.value()) else { return Vec::new() };
            value_completions(
                &value_texts(step, spec, prop.name, prop.ty),
                text,
                cursor::value_range(entry),
                encoding,
            )
        }
    }
}

/// Returns the nodes that are valid in a block, without those that are there and may not be repeated.
fn node_completions(above: &[Step], block: &KdlDocument, codes: &[&Code]) -> Vec<CompletionItem> {
    let parent = above.last();
    let names: Vec<&str> = above.iter().map(|step| step.node.name().value()).collect();
    let describe = |spec: &NodeSpec| {
        let path = path_of(&[names.as_slice(), &[spec.name]].concat());
        reference::describe(&path, codes).unwrap_or_else(|| spec.doc.to_owned())
    };
    let engine = parent.and_then(|parent| parent.node.get("engine")).and_then(|value| value.as_string());
    let specs: Vec<&'static NodeSpec> = match parent {
        Some(parent) => parent.spec.map_or_else(Vec::new, |spec| spec.children.to_vec()),
        None if block.nodes().iter().any(|node| node.name().value() == "job") => top_level().to_vec(),
        None => top_level().into_iter().chain(JOB_CHILDREN.iter().copied()).collect(),
    };
    specs
        .into_iter()
        .filter(|spec| {
            spec.repeat != Repeat::Once || !block.nodes().iter().any(|node| node.name().value() == spec.name)
        })
        // In `parallel`, only the nodes that its engine supports.
        .filter(|spec| match (engine, engines_of(spec)) {
            (Some(engine), Some(engines)) => engines.contains(&engine) || !ENGINE_NAMES.contains(&engine),
            _ => true,
        })
        .map(|spec| CompletionItem {
            label: spec.name.to_owned(),
            kind: Some(CompletionItemKind::CLASS),
            detail: Some(spec.doc.to_owned()),
            documentation: Some(Documentation::MarkupContent(MarkupContent {
                kind: MarkupKind::Markdown,
                value: describe(spec),
            })),
            ..CompletionItem::default()
        })
        .collect()
}

fn property_completions(step: Step, spec: &NodeSpec) -> Vec<CompletionItem> {
    let is_present = |name: &str| step.node.get(name).is_some();
    spec.props
        .iter()
        .filter(|prop| !is_present(prop.name))
        .map(|prop| CompletionItem {
            label: format!("{}=", prop.name),
            kind: Some(CompletionItemKind::PROPERTY),
            detail: Some(format!("{}: {}", prop.doc, prop.ty.describe_expected())),
            ..CompletionItem::default()
        })
        .collect()
}

/// Returns the values of a place as KDL text, each with a description.
fn value_texts(
    step: Step,
    spec: &NodeSpec,
    name: &str,
    ty: Ty,
    region: Option<&str>,
) -> Vec<(String, String)> {
    let quoted = |names: Vec<String>, what: &str| -> Vec<(String, String)> {
        names.into_iter().map(|name| (format!("\"{name}\""), what.to_owned())).collect()
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match (spec.name, name) {
        ("region", _) => quoted(regions::names().map(str::to_owned).collect(), "AWS region"),
        ("cluster" | "group", "instance") => {
            let names = instances::all_names().into_iter();
            names.map(|name| (format!("\"{name}\""), describe_instance(&name, region))).collect()
        }
        ("model", "name") => {
            // Their parameters are added when one is looked at: reading all rows takes too long.
            models::names().map(|name| (format!("\"{name}\""), MODEL.to_owned())).collect()
        }
        ("requires", _) => vec![(format!("\">={MINOR_VERSION}\""), "this version or a later one".to_owned())],
        ("parallel", "engine") => quoted(owned(ENGINE_NAMES), "engine"),
        ("image", "version" | "pytorch" | "transformers") => {
            quoted(versions(step, name), "Deep Learning Container")
        }
        _ => match ty {
            Ty::Word(words) => quoted(owned(words), name),
            Ty::BoolOr(words) => [booleans(), quoted(owned(words), name)].concat(),
            Ty::Bool => booleans(),
            _ => Vec::new(),
        },
    }
}

/// Returns the region of the job: that of the last plan, or the one that the document names.
fn region<'a>(opened: Option<&'a OpenDocument>, document: &'a KdlDocument) -> Option<&'a str> {
    let planned =
        opened.and_then(|opened| opened.compiled.plan.as_deref()?.job.region.value().map(String::as_str));
    let job = document.get("job").and_then(|job| job.children()).unwrap_or(document);
    planned.or_else(|| job.get_arg("region")?.as_string())
}

/// Describes an instance type: `8 × H100 with 80 GiB, $63.30 per hour`; the price is that of the region, or
/// else of any.
fn describe_instance(name: &str, region: Option<&str>) -> String {
    let machine = instances::get(name).map(|instance| {
        let memory = instance.accelerator.memory_bytes;
        let memory = memory.map_or_else(String::new, |bytes| {
            let gib = (bytes as f64 / (1_u64 << 30) as f64).round();
            format!(" with {} GiB", short_number(gib))
        });
        format!("{} × {}{memory}", instance.accelerators, instance.accelerator.product)
    });
    let usd = |price: prices::Price| format!("{} per hour", dollars(price.usd_per_hour));
    let elsewhere = || {
        let price = prices::newest_anywhere(name)?;
        let place = price.region.as_ref().map_or_else(String::new, |region| format!(" in {region}"));
        Some(format!("{}{place}", usd(price)))
    };
    let price = region.and_then(|region| prices::newest(name, region)).map(usd).or_else(elsewhere);
    let parts: Vec<String> = [machine, price].into_iter().flatten().collect();
    if parts.is_empty() { "instance type".to_owned() } else { parts.join(", ") }
}

/// What is shown of a model whose row was not read.
const MODEL: &str = "model in the catalogue";

/// Completes what is shown of an item that is looked at.
pub(super) fn resolve(mut item: CompletionItem) -> CompletionItem {
    if item.detail.as_deref() == Some(MODEL) {
        item.detail = Some(describe_model(&item.label));
    }
    item
}

/// Describes a model by its parameters: `8.03 billion parameters`.
fn describe_model(name: &str) -> String {
    let Some(row) = models::find(name) else { return MODEL.to_owned() };
    let millions = (row.parameters as f64 / 1e4).round() / 100.0;
    if millions < 1_000.0 {
        return format!("{} million parameters", short_number(millions.round()));
    }
    format!("{} billion parameters", short_number((millions / 10.0).round() / 100.0))
}

/// Returns the values that a placeholder can have, each with what it is and with its value in the last plan.
fn placeholder_completions(
    opened: Option<&OpenDocument>,
    text: &str,
    place: (usize, usize),
    encoding: Encoding,
) -> Vec<CompletionItem> {
    let plan = opened.and_then(|opened| opened.compiled.plan.as_deref());
    let values = plan.map(placeholder_values).unwrap_or_default();
    let range = encoding.range(text, place.0, place.1);
    let item = |path: &str| {
        let value = values.get(path).cloned().flatten();
        CompletionItem {
            label: path.to_owned(),
            kind: Some(CompletionItemKind::VARIABLE),
            detail: value.or_else(|| plan.map(|_| "not set in this job".to_owned())),
            documentation: placeholder_meaning(path).map(|meaning| Documentation::String(meaning.to_owned())),
            text_edit: Some(CompletionTextEdit::Edit(TextEdit::new(range, path.to_owned()))),
            ..CompletionItem::default()
        }
    };
    placeholder_paths().map(item).collect()
}

fn booleans() -> Vec<(String, String)> {
    ["#true", "#false"].map(|word| (word.to_owned(), "boolean".to_owned())).to_vec()
}

/// Returns the versions of the image's family, newest first.
fn versions(step: Step, name: &str) -> Vec<String> {
    let family = match step.node.get(0).and_then(|value| value.as_string()) {
        Some("huggingface") => images::ImageFamily::HuggingFace,
        _ => images::ImageFamily::PyTorch,
    };
    let mut out: Vec<String> = images::of_family(family)
        .iter()
        .filter_map(
            |row| if name == "transformers" { row.transformers.clone() } else { Some(row.pytorch.clone()) },
        )
        .collect();
    out.sort_by_key(|version| std::cmp::Reverse(images::version_key(version)));
    out.dedup();
    out
}

fn value_completions(
    words: &[(String, String)],
    text: &str,
    place: (usize, usize),
    encoding: Encoding,
) -> Vec<CompletionItem> {
    let range = encoding.range(text, place.0, place.1);
    words
        .iter()
        .map(|(word, detail)| CompletionItem {
            label: word.trim_matches('"').to_owned(),
            kind: Some(CompletionItemKind::VALUE),
            detail: Some(detail.clone()),
            // An editor compares this with the text of the range, including a quote.
            filter_text: Some(word.clone()),
            text_edit: Some(CompletionTextEdit::Edit(TextEdit::new(range, word.clone()))),
            ..CompletionItem::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_diag::Problems;
    use trainc_diag::source::SourceId;

    /// Returns the labels of the completions at the bar of a text.
    fn labels(text: &str) -> Vec<String> {
        let (before, after) = text.split_once('|').unwrap();
        let text = format!("{before}{after}");
        let document = trainc_syntax::document::parse(SourceId(0), &text, &mut Problems::default()).unwrap();
        let items = completions(None, &document, &text, before.len(), Encoding::Utf8, &[]);
        items.into_iter().map(|item| item.label).collect()
    }

    #[test]
    fn placeholders_are_completed_with_their_meaning() {
        for inside in ["{{|", "{{ |", "{{ batch.|", "{{ batch.mi| }}", "{{ job.name }}-{{ ba|"] {
            let found = labels(&format!("job \"x\" {{\n    program \"{inside}\"\n}}\n"));
            assert!(found.contains(&"batch.micro".to_owned()), "{inside}: {found:?}");
        }
        for outside in ["{{ batch.micro }}|", "|{{ batch.micro }}"] {
            let found = labels(&format!("job \"x\" {{\n    program \"{outside}\"\n}}\n"));
            assert!(!found.contains(&"batch.micro".to_owned()), "{outside}: {found:?}");
        }
    }

    #[test]
    fn instances_and_models_are_described() {
        let with_price = describe_instance("ml.p4d.24xlarge", Some("us-west-2"));
        assert!(with_price.starts_with("8 × ") && with_price.contains(" GiB, $"), "{with_price}");
        assert_eq!(describe_instance("ml.banana", None), "instance type");
        assert_eq!(describe_model("gpt2-xl"), "1.56 billion parameters");
        assert!(describe_model("bert-base-uncased").ends_with(" million parameters"));
    }

    #[test]
    fn requires_is_completed_at_the_top_of_a_manifest_and_of_a_layer() {
        assert!(labels("req|\njob \"x\" {}\n").contains(&"requires".to_owned()));
        assert!(labels("req|\nregion \"us-west-2\"\n").contains(&"requires".to_owned()));
        assert!(!labels("job \"x\" {\n    req|\n}\n").contains(&"requires".to_owned()));
        assert_eq!(labels("requires |\n"), ["trainc="]);
        assert_eq!(labels("requires trainc=\"|\"\n"), [format!(">={MINOR_VERSION}")]);
    }
}
