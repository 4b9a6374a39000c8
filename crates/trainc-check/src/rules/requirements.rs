//! The program's requirements, compared with what the container has.

use crate::Context;
use trainc_catalog::packages::{ImagePackages, InImage};
use trainc_catalog::requirement_facts::{self, TorchInBuild};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Plan, RequirementsFile, Script, Starts};
use trainc_python::requirements::{Content, FILE, Package, accepts};

declare_code!(
    T0850,
    "invalid-requirement-line",
    Warning,
    "a line of requirements.txt that pip rejects",
    explains: [Program]
);
declare_code!(
    T0851,
    "requirement-without-access",
    Warning,
    "a requirement for which the container has no key",
    explains: [Program]
);
declare_code!(
    T0852,
    "requirement-outside-source",
    Warning,
    "a requirement on a path that the container does not have",
    explains: [Program]
);
declare_code!(
    T0853,
    "requirement-replaces-torch",
    Warning,
    "a requirement that replaces the image's PyTorch"
);
declare_code!(T0854, "requirement-built-from-source", Warning, "a requirement that each host compiles");
declare_code!(
    T0855,
    "module-without-package",
    Warning,
    "a module that neither the image nor requirements.txt brings",
    explains: [Program]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0850, &T0851, &T0852, &T0853, &T0854, &T0855];

/// The file that is installed.
const NAME: &str = "requirements.txt";

/// Modules whose name no package of the index has, or another one: extensions of AWS and NVIDIA.
const NOT_ON_INDEX: [&str; 4] = ["apex", "smdistributed", "smdebug", "smprof"];

/// The consequence of a line that pip rejects.
const PIP_STOPS: &str = "pip stops at it on every host, before the program starts";

/// Checks each line, and the imports of the program.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // Nothing else installs them.
    if !matches!(plan.payload.starts, Starts::Toolkit | Starts::LaunchScript { .. }) {
        return;
    }
    let image = Image::new(plan);
    for file in &plan.requirements {
        for line in &file.content.lines {
            let span = file.span(&line.at);
            report(check_secret(plan, context.sources.slice(span), span), problems);
            match &line.content {
                Content::Package(package) if package.applies => image.check(package, span, problems),
                Content::Package(_) => {}
                Content::Invalid { reason } => problems.push(
                    Diagnostic::new(&T0850, span, format!("not a requirement: {reason}"))
                        .help("write `NAME==VERSION`, such as `transformers==4.56.2`; options of the command `pip` have no place here")
                        .note(PIP_STOPS),
                ),
                Content::Address { address, .. } => {
                    report(check_address(plan, file, address, span), problems);
                }
                Content::Option { name, value } if name == FILE => {
                    report(check_file(plan, file, value, span), problems);
                }
                Content::Option { .. } => {}
            }
        }
    }
    if let Some(script) = &plan.script {
        image.check_imports(plan, script, problems);
    }
}

fn report(found: Option<Diagnostic>, problems: &mut Problems) {
    if let Some(found) = found {
        problems.push(found);
    }
}

/// Reports a variable of an address whose value is a secret: it is fetched when the program starts, after
/// pip.
fn check_secret(plan: &Plan, line: &str, span: Span) -> Option<Diagnostic> {
    let secrets = plan.job.program.iter().flat_map(|program| &program.secrets);
    let mut named = secrets.filter(|secret| line.contains(&format!("${{{}}}", secret.name)));
    let secret = named.next()?;
    let name = &secret.name;
    Some(
        Diagnostic::new(
            &T0851,
            span,
            format!("pip does not have `{name}`: the secret is fetched after pip has run"),
        )
            .label(secret.from.span().unwrap_or(secret.name_span), "fetched when the program starts")
            .help("build an image with the package, or add it to the source")
            .note(PIP_STOPS),
    )
}

