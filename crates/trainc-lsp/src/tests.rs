//! The server's answers about texts in memory.

use super::{
    Buffers, CheckedManifest, Client, Compilation, Encoding, FIRST_CLOSED_PART, Folder, Reads, Server,
};
use lsp_types::{NumberOrString, PublishDiagnosticsParams};
use serde_json::{Value, json};
use std::path::PathBuf;
use trainc_check::codes::T0142;
use trainc_check::compile;
use trainc_diag::source::SourceMap;
use trainc_diag::text;
use trainc_ir::SourceTree;
use trainc_plan::bind::{placeholder_paths, placeholder_values};
use trainc_plan::resolve::{LayerLoader, LoadedLayer};
use trainc_plan::{Compiled, Options, ReadError, World};
use trainc_syntax::codes::T0120;

const STARTER: &str = include_str!("../../../examples/starter/trainc.kdl");

/// Layers are the open texts; there are no other files.
struct Texts<'a> {
    buffers: &'a Buffers,
    reads: Reads,
}

impl LayerLoader for Texts<'_> {
    fn read_layer(&mut self, _: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let name = format!("/jobs/{path}");
        self.reads.add_file(PathBuf::from(&name));
        let text = self.buffers.get(&name).cloned().ok_or(ReadError::NotFound)?;
        Ok(LoadedLayer { identity: name.clone(), name, text })
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Texts<'_> {
    fn read_directory(&mut self, _: &str, _: &str) -> Result<SourceTree, ReadError> {
        Err(ReadError::NotFound)
    }

    fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
        Err(ReadError::NotFound)
    }
}

fn compilation(name: &str, text: &str, buffers: &Buffers, mut sources: SourceMap) -> Compilation {
    let source = sources.add(name, text);
    let options = Options { today: "2026-11-24".to_owned(), ..Options::default() };
    let mut world = Texts { buffers, reads: Reads::default() };
    let compiled = compile(source, text, &options, &mut world, &mut sources);
    Compilation { compiled, sources, source, reads: world.reads }
}

fn compile_text(text: &str) -> Compiled {
    compilation("/jobs/a.kdl", text, &Buffers::new(), SourceMap::default()).compiled
}

/// A server with these open texts of the directory `/jobs`.
fn server(encoding: Encoding, texts: &[(&str, &str)]) -> Server<'static> {
    let mut server = Server::new(&compilation, Client { encoding, ..Client::default() });
    for (name, text) in texts {
        let document = json!({"uri": uri(name), "languageId": "kdl", "version": 1, "text": text});
        tell(&mut server, "textDocument/didOpen", json!({"textDocument": document}));
    }
    server
}

/// Tells the server, as the session does: files that it read may have changed. Returns what is published.
fn tell(server: &mut Server, method: &str, parameters: Value) -> Vec<PublishDiagnosticsParams> {
    let changed = server.notify(method, parameters);
    server.files_changed(&changed.names.iter().map(PathBuf::from).collect::<Vec<_>>());
    server.settle()
}

/// A manifest that is not open.
fn closed(name: &str, text: &str, part: u32) -> (String, Option<CheckedManifest>) {
    let sources = SourceMap::with_part_number(FIRST_CLOSED_PART + part);
    let compilation = compilation(name, text, &Buffers::new(), sources);
    let checked = CheckedManifest::new(name.to_owned(), compilation, &Folder::default(), Encoding::Utf16);
    (name.to_owned(), Some(checked))
}

fn codes(published: &[PublishDiagnosticsParams], name: &str) -> Vec<String> {
    let file = published.iter().find(|file| file.uri.as_str() == uri(name));
    let codes = file.into_iter().flat_map(|file| &file.diagnostics).map(|one| match &one.code {
        Some(NumberOrString::String(code)) => code.clone(),
        _ => String::new(),
    });
    codes.collect()
}

