//! Placement of this launcher among the hosts of a job, from the environment variables of torchrun or Open
//! MPI, or from SageMaker's resourceconfig.json. Only `detect` accesses the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::Config;
use crate::exit::{Code, Failure};

/// Placement of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Index of this host, from 0.
    pub host: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// World size, if the environment specifies it.
    pub world_size: Option<usize>,
    /// Local rank of this process; only local rank 0 launches.
    pub local_rank: usize,
    /// Name or address of the first host.
    pub first_host: String,
    /// Rendezvous port, if the environment specifies it.
    pub port: Option<u16>,
    /// Instance type, if the environment specifies it.
    pub instance: Option<String>,
    /// Network interface between the hosts, if the environment specifies it.
    pub interface: Option<String>,
    /// Source of this information.
    pub source: &'static str,
}

/// Members of `/opt/ml/input/config/resourceconfig.json` that the worker uses.
#[derive(Debug, Deserialize)]
struct Resources {
    current_host: String,
    hosts: Vec<String>,
    #[serde(default)]
    current_instance_type: Option<String>,
    #[serde(default)]
    network_interface_name: Option<String>,
}

/// Returns SageMaker's base directory, as its toolkit determines it.
pub fn sagemaker_directory(variables: &BTreeMap<String, String>) -> PathBuf {
    let set = variables.get("SAGEMAKER_BASE_DIR").filter(|text| !text.is_empty());
    set.map_or_else(|| PathBuf::from("/opt/ml"), PathBuf::from)
}

fn config_failure(message: String) -> Failure {
    Failure::new(Code::Config, message)
}

fn number(variables: &BTreeMap<String, String>, name: &str) -> Result<Option<usize>, Failure> {
    variables
        .get(name)
        .map(|text| {
            let found = text.trim().parse();
            found.map_err(|_| {
                config_failure(format!("environment: {name}=`{text}` is not a non-negative integer"))
            })
        })
        .transpose()
}

/// Variables for rank, world size, local rank and local world size: those of torchrun and of Open MPI.
const NAMES: [[&str; 4]; 2] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"],
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ],
];

impl Placement {
    /// Returns the placement on a single host, used when the environment specifies none.
    pub fn single_host() -> Self {
        Self {
            host: 0,
            hosts: 1,
            world_size: None,
            local_rank: 0,
            first_host: "localhost".to_owned(),
            port: None,
            instance: None,
            interface: None,
            source: "nothing in the environment",
        }
    }

    /// Determines the placement from the environment variables and the text of resourceconfig.json. Variables
    /// of a launcher take precedence, since it started this process.
    pub fn from_environment(
        variables: &BTreeMap<String, String>,
        resources: Option<&str>,
    ) -> Result<Self, Failure> {
        for names in NAMES {
            if names[..3].iter().any(|name| variables.contains_key(*name)) {
                return Self::from_rank_variables(variables, names);
            }
        }
        let Some(text) = resources else { return Ok(Self::single_host()) };
        let r: Resources =
            serde_json::from_str(text).map_err(|e| config_failure(format!("resourceconfig.json: {e}")))?;
        // The SageMaker toolkits sort host names as text: algo-10 comes before algo-2.
        let mut hosts = r.hosts;
        if hosts.iter().any(|name| name.trim().is_empty()) {
            return Err(config_failure("resourceconfig.json: `hosts` contains an empty name".to_owned()));
        }
        hosts.sort();
        hosts.dedup();
        let Some(host) = hosts.iter().position(|name| *name == r.current_host) else {
            let all = hosts.join(", ");
            return Err(config_failure(format!(
                "resourceconfig.json: `current_host` is `{}`, which is not in `hosts`: {all}",
                r.current_host
            )));
        };
        Ok(Self {
            host,
            hosts: hosts.len(),
            first_host: hosts.swap_remove(0),
            instance: r.current_instance_type,
            interface: r.network_interface_name,
            source: "resourceconfig.json",
            ..Self::single_host()
        })
    }

    fn from_rank_variables(variables: &BTreeMap<String, String>, names: [&str; 4]) -> Result<Self, Failure> {
        let [rank, world, local, here] = names;
        let need = |name: &str| {
            let missing = || {
                config_failure(format!(
                    "environment: {name} is not set: {rank}, {world} and {local} are required together"
                ))
            };
            number(variables, name)?.ok_or_else(missing)
        };
        let (r, w, l) = (need(rank)?, need(world)?, need(local)?);
        // Without it, all ranks are on this host.
        let h = number(variables, here)?.unwrap_or(w);
        if r >= w {
            return Err(config_failure(format!("environment: {rank}={r} is not less than {world}={w}")));
        }
        if h == 0 || !w.is_multiple_of(h) {
            return Err(config_failure(format!("environment: {world}={w} is not divisible by {here}={h}")));
        }
        if l >= h || r % h != l {
            return Err(config_failure(format!(
                "environment: {rank}={r} with {h} ranks per host requires {local}={}, found {local}={l}",
                r % h
            )));
        }
        let hosts = w / h;
        let first_host = match variables.get("MASTER_ADDR") {
            Some(first) if !first.is_empty() => first.clone(),
            _ if hosts == 1 => "localhost".to_owned(),
            _ => {
                return Err(config_failure(format!(
                    "environment: MASTER_ADDR is not set, but {hosts} hosts require it"
                )));
            }
        };
        let port = match number(variables, "MASTER_PORT")? {
            None => None,
            Some(port) => Some(u16::try_from(port).ok().filter(|port| *port > 0).ok_or_else(|| {
                config_failure(format!("environment: MASTER_PORT={port} is not a valid port"))
            })?),
        };
        let source = if rank == "RANK" { "torchrun's variables" } else { "Open MPI's variables" };
        Ok(Self {
            host: r / h,
            hosts,
            world_size: Some(w),
            local_rank: l,
            first_host,
            port,
            instance: None,
            interface: None,
            source,
        })
    }

