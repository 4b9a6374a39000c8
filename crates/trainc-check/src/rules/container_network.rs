//! Network use of the container: packages, Weights & Biases, the Hugging Face Hub, isolation and encryption.

use crate::Context;
use crate::queries::hub::{has_cache, hub_id, offline_switch};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Image, Network, Plan, Scalar};

declare_code!(
    T0470,
    "pip-install-in-vpc",
    Note,
    "packages from the internet in a VPC that may have no internet access",
    found_in: ProgramFile
);
declare_code!(
    T0471,
    "network-call-in-isolation",
    Warning,
    "a script that appears to access the network, in a container that cannot or may not"
);
declare_code!(T0472, "encrypt-traffic-cost", Warning, "encrypted traffic between nodes that use EFA");
declare_code!(
    T0473,
    "encrypt-traffic-single-node",
    Warning,
    "encrypted traffic between nodes in a job with one node"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0470, &T0471, &T0472, &T0473];

/// Checks network access and traffic encryption.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    check_offline(plan, problems);
    let Some(network) = &plan.job.network else { return };
    if network.isolation.get() == Some(true) {
        check_isolation(plan, network, problems);
    } else if !network.subnets.is_empty() {
        check_packages_in_vpc(plan, network, problems);
    }
    check_encryption(plan, network, problems);
}

/// Reports a variable that blocks the download of a model that the script names by its ID on the Hub.
fn check_offline(plan: &Plan, problems: &mut Problems) {
    let Some(program) = &plan.job.program else { return };
    let Some((pair, val)) = offline_switch(program) else { return };
    // An image of the user may contain the files.
    let is_own = plan.image.as_ref().is_none_or(Image::is_own);
    let id = program.hyperparameters.iter().find_map(|h| Some((h, hub_id(h)?)));
    let Some((h, id)) = id.filter(|_| !is_own && !has_cache(program)) else { return };
    problems.push(
        Diagnostic::new(
            &T0471,
            val.span_or(pair.key_span),
            format!("`{}={}` blocks the download of `{id}` from the Hugging Face Hub", pair.key, val.value),
        )
        .label(h.value.span().unwrap_or(h.name_span), "a model ID on the Hub")
        .remove(&pair.key).or_else("provide the model through a channel and pass its path")
        .note("the container starts with an empty cache: loading the model fails"),
    );
}

/// Counts the packages that pip downloads for `requirements.txt`.
fn count_packages(plan: &Plan) -> usize {
    let Some(file) = plan.source.as_ref().and_then(|tree| tree.get("requirements.txt")) else { return 0 };
    let content = file.text();
    if content.contains("--no-index") {
        return 0;
    }
    content
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '-', '.', '/']))
        .count()
}

fn check_packages_in_vpc(plan: &Plan, network: &Network, problems: &mut Problems) {
    let count = count_packages(plan);
    if count > 0 {
        problems.push(
            Diagnostic::new(
                &T0470,
                network.subnets_span.unwrap_or(network.span),
                format!("`requirements.txt` lists {}: pip needs internet access from these subnets", text::count(count as u64, "package")),
            )
            .help("add a NAT gateway to the subnets' route table, or install the packages in the image")
            .note("without internet access pip times out on every node, after billing has started \
                (aws/sagemaker-python-sdk#2199)"),
        );
    }
}

fn check_isolation(plan: &Plan, network: &Network, problems: &mut Problems) {
    let why = "EnableNetworkIsolation blocks all network calls of the container except those to its peers \
        (botocore, CreateTrainingJob)";
    let at = network.isolation.span().unwrap_or(network.span);
    for (span, what) in network_calls(plan) {
        problems.push(
            Diagnostic::new(&T0471, span, what)
                .label(at, "blocks outbound calls")
                .help("provide the data through a channel, or remove `isolation`")
                .note(why),
        );
    }
}