#[test]
fn manifests_that_are_not_open_have_problems() {
    let broken = STARTER.replace("micro-batch", "micro-batchh");
    let mut server = server(Encoding::Utf16, &[]);
    server.replace_closed([closed("/jobs/b.kdl", &broken, 0), closed("/jobs/c.kdl", STARTER, 1)]);
    let published = server.settle();
    assert!(codes(&published, "b.kdl").contains(&T0120.id.to_owned()), "{published:?}");
    // The later of the two with the same name, with the place of the other.
    assert!(codes(&published, "c.kdl").contains(&T0142.id.to_owned()), "{published:?}");
    let of_c = published.iter().find(|file| file.uri.as_str() == uri("c.kdl")).unwrap();
    let related = of_c.diagnostics.iter().find_map(|one| one.related_information.as_ref()).unwrap();
    assert_eq!(related[0].location.uri.as_str(), uri("b.kdl"));
    assert!(of_c.version.is_none() && server.settle().is_empty());
    // An open one has its problems from its text, under its version.
    let document = json!({"uri": uri("b.kdl"), "languageId": "kdl", "version": 7, "text": STARTER});
    let published = tell(&mut server, "textDocument/didOpen", json!({"textDocument": document}));
    assert_eq!(published.iter().find(|file| file.uri.as_str() == uri("b.kdl")).unwrap().version, Some(7));
    assert!(codes(&published, "b.kdl").contains(&T0142.id.to_owned()), "{published:?}");
    assert!(!codes(&published, "b.kdl").contains(&T0120.id.to_owned()), "{published:?}");
    assert!(!codes(&published, "c.kdl").contains(&T0142.id.to_owned()), "{published:?}");
    // Gone: nothing is left of it.
    server.replace_closed([("/jobs/c.kdl".to_owned(), None)]);
    let published = server.settle();
    assert_eq!(codes(&published, "c.kdl"), Vec::<String>::new());
    assert!(!codes(&published, "b.kdl").contains(&T0142.id.to_owned()), "{published:?}");
}

#[test]
fn edits_and_lenses_are_what_the_client_takes() {
    let text = STARTER.replace("micro-batch", "micro-batchh");
    let client =
        Client { takes_versioned_edits: true, commands: vec!["trainc.plan".to_owned()], ..Client::default() };
    let mut server = Server::new(&compilation, client);
    let document = json!({"uri": uri("a.kdl"), "languageId": "kdl", "version": 3, "text": text});
    tell(&mut server, "textDocument/didOpen", json!({"textDocument": document}));
    let action = ask(&server, "codeAction", "a.kdl").remove(0);
    let edit = &action["edit"]["documentChanges"][0];
    assert_eq!(edit["textDocument"], json!({"uri": uri("a.kdl"), "version": 3}));
    assert_eq!(edit["edits"][0]["newText"], "micro-batch");
    let lenses = ask(&server, "codeLens", "a.kdl");
    let commands: Vec<&Value> = lenses.iter().map(|lens| &lens["command"]["command"]).collect();
    assert_eq!(commands, ["", "trainc.plan"]);
    assert_eq!(lenses[1]["command"]["arguments"], json!([uri("a.kdl")]));
}

fn uri(name: &str) -> String {
    format!("file:///jobs/{name}")
}

/// Answers a request about a whole document.
fn ask(server: &Server, method: &str, name: &str) -> Vec<Value> {
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9_999, "character": 0}});
    let given = json!({"textDocument": {"uri": uri(name)}, "range": range, "context": {"diagnostics": []}});
    let answer = server.answer(&format!("textDocument/{method}"), given).unwrap();
    answer.as_array().cloned().unwrap_or_default()
}

/// Returns the hints as their text and what the line has before them.
fn hints(server: &Server, name: &str, text: &str) -> Vec<(String, String)> {
    let hint = |hint: &Value| {
        let at = |member: &str| usize::try_from(hint["position"][member].as_u64().unwrap()).unwrap();
        let line = text.lines().nth(at("line")).unwrap();
        let units: Vec<u16> = line.encode_utf16().collect();
        let before = &units[..at("character")];
        (String::from_utf16(before).unwrap().trim().to_owned(), hint["label"].as_str().unwrap().to_owned())
    };
    ask(server, "inlayHint", name).iter().map(hint).collect()
}

