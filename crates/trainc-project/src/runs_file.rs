//! The table of the user's own runs: `.trainc/runs.csv` at the repository's root.

use crate::files::{MOST_TABLE_BYTES, read_regular_text};
use crate::manifest_paths::{follows_link_out_of_root, root_of};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Path of the table below the root, with `/`.
pub const RUNS_FILE: &str = ".trainc/runs.csv";

/// Returns the table of the repository that the first of these arguments lies in.
pub fn runs_file(arguments: &[String]) -> PathBuf {
    let first = Path::new(arguments.first().map_or(".", String::as_str));
    root_of(first, first.is_dir().then_some(first)).join(RUNS_FILE)
}

/// Returns the text of that table; `None` if there is none.
///
/// # Errors
///
/// If it cannot be read, is too large, not text, or not a regular file.
pub fn read_runs_file(path: &Path) -> io::Result<Option<String>> {
    // A change of a stranger must not have another file read.
    if (path.is_symlink() || path.parent().is_some_and(Path::is_symlink)) && follows_link_out_of_root(path)? {
        return Err(io::Error::other("the link leads outside the root directory"));
    }
    match read_regular_text(path, MOST_TABLE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Appends to a table what `add` returns for its text, empty if there is none: all of it or nothing. Two
/// processes take turns, so that each sees the rows of the other. The directory of the table is created.
///
/// # Errors
///
/// If the file cannot be read or written; nothing is then added.
pub fn append_to_table<T>(path: &Path, add: impl FnOnce(&str) -> (Option<String>, T)) -> io::Result<T> {
    if follows_link_out_of_root(path)? {
        return Err(io::Error::other("the link leads outside the root directory; name its target"));
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty())
        && path.ends_with(RUNS_FILE)
    {
        fs::create_dir_all(directory)?;
    }
    // A pipe would wait for its other end.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = fs::OpenOptions::new().create(true).read(true).append(true).open(path)?;
    file.lock()?;
    let mut table = String::new();
    (&file).take(MOST_TABLE_BYTES + 1).read_to_string(&mut table)?;
    let length = table.len() as u64;
    if length > MOST_TABLE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let (more, out) = add(&table);
    if let Some(more) = more
        && let Err(error) = file.write_all(more.as_bytes()).and_then(|()| file.sync_data())
    {
        // A full disk: half a row would be read as another one.
        let _ = file.set_len(length);
        return Err(error);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reports at the same time, and a directory that is not there yet.
    #[test]
    fn rows_are_added_one_after_another() {
        let root = std::env::temp_dir().join(format!("trainc-runs-{}", std::process::id()));
        let path = root.join(RUNS_FILE);
        assert_eq!(read_runs_file(&path).unwrap(), None);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let line = |table: &str| (Some(format!("{number}\n")), table.lines().count());
                    append_to_table(path, line).unwrap()
                });
            }
        });
        let mut lines: Vec<String> =
            read_runs_file(&path).unwrap().unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert!(append_to_table(&root, |_| (Some(String::new()), ())).is_err());
        // A repository whose table is another file of the machine.
        let other = root.join("repository");
        fs::create_dir_all(other.join(".git")).unwrap();
        fs::create_dir_all(other.join(".trainc")).unwrap();
        std::os::unix::fs::symlink(&path, other.join(RUNS_FILE)).unwrap();
        assert!(read_runs_file(&other.join(RUNS_FILE)).is_err());
        fs::remove_dir_all(root).unwrap();
    }
}
