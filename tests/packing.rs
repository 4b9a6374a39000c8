//! `trainc data pack`: against what `tokenizers` and `transformers` made of the same texts (recorded by
//! `tests/python/record_data.py`), and what it writes and refuses.

use crate::support::{Scratch, read, root, trainc_in};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use trainc_data::document::{Document, Maker, TrainOn};
use trainc_data::record;
use trainc_data::template::Template;
use trainc_data::vocabulary::{Additions, Vocabulary};

fn vocabulary(name: &str) -> Vocabulary {
    let json = read(&format!("tests/packing/{name}/tokenizer.json"));
    let config = read(&format!("tests/packing/{name}/tokenizer_config.json"));
    Vocabulary::new(json.as_bytes(), Some(&config), None, None).unwrap()
}

fn recorded() -> Json {
    serde_json::from_str(&read("tests/packing/recorded.json")).unwrap()
}

fn numbers(value: &Json) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| u32::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn texts_become_the_tokens_that_the_python_library_makes() {
    let recorded = recorded();
    let known: BTreeMap<&str, Vocabulary> =
        ["bytes", "pieces"].into_iter().map(|name| (name, vocabulary(name))).collect();
    for case in recorded["texts"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let made = known[case["tokenizer"].as_str().unwrap()].encode(text, Additions::Made).unwrap();
        assert_eq!(made.ids, numbers(&case["ids"]), "{text:?}");
        // Python counts characters, Rust bytes.
        let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let starts: Vec<usize> = case["offsets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| bytes[usize::try_from(pair[0].as_u64().unwrap()).unwrap()])
            .collect();
        assert_eq!(made.starts, starts, "{text:?}");
    }
}

fn chat(case: &Json, templates: &Json) -> Result<(String, String, Document), String> {
    let name = case["template"].as_str().unwrap();
    let vocabulary = vocabulary(case["tokenizer"].as_str().unwrap());
    let template = Template::new(templates[name].as_str().unwrap(), vocabulary.tokens.clone(), "2026-11-21")
        .map_err(|fault| fault.message)?;
    // As text: the order of its members is the template's to see.
    let text = case["line"].as_str().unwrap();
    let record = record::read(text.as_bytes()).unwrap().unwrap();
    let record::Record::Messages { messages, record: whole } = &record else { panic!("{text}") };
    let rendered = template.render(messages, whole, false).map_err(|fault| fault.message)?;
    let prompt =
        template.render(&messages[..messages.len() - 1], whole, true).map_err(|fault| fault.message)?;
    // It says how many messages there are, so its text changes when one is added.
    let train_on = if name == "tools" { TrainOn::All } else { TrainOn::Answers };
    let maker = Maker { vocabulary, template: Some(template), train_on };
    let document = maker.make(&record).map_err(|fault| fault.message)?;
    Ok((rendered, prompt, document))
}

#[test]
fn conversations_become_the_text_and_the_mask_that_transformers_makes() {
    let recorded = recorded();
    let mut masks = 0;
    for case in recorded["chats"].as_array().unwrap() {
        let name = format!("{} {}", case["template"], case["tokenizer"]);
        let made = chat(case, &recorded["templates"]);
        if let Some(error) = case["error"].as_str() {
            let message = made.unwrap_err();
            assert!(message.contains(error), "{name}: {message}, transformers says {error}");
            continue;
        }
        let (text, prompt, document) = made.unwrap_or_else(|message| panic!("{name}: {message}"));
        assert_eq!(text, case["text"].as_str().unwrap(), "{name}");
        assert_eq!(prompt, case["prompt"].as_str().unwrap(), "{name}");
        let ids = numbers(&case["ids"]);
        // Ours ends with the end-of-text token, where the template does not.
        assert_eq!(document.ids[..ids.len()], ids, "{name}");
        assert!(document.ids.len() <= ids.len() + 1, "{name}");
        if let Some(mask) = case["mask"].as_array() {
            let mask: Vec<bool> = mask.iter().map(|bit| bit == 1).collect();
            assert_eq!(document.trained[..ids.len()], mask, "{name}");
            masks += 1;
        } else {
            assert!(
                document.trained.iter().any(|t| *t) && document.trained[0] == (case["template"] == "tools"),
                "{name}"
            );
        }
    }
    assert_eq!(masks, 1);
}

#[test]
fn the_answers_of_an_unmarked_template_are_found() {
    let recorded = recorded();
    let case = |template: &str| {
        let mut case =
            recorded["chats"].as_array().unwrap().iter().find(|c| c["template"] == "marked").unwrap().clone();
        case["template"] = template.into();
        case
    };
    let (marked, chatml) = (
        chat(&case("marked"), &recorded["templates"]).unwrap().2,
        chat(&case("chatml"), &recorded["templates"]).unwrap().2,
    );
    // The same text; only the line's end after an answer differs.
    assert_eq!(marked.ids, chatml.ids);
    let differ: Vec<u32> = (0..marked.ids.len())
        .filter(|at| marked.trained[*at] != chatml.trained[*at])
        .map(|at| chatml.ids[at])
        .collect();
    let newline = vocabulary("bytes").encode("\n", Additions::LeftOut).unwrap().ids[0];
    assert!(differ.len() <= 2 && differ.iter().all(|id| *id == newline), "{differ:?}");
}

struct Run {
    code: i32,
    out: String,
    err: String,
}

fn pack(dir: &Path, args: &[&str]) -> Run {
    pack_with(dir, "bytes", args, b"")
}

fn pack_with(dir: &Path, tokenizer: &str, args: &[&str], input: &[u8]) -> Run {
    let tokenizer = root().join(format!("tests/packing/{tokenizer}/tokenizer.json"));
    let mut all = vec!["data", "pack", "--out", "packed"];
    if !args.contains(&"--tokenizer") {
        all.extend(["--tokenizer", tokenizer.to_str().unwrap()]);
    }
    if !args.contains(&"--sequence-length") {
        all.extend(["--sequence-length", "16"]);
    }
    all.extend(args);
    let ran = trainc_in(dir, &all, input, Duration::from_mins(1));
    Run { code: ran.code.unwrap(), out: ran.out, err: ran.err }
}

fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap()))
        .collect()
}

