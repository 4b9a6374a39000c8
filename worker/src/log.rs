//! What a step says of itself: one JSON line on stdout, one line for people on stderr.

use serde::{Deserialize, Serialize};

/// One optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// Optimizer steps done, from 1.
    pub step: usize,
    /// Nats per token, mean over the global batch, before the update.
    pub loss: f64,
    /// Of the whole gradient, before clipping.
    pub grad_norm: f64,
    /// Learning rate of the update, per step.
    pub lr: f64,
    /// Tokens per second of all ranks.
    pub tokens_per_s: f64,
    /// Model flops over the devices' peak; null where no peak is known, as on CPUs.
    pub mfu: Option<f64>,
    /// Bytes resident, highest so far, of the largest rank.
    pub memory: u64,
}

impl StepLine {
    /// For people.
    pub fn human(&self) -> String {
        let mfu = self.mfu.map_or_else(|| "-".to_owned(), |mfu| format!("{mfu:.3}"));
        format!(
            "step={} loss={:.6} grad_norm={:.4} lr={:.3e} tokens_per_s={:.0} mfu={mfu} memory_mib={}",
            self.step,
            self.loss,
            self.grad_norm,
            self.lr,
            self.tokens_per_s,
            self.memory >> 20
        )
    }
}

/// A number of kB from /proc/self/status, in bytes.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Highest resident memory of this process so far, in bytes.
pub fn peak_resident() -> u64 {
    status("VmHWM")
}

/// Resident memory of this process now, in bytes.
pub fn resident() -> u64 {
    status("VmRSS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = StepLine {
            step: 3,
            loss: 2.5,
            grad_norm: 0.75,
            lr: 3e-4,
            tokens_per_s: 1234.5,
            mfu: None,
            memory: 5 << 20,
        };
        assert_eq!(
            line.human(),
            "step=3 loss=2.500000 grad_norm=0.7500 lr=3.000e-4 tokens_per_s=1234 mfu=- memory_mib=5"
        );
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            r#"{"step":3,"loss":2.5,"grad_norm":0.75,"lr":0.0003,"tokens_per_s":1234.5,"mfu":null,"memory":5242880}"#
        );
        assert!(peak_resident() > 1 << 20);
    }
}