/// Checks an address.
fn check_address(plan: &Plan, file: &RequirementsFile, address: &str, span: Span) -> Option<Diagnostic> {
    if ["git+ssh:", "ssh:", "git+git@", "git@"].iter().any(|scheme| address.starts_with(scheme)) {
        // `git@host:owner/name` has a colon where a URL has a slash.
        let slashed = |rest: &str| match rest.split_once(':') {
            Some((host, path)) if !path.starts_with(|c: char| c.is_ascii_digit()) => format!("{host}/{path}"),
            _ => rest.to_owned(),
        };
        let public = address.split_once("://").map(|(_, rest)| slashed(rest.trim_start_matches("git@")));
        let diagnostic = Diagnostic::new(&T0851, span, "the container has no SSH key for this repository");
        let diagnostic = match public {
            Some(rest) => diagnostic.help(format!(
                "write `git+https://{rest}` if the repository is public, or add the code to the source"
            )),
            None => diagnostic.help("add the code to the source"),
        };
        return Some(diagnostic.note(PIP_STOPS));
    }
    let is_path = !address.contains("://") && !address.contains('@');
    (is_path && !is_in_source(plan, file, address)).then(|| {
        Diagnostic::new(&T0852, span, format!("`{address}` is not in the source of the program"))
            .help("add its directory with `dependency` in `program`, or move it into the source")
            .note(PIP_STOPS)
    })
}

/// Checks a file that another one names.
fn check_file(plan: &Plan, file: &RequirementsFile, value: &str, span: Span) -> Option<Diagnostic> {
    (!value.contains("://") && !is_in_source(plan, file, value)).then(|| {
        Diagnostic::new(&T0852, span, format!("`{value}` is not in the source of the program"))
            .help("move the file into the source, and write its path relative to this file")
            .note(PIP_STOPS)
    })
}

/// Returns whether the source has a file or directory, relative to a file of it. A source that was not read
/// may have it.
fn is_in_source(plan: &Plan, file: &RequirementsFile, path: &str) -> bool {
    let Some(tree) = &plan.source else { return true };
    let path = path.split([';', '[']).next().unwrap_or(path).trim();
    if path.starts_with('/') {
        return path.starts_with("/opt/ml/");
    }
    let directory = file.path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            part => parts.push(part),
        }
    }
    let wanted = parts.join("/");
    let is_it = |path: &str| {
        path == wanted || path.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    wanted.is_empty() || tree.files.iter().any(|one| is_it(&one.path))
}

/// What the container has before the requirements are installed.
struct Image<'a> {
    packages: Option<ImagePackages>,
    torch: Option<&'a str>,
    python: Option<String>,
    hosts: Option<u64>,
    span: Option<Span>,
}

impl<'a> Image<'a> {
    fn new(plan: &'a Plan) -> Self {
        let image = plan.image.as_ref();
        let packages = image.and_then(|image| {
            let pytorch = image.pytorch.as_deref()?;
            ImagePackages::find(&image.family, pytorch, image.transformers.as_deref())
        });
        let python = packages.as_ref().map(|all| all.python().to_owned());
        Self {
            torch: image.filter(|image| !image.is_own()).and_then(|image| image.pytorch.as_deref()),
            packages,
            python,
            hosts: plan.mesh.as_ref().map(|mesh| mesh.nodes),
            span: plan.job.image.as_ref().map(|image| image.span),
        }
    }

    /// Checks a package of the index.
    fn check(&self, package: &Package, span: Span, problems: &mut Problems) {
        let exact = package.exact();
        report(self.check_torch(package, exact.as_deref(), span), problems);
        report(self.check_build(package, exact.as_deref(), span), problems);
    }

