//! Facts about packages that a requirements file or an import names: those that each host compiles, those
//! that move torch, those that others bring, and the names of imports.
//!
//! Names of packages are accepted in any spelling that the index accepts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::packages::is_named_only;
use super::table::Table;
use trainc_ir::hardware::Provenance;
use trainc_python::requirements::{Version, normalize as normal_name};

pub(crate) static BUILDS: Table = Table::new("source-builds", include_str!("data/source_builds.toml"));
pub(crate) static TORCH: Table =
    Table::new("torch-requirements", include_str!("data/torch_requirements.toml"));
pub(crate) static DEPENDENCIES: Table = Table::new("dependencies", include_str!("data/dependencies.toml"));
pub(crate) static IMPORTS: Table = Table::new("import-names", include_str!("data/import_names.toml"));
pub(crate) static LIBRARY: Table = Table::new("standard-library", include_str!("data/standard_library.toml"));

/// Bound of the packages that [`brought_by`] follows.
const MAX_BROUGHT: usize = 1000;

/// How the build of a package meets torch. An isolated build, which is pip's default, has no torch of its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TorchInBuild {
    /// The build imports it and stops: "No module named 'torch'".
    Imported,
    /// The build requires it, so that pip installs a torch for the build, whatever the environment has.
    Required,
    /// Without it the compiled parts are left out.
    Optional,
    /// The build does not need it.
    Unused,
}