/// Returns the settings in the manifest that make a script access the network.
fn network_calls(plan: &Plan) -> Vec<(Span, String)> {
    let mut out = Vec::new();
    let Some(program) = &plan.job.program else { return out };
    let offline = program.environment.iter().any(|pair| {
        matches!(pair.key.as_str(), "WANDB_MODE" | "WANDB_DISABLED")
            && pair
                .value
                .value()
                .is_some_and(|value| matches!(value.as_str(), "offline" | "disabled" | "true"))
    });
    for hyperparameter in &program.hyperparameters {
        let Some(Scalar::Text(value)) = hyperparameter.value.value() else { continue };
        let span = hyperparameter.value.span().unwrap_or(hyperparameter.name_span);
        if hyperparameter.name == "report_to" && value == "wandb" && !offline {
            out.push((
                span,
                "Weights & Biases requires internet access, but the container is isolated".to_owned(),
            ));
        } else if let Some(value) = hub_id(hyperparameter) {
            out.push((
                span,
                format!(
                    "`{value}` is a model ID on the Hugging Face Hub, which an isolated \
                        container cannot reach"
                ),
            ));
        }
    }
    if plan.job.remote_debug.get() == Some(true) {
        let span = plan.job.remote_debug.span().unwrap_or(plan.job.span);
        out.push((span, "remote debugging opens a session through Systems Manager, which an isolated \
            container cannot reach".to_owned()));
    }
    out
}

fn check_encryption(plan: &Plan, network: &Network, problems: &mut Problems) {
    let Some(cluster) = &plan.job.cluster else { return };
    if network.encrypt_traffic.get() != Some(true) {
        return;
    }
    let span = network.encrypt_traffic.span().unwrap_or(network.span);
    match cluster.nodes.get() {
        Some(1) if cluster.groups.is_empty() => problems.push(
            Diagnostic::new(&T0473, span, "`encrypt-traffic` has nothing to encrypt: the job has 1 node")
                .label(cluster.nodes.span().unwrap_or(cluster.span), "one node")
                .remove_it()
                .note("it encrypts traffic between instances, not within an instance or to S3"),
        ),
        Some(nodes) if nodes > 1 && plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true) => {
            problems.push(
                Diagnostic::new(&T0472, span, format!("encrypting traffic between {} slows down every step", text::count(nodes, "node")))
                    .label(cluster.instance.span().unwrap_or(cluster.span), "these nodes communicate over EFA")
                    .help("remove `encrypt-traffic` unless a policy requires it")
                    .note("the slowdown depends on how much data the nodes exchange (AWS developer \
                        guide, train-encrypt); for lack of measurements the prediction does not model it"),
            );
        }
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use trainc_diag::source::SourceMap;
    use trainc_ir::{SourceFile, SourceTree};
    use trainc_plan::Options;
    use trainc_plan::World;
    use trainc_plan::ReadError;
    use trainc_plan::resolve::{LoadedLayer, LayerLoader};

    /// A program directory with this `requirements.txt` and the fixtures' base layer.
    struct Packages(&'static str);

    impl LayerLoader for Packages {
        fn read_layer(&mut self, _: &str, path: &str) -> Result<LoadedLayer, ReadError> {
            let text = include_str!("../../../../tests/fixtures/base.kdl").to_owned();
            Ok(LoadedLayer { name: path.to_owned(), identity: path.to_owned(), text })
        }

        fn file_identity(&self, name: &str) -> String {
            name.to_owned()
        }
    }

    impl World for Packages {
        fn read_directory(&mut self, _: &str, path: &str) -> Result<SourceTree, ReadError> {
            let file = |path: &str, text: &str| SourceFile::new(path, text.as_bytes(), false);
            Ok(SourceTree {
                dir: path.to_owned(),
                files: vec![file("requirements.txt", self.0), file("train.py", "")],
            })
        }

        fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
            Err(ReadError::NotFound)
        }
    }

    #[track_caller]
    fn check(requirements: &'static str, nodes: &str, expected: &[&str]) {
        let text = format!("extends \"base.kdl\"\njob \"example\" {{\n{nodes}\n}}\n");
        let mut sources = SourceMap::default();
        let source = sources.add("example.kdl", text.clone());
        let compiled = compile(source, &text, &Options::default(), &mut Packages(requirements), &mut sources);
        let found: Vec<&str> = compiled
            .problems
            .iter()
            .filter(|d| CODES.contains(&d.code))
            .map(|d| d.message.as_str())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn packages_need_internet_access() {
        let note = "`requirements.txt` lists 2 packages: pip needs internet access from these subnets";
        check("# comment\npeft==0.17.1\n\ntransformers\n", "", &[note]);
        check("# nothing yet\n-r more.txt\n./wheels/peft.whl\n", "", &[]);
        check("--no-index\npeft\n", "", &[]);
    }

    #[test]
    fn an_isolated_container_is_reported_elsewhere() {
        // Another rule reports that the packages cannot be installed (T0433).
        check("peft\n", "network {\n    isolation #true\n}", &[]);
    }
}
