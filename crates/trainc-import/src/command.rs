//! The command of a `ModelTrainer`: a launcher with its options, a script, and the script's arguments.

use std::collections::BTreeSet;
use trainc_catalog::engine_files::{self, KeyOwner};

/// Where the drivers of the SDK v3 have the source. The command starts there.
const CODE: &str = "/opt/ml/input/data/code";

/// What starts a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Starter {
    /// Nothing: one process on each host.
    #[default]
    Plain,
    /// torchrun.
    Torchrun {
        /// Processes on each host; one for each GPU unless written.
        processes: Option<u64>,
    },
    /// `accelerate launch`, with its file in the source, if it has one.
    Accelerate {
        /// Path of the file, from the source.
        file: Option<String>,
    },
}

/// A script with what starts it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Command {
    /// What starts it.
    pub(super) starter: Starter,
    /// Path of the script, from the source.
    pub(super) entry: String,
    /// Its arguments, each with its value; `None` for a switch.
    pub(super) arguments: Vec<(String, Option<String>)>,
}

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq)]
struct Word {
    text: String,
    /// Whether the shell replaces a part of it.
    is_expanded: bool,
}

impl Command {
    /// Reads a command and further arguments, which are passed as they are. The error is why it is not one
    /// script with named arguments, as the end of a sentence.
    pub(super) fn read(text: &str, further: &[String]) -> Result<Self, String> {
        let mut words = words(text)?;
        words.extend(further.iter().map(|text| Word { text: text.clone(), is_expanded: false }));
        let first = words.first().map(|word| word.text.as_str()).ok_or("it is empty")?;
        let mut out = Self::default();
        let mut at = 1;
        let has = |at: usize, text: &str| words.get(at).is_some_and(|word| word.text == text);
        match first.rsplit('/').next().unwrap_or(first) {
            "bash" | "sh" => {}
            "torchrun" => out.starter = Starter::Torchrun { processes: None },
            "accelerate" if has(1, "launch") => {
                out.starter = Starter::Accelerate { file: None };
                at = 2;
            }
            "python" | "python3" => {
                while has(at, "-u") {
                    at += 1;
                }
                if has(at, "-m") {
                    out.starter = match words.get(at + 1).map(|word| word.text.as_str()) {
                        Some("torch.distributed.run" | "torch.distributed.launch") => {
                            Starter::Torchrun { processes: None }
                        }
                        Some("accelerate.commands.launch") => Starter::Accelerate { file: None },
                        _ => return Err("it starts a module, not a script".to_owned()),
                    };
                    at += 2;
                }
            }
            _ if first.contains('=') => return Err("it sets variables of the shell".to_owned()),
            name if is_script(name) => at = 0,
            _ => return Err(format!("it starts `{first}`")),
        }
        let options = words.get(at..).unwrap_or_default();
        let used = out.read_launcher(options)?;
        let mut rest = options.get(used..).unwrap_or_default().iter();
        let script = rest.next().ok_or("it has no script")?;
        out.entry = in_source(script).ok_or_else(|| format!("`{}` is not in the source", script.text))?;
        if !is_script(&out.entry) {
            return Err(format!("`{}` is neither a Python nor a shell script", script.text));
        }
        out.arguments = arguments(rest.as_slice())?;
        Ok(out)
    }

    /// Reads the options of the launcher, and returns their number of words.
    fn read_launcher(&mut self, words: &[Word]) -> Result<usize, String> {
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
            let (name, inside) = match word.text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.text.as_str(), None),
            };
            let key = name.trim_start_matches('-').replace('-', "_");
            at += 1;
            let refused = || Err(format!("trainc has no word for its option `{name}`"));
            if is_switch(&self.starter, &key) {
                continue;
            }
            let value = inside.unwrap_or_else(|| {
                at += 1;
                words.get(at - 1).map(|word| word.text.as_str()).unwrap_or_default()
            });
            match &mut self.starter {
                Starter::Torchrun { processes } if PER_HOST.contains(&key.as_str()) => {
                    *processes = value.parse().ok();
                }
                Starter::Torchrun { .. } if OF_TORCHRUN.contains(&key.as_str()) => {}
                Starter::Accelerate { file } if key == "config_file" => {
                    let found = Word { text: value.to_owned(), is_expanded: value.contains('$') };
                    *file = Some(in_source(&found).ok_or_else(|| format!("`{value}` is not in the source"))?);
                }
                Starter::Accelerate { .. } if is_key_of_launch(&key) => {}
                _ => return refused(),
            }
        }
        Ok(at)
    }
}

