//! What a `ModelTrainer` of the SageMaker SDK v3 starts, and its request as one of the training toolkit.
//!
//! Its request starts drivers, which the SDK generates and uploads with the source (sagemaker-train 1.27.0,
//! `model_trainer.py` and `container_drivers`). trainc uploads a source itself, and starts it as the toolkit
//! of the image does, or with its own launch script. The toolkit's hyperparameters name script and launcher,
//! as those of the SDK v2 do.

use super::command::{Command, Starter};
use super::origin::ProgramSource;
use serde_json::{Map, Value, json};

/// The source and the launcher of a `ModelTrainer`.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct Trainer {
    /// The source as written: a directory, an archive or an address.
    pub source: Option<String>,
    /// Its path, if it is a directory of the user: absolute in a record, otherwise relative to the manifest.
    pub directory: Option<String>,
    /// The script.
    pub entry: Option<String>,
    /// The command, which comes before the script.
    pub command: Option<String>,
    /// Further words of the command.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The file of the packages to install.
    pub requirements: Option<String>,
    /// The class of the launcher.
    pub launcher: Option<String>,
    /// Processes on each host.
    pub processes: Option<u64>,
    /// Options of mpirun.
    #[serde(default)]
    pub options: Vec<String>,
    /// The parameters of SMP.
    pub smp: Option<Map<String, Value>>,
}

/// A request of `ModelTrainer` as one that starts its script with the toolkit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Started {
    /// The request.
    pub(super) request: Map<String, Value>,
    /// The file of `accelerate launch`, relative to the manifest.
    pub(super) accelerate: Option<String>,
    /// The source, relative to the manifest; `None` for one that exists in S3, or a command without a source.
    pub(super) source: Option<ProgramSource>,
    /// What differs in the container.
    pub(super) caveats: Vec<String>,
}

/// The channel of the drivers.
pub(super) const DRIVERS: &str = "sm_drivers";

/// Returns whether the container of a request starts the drivers.
pub(super) fn is_by_drivers(request: &Map<String, Value>) -> bool {
    let arguments =
        request.get("AlgorithmSpecification").and_then(|algorithm| algorithm.get("ContainerArguments"));
    let words = arguments.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    words.into_iter().any(|word| word.contains("/sm_drivers/"))
}

/// Says what to write in place of drivers of which only the request is known.
pub(super) fn of_drivers(request: &Map<String, Value>, drivers: &str) -> String {
    let code = channel_uri(request, "code");
    let fetch = code.map_or_else(String::new, |code| {
        format!("fetch the source with `aws s3 cp --recursive {} ./src`, and ", code.trim_end_matches('/'))
    });
    let smp = request.get("HyperParameters").is_some_and(|keys| keys.get("mp_parameters").is_some());
    let launcher =
        if smp { "its launcher is torchrun with SMP" } else { "its launcher is in `distributed.json` there" };
    format!(
        "Started by the drivers of a ModelTrainer in the channel `{DRIVERS}`: {fetch}write \
            `program \"SCRIPT\" source=\"./src\"` in place of `entrypoint`, `arguments` and both channels; \
            SCRIPT or its command is in `{}/sourcecode.json`, and {launcher}.",
        drivers.trim_end_matches('/')
    )
}

/// Returns the address of a channel.
pub(super) fn channel_uri(request: &Map<String, Value>, name: &str) -> Option<String> {
    let channels = request.get("InputDataConfig").and_then(Value::as_array)?;
    let channel =
        channels.iter().find(|channel| channel.get("ChannelName").and_then(Value::as_str) == Some(name))?;
    Some(channel.pointer("/DataSource/S3DataSource/S3Uri")?.as_str()?.to_owned())
}

/// Removes channels of a request by their names.
pub(super) fn remove_channels(request: &mut Map<String, Value>, names: &[&str]) {
    if let Some(Value::Array(channels)) = request.get_mut("InputDataConfig") {
        let name = |channel: &Value| channel.get("ChannelName").and_then(Value::as_str).map(str::to_owned);
        channels.retain(|channel| name(channel).is_none_or(|name| !names.contains(&name.as_str())));
    }
}

impl Trainer {
    /// Returns what is started: the command, otherwise the script.
    fn command(&self) -> Result<Command, String> {
        if let Some(command) = &self.command {
            return Command::read(command, &self.arguments)
                .map_err(|reason| format!("of its command: {reason}"));
        }
        let entry = self.entry.clone().ok_or("it has neither script nor command")?;
        let starter = match self.launcher.as_deref() {
            Some("Torchrun") => Starter::Torchrun { processes: self.processes },
            Some("MPI") | None => Starter::Plain,
            Some(other) => return Err(format!("of its launcher, `{other}`")),
        };
        Ok(Command { starter, entry, arguments: Vec::new() })
    }