fn corpus(lines: usize) -> String {
    (0..lines)
        .map(|at| {
            let words = "shard gather reduce scatter ".repeat(at % 7 + 1);
            if at % 3 == 0 {
                format!("{}\n", json!({"prompt": format!("line {at}?"), "completion": words}))
            } else {
                format!("{}\n", json!({"text": format!("{at} {words}")}))
            }
        })
        .collect()
}

#[test]
fn threads_change_no_byte_and_a_seed_changes_the_order() {
    let dir = Scratch::new("pack-threads");
    dir.write("a.jsonl", corpus(4000));
    let ran = pack(&dir.0, &["--threads", "1", "a.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let one = tree(&dir.0.join("packed"));
    assert_eq!(pack(&dir.0, &["--threads", "5", "a.jsonl"]).code, 0);
    assert!(tree(&dir.0.join("packed")) == one, "the number of threads shows");
    assert_eq!(pack(&dir.0, &["--seed", "3", "a.jsonl"]).code, 0);
    let shuffled = tree(&dir.0.join("packed"));
    assert!(shuffled["tokens-00000.bin"] != one["tokens-00000.bin"]);
    assert_eq!(pack(&dir.0, &["--seed", "3", "--threads", "3", "a.jsonl"]).code, 0);
    assert!(tree(&dir.0.join("packed")) == shuffled);
    let index =
        |tree: &BTreeMap<String, Vec<u8>>| -> Json { serde_json::from_slice(&tree["index.json"]).unwrap() };
    let (a, b) = (index(&one), index(&shuffled));
    for key in ["documents", "tokens", "sequences", "inputs"] {
        assert_eq!(a[key], b[key], "{key}");
    }
    assert_eq!(a["documents"], 4000);
    assert_eq!(a["masked"], true);
    assert_eq!(a["eos"], json!({"token": "<|endoftext|>", "id": 0}));
    let tokens = a["tokens"].as_u64().unwrap();
    assert_eq!(tokens, a["sequences"].as_u64().unwrap() * 16 + 1 + a["dropped_tokens"].as_u64().unwrap());
    assert!(ran.out.contains("labels are trained on") && ran.out.contains("4,000 documents"), "{}", ran.out);
}

#[test]
fn the_record_holds_tokens_mask_and_boundaries() {
    let dir = Scratch::new("pack-record");
    let line = json!({"prompt": "Q: a", "completion": " b"});
    let input = format!("{line}\n\n{}\n", json!({"text": "c d e f g h i j k"}));
    let ran = pack_with(&dir.0, "bytes", &["-"], input.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let vocabulary = vocabulary("bytes");
    let ids = |text: &str| vocabulary.encode(text, Additions::Made).unwrap().ids;
    let (prompt, first, second) = (ids("Q: a").len(), ids("Q: a b"), ids("c d e f g h i j k"));
    let mut all = first.clone();
    all.push(0);
    let boundary = all.len();
    all.extend(second);
    all.push(0);
    let bytes = std::fs::read(dir.0.join("packed/tokens-00000.bin")).unwrap();
    let record = &bytes[64..];
    let found: Vec<u32> =
        record[..34].chunks(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]]))).collect();
    assert_eq!(found, all[..17]);
    let trained = u16::from_le_bytes([record[34], record[35]]);
    for label in 0..16 {
        assert_eq!(trained >> label & 1 == 1, label + 1 >= prompt, "label {label}");
    }
    let begins = u32::from_le_bytes([record[36], record[37], record[38], 0]);
    assert_eq!(begins, 1 | 1 << boundary);
    assert_eq!(&bytes[..16], b"trainc.tokens/v1");
}