    /// Reports a requirement that brings another PyTorch than the image's.
    fn check_torch(&self, package: &Package, exact: Option<&str>, span: Span) -> Option<Diagnostic> {
        let torch = self.torch?;
        let note = "on every host: the NCCL, the EFA plug-in and the compiled packages of the image no longer \
            match it";
        let diagnostic = if package.name == "torch" {
            if package.accepts(torch) != Some(false) {
                return None;
            }
            let other = || format!("one that meets `{}`", package.specifiers);
            let other = exact.map_or_else(other, str::to_owned);
            Diagnostic::new(&T0853, span, format!("pip replaces the image's PyTorch {torch} with {other}"))
                .help("remove the line, or choose an image with this PyTorch")
                .note(note)
        } else {
            // What the image has already stays, if the line accepts it.
            if self.has_accepted(package) {
                return None;
            }
            let extras: Vec<&str> = package.extras.iter().map(String::as_str).collect();
            let found = requirement_facts::moves_torch(&package.name, &extras, exact)?;
            let wanted = found.torch().filter(|wanted| accepts(wanted, torch) == Some(false))?;
            let name = &package.name;
            let newest = || format!("{}, the newest known,", found.version);
            let version = exact.map_or_else(newest, str::to_owned);
            let message =
                format!("{name} {version} requires torch {wanted}: pip replaces the image's PyTorch {torch}");
            Diagnostic::new(&T0853, span, message)
                .help(format!(
                    "choose a release of {name} for PyTorch {torch}, or an image with torch {wanted}"
                ))
                .note(note)
                .note(format!("source: {}", found.provenance.source))
        };
        Some(match self.span {
            Some(image) => diagnostic.label(image, format!("PyTorch {torch}")),
            None => diagnostic,
        })
    }

    /// Reports a release that each host compiles.
    fn check_build(&self, package: &Package, exact: Option<&str>, span: Span) -> Option<Diagnostic> {
        if self.has_accepted(package) {
            return None;
        }
        let build = requirement_facts::compiles(&package.name, exact)?;
        // Nothing is known of a custom image.
        let python = self.python.as_deref()?;
        if !build.compiles_on(python) {
            return None;
        }
        let hosts = match self.hosts {
            Some(1) => "the host".to_owned(),
            Some(hosts) => format!("each of {}", text::count(hosts, "host")),
            None => "every host".to_owned(),
        };
        let version = exact.unwrap_or("(newest release)");
        let stops = match build.torch {
            TorchInBuild::Imported => {
                ", or stops: its build imports torch, which pip's isolated build does not have"
            }
            TorchInBuild::Required => ", with another torch for the build",
            TorchInBuild::Optional | TorchInBuild::Unused => "",
        };
        let name = &package.name;
        let message = format!("pip compiles {name} {version} on {hosts} before the first step{stops}");
        let diagnostic = Diagnostic::new(&T0854, span, message).note(format!(
            "the index has no wheel for Python {python}: {}",
            build.provenance.source
        ));
        Some(match self.version(name) {
            Some(InImage::Version(found)) => diagnostic.help(format!(
                "remove the line, or write `{name}=={}`: the image has it, and nothing is built",
                found.version
            )),
            _ => diagnostic.help("write the URL of a wheel, or use an image that has it"),
        })
    }

    fn version(&self, package: &str) -> Option<InImage> {
        Some(self.packages.as_ref()?.package(package))
    }

    /// Returns whether the image has a version of a package that its line accepts, so that pip keeps it.
    fn has_accepted(&self, package: &Package) -> bool {
        match self.version(&package.name) {
            Some(InImage::Version(found)) => package.accepts(&found.version) != Some(false),
            Some(InImage::AnyVersion(_)) => package.specifiers.is_empty(),
            Some(InImage::Missing | InImage::Unknown) | None => false,
        }
    }

