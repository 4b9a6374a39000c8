//! Reading of token shards, and invalid ones.

use std::path::Path;

use serde_json::json;
use trainc_worker::data::tokens::{Documents, Rows, Tokens, write_masked};
use trainc_worker::exit::Code;
use trainc_worker::kernels::rows::IGNORED;
use trainc_worker::thread_ranks::train_on_threads;

use crate::cases::{Place, llama, mesh, parse, tokens, write_data};

#[test]
fn masks_and_boundaries_come_back() {
    let place = Place::new("masks");
    let all: Vec<u32> = (0..27).collect();
    // Sequences of 8 labels; tokens 5 and 12 begin documents, tokens 2, 3 and 13 are not trained on.
    let (trained, begins) = (|at: usize| ![2, 3, 13].contains(&at), |at: usize| [5, 12].contains(&at));
    write_masked(&place.0, 8, 70_000, &all, 2, &trained, &begins).unwrap();
    let read = |documents| {
        let tokens = Tokens::open(&place.0, 8, 70_000, documents).unwrap();
        let mut rows = Rows::default();
        for sequence in [1, 0, 2] {
            tokens.read(sequence, &mut rows).unwrap();
        }
        rows
    };
    let joined = read(Documents::Joined);
    let x = IGNORED;
    assert_eq!(joined.inputs[..9], [9, 10, 11, 12, 13, 14, 15, 16, 0]);
    assert_eq!(joined.labels[..16], [10, 11, 12, x, 14, 15, 16, 17, 1, x, x, 4, 5, 6, 7, 8]);
    assert!(joined.begins.is_empty());
    let apart = read(Documents::Apart);
    assert_eq!(apart.labels[..16], [10, 11, x, x, 14, 15, 16, 17, 1, x, x, 4, x, 6, 7, 8]);
    assert_eq!(apart.begins[..16], [0, 0, 0, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 5, 5, 5]);
}

#[test]
fn packed_shards_can_be_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/packing/sample");
    let mut tokens = Tokens::open(&directory, 12, 420, Documents::Apart).unwrap();
    tokens.verify().unwrap();
    let mut rows = Rows::default();
    for sequence in 0..tokens.sequences() {
        tokens.read(sequence, &mut rows).unwrap();
    }
    assert!(!tokens.has_no_excluded_labels());
    assert!(rows.count_labels() > 0 && rows.count_labels() < rows.labels.len());
    // The end of a document is a label; the token after it is not.
    let ends: Vec<usize> = (0..rows.inputs.len()).filter(|at| rows.inputs[*at] == 0).collect();
    assert!(ends.len() > 2);
    for at in ends {
        assert_eq!(rows.labels[at], IGNORED, "{at}");
    }
}

/// Two documents in one sequence give the same losses as separately.
#[test]
fn documents_in_a_sequence_are_separated() {
    let place = Place::new("apart");
    let all = tokens(16, 24, 61, 3);
    let run = |name: &str, text: &[u32], begins: &dyn Fn(usize) -> bool, family: &str| -> f64 {
        let directory = place.0.join(name);
        write_masked(&directory, 24, 61, text, 5, &|_| true, begins).unwrap();
        let mut config = mesh(llama(&place), 2, 1, 1);
        if family == "learned" {
            config["model"]["positions"] =
                json!({"kind": "learned", "theta": null, "fraction": null, "scaling": null});
        }
        config["data"]["train"] = json!(place.at(name));
        config["data"]["document_mask"] = json!(true);
        config["data"]["shuffle"] = json!(false);
        config["schedule"]["steps"] = json!(1);
        let (_, lines, _) = train_on_threads(&parse(&config)).unwrap();
        lines[0].loss
    };
    for family in ["rotary", "learned"] {
        // Documents of 9 and 16 tokens: 8 and 15 labels, 23 in all.
        let both = run("both", &all[..8 * 25], &|at| [0, 9].contains(&(at % 25)), family);
        // The second document on its own: it starts the sequence and is followed by another document, whose labels are
        // counted separately.
        let halves: Vec<u32> = all[..8 * 25]
            .chunks(25)
            .flat_map(|s| s[9..].iter().chain(&s[..9]).copied().collect::<Vec<_>>())
            .collect();
        let turned = run("turned", &halves, &|at| [0, 16].contains(&(at % 25)), family);
        assert!((both - turned).abs() < 2e-6 * both, "{family}: {both} and {turned}");
        let joined = run("joined", &all[..8 * 25], &|_| false, family);
        assert!((both - joined).abs() > 1e-4, "{family}: {both} and {joined}");
    }
}

#[test]
fn truncated_or_modified_files_are_errors() {
    let place = Place::new("shrinks");
    let directory = place.0.join("train");
    write_data(&directory, 40, 24, 61, 1);
    let file = directory.join("tokens-00003.bin");
    let good = std::fs::read(&file).unwrap();
    let config = parse(&mesh(llama(&place), 2, 1, 1));
    let refused = |what: &str| {
        let failure = train_on_threads(&config).unwrap_err();
        assert_eq!(failure.code, Code::Data, "{failure}");
        assert!(failure.message.contains(what), "{failure} does not say `{what}`");
    };
    std::fs::write(&file, &good[..good.len() - 1]).unwrap();
    refused("tokens-00003.bin has");
    let mut bytes = good.clone();
    bytes[9] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    refused("its header does not match file 3");
    bytes.clone_from(&good);
    bytes[70] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    refused("checksum mismatch");
    let open = || Tokens::open(&directory, 24, 61, Documents::Joined).unwrap();
    assert!(open().verify().unwrap_err().message.contains("sha256"));
    // While the file is open in a run.
    std::fs::write(&file, &good).unwrap();
    let tokens = open();
    tokens.read(17, &mut Rows::default()).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
    let failure = tokens.read(17, &mut Rows::default()).unwrap_err();
    assert_eq!(failure.code, Code::Data);
    assert!(failure.message.contains("truncated after the run began"), "{failure}");
    std::fs::remove_file(&file).unwrap();
    refused("tokens-00003.bin");
}

/// Every sequence of an epoch is read once, whichever ranks stop and resume.
#[test]
fn a_resumed_epoch_continues_with_the_next_sequence() {
    let place = Place::new("unread");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let mut base = llama(&place);
    base["schedule"]["steps"] = json!(5);
    let (_, whole, _) = train_on_threads(&parse(&base)).unwrap();
    std::fs::remove_dir_all(place.at("checkpoints")).unwrap();
    base["checkpoint"]["every_steps"] = json!(1);
    base["checkpoint"]["keep"] = json!(9);
    base["checkpoint"]["resume"] = json!("auto");
    let mut losses = Vec::new();
    for (stop, shards, replicas) in [(2, 1, 2), (3, 4, 1), (5, 2, 2)] {
        // The state of a run killed at this step.
        let mut config = mesh(base.clone(), shards, replicas, 1);
        config["data"]["epochs"] = json!(1);
        let (_, lines, _) = train_on_threads(&parse(&config)).unwrap();
        losses.extend(lines.iter().take_while(|l| l.step <= stop).map(|l| l.loss));
        for step in stop + 1..=5 {
            let _ = std::fs::remove_dir_all(place.0.join(format!("checkpoints/step-{step:08}")));
        }
    }
    assert_eq!(losses.len(), whole.len());
    for (found, line) in losses.iter().zip(&whole) {
        assert!((found - line.loss).abs() < 2e-6 * line.loss, "{found}, whole {}", line.loss);
    }
}