/// Options of torchrun for the number of processes on a host.
const PER_HOST: [&str; 1] = ["nproc_per_node"];

/// Options of torchrun that say on which hosts it runs, which its launcher knows.
const OF_TORCHRUN: [&str; 8] = [
    "nnodes",
    "node_rank",
    "master_addr",
    "master_port",
    "rdzv_backend",
    "rdzv_endpoint",
    "rdzv_id",
    "rdzv_conf",
];

/// Returns whether an option has no value: one that says on which hosts the launcher runs.
fn is_switch(starter: &Starter, key: &str) -> bool {
    match starter {
        Starter::Torchrun { .. } => key == "standalone",
        Starter::Accelerate { .. } => key == "same_network",
        Starter::Plain => false,
    }
}

/// Returns whether an option of `accelerate launch` is a key of its file that the launcher sets.
fn is_key_of_launch(key: &str) -> bool {
    let table = engine_files::keys("accelerate");
    table.and_then(|table| table.find(key)).is_some_and(|row| row.owner == KeyOwner::Launcher)
}

fn is_script(name: &str) -> bool {
    let extension = std::path::Path::new(name).extension();
    extension.is_some_and(|extension| extension == "py" || extension == "sh")
}

/// Returns a path from the source; `None` for one outside of it.
fn in_source(word: &Word) -> Option<String> {
    let path = match word.text.strip_prefix(CODE) {
        Some(rest) => rest.strip_prefix('/')?,
        None => &word.text,
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_inside = !path.starts_with('/') && !parts.contains(&"..") && !word.is_expanded;
    (is_inside && !parts.is_empty()).then(|| parts.join("/"))
}

/// Returns the arguments by their names.
fn arguments(words: &[Word]) -> Result<Vec<(String, Option<String>)>, String> {
    let mut out: Vec<(String, Option<String>)> = Vec::new();
    let mut names = BTreeSet::new();
    let is_name = |word: &Word| word.text.starts_with('-') && word.text.parse::<f64>().is_err();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word.is_expanded {
            return Err(format!("`{}` is a variable of the shell", word.text));
        }
        if !is_name(word) {
            return Err(format!("the argument `{}` has no name", word.text));
        }
        let (name, inside) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.text.as_str(), None),
        };
        let short = name.trim_start_matches('-');
        // One letter has one dash: so trainc passes it.
        if short.is_empty() || (short.len() == 1) == name.starts_with("--") {
            return Err(format!("the argument `{name}` has no name"));
        }
        let next = words.get(at).filter(|next| inside.is_none() && !is_name(next));
        if next.is_some_and(|next| next.is_expanded) {
            return Err(format!("the value of `{name}` is a variable of the shell"));
        }
        at += usize::from(next.is_some());
        let value = inside.or_else(|| next.map(|next| next.text.clone()));
        if !names.insert(short.to_owned()) {
            return Err(format!("the argument `{name}` is there twice"));
        }
        out.push((short.to_owned(), value));
    }
    Ok(out)
}

