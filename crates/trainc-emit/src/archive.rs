//! The source archive, `sourcedir.tar.gz`, and its digest.

use trainc_ir::digest::sha256_hex;
use trainc_ir::{Plan, SourceFile, SourceTree};

/// The script that fetches secrets and then starts the entry point.
pub const SECRETS_SHIM: &str = "trainc_start.py";

/// Returns all files of the archive, sorted by path: the source, its dependencies, and generated files.
pub fn files(plan: &Plan) -> Vec<SourceFile> {
    let mut files: Vec<SourceFile> = plan.source.as_ref().map(|tree| tree.files.clone()).unwrap_or_default();
    for tree in &plan.dependencies {
        files.extend(tree.files.iter().map(|file| {
            let mut file = file.clone();
            if let Some(name) = basename(&tree.dir) {
                file.path = format!("{name}/{}", file.path);
            }
            file
        }));
    }
    files.extend(generated_files(plan));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    files
}

/// Returns the directory of a dependency in the archive; `None` for the root.
pub fn basename(dir: &str) -> Option<&str> {
    dir.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty() && *name != ".")
}

/// Returns the digest of the archive's content, or of its location if the content is not local.
pub fn source_digest(plan: &Plan) -> String {
    let Some(program) = &plan.job.program else { return sha256_hex(b"") };
    if let Some(git) = program.git.value().filter(|_| plan.source.is_none()) {
        let part = |field: &trainc_ir::Field<String>| field.value().cloned().unwrap_or_default();
        let shim: String = generated_files(plan).iter().map(SourceFile::sha256).collect();
        return sha256_hex(
            format!(
                "git\n{git}\n{}\n{}\n{}\n{shim}",
                part(&program.branch),
                part(&program.commit),
                part(&program.dir)
            )
            .as_bytes(),
        );
    }
    if let Some(s3) = program.s3.value() {
        return sha256_hex(format!("s3\n{s3}").as_bytes());
    }
    SourceTree { dir: String::new(), files: files(plan) }.digest()
}

/// Returns the files that trainc adds to the program's.
fn generated_files(plan: &Plan) -> Vec<SourceFile> {
    let mut files = match (super::start::is_started(plan), plan.is_worker()) {
        (true, true) => Vec::new(),
        (true, false) => super::start::files(plan),
        (false, _) => secrets_shim(plan).into_iter().collect(),
    };
    files.extend(super::launch_script::file(plan));
    files
}

fn secrets_shim(plan: &Plan) -> Option<SourceFile> {
    let program = plan.job.program.as_ref()?;
    if program.secrets.is_empty() {
        return None;
    }
    let secrets: Vec<(String, String)> = program
        .secrets
        .iter()
        .filter_map(|secret| Some((secret.name.clone(), secret.from.value()?.clone())))
        .collect();
    let entry = program.entry.value()?.clone();
    let text = super::template::secrets_shim(&secrets, &entry)?;
    Some(SourceFile::new(SECRETS_SHIM, text.into_bytes(), false))
}

/// Packs the archive reproducibly: gzip over tar, without times and owners, in a fixed order.
pub fn tar_gz(files: &[SourceFile]) -> std::io::Result<Vec<u8>> {
    let gz = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::new(6));
    let mut tar = tar::Builder::new(gz);
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(file.bytes.len() as u64);
        header.set_mode(if file.executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        tar.append_data(&mut header, &file.path, &*file.bytes)?;
    }
    tar.into_inner()?.finish()
}
