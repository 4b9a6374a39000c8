//! What the container does over the network: packages, secrets, the hub; isolation and encryption.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Network, Plan, Scalar};

declare_code!(
    T0470,
    "pip-install-in-vpc",
    Note,
    "packages from the internet in a VPC that may have no internet access"
);
declare_code!(
    T0471,
    "network-call-in-isolation",
    Warning,
    "an isolated container whose script appears to access the network"
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

/// Judges what the container reaches.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(network) = &plan.job.network else { return };
    if network.isolation.get() == Some(true) {
        isolation(plan, network, problems);
    } else if !network.subnets.is_empty() {
        packages_in_vpc(plan, network, problems);
    }
    encryption(plan, network, problems);
}

/// How many packages `requirements.txt` has pip fetch.
fn packages(plan: &Plan) -> usize {
    let Some(file) = plan.source.as_ref().and_then(|tree| tree.get("requirements.txt")) else { return 0 };
    let content = String::from_utf8_lossy(&file.bytes);
    if content.contains("--no-index") {
        return 0;
    }
    content
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '-', '.', '/']))
        .count()
}

fn packages_in_vpc(plan: &Plan, network: &Network, problems: &mut Problems) {
    let count = packages(plan);
    if count > 0 {
        problems.push(
            Diagnostic::new(
                &T0470,
                network.subnets_span.unwrap_or(network.span),
                format!("`requirements.txt` has {} for pip, which needs a way to the internet from these subnets", text::count(count as u64, "package")),
            )
            .help("give the subnets a NAT gateway, or put the packages into the image")
            .note("without one pip runs into its time-outs on every node after the instances are billed (aws/sagemaker-python-sdk#2199)"),
        );
    }
}

fn isolation(plan: &Plan, network: &Network, problems: &mut Problems) {
    let why = "EnableNetworkIsolation blocks all calls of the container but those to its peers (botocore, CreateTrainingJob)";
    let at = network.isolation.span().unwrap_or(network.span);
    for (span, what) in callers(plan) {
        problems.push(
            Diagnostic::new(&T0471, span, what)
                .label(at, "no call leaves the container")
                .help("give what is needed as a channel, or remove `isolation`")
                .note(why),
        );
    }
}

/// Values from which a script would call out, as far as a manifest shows it.
fn callers(plan: &Plan) -> Vec<(Span, String)> {
    let mut out = Vec::new();
    let Some(program) = &plan.job.program else { return out };
    let offline = program.environment.iter().any(|pair| {
        matches!(pair.key.as_str(), "WANDB_MODE" | "WANDB_DISABLED")
            && pair
                .value
                .value()
                .is_some_and(|value| matches!(value.as_str(), "offline" | "disabled" | "true"))
    });
    let model =
        plan.job.model.as_ref().and_then(|model| model.name.value()).filter(|name| name.contains('/'));
    for hyperparameter in &program.hyperparameters {
        let Some(Scalar::Text(value)) = hyperparameter.value.value() else { continue };
        let span = hyperparameter.value.span().unwrap_or(hyperparameter.name_span);
        if hyperparameter.name == "report_to" && value == "wandb" && !offline {
            out.push((
                span,
                "Weights & Biases is reached over the internet, and the container is isolated".to_owned(),
            ));
        } else if model == Some(value) {
            out.push((
                span,
                format!(
                    "`{value}` is a name on the Hugging Face hub, which an isolated container does not reach"
                ),
            ));
        }
    }
    if plan.job.remote_debug.get() == Some(true) {
        let span = plan.job.remote_debug.span().unwrap_or(plan.job.span);
        out.push((span, "remote debugging opens a session through Systems Manager, which an isolated container does not reach".to_owned()));
    }
    out
}

fn encryption(plan: &Plan, network: &Network, problems: &mut Problems) {
    let Some(cluster) = &plan.job.cluster else { return };
    if network.encrypt_traffic.get() != Some(true) {
        return;
    }
    let span = network.encrypt_traffic.span().unwrap_or(network.span);
    match cluster.nodes.get() {
        Some(1) if cluster.groups.is_empty() => problems.push(
            Diagnostic::new(&T0473, span, "`encrypt-traffic` has nothing to encrypt: the job has 1 node")
                .label(cluster.nodes.span().unwrap_or(cluster.span), "one node")
                .help("remove it")
                .note("it encrypts traffic between instances, not inside one or to S3"),
        ),
        Some(nodes) if nodes > 1 && plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true) => {
            problems.push(
                Diagnostic::new(&T0472, span, format!("encrypted traffic between {} makes each step longer", text::count(nodes, "node")))
                    .label(cluster.instance.span().unwrap_or(cluster.span), "these talk over EFA")
                    .help("remove `encrypt-traffic`, unless a rule of yours asks for it")
                    .note("how much depends on how much the nodes exchange (AWS developer guide, train-encrypt); no measured figure is known, so the prediction does not count it"),
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
    use trainc_plan::resolve::{LayerFault, Loaded, Loader};

    /// A program directory with this `requirements.txt`, over the base of the fixtures.
    struct Packages(&'static str);

    impl Loader for Packages {
        fn layer(&mut self, _: &str, path: &str) -> Result<Loaded, LayerFault> {
            let text = include_str!("../../../../tests/fixtures/base.kdl").to_owned();
            Ok(Loaded { name: path.to_owned(), identity: path.to_owned(), text })
        }

        fn identity(&self, name: &str) -> String {
            name.to_owned()
        }
    }

    impl World for Packages {
        fn directory(&mut self, _: &str, path: &str) -> Result<SourceTree, LayerFault> {
            let file = |path: &str, text: &str| SourceFile::new(path, text.as_bytes(), false);
            Ok(SourceTree {
                dir: path.to_owned(),
                files: vec![file("requirements.txt", self.0), file("train.py", "")],
            })
        }

        fn text(&mut self, _: &str, _: &str) -> Result<String, LayerFault> {
            Err(LayerFault::NotFound)
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
    fn packages_need_a_way_out() {
        let note =
            "`requirements.txt` has 2 packages for pip, which needs a way to the internet from these subnets";
        check("# comment\npeft==0.17.1\n\ntransformers\n", "", &[note]);
        check("# nothing yet\n-r more.txt\n./wheels/peft.whl\n", "", &[]);
        check("--no-index\npeft\n", "", &[]);
    }

    #[test]
    fn an_isolated_container_has_none() {
        // That the packages cannot be fetched at all is another rule's to say.
        check("peft\n", "network {\n    isolation #true\n}", &[]);
    }
}
