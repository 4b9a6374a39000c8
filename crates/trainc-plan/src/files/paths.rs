//! Paths of files in text, with `/`: relative to the file that names them, and inside the program's
//! directory.

use trainc_diag::source::is_file;

/// Returns a path that is written in a file, relative to where that file's own name is.
pub(crate) fn join(from: &str, path: &str) -> String {
    let directory =
        if is_file(from) { from.rsplit_once('/').map_or("", |(directory, _)| directory) } else { "" };
    let is_absolute = is_file(from) && from.starts_with('/') && directory.is_empty();
    if is_absolute { normalize(&format!("/{path}")) } else { join_directory(directory, path) }
}

/// Returns a path in a directory.
pub(crate) fn join_directory(directory: &str, path: &str) -> String {
    if directory.is_empty() || path.starts_with('/') {
        return normalize(path);
    }
    normalize(&format!("{directory}/{path}"))
}

/// Returns the path of a file in a directory; `None` if it is elsewhere.
pub(super) fn inside(directory: &str, path: &str) -> Option<String> {
    let directory = normalize(directory);
    let path = normalize(path);
    if directory == "." {
        let is_below = !path.starts_with('/') && path != ".." && !path.starts_with("../");
        return is_below.then_some(path);
    }
    path.strip_prefix(&directory)?.strip_prefix('/').map(str::to_owned)
}

/// Returns the last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Removes `.` and resolves `..` as far as the text allows.
fn normalize(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => {
                steps.pop();
            }
            ".." if path.starts_with('/') => {}
            step => steps.push(step),
        }
    }
    let joined = steps.join("/");
    match (path.starts_with('/'), joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        assert_eq!(join("jobs/a.kdl", "configs/z.yaml"), "jobs/configs/z.yaml");
        assert_eq!(join("jobs/a.kdl", "../z.yaml"), "z.yaml");
        assert_eq!(join("a.kdl", "./z.yaml"), "z.yaml");
        assert_eq!(join("<stdin>", "z.yaml"), "z.yaml");
        assert_eq!(join("/a.kdl", "z.yaml"), "/z.yaml");
        assert_eq!(join("../a.kdl", "../z.yaml"), "../../z.yaml");
    }

    #[test]
    fn files_inside_a_directory() {
        assert_eq!(inside("src", "src/ds.json").as_deref(), Some("ds.json"));
        assert_eq!(inside("./src/", "src/a/ds.json").as_deref(), Some("a/ds.json"));
        assert_eq!(inside("src", "srcs/ds.json"), None);
        assert_eq!(inside(".", "ds.json").as_deref(), Some("ds.json"));
        assert_eq!(inside(".", "../ds.json"), None);
    }
}
