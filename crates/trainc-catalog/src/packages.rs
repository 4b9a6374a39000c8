//! Packages of the training stack: the newest version of each, and those that the training images contain.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;
use trainc_python::requirements::normalize as normal_name;

pub(crate) static TABLE: Table = Table::new("packages", include_str!("data/packages.toml"));

/// Row of the newest version of a package.
#[derive(Clone, Deserialize)]
struct NewestRow {
    version: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Row of an image. All names are in the form in which the index compares them.
#[derive(Clone, Deserialize)]
struct ImageRow {
    python: String,
    /// The row of the image that this one is built from.
    base: Option<String>,
    /// The row names all packages of the image.
    #[serde(default)]
    complete: bool,
    /// Packages that were installed in this version.
    versions: BTreeMap<String, String>,
    /// Packages that were installed in the newest version of the day that satisfies this, if it says
    /// anything.
    #[serde(default)]
    ranges: BTreeMap<String, String>,
    /// Packages that the others bring; `None` if that was not read.
    through: Option<Vec<String>>,
    /// Packages of the image below that were removed.
    #[serde(default)]
    removed: Vec<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Row of the packages that come into an image only by their names.
#[derive(Deserialize)]
struct StackRow {
    packages: Vec<String>,
}

/// The version of a package, with the source of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageVersion {
    /// The version, as `1.15.0`.
    pub version: String,
    /// Name of the row.
    pub row: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// A package in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InImage {
    /// It has this version.
    Version(PackageVersion),
    /// It was installed without a pin, so its version is that of the day on which the image was built. That
    /// version satisfied these specifiers; the text is empty if none were asked for.
    AnyVersion(String),
    /// The image does not contain it.
    Missing,
    /// Nothing is known of it.
    Unknown,
}

/// Returns the newest version of a package; `None` if no row has it.
pub fn newest(package: &str) -> Option<PackageVersion> {
    let key = format!("newest/{}", normal_name(package));
    let row: NewestRow = TABLE.row(&key).cloned()?;
    Some(PackageVersion { version: row.version, row: key, provenance: row.provenance })
}

/// Returns whether an image contains a package, and its version; `None` if no row has the image. `pytorch` is
/// a whole version or begins one, as `2.13`.
pub fn in_image(family: &str, pytorch: &str, package: &str) -> Option<InImage> {
    Some(ImagePackages::find(family, pytorch, None)?.package(package))
}

/// The packages of an image.
#[derive(Clone)]
pub struct ImagePackages {
    /// The rows of the image and of those below it, each with its key.
    rows: Vec<(&'static str, &'static ImageRow)>,
}

impl ImagePackages {
    /// Finds the packages of an image; `None` if no row has it. `pytorch` is a whole version or begins one, as
    /// `2.13`. Without a version of transformers, the newest one that an image has with this PyTorch is meant.
    pub fn find(family: &str, pytorch: &str, transformers: Option<&str>) -> Option<Self> {
        let prefix = format!("{family}/");
        let is_version = |version: &str| {
            version.strip_prefix(pytorch).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let found = TABLE.keys_under(&prefix).rev().find_map(|key| {
            let version = key.strip_prefix(&prefix)?;
            let (version, is_newest) =
                version.split_once('/').map_or((version, true), |(version, _)| (version, false));
            if !is_version(version) {
                return None;
            }
            let row: &ImageRow = TABLE.row(key)?;
            let is_meant = match transformers {
                None => is_newest,
                Some(written) => row.versions.get("transformers").is_none_or(|version| version == written),
            };
            is_meant.then_some((key, row))
        })?;
        let mut rows = vec![found];
        while let Some(below) = rows.last().and_then(|(_, row)| row.base.as_deref())
            // The table has no circles; the bound is for a mistake in it.
            && rows.len() < 8
        {
            rows.push((below, TABLE.row(below)?));
        }
        Some(Self { rows })
    }

    /// Returns what is known of a package.
    pub fn package(&self, package: &str) -> InImage {
        let package = normal_name(package);
        for (key, row) in &self.rows {
            if let Some(version) = row.versions.get(&package) {
                return InImage::Version(PackageVersion {
                    version: version.clone(),
                    row: (*key).to_owned(),
                    provenance: row.provenance.clone(),
                });
            }
            if let Some(asked) = row.ranges.get(&package) {
                return InImage::AnyVersion(asked.clone());
            }
            if row.removed.contains(&package) {
                return InImage::Missing;
            }
        }
        let through = self.rows.iter().filter_map(|(_, row)| row.through.as_ref());
        if through.flatten().any(|name| *name == package) {
            return InImage::AnyVersion(String::new());
        }
        let is_complete = self.rows.iter().all(|(_, row)| row.complete);
        if is_complete || (self.is_resolved() && is_named_only(&package)) {
            InImage::Missing
        } else {
            InImage::Unknown
        }
    }

    /// Returns whether it is known what its packages bring.
    pub fn is_resolved(&self) -> bool {
        self.rows.iter().all(|(_, row)| row.through.is_some())
    }

    /// Returns the version of Python, as `3.12`.
    pub fn python(&self) -> &str {
        self.rows.first().map_or("", |(_, row)| &row.python)
    }
}

/// Returns true if a package is in an image only where it is named or where a package that is named requires
/// it.
pub(crate) fn is_named_only(package: &str) -> bool {
    let row: Option<&StackRow> = TABLE.row("stack");
    row.is_some_and(|row| row.packages.iter().any(|name| name == package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(family: &str, pytorch: &str, package: &str) -> String {
        match in_image(family, pytorch, package) {
            Some(InImage::Version(found)) => found.version,
            other => panic!("{family} {pytorch} {package}: {other:?}"),
        }
    }

    #[test]
    fn every_row_is_read() {
        for key in TABLE.keys() {
            let is_read = match key.split('/').next() {
                Some("newest") => TABLE.row::<NewestRow>(key).is_some(),
                Some("stack") => TABLE.row::<StackRow>(key).is_some(),
                _ => TABLE.row::<ImageRow>(key).is_some(),
            };
            assert!(is_read, "{key}");
        }
    }

    #[test]
    fn names_are_in_the_form_of_the_index() {
        let stack: &StackRow = TABLE.row("stack").unwrap();
        let of_images = TABLE.rows::<ImageRow>().flat_map(|(_, row)| {
            let named = row.versions.keys().chain(row.ranges.keys());
            named.chain(row.through.iter().flatten()).chain(&row.removed)
        });
        for name in of_images.chain(&stack.packages) {
            assert_eq!(*name, normal_name(name));
        }
    }

    #[test]
    fn the_image_below_a_row_has_a_row() {
        for key in TABLE.keys() {
            let base = TABLE.row::<ImageRow>(key).and_then(|row| row.base.as_ref());
            assert!(base.is_none_or(|base| TABLE.row::<ImageRow>(base).is_some()), "{key}");
        }
    }

    /// The versions are those in the Dockerfiles and lock files that the rows name.
    #[test]
    fn versions_are_those_of_the_dockerfiles() {
        for (family, pytorch, package, expected) in [
            ("huggingface", "2.8.0", "accelerate", "1.10.1"),
            ("huggingface", "2.8.0", "transformers", "4.56.2"),
            ("huggingface", "2.8.0", "Huggingface_Hub", "0.35.3"),
            ("huggingface", "2.8.0", "flash_attn", "2.8.3"),
            ("huggingface", "2.8.0", "torch", "2.8.0"),
            ("huggingface", "2.8.0", "torchvision", "0.23.0"),
            ("huggingface", "2.5.1", "datasets", "3.3.2"),
            ("huggingface", "2.0.0", "diffusers", "0.16.1"),
            ("huggingface", "2.11.0", "vllm", "0.25.0"),
            ("huggingface", "2.11.0", "torchaudio", "2.11.0+cu130"),
            ("pytorch", "2.8.0", "torchaudio", "2.8.0"),
            ("pytorch", "2.6.0", "triton", "3.2.0"),
            ("pytorch", "1.13.1", "deepspeed", "0.6.1+4c3ff1a"),
            ("pytorch", "2.13", "deepspeed", "0.19.2"),
        ] {
            assert_eq!(version(family, pytorch, package), expected, "{family} {pytorch} {package}");
        }
    }

    #[test]
    fn packages_without_a_pin_have_any_version() {
        for (family, pytorch, package, asked) in [
            ("huggingface", "2.8.0", "bitsandbytes", ""),
            ("huggingface", "2.8.0", "numpy", "<2"),
            ("pytorch", "2.10.0", "accelerate", ""),
            ("pytorch", "2.8.0", "transformer-engine", "==2.5.*"),
            ("pytorch", "2.8.0", "sagemaker", ">2.256,<3"),
            // fastai requires it, and nothing else in the Dockerfile names it.
            ("pytorch", "2.8.0", "fastprogress", ""),
        ] {
            let expected = InImage::AnyVersion(asked.to_owned());
            assert_eq!(in_image(family, pytorch, package), Some(expected), "{family} {pytorch} {package}");
        }
    }

    #[test]
    fn absence_is_known_of_the_stack_alone() {
        let found = |family, pytorch, package| in_image(family, pytorch, package).unwrap();
        for package in ["transformers", "datasets", "peft", "trl", "bitsandbytes", "deepspeed"] {
            assert_eq!(found("pytorch", "2.8.0", package), InImage::Missing, "{package}");
        }
        assert_eq!(found("pytorch", "2.13", "accelerate"), InImage::Missing);
        // Removed by the Dockerfile.
        assert_eq!(found("huggingface", "2.8.0", "ray"), InImage::Missing);
        assert_eq!(found("huggingface", "2.5.1", "transformer_engine"), InImage::Missing);
        assert_eq!(found("pytorch", "2.8.0", "a-package-of-a-user"), InImage::Unknown);
        // A lock file names everything.
        assert_eq!(found("pytorch", "2.13", "a-package-of-a-user"), InImage::Missing);
        assert_eq!(in_image("smp", "2.3.1", "torch"), None);
    }

    #[test]
    fn images_with_the_same_pytorch_differ_in_transformers() {
        let of = |transformers| ImagePackages::find("huggingface", "2.3.0", transformers).unwrap();
        for (transformers, expected) in
            [(None, "4.48.0"), (Some("4.46.1"), "4.46.1"), (Some("4.48.0"), "4.48.0")]
        {
            let InImage::Version(found) = of(transformers).package("transformers") else { panic!() };
            assert_eq!(found.version, expected);
        }
        assert!(ImagePackages::find("huggingface", "2.3.0", Some("4.0.0")).is_none());
    }

    #[test]
    fn an_image_has_what_its_rows_name() {
        let image = ImagePackages::find("huggingface", "2.8.0", Some("4.56.2")).unwrap();
        assert_eq!(image.python(), "3.12");
        for name in ["torch", "trl", "tokenizers", "s3torchconnector"] {
            assert!(!matches!(image.package(name), InImage::Missing | InImage::Unknown), "{name}");
        }
        assert!(matches!(image.package("ray"), InImage::Missing | InImage::Unknown));
    }

    #[test]
    fn newest_versions_are_known() {
        assert_eq!(newest("transformers").unwrap().version, "5.24.0");
        assert_eq!(newest("Transformers").unwrap().row, "newest/transformers");
    }
}