    /// Returns a request with the toolkit's hyperparameters in place of the drivers, or why there is none.
    /// `per_host` is the number of GPUs of a host.
    pub(super) fn start(
        &self,
        request: &Map<String, Value>,
        per_host: Option<u64>,
    ) -> Result<Started, String> {
        let mut out =
            Started { request: request.clone(), accelerate: None, source: None, caveats: Vec::new() };
        if let (None, Some(command)) = (&self.source, &self.command) {
            // Only the drivers are generated, and they start nothing but this.
            let words = command.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
            let words = self
                .arguments
                .iter()
                .fold(words, |words, word| format!("{words} {}", trainc_emit::quote(word)));
            out.remove_drivers();
            out.set_command(json!(["/bin/bash"]), json!(["-c", words]));
            return Ok(out);
        }
        let command = self.command()?;
        let mut keys: Map<String, Value> = Map::new();
        let code = channel_uri(request, "code").unwrap_or_default();
        let submit = match (&self.directory, &self.source) {
            (Some(directory), _) => {
                out.source = Some(ProgramSource { directory: directory.clone(), ..ProgramSource::default() });
                code
            }
            (None, Some(source)) if source.starts_with("s3://") && source.ends_with(".tar.gz") => {
                source.clone()
            }
            (None, source) => {
                let source = source.as_deref().unwrap_or_default();
                return Err(format!("of its source, `{source}`, which is not a directory of this machine"));
            }
        };
        keys.insert("sagemaker_program".to_owned(), encoded(&command.entry));
        keys.insert("sagemaker_submit_directory".to_owned(), encoded(&submit));
        match &command.starter {
            Starter::Plain if self.launcher.as_deref() == Some("MPI") => {
                keys.insert("sagemaker_mpi_enabled".to_owned(), json!("true"));
                // The drivers start one for each GPU, the toolkit one for each host.
                if let Some(processes) = self.processes.or(per_host) {
                    let key = "sagemaker_mpi_num_of_processes_per_host";
                    keys.insert(key.to_owned(), json!(processes.to_string()));
                }
                if !self.options.is_empty() {
                    keys.insert(
                        "sagemaker_mpi_custom_mpi_options".to_owned(),
                        encoded(&self.options.join(" ")),
                    );
                }
            }
            Starter::Plain => {}
            Starter::Torchrun { processes } => {
                keys.insert("sagemaker_torch_distributed_enabled".to_owned(), json!("true"));
                if let Some(processes) = processes.filter(|processes| Some(*processes) != per_host) {
                    out.caveats.push(format!(
                        "`parallel`: the script starts {} on each host, and trainc one for each GPU",
                        trainc_diag::text::count(processes, "process")
                    ));
                }
            }
            Starter::Accelerate { file } => {
                let (Some(file), Some(directory)) = (file, &self.directory) else {
                    return Err("of `accelerate launch` without `--config_file`".to_owned());
                };
                out.accelerate = Some(format!("{}/{file}", directory.trim_end_matches('/')));
            }
        }
        if let Some(requirements) = self.requirements.as_deref().filter(|name| !is_installed(name)) {
            out.caveats.push(format!(
                "`requirements`: the container installs `requirements.txt` of the source, not \
                    `{requirements}`: rename it"
            ));
        }
        out.remove_drivers();
        out.add_arguments(self, &command);
        if let Some(Value::Object(hyperparameters)) = out.request.get_mut("HyperParameters") {
            hyperparameters.extend(keys);
        }
        Ok(out)
    }

    /// Says what to write in place of the drivers, where trainc cannot.
    pub(super) fn instead(&self, reason: &str) -> String {
        let source = self.directory.as_deref().or(self.source.as_deref()).unwrap_or("./src");
        let put = match &self.command {
            Some(_) => "put the command into a script of the source, and write",
            None => "write",
        };
        let entry = self.entry.as_deref().filter(|_| self.command.is_none()).unwrap_or("run.sh");
        format!(
            "The SDK would have uploaded the channels `code` and `sm_drivers`; trainc does not, \
                because {reason}. In place of both, `entrypoint` and `arguments`, {put} \
                `program \"{entry}\" source=\"{source}\"`."
        )
    }
}

/// Returns whether the container installs a file of packages without being told.
fn is_installed(name: &str) -> bool {
    matches!(name.trim_start_matches("./"), "requirements.txt" | "auto")
}

/// Returns a text as the toolkit decodes it: JSON as it is.
fn for_toolkit(text: &str) -> Value {
    if serde_json::from_str::<Value>(text).is_ok() { Value::from(text) } else { encoded(text) }
}

fn encoded(text: &str) -> Value {
    Value::String(Value::from(text).to_string())
}

impl Started {
    fn remove_drivers(&mut self) {
        remove_channels(&mut self.request, &["code", DRIVERS]);
        if let Some(Value::Object(algorithm)) = self.request.get_mut("AlgorithmSpecification") {
            algorithm.remove("ContainerEntrypoint");
            algorithm.remove("ContainerArguments");
        }
    }

    fn set_command(&mut self, entrypoint: Value, arguments: Value) {
        if let Some(Value::Object(algorithm)) = self.request.get_mut("AlgorithmSpecification") {
            algorithm.insert("ContainerEntrypoint".to_owned(), entrypoint);
            algorithm.insert("ContainerArguments".to_owned(), arguments);
        }
    }

    /// Encodes the hyperparameters as the toolkit decodes them, and adds the arguments of the command.
    fn add_arguments(&mut self, trainer: &Trainer, command: &Command) {
        let sent = self.request.entry("HyperParameters").or_insert_with(|| json!({}));
        let Value::Object(hyperparameters) = sent else { return };
        let has_own = hyperparameters.keys().any(|name| name != "mp_parameters");
        if trainer.command.is_some() && has_own {
            self.caveats.push(
                "`hyperparameter`: the command does not pass them to the script, which finds them in the \
                    variable `SM_HPS`; trainc passes them, too"
                    .to_owned(),
            );
        }
        for value in hyperparameters.values_mut() {
            *value = for_toolkit(value.as_str().unwrap_or_default());
        }
        for (name, value) in &command.arguments {
            let value = if let Some(value) = value {
                for_toolkit(value)
            } else {
                self.caveats
                    .push(format!("the switch `--{name}` of the command is passed as `--{name} True`"));
                json!("true")
            };
            hyperparameters.insert(name.clone(), value);
        }
    }
}