/// Returns the text after the first edit of the code action with this title.
fn applied(server: &Server, name: &str, text: &str, title: &str) -> String {
    let actions = ask(server, "codeAction", name);
    let titles: Vec<&Value> = actions.iter().map(|action| &action["title"]).collect();
    let action =
        actions.iter().find(|action| action["title"] == title).unwrap_or_else(|| panic!("{titles:?}"));
    let edit = &action["edit"]["changes"][uri(name)][0];
    let offset = |position: &Value| {
        let position = serde_json::from_value(position.clone()).unwrap();
        Encoding::Utf16.offset(text, position)
    };
    let (start, end) = (offset(&edit["range"]["start"]), offset(&edit["range"]["end"]));
    [&text[..start], edit["newText"].as_str().unwrap(), &text[end..]].concat()
}

/// Returns the figures of a text as the plan has them: time, cost, memory.
fn figures(text: &str) -> [String; 3] {
    let prediction = compile_text(text).prediction;
    let (run, memory) = (prediction.run.unwrap(), prediction.memory.unwrap());
    let gib = |bytes: f64| text::short_number((bytes / (1u64 << 30) as f64 * 10.0).round() / 10.0);
    [
        text::rounded_duration(run.expected_seconds()),
        text::dollars(run.cost_usd.unwrap()),
        format!("{} of {} GiB", gib(memory.per_gpu_bytes), gib(memory.capacity_bytes.unwrap())),
    ]
}

#[test]
fn a_plan_has_every_placeholder() {
    let plan = compile_text(STARTER).plan.unwrap();
    let values = placeholder_values(&plan);
    assert_eq!(
        values.keys().map(String::as_str).collect::<Vec<_>>(),
        placeholder_paths().collect::<Vec<_>>()
    );
    assert_eq!(values["run.steps"].as_deref(), Some("1000"));
}

#[test]
fn figures_stand_beside_the_values_that_decide_them() {
    let [time, cost, memory] = figures(STARTER);
    let sharded =
        STARTER.replace("strategy \"full-shard\"", "strategy \"full-shard\"\n        shard-degree 4");
    for text in [STARTER.to_owned(), sharded.clone(), sharded.replace('\n', "\r\n")] {
        let server = server(Encoding::Utf16, &[("a.kdl", &text)]);
        let found = hints(&server, "a.kdl", &text);
        let of = |start: &str| {
            let all: Vec<&str> = found
                .iter()
                .filter(|(before, _)| before.starts_with(start))
                .map(|(_, hint)| hint.as_str())
                .collect();
            all.join("|")
        };
        assert_eq!(of("job \"my-first-job\""), format!("{time}, {cost}, {memory}"), "{found:?}");
        assert_eq!(
            of("cluster \"ml.g5.12xlarge\" nodes=1"),
            format!("{time}, {cost}, {memory}"),
            "{found:?}"
        );
        assert_eq!(of("micro-batch 8"), memory, "{found:?}");
        assert_eq!(of("steps 1000"), format!("{time}, {cost}"), "{found:?}");
        assert_eq!(!of("shard-degree 4").is_empty(), text.contains("shard-degree 4"), "{found:?}");
        let lenses = ask(&server, "codeLens", "a.kdl");
        let plan = compile_text(&text).plan.unwrap();
        let date = plan.price().unwrap().date.clone().unwrap();
        assert_eq!(lenses[0]["command"]["title"], format!("{time}, {cost} (price of {date}), {memory}"));
    }
}

