//! Constants of the cost model from the output of a probe of the cluster.

use serde_json::{Map, Value};
use trainc_predict::Constants;

/// The member that marks a line of a probe.
const MARK: &str = "trainc_probe";

/// The output of a probe, read from a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probe {
    /// Measured constants, by their keys in a file of constants.
    pub constants: Vec<(String, f64)>,
    /// Bytes per second at which the slowest node wrote a file as large as its part of a checkpoint.
    pub checkpoint_bytes_per_second: Option<f64>,
    /// The planned time of a step over that by the measured rates, if the probe had planned figures.
    pub share: Option<f64>,
    /// Nodes that were slower than the others.
    pub slow_nodes: Vec<String>,
    /// The name of the device.
    pub device: Option<String>,
    /// True if it ended the job.
    pub ended: bool,
}

/// Returns true if a text contains lines of a probe.
pub fn is_probe_output(text: &str) -> bool {
    text.lines().any(|line| line_of_probe(line).is_some())
}

/// Returns the members of a line of a probe, also if it is in a line of `trainc logs -o json`.
fn line_of_probe(line: &str) -> Option<Map<String, Value>> {
    // A cheap test, since logs are long.
    if !line.contains(MARK) {
        return None;
    }
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(line.get(line.find('{')?..)?.trim())
    else {
        return None;
    };
    if let Some(text) = members.get("text").and_then(Value::as_str).filter(|text| text.contains(MARK)) {
        return line_of_probe(text);
    }
    members.contains_key(MARK).then_some(members)
}

impl Probe {
    /// Reads the output of a probe; `None` if the text has no line of one.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut out = Self::default();
        let mut found = false;
        for line in text.lines() {
            found |= out.read_line(line);
        }
        found.then_some(out)
    }

    /// Reads a line of a log. Returns true if it is a line of a probe.
    pub fn read_line(&mut self, line: &str) -> bool {
        let Some(members) = line_of_probe(line) else { return false };
        let number = |name: &str| members.get(name).and_then(Value::as_f64).filter(|value| *value > 0.0);
        match members.get(MARK).and_then(Value::as_str).unwrap_or_default() {
            "begin" => {
                *self = Self::default();
                self.device = members.get("device").and_then(Value::as_str).map(str::to_owned);
            }
            "constants" => {
                let values = members.get("values").and_then(Value::as_object).into_iter().flatten();
                self.constants = values
                    .filter_map(|(key, value)| {
                        Some((key.clone(), value.as_f64().filter(|value| *value > 0.0)?))
                    })
                    .collect();
            }
            "checkpoint" => {
                let slower = number("bytes_per_second").into_iter().chain(self.checkpoint_bytes_per_second);
                self.checkpoint_bytes_per_second = slower.reduce(f64::min);
            }
            event @ ("done" | "ended") => {
                self.share = number("share");
                self.ended = event == "ended";
                let names = members.get("slow_nodes").and_then(Value::as_array).into_iter().flatten();
                self.slow_nodes = names.filter_map(Value::as_str).map(str::to_owned).collect();
            }
            _ => {}
        }
        true
    }

    /// Returns the constants with those that were measured in place of the given ones, for plans on the GPU
    /// that was measured; `None` if nothing was measured that they contain, or not on a GPU of the plan's
    /// type.
    pub fn constants(&self, base: &Constants) -> Option<Constants> {
        let saved = self.checkpoint_bytes_per_second.map(|rate| ("run.checkpoint_bytes_per_second", rate));
        let measured = self.constants.iter().map(|(key, value)| (key.as_str(), *value)).chain(saved);
        let mut out = base.with_probed(self.device.as_deref()?, measured)?;
        "trainc probe".clone_into(&mut out.command);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_predict::GpuKind;
    use trainc_predict::constants::Name;

    const OUTPUT: &str = r#"NCCL version 2.26.2
{"trainc_probe": "begin", "ranks": 16, "device": "NVIDIA A100-SXM4-40GB"}
{"type":"log","host":"algo-1","time":1000,"text":"{\"trainc_probe\": \"constants\", \"values\": {\"gpu.A100.gemm\": 0.6, \"gpu.A100.flash\": 1.2, \"links.fabric\": 0.4, \"links.other\": 3.0}}"}
{"trainc_probe": "checkpoint", "host": "algo-1", "bytes_per_second": 3e9}
{"trainc_probe": "checkpoint", "host": "algo-2", "bytes_per_second": 1e9}
{"trainc_probe": "ended", "share": 0.62, "slow_nodes": ["algo-2"]}
step=1 loss=2.5
"#;

    #[test]
    fn measured_constants_replace_the_shipped_ones() {
        assert!(is_probe_output(OUTPUT) && !is_probe_output("step=1 loss=2.5"));
        let probe = Probe::from_text(OUTPUT).unwrap();
        assert_eq!(
            (probe.share, probe.ended, probe.slow_nodes.as_slice()),
            (Some(0.62), true, &["algo-2".to_owned()][..])
        );
        let shipped = Constants::shipped();
        let constants = probe.constants(shipped).unwrap();
        let gpu = constants.gpu(GpuKind::A100).unwrap();
        assert_eq!((gpu.gemm, gpu.flash, constants.get(Name::Fabric)), (0.6, 1.0, 0.4));
        assert_eq!(constants.get(Name::Checkpoint), 1e9);
        assert_eq!(constants.get(Name::Nvlink), shipped.get(Name::Nvlink));
        assert!(Constants::parse(&constants.to_toml()).is_ok());
    }

    /// The rates of a CPU, or of another GPU than the planned one, say nothing about the plan.
    #[test]
    fn the_rates_of_another_device_are_no_constants() {
        for device in ["CPU", "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"] {
            let probe = Probe::from_text(&OUTPUT.replace("NVIDIA A100-SXM4-40GB", device)).unwrap();
            assert_eq!(probe.constants(Constants::shipped()), None, "{device}");
        }
        let unnamed = OUTPUT.replace(r#", "device": "NVIDIA A100-SXM4-40GB""#, "");
        assert_eq!(Probe::from_text(&unnamed).unwrap().constants(Constants::shipped()), None);
    }

    #[test]
    fn a_probe_without_planned_figures_has_no_constants() {
        let probe = Probe::from_text(r#"{"trainc_probe": "done", "share": null, "slow_nodes": []}"#).unwrap();
        assert_eq!((probe.share, probe.constants(Constants::shipped())), (None, None));
        assert_eq!(Probe::from_text("{\"step\": 2}"), None);
    }
}