#[derive(Clone, Deserialize)]
struct BuildRow {
    package: String,
    from: String,
    /// The last release; none if the newest one is among them.
    to: Option<String>,
    pythons: Vec<String>,
    torch: TorchInBuild,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A release that pip compiles on each host, since it has no wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBuild {
    /// Versions of CPython for which it has no wheel on Linux and x86-64, as `3.12`, of 3.10 to 3.13.
    pub pythons: Vec<String>,
    /// How its build meets torch.
    pub torch: TorchInBuild,
    /// Name of the row.
    pub row: String,
    /// The source of the row.
    pub provenance: Provenance,
}

impl SourceBuild {
    /// Returns true if it is compiled for a version of CPython, as `3.12`.
    pub fn compiles_on(&self, python: &str) -> bool {
        self.pythons.iter().any(|version| version == python)
    }
}

/// Returns whether a release is compiled on each host; `None` if it has wheels, or no row has the package.
/// Without a version, the newest release is meant.
pub fn compiles(package: &str, version: Option<&str>) -> Option<SourceBuild> {
    let package = normal_name(package);
    let prefix = format!("{package}/");
    let rows = BUILDS.keys_under(&prefix).filter_map(|key| Some((key, BUILDS.row::<BuildRow>(key)?)));
    let (key, row) = rows.filter(|(_, row)| row.package == package).find(|(_, row)| match version {
        None => row.to.is_none(),
        Some(version) => is_within(version, &row.from, row.to.as_deref()),
    })?;
    Some(SourceBuild {
        pythons: row.pythons.clone(),
        torch: row.torch,
        row: key.to_owned(),
        provenance: row.provenance.clone(),
    })
}

#[derive(Clone, Deserialize)]
struct TorchRow {
    package: String,
    /// The extra that brings the requirements.
    extra: Option<String>,
    from: String,
    to: String,
    requires: BTreeMap<String, String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// What a release requires of torch and the packages that come with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorchRequirement {
    /// Packages, as `torch`, `torchvision`, `transformers`, each with its specifiers, as `==2.8.0`; empty for
    /// any version.
    pub requires: BTreeMap<String, String>,
    /// The last release of the row.
    pub version: String,
    /// Name of the row.
    pub row: String,
    /// The source of the row.
    pub provenance: Provenance,
}

impl TorchRequirement {
    /// Returns the specifiers for torch.
    pub fn torch(&self) -> Option<&str> {
        self.requires.get("torch").map(String::as_str)
    }
}

/// Returns what a release requires of torch; `None` if it requires nothing of it, or no row has the release.
/// `extras` are those of the line. Without a version, the newest release is meant.
pub fn moves_torch(package: &str, extras: &[&str], version: Option<&str>) -> Option<TorchRequirement> {
    let package = normal_name(package);
    let extras: Vec<String> = extras.iter().map(|extra| normal_name(extra)).collect();
    let rows = TORCH.keys_under(&package).filter_map(|key| Some((key, TORCH.row::<TorchRow>(key)?)));
    let mut meant = rows.filter(|(_, row)| {
        let has_extra = row.extra.as_ref().is_none_or(|extra| extras.contains(extra));
        row.package == package && has_extra
    });
    // Rows are in the order of the releases.
    let (key, row) = match version {
        None => meant.next_back(),
        Some(version) => meant.find(|(_, row)| is_within(version, &row.from, Some(&row.to))),
    }?;
    if row.requires.is_empty() {
        return None;
    }
    Some(TorchRequirement {
        requires: row.requires.clone(),
        version: row.to.clone(),
        row: key.to_owned(),
        provenance: row.provenance.clone(),
    })
}

fn parse_version(text: &str) -> Option<Version> {
    text.parse().ok()
}

/// Returns true if a version is between two others or one of them. A text that is no version is in no range.
fn is_within(version: &str, from: &str, to: Option<&str>) -> bool {
    let Some(version) = parse_version(version).map(Version::without_local) else { return false };
    let is_from = parse_version(from).is_some_and(|from| from <= version);
    let is_to = to.is_none_or(|to| parse_version(to).is_some_and(|to| version <= to));
    is_from && is_to
}

#[derive(Deserialize)]
struct DependencyRow {
    requires: Vec<String>,
}

/// Returns the packages that a package always brings, directly or through others, sorted and without itself.
/// A package without a row brings nothing that is known.
pub fn brought_by(package: &str) -> BTreeSet<String> {
    let package = normal_name(package);
    let mut found = BTreeSet::new();
    let mut open = vec![package.clone()];
    while let Some(name) = open.pop() {
        let row: Option<&DependencyRow> = DEPENDENCIES.row(&name);
        for required in row.into_iter().flat_map(|row| &row.requires) {
            if *required != package && found.len() < MAX_BROUGHT && found.insert(required.clone()) {
                open.push(required.clone());
            }
        }
    }
    found
}

#[derive(Clone, Deserialize)]
struct ImportRow {
    distributions: Vec<String>,
}

/// The packages that bring a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Providers {
    /// Their names, the most usual one first.
    pub packages: Vec<String>,
    /// True if a table has them. Else the package has the name of the module, if it is on the index at all.
    pub is_known: bool,
}

/// Returns the packages that bring a module, as `sklearn` or `google.protobuf`. A module without a row is
/// taken to be of the package with its name; one below a name that several packages share, as `google`, is of
/// none that is known.
pub fn providers(module: &str) -> Providers {
    let mut name = module;
    loop {
        let row: Option<&ImportRow> = IMPORTS.row(name);
        if let Some(row) = row {
            return Providers { packages: row.distributions.clone(), is_known: true };
        }
        let Some((above, _)) = name.rsplit_once('.') else { break };
        name = above;
    }
    let is_shared = IMPORTS.keys_under(&format!("{name}.")).next().is_some();
    if is_shared {
        return Providers { packages: Vec::new(), is_known: false };
    }
    let package = normal_name(name);
    let row: Option<&DependencyRow> = DEPENDENCIES.row(&package);
    let is_known = row.is_some() || is_named_only(&package) || compiles(&package, None).is_some();
    Providers { packages: vec![package], is_known }
}

#[derive(Deserialize)]
struct LibraryRow {
    modules: BTreeSet<String>,
}