/// Splits a command into words as a POSIX shell does; the error says why it is more than one command.
fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut out = Vec::new();
    let mut word: Option<Word> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // The SDK joins the words of several lines.
            c if c.is_whitespace() => out.extend(word.take()),
            ';' | '|' | '&' | '<' | '>' | '(' | ')' | '`' => {
                return Err(format!("`{c}` makes it more than one command"));
            }
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => quoted.text.push(c),
                        None => return Err("a quotation does not end".to_owned()),
                    }
                }
            }
            '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some('\n') | None => {}
                            Some(c) => {
                                // Before any other letter the backslash is one.
                                if !matches!(c, '$' | '`' | '"' | '\\') {
                                    quoted.text.push('\\');
                                }
                                quoted.text.push(c);
                            }
                        },
                        Some('`') => return Err("`` ` `` makes it more than one command".to_owned()),
                        Some(c) => {
                            quoted.is_expanded |= c == '$';
                            quoted.text.push(c);
                        }
                        None => return Err("a quotation does not end".to_owned()),
                    }
                }
            }
            // Before the end of a line, and before a letter that it quotes.
            '\\' => match chars.next() {
                Some(c) if !c.is_whitespace() => word.get_or_insert_default().text.push(c),
                _ => {}
            },
            c => {
                let word = word.get_or_insert_default();
                word.is_expanded |= matches!(c, '$' | '*' | '?' | '[' | '~');
                word.text.push(c);
            }
        }
    }
    out.extend(word);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, starter: Starter, entry: &str, expected: &[(&str, Option<&str>)]) {
        let found = Command::read(text, &[]).unwrap();
        assert_eq!((found.starter, found.entry.as_str()), (starter, entry));
        let arguments: Vec<_> =
            found.arguments.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(arguments, expected);
    }

    #[test]
    fn a_command_is_a_launcher_a_script_and_its_arguments() {
        check(
            "python train.py --epochs 3 --lr=-1e-4",
            Starter::Plain,
            "train.py",
            &[("epochs", Some("3")), ("lr", Some("-1e-4"))],
        );
        check(
            "bash ./jobs/run.sh --config 'a b.yaml' --eval",
            Starter::Plain,
            "jobs/run.sh",
            &[("config", Some("a b.yaml")), ("eval", None)],
        );
        check(
            "torchrun --nnodes=$N --nproc_per_node 4 --node-rank ${R} train.py -c x",
            Starter::Torchrun { processes: Some(4) },
            "train.py",
            &[("c", Some("x"))],
        );
        check(
            "python -u -m torch.distributed.run train.py",
            Starter::Torchrun { processes: None },
            "train.py",
            &[],
        );
        check(
            "accelerate launch --config_file /opt/ml/input/data/code/fsdp.yaml \\\n --num_processes 8 \
                /opt/ml/input/data/code/grpo.py",
            Starter::Accelerate { file: Some("fsdp.yaml".to_owned()) },
            "grpo.py",
            &[],
        );
        check("./run.sh", Starter::Plain, "run.sh", &[]);
        let further = Command::read("python train.py", &["--note".to_owned(), "a; b".to_owned()]).unwrap();
        assert_eq!(further.arguments, [("note".to_owned(), Some("a; b".to_owned()))]);
    }

    #[test]
    fn another_command_is_refused_with_the_reason() {
        for (text, reason) in [
            ("source setup.sh && python train.py", "`&` makes it more than one command"),
            ("python train.py data.json", "the argument `data.json` has no name"),
            ("python train.py --lr 1 --lr 2", "the argument `--lr` is there twice"),
            ("python train.py --data $DATA", "the value of `--data` is a variable of the shell"),
            ("python -m trainer", "it starts a module, not a script"),
            ("deepspeed train.py", "it starts `deepspeed`"),
            ("NCCL_DEBUG=INFO python train.py", "it sets variables of the shell"),
            ("bash /opt/run.sh", "`/opt/run.sh` is not in the source"),
            ("bash ../run.sh", "`../run.sh` is not in the source"),
            ("torchrun --max-restarts 2 train.py", "trainc has no word for its option `--max-restarts`"),
            (
                "accelerate launch --mixed_precision bf16 t.py",
                "trainc has no word for its option `--mixed_precision`",
            ),
            ("torchrun", "it has no script"),
            ("", "it is empty"),
            ("python 'train.py", "a quotation does not end"),
        ] {
            assert_eq!(Command::read(text, &[]), Err(reason.to_owned()), "{text}");
        }
    }
}
