//! Descriptions of layouts and reasons in words.

use super::choice::Choice;
use super::front::Measure;
use super::reasons::{LongerPart, Reason};
use super::space::Space;
use trainc_diag::text;
use trainc_ir::Engine;
use trainc_predict::bills::unpriced_file_systems;
use trainc_predict::memory::MEAN_ERROR;
use trainc_predict::run::Terms;
use trainc_predict::{Recompute, Sharding};

const GIB: f64 = 1_073_741_824.0;

impl Space<'_> {
    /// Describes a layout in a line:
    /// `32 × ml.p4d.24xlarge, shard 128, micro-batch 6 × 1 pass, layers computed again`.
    pub fn describe_layout(&self, choice: &Choice) -> String {
        let degrees = &choice.degrees;
        let mut out = vec![format!("{} × {}", choice.nodes, self.instance_name(choice.site))];
        let law = self.rules.law;
        let data = choice.nodes * self.gpus_per_node(choice.site) / degrees.beside_shards(law).max(1);
        let strategy = law.strategy_of(degrees.sharding, degrees.shard == data);
        match (strategy, degrees.sharding) {
            (Some(strategy), _) if strategy.is_fixed => out.push(strategy.word.to_owned()),
            (Some(strategy), _) => out.push(format!("{} {}", strategy.word, degrees.shard)),
            (None, Sharding::Full) => out.push(format!("shard {}", degrees.shard)),
            (None, Sharding::Optimizer) => out.push("shard-optimizer-state".to_owned()),
            (None, Sharding::None | Sharding::Gradients) => {}
        }
        if degrees.tensor > 1 {
            out.push(format!("tensor {}", degrees.tensor));
        }
        if degrees.context > 1 {
            out.push(format!("context {}", degrees.context));
        }
        if degrees.ulysses > 1 {
            out.push(format!("ulysses {}", degrees.ulysses));
        }
        if degrees.expert > 1 {
            out.push(format!("experts over {}", degrees.expert));
        }
        if degrees.pipeline > 1 && self.rules.law.has_stages() {
            out.push(format!("pipeline {}", degrees.pipeline));
        }
        let passes =
            if choice.passes == 1 { "1 pass".to_owned() } else { format!("{} passes", choice.passes) };
        out.push(format!("micro-batch {} × {passes}", choice.micro_batch_size));
        match choice.recompute {
            Recompute::None => out.push("nothing recomputed".to_owned()),
            Recompute::Selective => out.push("attention recomputed".to_owned()),
            Recompute::Full | Recompute::Operations | Recompute::Share(_) => {
                out.push("layers recomputed".to_owned());
            }
        }
        if choice.host_offload.activations {
            out.push("activations offloaded".to_owned());
        }
        if choice.host_offload.states {
            out.push("states offloaded".to_owned());
        }
        if choice.host_offload.optimizer {
            out.push("optimizer states offloaded".to_owned());
        }
        out.join(", ")
    }

    /// Describes the set that the front was selected from:
    /// `of the 525 layouts looked at (nodes 1, 2, 4 and 8)`.
    pub fn describe_search_size(&self, layouts: usize) -> String {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable();
        let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
        format!(
            "of the {} searched (nodes {})",
            text::count(layouts as u64, "layout"),
            text::list(&nodes, "and")
        )
    }

    /// Returns true if a price of these machines is known.
    pub(super) fn has_instance_price(&self, site: usize) -> bool {
        let terms = self.sites.get(site).and_then(|site| site.terms.as_ref());
        terms.is_some_and(Terms::has_instance_price)
    }

    /// Describes the unknown price of a run on these machines, and the flag that sets it.
    pub fn describe_missing_price(&self, site: usize) -> String {
        if self.has_instance_price(site) {
            let systems = self.unpriced_file_systems();
            if !systems.is_empty() {
                return format!("the price of {systems} is unknown");
            }
        }
        let name = self.instance_name(site);
        format!("the price of `{name}` is unknown: set it with `--price {name}=USD`")
    }

    /// Lists the file systems of unknown price, in words; empty if there are none.
    pub fn unpriced_file_systems(&self) -> String {
        let names = unpriced_file_systems(self.plan);
        let noun = if names.len() == 1 { "the file system" } else { "the file systems" };
        if names.is_empty() {
            String::new()
        } else {
            format!("{noun} {}", text::backtick_list(&names, "and"))
        }
    }

    /// Describes the axes that vary.
    pub fn describe_varied_axes(&self) -> Vec<String> {
        let mut out: Vec<String> = self.rules.varied_axes().into_iter().map(str::to_owned).collect();
        if self.nodes.len() > 1 {
            let mut nodes = self.nodes.clone();
            nodes.sort_unstable();
            let shown: Vec<String> = nodes.iter().map(u64::to_string).collect();
            out.push(format!("nodes ({})", shown.join(", ")));
        }
        if self.has_all_types {
            let region = self.plan.job.region.value().map_or("the region", String::as_str);
            let types = text::count(self.sites.len() as u64, "type");
            out.push(format!("instance ({types} with a price in {region} that support the job)"));
        } else if self.sites.len() > 1 {
            let names: Vec<&str> = (0..self.sites.len()).map(|site| self.instance_name(site)).collect();
            out.push(format!("instance ({})", names.join(", ")));
        }
        out
    }

    /// Describes the settings that are not varied.
    pub fn describe_fixed_settings(&self) -> Vec<String> {
        let job = &self.plan.job;
        let mut out = vec![format!(
            "global batch {} (another one changes the training)",
            text::group_digits(self.global_batch())
        )];
        let engine = self.plan.engine.map_or("", Engine::name);
        out.push(format!("engine {engine}"));
        out.push("precision".to_owned());
        out.push("attention".to_owned());
        let mut put = |held: bool, word: &str| {
            if held {
                out.push(word.to_owned());
            }
        };
        put(job.adapter.is_some(), "adapter");
        put(job.quantize.is_some(), "quantize");
        let degrees = &self.base.degrees;
        let varied = self.rules.varied_axes();
        for (degree, word) in [(degrees.context, "context-degree"), (degrees.expert, "expert-degree")] {
            put(degree > 1.0 && !varied.contains(&word), word);
        }
        put(self.nodes.len() == 1, "nodes");
        put(self.sites.len() == 1 && !self.has_all_types, "instance");
        out
    }
}

