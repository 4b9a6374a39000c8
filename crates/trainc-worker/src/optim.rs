//! AdamW on shards, gradient clipping and learning rate schedules.

use crate::config::{Optimizer, Schedule, ScheduleKind};
use crate::kernels::with_simd;

/// Returns the learning rate of optimizer step `step`, counted from 0.
pub fn learning_rate(highest: f64, schedule: &Schedule, step: usize) -> f64 {
    if step < schedule.warmup_steps {
        return highest * (step + 1) as f64 / schedule.warmup_steps as f64;
    }
    let length = (schedule.steps - schedule.warmup_steps).max(1) as f64;
    let part = ((step - schedule.warmup_steps) as f64 / length).min(1.0);
    let least = schedule.minimum_learning_rate;
    match schedule.kind {
        ScheduleKind::Constant => highest,
        ScheduleKind::Linear => highest + (least - highest) * part,
        ScheduleKind::Cosine => least + (highest - least) * 0.5 * (1.0 + (std::f64::consts::PI * part).cos()),
    }
}

/// Returns the factor for the gradient, as in `torch.nn.utils.clip_grad_norm_`.
pub fn clip_factor(norm: f64, bound: Option<f64>) -> f64 {
    bound.map_or(1.0, |bound| (bound / (norm + 1e-6)).min(1.0))
}

/// Applies one step of AdamW to a range of parameters; `step` counts from 0.
pub fn adamw(
    o: &Optimizer,
    step: usize,
    rate: f64,
    decay: bool,
    factor: f64,
    p: &mut [f32],
    m: &mut [f32],
    v: &mut [f32],
    g: &[f32],
) {
    let t = (step + 1) as f64;
    let size = (rate / (1.0 - o.beta1.powf(t))) as f32;
    let root = (1.0 / (1.0 - o.beta2.powf(t)).sqrt()) as f32;
    let keep = if decay { (1.0 - rate * o.weight_decay) as f32 } else { 1.0 };
    let (b1, b2, eps, factor) = (o.beta1 as f32, o.beta2 as f32, o.eps as f32, factor as f32);
    let (c1, c2) = ((1.0 - o.beta1) as f32, (1.0 - o.beta2) as f32);
    with_simd(
        #[inline(always)]
        || {
            for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(g) {
                let g = *g * factor;
                *m = b1 * *m + c1 * g;
                *v = b2 * *v + c2 * g * g;
                *p = keep * *p - size * *m / (v.sqrt() * root + eps);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let schedule = |kind| Schedule { kind, warmup_steps: 4, steps: 12, minimum_learning_rate: 0.1 };
        let at = |kind, step| learning_rate(1.0, &schedule(kind), step);
        for kind in [ScheduleKind::Constant, ScheduleKind::Linear, ScheduleKind::Cosine] {
            assert_eq!([0, 1, 3, 4].map(|s| at(kind, s)), [0.25, 0.5, 1.0, 1.0]);
        }
        assert_eq!(at(ScheduleKind::Constant, 11), 1.0);
        assert!((at(ScheduleKind::Linear, 8) - 0.55).abs() < 1e-12);
        assert!((at(ScheduleKind::Cosine, 8) - 0.55).abs() < 1e-12);
        assert!((at(ScheduleKind::Cosine, 12) - 0.1).abs() < 1e-12);
        assert!((at(ScheduleKind::Linear, 40) - 0.1).abs() < 1e-12);
    }
}