/// Returns true if a module belongs to Python's standard library. `python` is a version, as `3.12`; without
/// one, and with one that the table does not have, any of 3.8 to 3.13 is enough.
pub fn is_standard_library(module: &str, python: Option<&str>) -> bool {
    let top = module.split('.').next().unwrap_or(module);
    let has = |key: &str| {
        let row: Option<&LibraryRow> = LIBRARY.row(key);
        row.map(|row| row.modules.contains(top))
    };
    match python.and_then(has) {
        Some(is_in) => is_in,
        None => LIBRARY.keys().any(|key| has(key) == Some(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for key in BUILDS.keys() {
            let row: BuildRow = BUILDS.row(key).cloned().unwrap_or_else(|| panic!("{key}"));
            let versions = row.to.iter().chain([&row.from]);
            assert!(versions.into_iter().all(|version| parse_version(version).is_some()), "{key}");
            assert_eq!(key, format!("{}/{}", normal_name(&row.package), row.from));
        }
        for key in TORCH.keys() {
            let row: TorchRow = TORCH.row(key).cloned().unwrap_or_else(|| panic!("{key}"));
            assert!(parse_version(&row.from) <= parse_version(&row.to), "{key}");
        }
        for key in DEPENDENCIES.keys() {
            assert!(DEPENDENCIES.row::<DependencyRow>(key).is_some(), "{key}");
        }
        for key in IMPORTS.keys() {
            let row: ImportRow = IMPORTS.row(key).cloned().unwrap_or_else(|| panic!("{key}"));
            assert!(!row.distributions.is_empty(), "{key}");
        }
        for key in LIBRARY.keys() {
            assert!(LIBRARY.row::<LibraryRow>(key).is_some(), "{key}");
        }
    }

    /// Rows of a package must not overlap, or the first one would hide the others.
    #[test]
    fn releases_have_one_row() {
        let rows: Vec<&BuildRow> = BUILDS.rows().map(|(_, row)| row).collect();
        for pair in rows.windows(2) {
            let [before, after] = pair else { panic!() };
            if before.package == after.package {
                let to = before.to.as_deref().unwrap_or_else(|| panic!("{}", before.package));
                assert!(parse_version(to) < parse_version(&after.from), "{}", before.package);
            }
        }
    }

    /// Read in the lists of files on PyPI, and in setup.py and pyproject.toml of the archives.
    #[test]
    fn packages_without_wheels_are_compiled() {
        for (package, version, torch) in [
            ("flash-attn", Some("2.7.4.post1"), TorchInBuild::Imported),
            ("Flash_Attn", None, TorchInBuild::Imported),
            ("mamba-ssm", Some("2.2.2"), TorchInBuild::Imported),
            ("mamba-ssm", Some("2.2.4"), TorchInBuild::Required),
            ("causal-conv1d", Some("1.5.0.post8"), TorchInBuild::Imported),
            ("causal-conv1d", Some("1.5.1"), TorchInBuild::Required),
            ("transformer-engine-torch", Some("2.4.0"), TorchInBuild::Imported),
            ("transformer-engine-torch", Some("2.5.0"), TorchInBuild::Required),
            ("torch-scatter", Some("2.1.2"), TorchInBuild::Imported),
            ("mpi4py", Some("4.0.3"), TorchInBuild::Unused),
        ] {
            let found = compiles(package, version).unwrap_or_else(|| panic!("{package} {version:?}"));
            assert_eq!(found.torch, torch, "{package} {version:?}");
            assert!(found.compiles_on("3.12"), "{package} {version:?}");
        }
        // Wheels for CPython 3.10 and 3.11, none for 3.12.
        let tokenizers = compiles("tokenizers", Some("0.13.3")).unwrap();
        assert_eq!((tokenizers.compiles_on("3.11"), tokenizers.compiles_on("3.12")), (false, true));
        for (package, version) in [
            ("bitsandbytes", None),
            ("xformers", Some("0.0.32.post1")),
            ("mpi4py", Some("4.1.0")),
            ("deepspeed", Some("0.17.5")),
            ("numpy", None),
            ("flash-attn", Some("main")),
        ] {
            assert_eq!(compiles(package, version), None, "{package} {version:?}");
        }
    }

    /// Read in the metadata of the wheels.
    #[test]
    fn releases_require_a_version_of_torch() {
        for (package, version, torch) in [
            ("vllm", "0.11.0", "==2.8.0"),
            ("xformers", "0.0.32.post1", "==2.8.0"),
            ("torchvision", "0.23.0", "==2.8.0"),
            ("torchaudio", "2.8.0", "==2.8.0"),
        ] {
            let found = moves_torch(package, &[], Some(version)).unwrap_or_else(|| panic!("{package}"));
            assert_eq!(found.torch(), Some(torch), "{package} {version}");
        }
        let vllm = moves_torch("vLLM", &[], Some("0.11.0")).unwrap();
        for (package, asked) in
            [("torchvision", "==0.23.0"), ("xformers", "==0.0.32.post1"), ("transformers", ">=4.55.2")]
        {
            assert_eq!(vllm.requires.get(package).map(String::as_str), Some(asked));
        }
        let trl = moves_torch("trl", &["vllm"], Some("0.23.0")).unwrap();
        assert_eq!(trl.requires.get("vllm").map(String::as_str), Some(">=0.10.0"));
        assert_eq!(moves_torch("trl", &[], Some("0.23.0")), None);
        assert_eq!(moves_torch("transformers", &[], None), None);
        // Its extras require torch, it does not.
        assert_eq!(moves_torch("unsloth", &[], Some("2025.8.1")), None);
        assert!(moves_torch("vllm", &[], None).is_some());
    }

    /// Read in the metadata of the wheels.
    #[test]
    fn packages_bring_others() {
        for (package, brought) in [
            ("torch", "sympy"),
            ("Transformers", "tokenizers"),
            ("datasets", "pyarrow"),
            ("trl", "torch"),
            ("peft", "safetensors"),
            ("pandas", "python-dateutil"),
        ] {
            assert!(brought_by(package).contains(brought), "{package} {brought}");
        }
        assert!(!brought_by("transformers").contains("torch"));
        assert!(!brought_by("torch").contains("torch"));
        assert!(brought_by("a-package-of-a-user").is_empty());
    }

    #[test]
    fn imports_have_distributions() {
        for (module, package) in [
            ("yaml", "pyyaml"),
            ("sklearn.metrics", "scikit-learn"),
            ("PIL", "pillow"),
            ("cv2", "opencv-python"),
            ("bs4", "beautifulsoup4"),
            ("dotenv", "python-dotenv"),
            ("google.protobuf", "protobuf"),
            ("google.protobuf.message", "protobuf"),
            ("hydra", "hydra-core"),
            ("dateutil", "python-dateutil"),
            ("skimage", "scikit-image"),
            ("fla", "flash-linear-attention"),
            ("awq", "autoawq"),
            // Without a row.
            ("flash_attn", "flash-attn"),
            ("wandb", "wandb"),
        ] {
            let found = providers(module);
            assert_eq!(found.packages.first().map(String::as_str), Some(package), "{module}");
            assert!(found.is_known, "{module}");
        }
        assert!(providers("google.a_service_without_a_row").packages.is_empty());
        assert!(providers("cv2").packages.iter().any(|package| package == "opencv-python-headless"));
        // A name that nobody knows may be anyone's package.
        assert!(!providers("acme_training").is_known);
    }

    #[test]
    fn the_standard_library_is_known() {
        for module in ["os", "os.path", "__future__", "dataclasses", "_thread"] {
            assert!(is_standard_library(module, Some("3.12")), "{module}");
        }
        // Removed in 3.12; tomllib came with 3.11 (What's New in Python).
        assert!(
            is_standard_library("distutils", Some("3.11")) && !is_standard_library("distutils", Some("3.12"))
        );
        assert!(
            !is_standard_library("tomllib", Some("3.10")) && is_standard_library("tomllib", Some("3.11"))
        );
        assert!(is_standard_library("distutils", None));
        assert!(!is_standard_library("numpy", None));
    }
}