    /// Reports modules that nothing brings.
    fn check_imports(&self, plan: &Plan, script: &Script, problems: &mut Problems) {
        let Some(packages) = &self.packages else { return };
        let lines = || plan.requirements.iter().flat_map(|file| &file.content.lines);
        // An address, or the package of the source itself, may bring any module.
        let is_open = lines().any(|line| matches!(&line.content, Content::Address { package: None, .. }));
        let tree = plan.source.as_ref();
        let has = |path: &str| tree.is_some_and(|tree| tree.get(path).is_some());
        let has_directories = plan.job.program.iter().any(|program| !program.dependencies.is_empty());
        // The program may install packages, or have other directories in its path.
        let changes_path = || script.calls_any(&["sys.path.append", "sys.path.insert"]);
        let is_open = is_open || script.starts_programs() || changes_path();
        if is_open || has("setup.py") || has("pyproject.toml") || has_directories {
            return;
        }
        let required: Vec<&str> = lines()
            .filter_map(|line| match &line.content {
                Content::Package(package) => Some(package.name.as_str()),
                Content::Address { package, .. } => package.as_deref(),
                _ => None,
            })
            .collect();
        let is_required = |name: &str| {
            required.iter().any(|one| *one == name || requirement_facts::brought_by(one).contains(name))
        };
        let has_module = |module: &str| {
            let is_it = |part: &str| part == module || part.strip_suffix(".py") == Some(module);
            tree.iter().flat_map(|tree| &tree.files).any(|file| file.path.split('/').any(is_it))
        };
        let mut reported: Vec<&str> = Vec::new();
        for module in &script.modules {
            // Of a module for another Python, little is known.
            let imports = module.module.imports.iter().filter(|_| module.module.is_whole);
            for import in imports.filter(|one| one.level == 0 && !one.is_conditional) {
                let name = import.module.split('.').next().unwrap_or_default();
                // A module whose name begins with `_` is a part of another package.
                let is_known = name.is_empty()
                    || name.starts_with('_')
                    || reported.contains(&name)
                    || has_module(name)
                    || NOT_ON_INDEX.contains(&name)
                    || requirement_facts::is_standard_library(name, self.python.as_deref());
                if is_known {
                    continue;
                }
                let found = requirement_facts::providers(&import.module);
                let bringing = &found.packages;
                let is_absent = |one: &String| match packages.package(one) {
                    InImage::Missing => true,
                    // What the image's packages bring is known, what its base has in addition is not.
                    InImage::Unknown => packages.is_resolved(),
                    InImage::Version(_) | InImage::AnyVersion(_) => false,
                };
                let is_missing = |one: &String| is_absent(one) && !is_required(one);
                let first = bringing.first().filter(|_| bringing.iter().all(is_missing));
                let Some(first) = first else { continue };
                reported.push(name);
                let is_sure = bringing.iter().all(|one| packages.package(one) == InImage::Missing);
                let package = found.is_known.then_some(first.as_str());
                let missing = self.missing(plan, name, package, module.span(&import.at));
                let is_sure = is_sure && found.is_known;
                problems.push(if is_sure { missing } else { missing.severity(Severity::Note) });
            }
        }
    }

    fn missing(&self, plan: &Plan, module: &str, package: Option<&str>, span: Span) -> Diagnostic {
        let named = match package {
            Some(package) => format!("does not name {package}"),
            None => "does not name it".to_owned(),
        };
        let message = format!("the image does not have the module `{module}`, and {NAME} {named}");
        // A package of the module's name may be another one: it is not suggested.
        let help = match package {
            Some(package) => format!("write `{package}` in {NAME} of the program's directory"),
            None => format!("add the module to the source, or the package that provides it to {NAME}"),
        };
        let mut diagnostic = Diagnostic::new(&T0855, span, message)
            .help(help)
            .note(match package {
                Some(_) => "the program stops at the import, on every host",
                None => "if nothing else brings it, the program stops at the import, on every host",
            });
        // A file that has nearly its name is not installed.
        let read = |path: &str| plan.requirements.iter().any(|file| file.path == path);
        let is_like = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.starts_with("requirement") && name.ends_with(".txt") && !read(path)
        };
        let mut others = plan.source.iter().flat_map(|tree| &tree.files).map(|file| file.path.as_str());
        if let Some(other) = others.find(is_like) {
            let why = format!("`{other}` is not installed: only `{NAME}` at the top of the source is");
            diagnostic = diagnostic.note(why);
        }
        match self.span {
            Some(image) => diagnostic.label(image, "the image"),
            None => diagnostic,
        }
    }
}