    /// Detects the placement of this process.
    pub fn detect() -> Result<Self, Failure> {
        let variables: BTreeMap<String, String> = std::env::vars().collect();
        let path = sagemaker_directory(&variables).join("input/config/resourceconfig.json");
        let resources = read_optional(&path)?;
        Self::from_environment(&variables, resources.as_deref())
    }

    /// Checks that the config was made for this placement.
    pub fn check_config(&self, config: &Config) -> Result<(), Failure> {
        let source = self.source;
        if let Some(ranks) = self.world_size
            && ranks != config.ranks()
        {
            return Err(config_failure(format!(
                "config: `mesh`: planned for {} ranks, found {ranks} in {source}",
                config.ranks()
            )));
        }
        if self.hosts != config.cluster.nodes {
            let hosts = config.cluster.nodes;
            return Err(config_failure(if self.source == Self::single_host().source {
                format!(
                    "config: `cluster.nodes`: planned for {hosts} hosts, found {source} to \
                        locate them; `--ranks N` trains on this host alone"
                )
            } else {
                format!(
                    "config: `cluster.nodes`: planned for {hosts} hosts, found {} in {source}",
                    self.hosts
                )
            }));
        }
        if let Some(instance) = &self.instance
            && *instance != config.cluster.instance
        {
            return Err(config_failure(format!(
                "config: `cluster.instance`: planned for `{}`, found `{instance}` in {source}",
                config.cluster.instance
            )));
        }
        Ok(())
    }
}

fn read_optional(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(config_failure(format!("{}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn from(list: &[(&str, &str)]) -> Result<Placement, String> {
        Placement::from_environment(&variables(list), None).map_err(|f| f.message)
    }

    #[test]
    fn hosts_count_in_the_order_of_their_names() {
        let hosts: Vec<String> = (1..=12).map(|n| format!("\"algo-{n}\"")).collect();
        let text = |host: &str| {
            format!(
                r#"{{"current_host": "{host}", "hosts": [{}], "current_instance_type": "ml.p4d.24xlarge", "network_interface_name": "eth0", "instance_groups": []}}"#,
                hosts.join(", ")
            )
        };
        let place = |host: &str| Placement::from_environment(&BTreeMap::new(), Some(&text(host)));
        for (name, number) in [("algo-1", 0), ("algo-10", 1), ("algo-12", 3), ("algo-2", 4), ("algo-9", 11)] {
            let place = place(name).unwrap();
            assert_eq!((place.host, place.hosts, place.first_host.as_str()), (number, 12, "algo-1"));
            assert_eq!(place.interface.as_deref(), Some("eth0"));
        }
        let failure = place("algo-13").unwrap_err();
        assert!(failure.message.contains("`algo-13`, which is not in `hosts`: algo-1, algo-10"), "{failure}");
        assert_eq!(failure.code, Code::Config);
        let unnamed = r#"{"current_host": "", "hosts": ["", "algo-2"]}"#;
        let failure = Placement::from_environment(&BTreeMap::new(), Some(unnamed)).unwrap_err();
        assert!(failure.message.contains("`hosts` contains an empty name"), "{failure}");
        assert_eq!(sagemaker_directory(&variables(&[("SAGEMAKER_BASE_DIR", "")])), Path::new("/opt/ml"));
        let failure = Placement::from_environment(&BTreeMap::new(), Some("{}")).unwrap_err();
        assert!(failure.message.contains("missing field `current_host`"), "{failure}");
        // Variables of a launcher take precedence.
        let torchrun = variables(&[("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")]);
        assert_eq!(Placement::from_environment(&torchrun, Some(&text("algo-2"))).unwrap().hosts, 1);
    }

    #[test]
    fn variables_of_ranks() {
        assert_eq!(from(&[]), Ok(Placement::single_host()));
        let all = [
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("MASTER_ADDR", "algo-1"),
            ("MASTER_PORT", "29500"),
        ];
        let place = from(&all).unwrap();
        assert_eq!((place.host, place.hosts, place.local_rank, place.world_size), (1, 2, 1, Some(8)));
        assert_eq!((place.first_host.as_str(), place.port), ("algo-1", Some(29500)));
        let with = |name: &str, value: Option<&str>| {
            let mut list: Vec<(&str, &str)> = all.iter().copied().filter(|(k, _)| *k != name).collect();
            list.extend(value.map(|value| (name, value)));
            from(&list).unwrap_err()
        };
        assert!(with("RANK", None).contains("RANK is not set"));
        assert!(with("WORLD_SIZE", None).contains("WORLD_SIZE is not set"));
        assert!(with("RANK", Some("-1")).contains("RANK=`-1` is not a non-negative integer"));
        assert!(with("RANK", Some("9")).contains("RANK=9 is not less than WORLD_SIZE=8"));
        assert!(with("LOCAL_RANK", Some("2")).contains("requires LOCAL_RANK=1, found LOCAL_RANK=2"));
        assert!(
            with("LOCAL_WORLD_SIZE", Some("3"))
                .contains("WORLD_SIZE=8 is not divisible by LOCAL_WORLD_SIZE=3")
        );
        assert!(with("MASTER_ADDR", None).contains("MASTER_ADDR is not set, but 2 hosts require it"));
        assert!(with("MASTER_PORT", Some("70000")).contains("MASTER_PORT=70000 is not a valid port"));
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("MASTER_ADDR", "one"),
        ];
        assert_eq!(from(&mpi).unwrap().host, 1);
    }
}
