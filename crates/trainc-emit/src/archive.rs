//! The source archive, `sourcedir.tar.gz`, and its digest.

use super::container::{ARCHIVE, INPUT};
use super::fill::Fill;
use super::{added, names};
use trainc_ir::digest::sha256_hex;
use trainc_ir::{Plan, SourceFile, SourceTree};

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
    files.extend(added::to_code(plan));
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
        let added: String = added::to_code(plan).iter().map(SourceFile::sha256).collect();
        return sha256_hex(
            format!(
                "git\n{git}\n{}\n{}\n{}\n{added}",
                part(&program.branch),
                part(&program.commit),
                part(&program.dir)
            )
            .as_bytes(),
        );
    }
    if let Some(s3) = program.s3.text() {
        return sha256_hex(format!("s3\n{s3}").as_bytes());
    }
    SourceTree { dir: String::new(), files: files(plan) }.digest()
}

/// The number of digits of the source digest in the archive's prefix.
pub(super) const PREFIX_DIGITS: usize = 16;

/// Returns the S3 prefix of the archive, which ends with the digest of its content.
pub(super) fn prefix(plan: &Plan, fill: Fill) -> String {
    let (home, digest) = (fill.text(&names::source_base_prefix(plan)), source_digest(plan));
    format!("{home}/{}", digest.get(..PREFIX_DIGITS).unwrap_or(&digest))
}

/// Returns the S3 URI of an archive that trainc packs.
pub(super) fn packed_uri(plan: &Plan, fill: Fill) -> String {
    format!("{}/{ARCHIVE}", prefix(plan, fill))
}

/// Returns the location of the archive for the toolkit.
pub(super) fn submit_directory(plan: &Plan, fill: Fill) -> String {
    match plan.payload.code_channel() {
        Some(channel) => format!("{INPUT}/{channel}/{ARCHIVE}"),
        None => existing_uri(plan).map_or_else(|| packed_uri(plan, fill), |uri| fill.text(uri)),
    }
}

/// Returns the S3 URI of the channel with the archive: the archive itself, or a prefix that contains only the
/// archive.
pub(super) fn channel_uri(plan: &Plan, fill: Fill) -> String {
    existing_uri(plan).map_or_else(|| prefix(plan, fill), |uri| fill.text(uri))
}

/// Returns the S3 URI of an archive that exists already.
pub(super) fn existing_uri(plan: &Plan) -> Option<&str> {
    plan.job.program.as_ref().and_then(|program| program.s3.text())
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