#[test]
fn questions_and_answers_take_the_shipped_template() {
    let dir = Scratch::new("pack-eli5");
    let line = json!({"title": "Why?", "answers": {"text": ["bad", "Because it is so."], "score": [1, 5]}});
    dir.write("qa.jsonl", format!("{line}\n"));
    let ran = pack(&dir.0, &["--template", "eli5", "qa.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let bytes = std::fs::read(dir.0.join("packed/tokens-00000.bin")).unwrap();
    let expected = vocabulary("bytes")
        .encode(
            "<human>: Explain like I am five: Why?\n<bot>: Because it is so.<|endoftext|>",
            Additions::LeftOut,
        )
        .unwrap();
    let found: Vec<u32> =
        bytes[64..98].chunks(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]]))).collect();
    assert_eq!(found, expected.ids[..17]);
    assert_eq!(bytes[98..100], [0, 0], "the question is masked");
}

/// The documents of a directory of packed data, each as its tokens: they end with token 0.
fn documents(tree: &BTreeMap<String, Vec<u8>>) -> Vec<Vec<u16>> {
    let mut all = Vec::new();
    // Records of 17 tokens, 2 + 3 bytes of flags and 4 of a sum; the last token is the next record's first.
    for record in tree["tokens-00000.bin"][64..].chunks(43) {
        all.extend(record[..32].chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])));
    }
    all.split(|id| *id == 0).map(<[u16]>::to_vec).collect()
}

