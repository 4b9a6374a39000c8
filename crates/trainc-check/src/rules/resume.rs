//! Whether the program of a spot job loads its checkpoints.

use crate::Context;
use crate::queries::script_values::text_of;
use trainc_catalog::checkpoint_calls::{self, CheckpointCall, CheckpointCallKind};
use trainc_catalog::requirement_facts::is_standard_library;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::checkpoint_parts::DEFAULT_CHECKPOINT_PATH;
use trainc_ir::{Checkpoint, Plan, Program, Scalar, Script, ScriptModule, Spot};
use trainc_python::{Call, Expr};

declare_code!(
    T0262,
    "checkpoint-never-read",
    Warning,
    "a spot job whose program never reads its checkpoints"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0262];

/// Words in the names of functions, keywords and attributes that load a checkpoint.
const LOADS: &[&str] =
    &["load", "restore", "resume", "latest", "last_checkpoint", "from_pretrained", "from_checkpoint"];
/// Those in the names of keywords and attributes, where `load` says little: `load_in_8bit`, `dataloader`.
const RESUMES: &[&str] = &["restore", "resume", "latest", "ckpt_path", "load_path", "load_state"];

/// Searches the program: only for spot jobs, which must resume, and only where the whole program is
/// available.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(checkpoint), Some(program), Some(tree)) =
        (&plan.job.checkpoint, &plan.job.program, &plan.source)
    else {
        return;
    };
    let Some(spot) = plan.job.cluster.as_ref().and_then(|cluster| cluster.spot.as_ref()) else { return };
    // Without a prefix nothing is kept: T0426.
    if checkpoint.s3.is_absent() || tree.files.is_empty() {
        return;
    }
    let local = checkpoint.local.value().map_or(DEFAULT_CHECKPOINT_PATH, |local| local.trim_end_matches('/'));
    if is_named(plan, program, local) {
        check_loads(plan, (checkpoint, spot), local, problems);
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0262,
            checkpoint.span,
            format!("neither the program nor its arguments refer to `{local}`"),
        )
        .label(spot.span, "a spot job resumes from this directory")
        .help(format!(
            "load from and save to `{local}` in the program, or pass it: `hyperparameter \"checkpoint_dir\" \
                    \"{local}\"`"
        ))
        .note(format!("found by searching the text of {}", text::count(tree.files.len() as u64, "file"))),
    );
}

/// Returns whether a file or a value names the directory, or the variable that has it.
fn is_named(plan: &Plan, program: &Program, local: &str) -> bool {
    let all = plan.source.iter().chain(&plan.dependencies).flat_map(|tree| &tree.files);
    let in_files = all.into_iter().any(|file| {
        let text = file.text();
        text.contains(local) || text.contains("SM_CHECKPOINT")
    });
    in_files
        || program
            .hyperparameters
            .iter()
            .any(|h| matches!(h.value.value(), Some(Scalar::Text(text)) if text.contains(local)))
        || program.environment.iter().any(|pair| pair.value.value().is_some_and(|text| text.contains(local)))
        || program.arguments.iter().any(|word| word.value.contains(local))
}

/// Reports a program that writes checkpoints and has no call that may load one.
fn check_loads(plan: &Plan, (checkpoint, spot): (&Checkpoint, &Spot), local: &str, problems: &mut Problems) {
    let is_read = |script: &&std::sync::Arc<Script>| script.is_whole && !script.starts_programs();
    let Some(script) = plan.script.as_ref().filter(is_read) else { return };
    let mut writes: Option<(&ScriptModule, &Call, &CheckpointCall)> = None;
    for module in &script.modules {
        let mut attributes = module.module.attributes.iter();
        if attributes.any(|attribute| has_word(&attribute.name, RESUMES)) {
            return;
        }
        let texts = |call: &'_ Call| {
            let known = call.arguments.iter().filter_map(|one| text_of(plan, module, &one.value));
            known.map(|known| known.text).collect::<Vec<_>>().into_iter()
        };
        for call in &module.module.calls {
            let full = module.module.full_name(&call.name);
            let row = checkpoint_calls::get(call.function(), &full, |package| script.imports(package));
            let is_own = script.modules.iter().any(|one| declares(one, call.function()));
            let may_load = resumes(call, row)
                // A class of the program itself is read as well.
                || (row.is_none() && !is_own && loads(plan, module, call, local));
            if may_load {
                return;
            }
            // A package that is told the directory may resume by itself.
            if row.is_none() && is_of_package(script, &full) && texts(call).any(|text| text.contains(local)) {
                return;
            }
            let is_elsewhere = || {
                let mut known = texts(call).peekable();
                known.peek().is_some() && !known.any(|text| text.contains(local))
            };
            let is_write = |row: &&CheckpointCall| match row.kind {
                CheckpointCallKind::Other => false,
                CheckpointCallKind::Writes => !is_elsewhere(),
                CheckpointCallKind::Trains => true,
            };
            if let Some(row) = row.filter(is_write) {
                // One that trains says why it does not resume.
                let is_better =
                    row.says.is_some() && writes.as_ref().is_none_or(|(.., other)| other.says.is_none());
                if writes.is_none() || is_better {
                    writes = Some((module, call, row));
                }
            }
        }
    }
    let Some((module, call, row)) = writes else { return };
    let diagnostic = Diagnostic::new(
        &T0262,
        checkpoint.span,
        format!(
            "the program writes to `{local}` and never loads from it: each interruption starts it from zero"
        ),
    )
    .label(spot.span, "a spot job is interrupted")
    .label(module.span(&call.at), "writes, and loads nothing")
    .help("load the newest checkpoint of the directory before training");
    problems.push(match &row.says {
        Some(says) => diagnostic.note(format!("{says} ({})", row.provenance.source)),
        None => diagnostic.note("no call of the program has the name of one that loads a checkpoint"),
    });
}

/// Returns whether a full name is that of a package which the program imports, and not of Python itself.
fn is_of_package(script: &Script, full: &str) -> bool {
    let package = full.split('.').next().unwrap_or_default();
    script.imports(package) && !is_standard_library(package, None)
}

/// Returns whether a module declares a class of this name.
fn declares(module: &ScriptModule, name: &str) -> bool {
    module.module.classes.iter().any(|class| class.name == name)
}

/// Returns whether a keyword of a call makes it load a checkpoint, or may be among those of `**options`.
fn resumes(call: &Call, row: Option<&CheckpointCall>) -> bool {
    let trains = row.filter(|row| row.kind == CheckpointCallKind::Trains);
    let is_keyword = |keyword: &str| {
        has_word(keyword, RESUMES) || trains.is_some_and(|row| row.keywords.iter().any(|one| one == keyword))
    };
    let is_given = |value: &Expr| !matches!(value, Expr::None | Expr::Bool(false));
    let mut arguments = call.arguments.iter();
    arguments.any(|argument| argument.keyword.as_deref().is_some_and(is_keyword) && is_given(&argument.value))
        || trains.is_some() && call.is_open
}

/// Returns whether a call has the name of one that loads something, unless that is known to be elsewhere:
/// weights of a model, from the Hub or another directory.
fn loads(plan: &Plan, module: &ScriptModule, call: &Call, local: &str) -> bool {
    let known = || call.arguments.iter().find_map(|argument| text_of(plan, module, &argument.value));
    has_word(call.function(), LOADS) && known().is_none_or(|known| known.text.contains(local))
}

/// Returns whether a name contains one of the words.
fn has_word(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word))
}