#[test]
fn positions_count_units_of_the_encoding() {
    let text = STARTER.replace("micro-batch 8", "/* ä😀 */ micro-batch 8");
    let wide = server(Encoding::Utf16, &[("a.kdl", &text)]);
    assert!(hints(&wide, "a.kdl", &text).iter().any(|(before, _)| before == "/* ä😀 */ micro-batch 8"));
    let column = |encoding: Encoding| {
        let hints = ask(&server(encoding, &[("a.kdl", &text)]), "inlayHint", "a.kdl");
        hints.iter().map(|hint| hint["position"]["character"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    // Two bytes for `ä` and four for the sign, in UTF-16 one and two.
    let more: u64 = column(Encoding::Utf8).iter().zip(column(Encoding::Utf16)).map(|(a, b)| a - b).sum();
    assert_eq!(more, 3);
}

#[test]
fn a_layer_shows_the_figures_of_the_job_that_extends_it() {
    let base = STARTER.replace("job \"my-first-job\" {", "").trim_end().trim_end_matches('}').to_owned();
    let job = "extends \"base.kdl\"\njob \"example\" {\n    train { micro-batch 4; }\n}\n";
    let server = server(Encoding::Utf16, &[("base.kdl", &base), ("job.kdl", job)]);
    let own = hints(&server, "job.kdl", job);
    assert_eq!(
        own.iter().map(|(before, _)| before.as_str()).collect::<Vec<_>>(),
        ["job \"example\"", "train { micro-batch 4"]
    );
    let found = hints(&server, "base.kdl", &base);
    assert!(
        found.iter().any(|(before, hint)| before.contains("nodes=1") && hint.starts_with("example: ")),
        "{found:?}"
    );
    // The job overrides it.
    assert!(found.iter().all(|(before, _)| !before.starts_with("micro-batch")), "{found:?}");
}

/// Returns the hover at the last character of the first occurrence of some words.
fn hover(server: &Server, name: &str, text: &str, words: &str) -> String {
    let at = Encoding::Utf16.position(text, text.find(words).unwrap() + words.len() - 1);
    let given = json!({"textDocument": {"uri": uri(name)}, "position": at});
    let answer = server.answer("textDocument/hover", given).unwrap();
    answer["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

/// Returns the list items of a hover that the plan made.
fn items(hover: &str) -> Vec<&str> {
    let figures = ["- memory per GPU:", "- step:", "- run:", "- cost:"];
    hover.lines().filter(|line| figures.iter().any(|figure| line.starts_with(figure))).collect()
}

#[test]
fn hover_has_the_interval_and_the_source_of_a_prediction() {
    let server = server(Encoding::Utf16, &[("a.kdl", STARTER)]);
    let hover = |words: &str| hover(&server, "a.kdl", STARTER, words);
    let [time, cost, memory] = figures(STARTER);
    let batch = hover("micro-batch 8");
    assert!(batch.contains(&format!("- memory per GPU: {memory} (")), "{batch}");
    assert!(
        batch.contains(" GiB), computed from weights") && batch.contains("`train.micro-batch` = 8"),
        "{batch}"
    );
    let nodes = hover("nodes=1");
    assert!(
        nodes.contains(&format!("- run: {time} (")) && nodes.contains(&format!("- cost: {cost} (")),
        "{nodes}"
    );
    assert!(nodes.contains("per instance-hour, price of 20"), "{nodes}");
}

/// The name of a node shows what its values show, and the bounds of the cost what is expected and what is possible.
#[test]
fn the_name_of_a_node_shows_the_figures_of_its_values() {
    let text = STARTER.replace("strategy \"full-shard\"", "strategy \"full-shard\"\n        shard-degree 4");
    let server = server(Encoding::Utf16, &[("a.kdl", &text)]);
    let hover = |words: &str| hover(&server, "a.kdl", &text, words);
    for (name, value) in [
        ("\n        micro-batch", "micro-batch 8"),
        ("shard-degree", "shard-degree 4"),
        ("\n        steps", "steps 1000"),
        ("\n    cluster", "nodes=1"),
    ] {
        let (of_name, of_value) = (hover(name), hover(value));
        assert_eq!(items(&of_name), items(&of_value), "{of_name}");
        assert!(!items(&of_name).is_empty() && of_name.contains("```kdl\n"), "{of_name}");
        let resolved: Vec<&str> = of_value.lines().filter(|line| line.contains("` = ")).collect();
        assert!(resolved.iter().all(|line| of_name.contains(line)), "{of_name}");
    }
    let [_, cost, _] = figures(&text);
    for bound in ["\n        max-run", "max-run \"4h\"", "\n    budget", "budget usd=50"] {
        let shown = hover(bound);
        let [expected, most] = items(&shown)[..] else { panic!("{shown}") };
        assert!(expected.starts_with(&format!("- cost: expected {cost} (")), "{shown}");
        // Four hours of the instance, and its volume.
        let hourly: f64 =
            expected.split('$').next_back().unwrap().split(' ').next().unwrap().parse().unwrap();
        let usd: f64 = most.split('$').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((usd / (4.0 * hourly) - 1.0).abs() < 0.01, "{shown}");
    }
}

/// The cost of a spot job whose price is not known is that of the same hours on demand; prices have their date and age.
#[test]
fn dollars_have_a_bound_and_a_date() {
    let spot = STARTER.replace("max-run \"4h\"", "max-run \"4h\"\n        spot max-wait=\"8h\"");
    let open = server(Encoding::Utf16, &[("a.kdl", &spot)]);
    let lens = ask(&open, "codeLens", "a.kdl")[0]["command"]["title"].as_str().unwrap().to_owned();
    let compiled = compile_text(&spot);
    let (run, price) = (compiled.prediction.run.unwrap(), compiled.plan.unwrap().price().unwrap().clone());
    assert_eq!(run.cost_usd, None);
    let usd: f64 = lens.split('$').nth(1).unwrap().split(" on demand").next().unwrap().parse().unwrap();
    assert!((usd / (price.usd_per_hour * run.expected_seconds() / 3600.0) - 1.0).abs() < 0.01, "{lens}");
    let date = price.date.unwrap();
    assert!(lens.contains(&format!(" (price of {date}), ")), "{lens}");
    let hints = ask(&open, "inlayHint", "a.kdl");
    let of_nodes = hints.iter().find(|hint| hint["label"].as_str().unwrap().contains(" on demand")).unwrap();
    let tooltip = of_nodes["tooltip"]["value"].as_str().unwrap();
    assert!(
        tooltip.contains(&format!(" per instance-hour, price of {date}"))
            && tooltip.contains(" on demand ($")
            && !of_nodes["label"].as_str().unwrap().contains("price"),
        "{of_nodes}"
    );
    // Far from the day of the price.
    let mut late = Server::new(&compilation, Client::default()).today(Some(40_000));
    let document = json!({"uri": uri("a.kdl"), "languageId": "kdl", "version": 1, "text": STARTER});
    tell(&mut late, "textDocument/didOpen", json!({"textDocument": document}));
    let lens = ask(&late, "codeLens", "a.kdl")[0]["command"]["title"].as_str().unwrap().to_owned();
    assert!(lens.contains(&format!(" (price of {date}, ")) && lens.contains(" days old), "), "{lens}");
}

#[test]
fn what_a_help_says_to_type_is_an_action() {
    // A block of all nodes that are missing; what is left after it is another problem.
    for end in ["\n", "\r\n"] {
        let text = "job \"a\" {\n    model \"gpt2-xl\"\n}\n".replace('\n', end);
        let open = server(Encoding::Utf16, &[("a.kdl", &text)]);
        let edited = applied(&open, "a.kdl", &text, "add what is missing");
        assert!(edited.contains(&format!("    region \"us-west-2\"{end}    cluster ")), "{edited}");
        assert_eq!(edited.matches('\n').count(), edited.matches(end).count(), "{edited:?}");
        let after = compile_text(&edited);
        assert!(after.problems.iter().all(|one| !one.message.contains("`region`")), "{:?}", after.problems);
    }
    // The newest container, as the note says.
    let open = server(Encoding::Utf16, &[("a.kdl", STARTER)]);
    let titles: Vec<Value> =
        ask(&open, "codeAction", "a.kdl").iter().map(|action| action["title"].clone()).collect();
    let title =
        titles.iter().filter_map(Value::as_str).find(|title| title.starts_with("write `version=")).unwrap();
    let edited = applied(&open, "a.kdl", STARTER, title);
    assert!(
        !edited.contains("version=\"2.8.0\"")
            && edited.contains(title.trim_start_matches("write ").trim_matches('`'))
    );
}

/// Titles and messages are shown; an edit is applied to the text that has the credential.
#[test]
fn no_answer_shows_a_credential() {
    let token = concat!("hf_", "AbCdEfGhIjKlMnOpQrStUvWxYz01234567");
    for place in [
        format!("environment \"HF_TOKEN\" \"{token}\""),
        format!("hyperparameter token=\"{token}\""),
        format!("HF_TOKEN \"{token}\""),
    ] {
        let text = STARTER.replace(
            "program \"train.py\" source=\"./scripts\" {",
            &format!("program \"train.py\" source=\"./scripts\" {{\n        {place}"),
        );
        assert!(text.contains(token));
        let server = server(Encoding::Utf16, &[("a.kdl", &text)]);
        for action in ask(&server, "codeAction", "a.kdl") {
            let shown = format!("{} {}", action["title"], action["diagnostics"]);
            assert!(!shown.contains(token), "{place}: {shown}");
        }
        let shown = hover(&server, "a.kdl", &text, token);
        assert!(!shown.contains(token), "{place}: {shown}");
    }
}

#[test]
fn of_several_jobs_in_a_file_the_first_is_planned() {
    let text = format!("{STARTER}\njob \"second\" {{\n}}\n");
    let server = server(Encoding::Utf16, &[("a.kdl", &text)]);
    let lenses = ask(&server, "codeLens", "a.kdl");
    assert_eq!(lenses.len(), 2);
    assert_eq!(lenses[1]["command"]["title"], "not planned: a file has one job");
}

/// Of two open jobs with the same name the later has the problem, once, however often the other is changed.
#[test]
fn a_text_that_did_not_change_keeps_its_problems() {
    let other = STARTER.replace("seed 7", "seed 8");
    let mut server = server(Encoding::Utf16, &[("a.kdl", STARTER)]);
    let document = json!({"uri": uri("b.kdl"), "languageId": "kdl", "version": 1, "text": other});
    // Problems are published when they change.
    let mut of_other = tell(&mut server, "textDocument/didOpen", json!({"textDocument": document}));
    let mut duplicates = |published: Vec<PublishDiagnosticsParams>| {
        if published.iter().any(|file| file.uri.as_str() == uri("b.kdl")) {
            of_other = published;
        }
        codes(&of_other, "b.kdl").iter().filter(|code| *code == T0142.id).count()
    };
    let mut change = |text: &str| {
        let document = json!({"uri": uri("a.kdl"), "version": 2});
        let changes = json!({"textDocument": document, "contentChanges": [{"text": text}]});
        duplicates(tell(&mut server, "textDocument/didChange", changes))
    };
    assert_eq!(change(&STARTER.replace("seed 7", "seed 9")), 1);
    assert_eq!(change(&STARTER.replace("my-first-job\" {", "another\" {")), 0);
    assert_eq!(change(STARTER), 1);
}

/// Each text that is typed on the way to the manifest gets an answer to each request.
#[test]
fn broken_texts_are_answered() {
    let methods = ["inlayHint", "codeLens", "codeAction", "documentSymbol"];
    let mut server = server(Encoding::Utf16, &[("a.kdl", "")]);
    for end in (0..STARTER.len()).step_by(211) {
        let text = &STARTER[..STARTER.floor_char_boundary(end)];
        let change =
            json!({"textDocument": {"uri": uri("a.kdl"), "version": 2}, "contentChanges": [{"text": text}]});
        tell(&mut server, "textDocument/didChange", change);
        for method in methods {
            ask(&server, method, "a.kdl");
        }
    }
}
