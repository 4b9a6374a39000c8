//! Constants that a probe measured: those of one device, and no longer a part of the interval.

use super::constants::{Constants, Name};
use super::layout::{GpuKind, Layout};

/// Spread between clusters of what the constants cannot say, a natural logarithm: the form of the cost model
/// (rule of thumb, of the size of its errors within a source).
const FORM: f64 = 0.1;

/// Share by which a constant is moved to see its effect on the time of a step.
const MOVED: f64 = 0.01;

/// What a probe measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// Name of the device, as PyTorch reports it.
    pub device: String,
    /// Keys of the measured constants.
    keys: Vec<String>,
    /// The constants of other devices: those before the probe.
    before: Box<Constants>,
}

impl Probed {
    /// Returns the type of the device.
    fn gpu(&self) -> Option<GpuKind> {
        GpuKind::from_name(&self.device)
    }

    /// Returns the keys of the measured constants, with the values that other devices keep.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (&str, f64)> {
        self.keys.iter().filter_map(|key| Some((key.as_str(), self.before.value(key)?)))
    }
}

impl Constants {
    /// Returns the constants with those that a probe measured on a device; `None` if it is no GPU that the
    /// cost model knows, or none of the constants is one of this GPU or of its links.
    #[must_use]
    pub fn with_probed<'a>(
        &self,
        device: &str,
        measured: impl Iterator<Item = (&'a str, f64)>,
    ) -> Option<Self> {
        let kind = GpuKind::from_name(device)?.kind_of_constants();
        let mut out = self.clone();
        let mut keys = Vec::new();
        for (key, value) in measured {
            // Planned for another GPU: none of the figures is one of the job's machines.
            if key.strip_prefix("gpu.").is_some_and(|rest| rest.split('.').next() != Some(kind.as_str())) {
                return None;
            }
            if let Some(slot) = out.value_mut(key).filter(|_| value.is_finite() && value > 0.0) {
                // Hardware that runs above its data sheet counts as hardware that reaches it.
                *slot = if Self::is_share(key) { value.min(1.0) } else { value };
                keys.push(key.to_owned());
            }
        }
        if keys.is_empty() {
            return None;
        }
        let before = Box::new(self.clone());
        out.set_probed(Some(Probed { device: device.to_owned(), keys, before }));
        Some(out)
    }

    /// Returns the constants for a GPU type: those before the probe, if it measured another one.
    pub fn for_gpu(&self, gpu: Option<GpuKind>) -> &Self {
        match self.probed() {
            Some(probed) if probed.gpu() != gpu => &probed.before,
            _ => self,
        }
    }
}

/// Returns the share of an interval's width that the probe leaves whose constants these are; 1 without one.
pub(super) fn remaining_width(
    layout: &Layout,
    constants: &Constants,
    seconds: impl Fn(&Constants) -> Option<f64>,
) -> f64 {
    constants.probed().map_or(1.0, |probed| share_left_without(&probed.keys, layout, constants, seconds))
}

/// Returns the share of an interval's width that is left once these constants were measured: their variance
/// is gone, that of the others and of the form of the model stays. `seconds` returns the time of a step.
pub(super) fn share_left_without(
    keys: &[String],
    layout: &Layout,
    constants: &Constants,
    seconds: impl Fn(&Constants) -> Option<f64>,
) -> f64 {
    let Some(now) = seconds(constants).filter(|now| *now > 0.0) else { return 1.0 };
    let mut moved = constants.clone();
    let gpu = layout.hardware.gpu.map_or("", |kind| kind.kind_of_constants().as_str());
    let own = ["gemm", "flash", "flash2", "flash3", "launch"].map(|field| format!("gpu.{gpu}.{field}"));
    let shared = Name::ALL.iter().map(|(key, _)| (*key).to_owned());
    let (mut all, mut known) = (FORM * FORM, 0.0);
    for key in own.into_iter().chain(shared) {
        let Some((spread, value)) = spread(&key).zip(constants.value(&key)) else { continue };
        let Some(slot) = moved.value_mut(&key) else { continue };
        *slot = value * (1.0 + MOVED);
        let then = seconds(&moved);
        if let Some(slot) = moved.value_mut(&key) {
            *slot = value;
        }
        let effect = then.map_or(0.0, |then| (then / now).ln() / MOVED);
        let variance = (effect * spread).powi(2);
        all += variance;
        if keys.contains(&key) {
            known += variance;
        }
    }
    let left = (1.0 - known / all).max(0.0).sqrt();
    if left.is_finite() { left } else { 1.0 }
}