#[test]
fn a_fraction_is_held_out_to_evaluate_on() {
    let dir = Scratch::new("pack-held");
    dir.write("a.jsonl", corpus(1000));
    dir.write("b.jsonl", corpus(300));
    assert_eq!(pack(&dir.0, &["a.jsonl", "b.jsonl"]).code, 0);
    let whole = documents(&tree(&dir.0.join("packed")));
    let ran = pack(&dir.0, &["--validation", "0.1", "a.jsonl", "b.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("packed: ") && ran.out.contains("packed-validation: "), "{}", ran.out);
    let both = || (tree(&dir.0.join("packed")), tree(&dir.0.join("packed-validation")));
    let (train, held) = both();
    let index =
        |tree: &BTreeMap<String, Vec<u8>>| -> Json { serde_json::from_slice(&tree["index.json"]).unwrap() };
    let (a, b) = (index(&train), index(&held));
    assert_eq!(a["split"], json!({"part": "train", "fraction": 0.1, "seed": 0}));
    assert_eq!(b["split"], json!({"part": "validation", "fraction": 0.1, "seed": 0}));
    let (kept, evaluated) = (a["documents"].as_u64().unwrap(), b["documents"].as_u64().unwrap());
    assert_eq!(kept + evaluated, 1300);
    assert!(evaluated.abs_diff(130) < 44, "{evaluated} of 1300");
    // Both parts together are all documents, each in one of them; in each the order of the input stays.
    let (train_documents, held_documents) = (documents(&train), documents(&held));
    let mut rest = held_documents.iter().peekable();
    let mut at = train_documents.iter().peekable();
    let last = train_documents.len().min(held_documents.len());
    for document in whole.iter().take(last) {
        if at.peek() == Some(&document) {
            at.next();
        } else {
            assert_eq!(rest.next(), Some(document), "a document that is in neither part");
        }
    }
    // Threads change nothing; another seed chooses others.
    assert_eq!(pack(&dir.0, &["--validation", "0.1", "--threads", "5", "a.jsonl", "b.jsonl"]).code, 0);
    assert!(both() == (train.clone(), held.clone()));
    assert_eq!(pack(&dir.0, &["--validation", "0.1", "--seed", "4", "a.jsonl", "b.jsonl"]).code, 0);
    let other = both();
    assert!(documents(&other.1) != documents(&held));
    let sum = index(&other.0)["documents"].as_u64().unwrap() + index(&other.1)["documents"].as_u64().unwrap();
    assert_eq!(sum, 1300);
}

#[test]
fn files_are_held_out_to_evaluate_on() {
    let dir = Scratch::new("pack-held-files");
    dir.write("a.jsonl", corpus(40));
    dir.write("b.jsonl", corpus(20));
    assert_eq!(pack(&dir.0, &["a.jsonl"]).code, 0);
    let alone = tree(&dir.0.join("packed"));
    let ran = pack(&dir.0, &["--validation", "b.jsonl", "a.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (train, held) = (tree(&dir.0.join("packed")), tree(&dir.0.join("packed-validation")));
    assert_eq!(train["tokens-00000.bin"], alone["tokens-00000.bin"]);
    let index: Json = serde_json::from_slice(&held["index.json"]).unwrap();
    assert_eq!((&index["documents"], &index["inputs"][0]["name"]), (&json!(20), &json!("b.jsonl")));
    assert_eq!(index["split"], json!({"part": "validation", "fraction": null, "seed": null}));
    // What cannot be.
    let usage = |args: &[&str], says: &str| {
        let ran = pack(&dir.0, args);
        assert!(ran.code == 2 && ran.err.contains(says), "{} {}", ran.code, ran.err);
    };
    usage(&["--validation", "1.5", "a.jsonl"], "1.5 is not between 0 and 1");
    usage(
        &["--validation", "0.1", "--validation", "b.jsonl", "a.jsonl"],
        "one fraction, e.g. `0.05`, or files",
    );
    usage(&["--validation", "nowhere.jsonl", "a.jsonl"], "nowhere.jsonl");
    dir.write("book.txt", "One text is one document, however long. ".repeat(30));
    refused(
        &pack(&dir.0, &["--validation", "0.01", "book.txt"]),
        &["T0525"],
        &["no document", "--validation FILE"],
    );
    assert!(!dir.0.join("packed-validation.partial").exists() && !dir.0.join("packed.partial").exists());
    assert!(tree(&dir.0.join("packed")) == train, "what was there before stays");
    std::fs::remove_dir_all(dir.0.join("packed-validation")).unwrap();
    dir.write("packed-validation/notes.md", "mine");
    usage(&["--validation", "b.jsonl", "a.jsonl"], "notes.md");
    assert!(!dir.0.join("packed.partial").exists(), "nothing is left");
}

#[track_caller]
fn refused(ran: &Run, codes: &[&str], says: &[&str]) {
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    for word in codes.iter().chain(says) {
        assert!(ran.err.contains(word), "`{word}` is not in\n{}", ran.err);
    }
}

#[test]
fn lines_that_are_no_documents_are_all_named() {
    let dir = Scratch::new("pack-lines");
    let mut text = corpus(40);
    text.push_str("{\"text\": \"cut\n");
    text.push_str(&corpus(3));
    text.push_str("{\"body\": \"x\"}\n");
    dir.write("a.jsonl", &text);
    let ran = pack(&dir.0, &["a.jsonl"]);
    refused(&ran, &["T0520", "T0521"], &["a.jsonl:41:", "a.jsonl:45:", "EOF while parsing", "`body`"]);
    assert!(!dir.0.join("packed").exists() && !dir.0.join("packed.partial").exists());
    dir.write("b.jsonl", "{}\n".repeat(50));
    refused(&pack(&dir.0, &["b.jsonl"]), &["T0521"], &["b.jsonl: 30 lines more cannot be packed"]);
}

#[test]
fn conversations_that_their_template_refuses() {
    let dir = Scratch::new("pack-template");
    let line =
        json!({"messages": [{"role": "system", "content": "x"}, {"role": "assistant", "content": "y"}]});
    dir.write("a.jsonl", format!("{line}\n"));
    refused(&pack(&dir.0, &["a.jsonl"]), &["T0522"], &["require a chat template", "--template FILE"]);
    refused(
        &pack(&dir.0, &["--template", "eli5", "a.jsonl"]),
        &["T0522"],
        &["a.jsonl:1:", "only users ask and", "found the role system"],
    );
    dir.write("bad.jinja", "{% for m in messages %}\n{{ m.content ");
    refused(
        &pack(&dir.0, &["--template", "bad.jinja", "a.jsonl"]),
        &["T0522"],
        &["cannot be read", "line 2"],
    );
}

/// A template comes with a model from elsewhere: what it does is bounded, and its steps and its syntax have a line.
#[test]
fn hostile_templates() {
    let dir = Scratch::new("pack-hostile");
    let line = |content: &str| json!({"messages": [{"role": "user", "content": content}]});
    dir.write("a.jsonl", format!("{}\n{}\n{}\n", line("hi"), line("hello"), line("hi")));
    let nested = "{% set n = namespace(s=['a'], t=['a']) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}";
    for (template, whys) in [
        (
            "{% for a in range(100000) %}{% for b in range(100000) %}{% set x = 1 %}{% endfor %}{% endfor %}",
            &["too many steps in its line 3"][..],
        ),
        (&"{% if true %}".repeat(100_000), &["recursion limits", "in its line 3"]),
        ("{{ 'a' * 10 ** 15 }}", &[]),
        ("{{ 'a' | indent(9999999999999) }}", &[]),
        (
            "{% set n = namespace(l=[1]) %}{% for a in range(100000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
            &[],
        ),
        (&format!("{nested}{{{{ n.s == n.t }}}}"), &["more than 2 s of processor time"]),
        (
            "{% set l = range(100000) | list %}{% for i in range(100000) %}{% set x = -1 in l %}{% endfor %}",
            &["more than 2 s of processor time"],
        ),
    ] {
        let only_hello = format!("{{% if messages[0].content == 'hello' %}}{template}{{% endif %}}");
        let template = if whys.contains(&"recursion limits") { template.to_owned() } else { only_hello };
        dir.write("hostile.jinja", format!("{{# a comment #}}\n\n{template}\n"));
        let ran = pack(&dir.0, &["--template", "hostile.jinja", "--threads", "1", "a.jsonl"]);
        let is_read = !ran.err.contains("cannot be read");
        refused(&ran, &["T0522"], if is_read { &["a.jsonl:2:"] } else { &[] });
        let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(whys.iter().all(|why| said.contains(why)), "{whys:?} {}", ran.err);
    }
}

/// A tokenizer comes with a model from elsewhere: it is read apart, with limits.
#[test]
fn hostile_tokenizers() {
    let dir = Scratch::new("pack-hostile-tokenizer");
    dir.write("a.jsonl", "{\"text\": \"b\"}\n{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let special = json!({"id": 2, "content": "<e>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let mut tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special], "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "<e>": 2}, "merges": []},
    });
    let run = || {
        let args = ["--tokenizer", "tokenizer.json", "--sequence-length", "2", "--eos", "<e>", "a.jsonl"];
        pack(&dir.0, &args)
    };
    dir.write("tokenizer.json", tokenizer.to_string());
    let whole = run();
    assert_eq!(whole.code, 0, "{}", whole.err);
    let text = tokenizer.to_string();
    for at in (0..text.len()).step_by(13) {
        dir.write("tokenizer.json", &text[..at]);
        refused(&run(), &["T0523"], &["tokenizer.json"]);
    }
    let doubling = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": vec![doubling; 40]});
    dir.write("tokenizer.json", tokenizer.to_string());
    dir.write("a.jsonl", "{\"text\": \"b\"}\n{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
    let ran = run();
    refused(&ran, &["T0770"], &["a.jsonl:2:", "cannot be tokenized: it takes more than"]);
    assert!(!dir.0.join("packed.partial").exists());
}

#[test]
fn a_document_that_is_too_large() {
    let dir = Scratch::new("pack-large");
    let large = "ab cd ".repeat(50_000_000 / 6);
    dir.write("large.jsonl", format!("{}\n{}\n", json!({"text": "a"}), json!({"text": large})));
    refused(&pack(&dir.0, &["large.jsonl"]), &["T0690", "large.jsonl:2:"], &["larger than 8 MiB"]);
    dir.write("large.txt", &large);
    refused(&pack(&dir.0, &["large.txt"]), &["T0690"], &["larger than 8 MiB"]);
    assert!(std::process::Command::new("mkfifo").arg(dir.0.join("fifo.jsonl")).status().unwrap().success());
    for (input, why) in
        [("fifo.jsonl", "no process writes to this pipe"), ("/dev/zero", "not a regular file")]
    {
        let ran = pack(&dir.0, &[input]);
        assert_eq!(ran.code, 2, "{input}: {}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
    }
    let piped = pack_with(&dir.0, "bytes", &["/dev/stdin"], corpus(40).as_bytes());
    assert_eq!(piped.code, 0, "{}", piped.err);
}

#[test]
fn a_template_that_drops_what_was_said() {
    let dir = Scratch::new("pack-drops");
    let said = |role: &str, content: &str| json!({"role": role, "content": content});
    let messages = [said("user", "a"), said("assistant", "b"), said("user", "c"), said("assistant", "d")];
    dir.write("a.jsonl", format!("{}\n", json!({"messages": messages})));
    dir.write(
        "last.jinja",
        "{% for m in messages %}{{ m.role }} {% if loop.last %}{{ m.content }}{% endif %}{% endfor %}",
    );
    refused(
        &pack(&dir.0, &["--template", "last.jinja", "a.jsonl"]),
        &["T0526"],
        &["message 2", "--train-on all"],
    );
    let ran =
        pack(&dir.0, &["--template", "last.jinja", "--train-on", "all", "--sequence-length", "4", "a.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn what_the_tokenizer_cannot_do() {
    let dir = Scratch::new("pack-tokenizer");
    dir.write("a.jsonl", corpus(3));
    dir.write("tokenizer.json", "{\"version\": \"1.0\"}");
    refused(&pack(&dir.0, &["--tokenizer", "tokenizer.json", "a.jsonl"]), &["T0523"], &["tokenizer.json"]);
    dir.write("alone.json", read("tests/packing/bytes/tokenizer.json"));
    refused(
        &pack(&dir.0, &["--tokenizer", "alone.json", "a.jsonl"]),
        &["T0524"],
        &["no token is known to end a document", "`<|endoftext|>`"],
    );
    refused(
        &pack(&dir.0, &["--eos", "<|endoftxt|>", "a.jsonl"]),
        &["T0524"],
        &["no token `<|endoftxt|>`", "--eos '<|endoftext|>'"],
    );
    refused(&pack(&dir.0, &["--vocab-size", "300", "a.jsonl"]), &["T0527"], &["419", "300 rows"]);
    let ran = pack(&dir.0, &["--vocab-size", "50304", "a.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn too_little_to_pack() {
    let dir = Scratch::new("pack-little");
    dir.write("a.txt", "short\n");
    dir.write("empty.jsonl", "\n\n");
    refused(&pack(&dir.0, &["a.txt"]), &["T0525"], &["1 document with", "takes 17"]);
    refused(&pack(&dir.0, &["empty.jsonl"]), &["T0525"], &["no document"]);
}

#[test]
fn foreign_partial_output_stays() {
    let scratch = Scratch::new("pack-partial");
    scratch.write("c.jsonl", corpus(40));
    scratch.write("packed.partial/notes.txt", "mine");
    let ran = pack(&scratch.0, &["c.jsonl"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("`packed.partial` holds `notes.txt`"), "{}", ran.err);
    std::fs::remove_file(scratch.0.join("packed.partial/notes.txt")).unwrap();
    scratch.write("packed.partial/tokens-00000.bin", "of a run that was killed");
    assert_eq!(pack(&scratch.0, &["c.jsonl"]).code, 0);
}

#[test]
fn foreign_output_stays() {
    let dir = Scratch::new("pack-foreign");
    dir.write("a.jsonl", corpus(30));
    dir.write("packed/notes.md", "mine");
    let ran = pack(&dir.0, &["a.jsonl"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("notes.md"), "{}", ran.err);
    assert_eq!(tree(&dir.0.join("packed")).len(), 1);
    std::fs::remove_file(dir.0.join("packed/notes.md")).unwrap();
    assert_eq!(pack(&dir.0, &["a.jsonl"]).code, 0);
    assert_eq!(pack(&dir.0, &["a.jsonl"]).code, 0, "our own is replaced");
    assert_eq!(pack(&dir.0, &["missing.jsonl"]).code, 2);
}

/// `tests/packing/sample` is what the worker's tests read.
#[test]
fn the_sample_of_the_worker_is_what_is_written() {
    let dir = Scratch::new("pack-sample");
    dir.write("a.jsonl", corpus(6));
    let ran = pack(&dir.0, &["--sequence-length", "12", "--vocab-size", "420", "a.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (made, sample) = (tree(&dir.0.join("packed")), root().join("tests/packing/sample"));
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::create_dir_all(&sample).unwrap();
        for (name, bytes) in &made {
            std::fs::write(sample.join(name), bytes).unwrap();
        }
    }
    assert!(made == tree(&sample), "TRAINC_BLESS=1 writes it anew");
}
