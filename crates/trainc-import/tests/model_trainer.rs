//! Scripts with `ModelTrainer`, in the shapes of public notebooks, import to manifests without errors but for placeholders.
//!
//! `tests/import/trainer` has each script with the record of its run under the SageMaker SDK v3, and the sources that they name;
//! `tests/python/test_import_scripts.py` runs them.

#![expect(clippy::disallowed_methods, reason = "the test reads and writes files")]

use std::fs;
use std::path::{Path, PathBuf};
use trainc_diag::Severity;
use trainc_import::Recording;
use trainc_import::conversion::{Converted, convert_recording};
use trainc_import::destination::Destination;
use trainc_plan::Options;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import/trainer").canonicalize().unwrap()
}

/// Copies a directory with what is below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            drop(fs::copy(entry.path(), target).unwrap())
        }
    }
}

/// A directory that is deleted at the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Imports the record of a script, in a directory of its own with the sources.
fn imported(name: &str) -> (Place, Converted) {
    let work = std::env::temp_dir().join(format!("trainc-trainer-{name}-{}", std::process::id()));
    fs::create_dir_all(&work).unwrap();
    let work = work.canonicalize().unwrap();
    let directory = Place(work.clone());
    copy(&scripts(), &work);
    fs::create_dir(work.join(".git")).unwrap();
    let record = fs::read_to_string(work.join(format!("{name}.record"))).unwrap();
    let mut recording = Recording::read(&record.replace("${work}", &work.to_string_lossy()));
    assert!(recording.ended && recording.failure.is_none(), "{name}: {:?}", recording.failure);
    let to = Destination { out: Some(work.join("job.kdl")), request: None, prints_one: true };
    let script = work.join(format!("{name}.py"));
    let mut done = convert_recording(&to, &Options::default(), &script, "", &mut recording).unwrap();
    assert_eq!(done.len(), 1, "{name}");
    (directory, done.remove(0))
}

#[test]
fn scripts_with_a_trainer_become_programs_with_their_source() {
    let mut seen = 0;
    for entry in fs::read_dir(scripts()).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (_directory, job) = imported(&name);
        let manifest = &job.imported.manifest;
        if std::env::var_os("TRAINC_SHOW").is_some() {
            println!("==== {name}\n{manifest}");
            for one in job.compiled.problems.iter() {
                println!("   {} {:?} {}", one.code.id, one.severity, one.message);
            }
            println!("  unsupported {:#?}", job.imported.unsupported);
        }
        let errors: Vec<String> = job
            .compiled
            .problems
            .iter()
            .filter(|one| one.severity == Severity::Error && one.code.id != "T0760")
            .map(|one| format!("{}: {}", one.code.id, one.message))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}\n{manifest}");
        if name != "command_of_several" {
            assert!(!manifest.contains("sm_drivers") && !manifest.contains("/bin/bash"), "{manifest}");
            assert!(
                manifest.contains("source=\"./scripts\"") || manifest.contains("source=\"./shell\""),
                "{manifest}"
            );
        }
        assert_eq!(job.imported.lost, [""; 0], "{name}\n{manifest}");
        seen += 1;
    }
    assert!(seen >= 14, "{seen}");
}