/// Returns the spread of a constant between clusters, a natural logarithm (rule of thumb: those of the
/// priors of the fit); `None` if it has no effect on a step.
fn spread(key: &str) -> Option<f64> {
    match key.split('.').next_back() {
        Some("gemm") => return Some(0.1),
        Some("flash") => return Some(0.2),
        _ => {}
    }
    match key.split('.').next() {
        Some("gpu" | "kernels" | "links" | "overlap") => Some(0.25),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::h100_fsdp;
    use crate::speed::speed;

    const DEVICE: &str = "NVIDIA H100 80GB HBM3";

    fn probed(values: &[(&str, f64)]) -> Constants {
        Constants::shipped().with_probed(DEVICE, values.iter().copied()).unwrap()
    }

    /// Each measured constant takes its part of the interval away, and no more.
    #[test]
    fn what_a_probe_measured_leaves_the_interval() {
        let (shipped, layout) = (Constants::shipped(), h100_fsdp());
        let width = |constants: &Constants| {
            let speed = speed(&layout, constants).unwrap();
            (speed.interval.high / speed.step_seconds).ln()
        };
        let same = |keys: &[&'static str]| {
            let values: Vec<(&str, f64)> =
                keys.iter().map(|key| (*key, shipped.value(key).unwrap())).collect();
            width(&probed(&values))
        };
        let whole = width(shipped);
        let gemm = same(&["gpu.H100.gemm"]);
        let both = same(&["gpu.H100.gemm", "gpu.H100.flash"]);
        let all = same(&["gpu.H100.gemm", "gpu.H100.flash", "links.fabric"]);
        assert!(whole > gemm && gemm > both && both > all, "{whole} {gemm} {both} {all}");
        assert!(all > 0.5 * whole && all < 0.97 * whole, "{all} of {whole}");
    }

    /// Rates of one device are not those of another.
    #[test]
    fn constants_of_a_device_are_for_its_plans_alone() {
        let slow = probed(&[("gpu.H100.gemm", 0.1), ("links.fabric", 0.1)]);
        let mut layout = h100_fsdp();
        let seconds = |layout: &Layout, constants: &Constants| speed(layout, constants).unwrap().step_seconds;
        assert!(seconds(&layout, &slow) > 2.0 * seconds(&layout, Constants::shipped()));
        for other in [GpuKind::A100, GpuKind::H200] {
            layout.hardware.gpu = Some(other);
            assert_eq!(speed(&layout, &slow), speed(&layout, Constants::shipped()));
        }
        // A file of constants keeps the device.
        let read = Constants::parse(&slow.to_toml()).unwrap();
        assert_eq!(read.probed().unwrap().device, DEVICE);
        assert_eq!(read.value("links.fabric"), Some(0.1));
        let before = read.for_gpu(Some(GpuKind::A100)).value("links.fabric").unwrap();
        assert!((before / Constants::shipped().value("links.fabric").unwrap() - 1.0).abs() < 1e-3);
        for (device, key) in
            [("CPU", "gpu.H100.gemm"), ("NVIDIA A100-SXM4-40GB", "gpu.H100.gemm"), (DEVICE, "x")]
        {
            let found = Constants::shipped().with_probed(device, [(key, 8.1e-6)].into_iter());
            assert_eq!(found, None, "{device} {key}");
        }
    }
}