/// Formats a difference in US dollars, with cents below ten dollars.
fn usd(amount: f64) -> String {
    if amount.abs() < 10.0 { format!("${amount:.2}") } else { text::dollars(amount) }
}

fn format_step_seconds(amount: f64) -> String {
    if amount < 0.01 { format!("{:.1} ms", 1e3 * amount) } else { format!("{amount:.2} s") }
}

/// Formats the memory of a GPU in GiB: `22.4`, `40`.
pub fn format_gpu_gib(bytes: f64) -> String {
    text::short_number(bytes / GIB)
}

impl std::fmt::Display for LongerPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} +{} per step", self.part, format_step_seconds(self.seconds))?;
        match self.collective {
            Some(collective) => write!(f, " ({collective})"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Beaten {
                by,
                at_upper_ends,
                slower,
                dearer_usd,
                dearer_on_demand_usd,
                longer_parts,
                traits,
            } => {
                let ends = if *at_upper_ends { " at the upper end of its interval" } else { "" };
                write!(f, "beaten by {by}{ends}: ")?;
                let slow = (*slower >= 5e-4).then(|| percent(*slower));
                let dear = known_amount(*dearer_usd, *dearer_on_demand_usd)
                    .filter(|(more, _)| *more >= 0.005)
                    .map(|(more, by)| format!("{} more expensive{}", usd(more), by.amount_suffix()));
                match (slow, dear) {
                    (Some(slow), Some(dear)) => write!(f, "{slow} slower and {dear}")?,
                    (Some(slow), None) => write!(f, "{slow} slower")?,
                    (None, Some(dear)) => write!(f, "{dear} in the same time")?,
                    (None, None) => write!(f, "by a rounding error")?,
                }
                let why: Vec<String> =
                    longer_parts.iter().map(LongerPart::to_string).chain(traits.iter().cloned()).collect();
                if why.is_empty() { Ok(()) } else { write!(f, ": {}", why.join("; ")) }
            }
            // The other is much faster, and the advantage of this one is within the noise.
            Self::LessCertain { by, quicker, cheaper_usd, cheaper_on_demand_usd, less } if *quicker < 0.0 => {
                let what = match known_amount(*cheaper_usd, *cheaper_on_demand_usd) {
                    Some((_, by)) => format!("cheaper{}", by.amount_suffix()),
                    None => "less node time".to_owned(),
                };
                let times = percent(-quicker / (1.0 - quicker));
                let less = percent(less.max(0.0));
                write!(f, "may not fit; {by} fits and is {times} faster: {less} {what} is within the noise")
            }
            Self::LessCertain { by, quicker, cheaper_usd, cheaper_on_demand_usd, .. } => {
                write!(f, "may not fit; {by} fits: {} faster", percent(quicker.max(0.0)))?;
                let cheaper = known_amount(*cheaper_usd, *cheaper_on_demand_usd);
                match cheaper.filter(|(less, _)| *less >= 0.005) {
                    Some((less, by)) => write!(f, " and {} cheaper{}", usd(less), by.amount_suffix()),
                    None => Ok(()),
                }?;
                write!(f, ", which is within the noise")
            }
            Self::Tight { needs_bytes, has_bytes } => write!(
                f,
                "too little room: {:.1} of {} GiB, while the mean error of predicted memory is {:.1} %",
                needs_bytes / GIB,
                format_gpu_gib(*has_bytes),
                100.0 * MEAN_ERROR
            ),
            Self::TooLarge { needs_bytes, has_bytes, part, part_bytes } => write!(
                f,
                "does not fit: {:.1} of {} GiB, {part} {:.1} GiB of them",
                needs_bytes / GIB,
                format_gpu_gib(*has_bytes),
                part_bytes / GIB
            ),
            Self::TooLate { seconds, deadline_seconds } => {
                let [is, most] = [*seconds, *deadline_seconds].map(text::rounded_duration);
                if is == most {
                    write!(
                        f,
                        "too late by {}: limit {most}",
                        text::rounded_duration(seconds - deadline_seconds)
                    )
                } else {
                    write!(f, "too late: {is}, limit {most}")
                }
            }
            Self::TooExpensive { usd: Some(amount), most_usd, .. } => {
                write!(f, "too expensive: {}, limit {}", usd(*amount), usd(*most_usd))
            }
            Self::TooExpensive { usd: None, at_most_usd: Some(amount), most_usd, .. } => write!(
                f,
                "too expensive on demand: {}, limit {}; the spot price is unknown: set it with `--discount`",
                usd(*amount),
                usd(*most_usd)
            ),
            Self::TooExpensive { usd: None, at_most_usd: None, most_usd, unpriced } => {
                write!(f, "cannot be compared with the limit of {}: {unpriced}", usd(*most_usd))
            }
            Self::Refused(refusal) => {
                write!(f, "refused by {}: {}", refusal.code, refusal.message)?;
                match refusal.layouts {
                    0 | 1 => Ok(()),
                    layouts => write!(f, " ({layouts} layouts)"),
                }
            }
        }
    }
}

/// Returns the amount that is known, with its measure.
fn known_amount(usd: Option<f64>, on_demand_usd: Option<f64>) -> Option<(f64, Measure)> {
    let predicted = usd.map(|usd| (usd, Measure::Dollars));
    predicted.or(on_demand_usd.map(|usd| (usd, Measure::OnDemand)))
}

fn percent(fraction: f64) -> String {
    let percent = 100.0 * fraction;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}
