//! Builds an architecture from written dimensions: sets and records defaults of the family, reports problems.

use super::Architecture;
use super::dimensions::{ArchitectureProblem, Defaulted, Dimensions};
use super::family::{DefaultFfn, Family};
use super::kinds::{Activation, Positions};

/// Maximum values: an order of magnitude above any existing model, and small enough that no count overflows.
const HIDDEN: u64 = 1 << 20;
const LAYERS: u64 = 1_000_000;
const FFN: u64 = 1 << 24;
const VOCAB: u64 = 1 << 28;
const POSITIONS: u64 = 1 << 32;
const EXPERTS: u64 = 1 << 16;
/// 10^18: a million times the largest model; a larger number is a typo.
const PARAMETERS: u64 = 1_000_000_000_000_000_000;

/// Collects defaults and problems while fields are set.
struct DimensionFiller {
    family: Family,
    defaulted: Vec<Defaulted>,
    problems: Vec<ArchitectureProblem>,
}

impl DimensionFiller {
    fn check_bounds(&mut self, field: &'static str, value: u64, max: u64) -> u64 {
        if value == 0 || value > max {
            self.report_unusable(field, value.to_string(), format!("a whole number from 1 to {max}"));
            return 1;
        }
        value
    }

    fn report_unusable(&mut self, field: &'static str, found: String, expected: impl Into<String>) {
        self.problems.push(ArchitectureProblem::Unusable {
            key: field.to_owned(),
            found,
            expected: expected.into(),
        });
    }

    fn report_indivisible(&mut self, field: &str, found: u64, (of, whole): (&'static str, u64)) {
        self.problems.push(ArchitectureProblem::Indivisible { key: field.to_owned(), found, of, whole });
    }

    fn required(&mut self, field: &'static str, written: Option<u64>, max: u64, what: &str) -> u64 {
        if let Some(value) = written {
            return self.check_bounds(field, value, max);
        }
        self.problems.push(ArchitectureProblem::Missing { key: field.to_owned(), expected: what.to_owned() });
        // The value does not matter: with a problem there is no architecture.
        1
    }

    fn or_default(
        &mut self,
        field: &'static str,
        written: Option<u64>,
        max: u64,
        value: u64,
        rule: &'static str,
    ) -> u64 {
        if let Some(value) = written {
            return self.check_bounds(field, value, max);
        }
        self.record(field, value.to_string(), rule);
        value
    }

    fn record(&mut self, field: &'static str, value: String, rule: &'static str) {
        self.defaulted.push(Defaulted { field, value, rule });
    }

    /// Checks a field that is fixed for this family: it may only be written with the fixed value.
    fn check_fixed<T: PartialEq + std::fmt::Display>(
        &mut self,
        field: &'static str,
        written: Option<T>,
        value: T,
    ) -> T {
        if let Some(written) = written
            && written != value
        {
            // A fixed 0 means that the family does not have the field, since 0 cannot be written.
            let shown = value.to_string();
            let expected = match shown.as_str() {
                "0" => format!("no value: `{}` does not support `{field}`", self.family),
                _ => format!("{shown}, which is fixed for `{}`", self.family),
            };
            self.report_unusable(field, written.to_string(), expected);
        }
        value
    }

    fn is_free(&self, field: &str) -> bool {
        self.family.spec().free.contains(&field)
    }

    /// Returns a number that varies in some families; its default is not recorded.
    fn number_or_fixed(&mut self, field: &'static str, written: Option<u64>, max: u64, usual: u64) -> u64 {
        match written {
            Some(written) if self.is_free(field) => self.check_bounds(field, written, max),
            written => self.check_fixed(field, written, usual),
        }
    }

    fn flag_or_fixed(&mut self, field: &'static str, written: Option<bool>, usual: bool) -> bool {
        if self.is_free(field) { written.unwrap_or(usual) } else { self.check_fixed(field, written, usual) }
    }
}

const FAMILY_DEFAULT: &str = "default of the family's Hugging Face configuration";

impl Architecture {
    /// Builds an architecture and sets missing dimensions by the rules of the family; returns the defaults too.
    ///
    /// Sources of the defaults: the `configuration_*.py` of transformers 5; for Llama's feed-forward width the rule of the
    /// original code (two thirds of 4h, rounded up to a multiple of 256). All problems are reported together.
    pub fn from_dimensions(
        family: Family,
        written: &Dimensions,
    ) -> Result<(Self, Vec<Defaulted>), Vec<ArchitectureProblem>> {
        let spec = family.spec();
        let mut fill = DimensionFiller { family, defaulted: Vec::new(), problems: Vec::new() };
        let f = &mut fill;
        let w = written;

        let hidden = f.required("hidden", w.hidden, HIDDEN, "the width of the residual stream");
        let layers = f.required("layers", w.layers, LAYERS, "the number of layers");
        let heads = f.required("heads", w.heads, HIDDEN, "the number of attention heads");
        let head_dim = head_dim(f, w, hidden, heads);
        let kv_heads = kv_heads(f, w, heads);
        let ffn = ffn(f, w, hidden);
        let vocab = f.or_default("vocab", w.vocab, VOCAB, spec.vocab, FAMILY_DEFAULT);
        let positions = f.or_default("positions", w.positions, POSITIONS, spec.max_positions, FAMILY_DEFAULT);
        let (experts, active_experts) = experts(f, w);
        let decoder_layers = if f.is_free("decoder-layers") {
            f.or_default("decoder-layers", w.decoder_layers, LAYERS, layers, "same as the encoder")
        } else {
            f.check_fixed("decoder-layers", w.decoder_layers, 0)
        };

        let types = match family.name() {
            "bert" => 2,
            "roberta" => 1,
            _ => 0,
        };
        let types = f.number_or_fixed("types", w.types, VOCAB, types);
        let buckets = f.number_or_fixed(
            "buckets",
            w.buckets,
            VOCAB,
            if spec.positions == Positions::Relative { 32 } else { 0 },
        );
        let word_embedding = f.number_or_fixed("word-embedding", w.word_embedding, HIDDEN, hidden);
        let gated = f.flag_or_fixed("gated", w.gated, spec.gated);
        let qkv_bias = f.flag_or_fixed("qkv-bias", w.qkv_bias, spec.biases[0]);
        let out_bias = f.flag_or_fixed("out-bias", w.out_bias, spec.biases[1]);
        let mlp_bias = f.flag_or_fixed("mlp-bias", w.mlp_bias, spec.biases[2]);
        let parallel = f.flag_or_fixed("parallel", w.parallel, spec.parallel);
        let final_norm = f.flag_or_fixed("final-norm", w.final_norm, !spec.names.final_norm.is_empty());
        let alibi = f.flag_or_fixed("alibi", w.alibi, spec.positions == Positions::Alibi);
        let layer_norms = layer_norms(f, w, parallel, kv_heads == 1 || kv_heads == heads);

        // T5 1.1 uses gated GELU and an untied head.
        let gated_t5 = family == Family::T5 && gated;
        let tied = w.tied.unwrap_or_else(|| {
            let (tied, rule) =
                if gated_t5 { (false, "T5 1.1 has an untied head") } else { (spec.tied, FAMILY_DEFAULT) };
            f.record("tied", format!("#{tied}"), rule);
            tied
        });
        let activation =
            w.activation.unwrap_or(if gated_t5 { Activation::GeluTanh } else { spec.activation });
        let position_kind = if alibi { Positions::Alibi } else { spec.positions };
        let rope_theta = if position_kind == Positions::Rotary {
            // Defaults of transformers; no count depends on it.
            let usual = if family == Family::Mixtral { 1_000_000 } else { 10_000 };
            w.rope_theta.map_or(usual, |theta| f.check_bounds("rope-theta", theta, POSITIONS))
        } else {
            f.check_fixed("rope-theta", w.rope_theta, 0)
        };

        let architecture = Self {
            family,
            hidden,
            layers,
            decoder_layers,
            heads,
            kv_heads,
            head_dim,
            ffn,
            vocab,
            positions,
            experts,
            active_experts,
            tied,
            word_embedding,
            types,
            buckets,
            rope_theta,
            position_kind,
            activation,
            norm: spec.norm,
            gated,
            qkv_bias,
            out_bias,
            mlp_bias,
            parallel,
            layer_norms,
            final_norm,
        };
        if fill.problems.is_empty() && architecture.parameters().total > PARAMETERS {
            let total =
                format!("`{layers}`, which with the other dimensions gives more than 10^18 parameters");
            fill.report_unusable("layers", total, "at most 10^18 parameters");
        }
        if fill.problems.is_empty() { Ok((architecture, fill.defaulted)) } else { Err(fill.problems) }
    }
}

fn head_dim(f: &mut DimensionFiller, w: &Dimensions, hidden: u64, heads: u64) -> u64 {
    let spec = f.family.spec();
    if f.is_free("head-dim") {
        if let Some(written) = w.head_dim {
            return f.check_bounds("head-dim", written, HIDDEN);
        }
        if spec.head_dim > 0 {
            f.record("head-dim", spec.head_dim.to_string(), FAMILY_DEFAULT);
            return spec.head_dim;
        }
    }
    if !hidden.is_multiple_of(heads) && w.hidden.is_some() {
        f.report_indivisible("heads", heads, ("hidden", hidden));
    }
    f.check_fixed("head-dim", w.head_dim, (hidden / heads.max(1)).max(1))
}

fn kv_heads(f: &mut DimensionFiller, w: &Dimensions, heads: u64) -> u64 {
    if !f.is_free("kv-heads") {
        return f.check_fixed("kv-heads", w.kv_heads, heads);
    }
    let (usual, rule) = if matches!(f.family, Family::Falcon | Family::GptBigCode) {
        (1, "one for all query heads, default of the family's Hugging Face configuration")
    } else {
        (heads, "same as query heads")
    };
    let kv_heads = f.or_default("kv-heads", w.kv_heads, HIDDEN, usual, rule);
    if !heads.is_multiple_of(kv_heads) && w.heads.is_some() {
        f.report_indivisible("kv-heads", kv_heads, ("heads", heads));
    }
    kv_heads
}

fn ffn(f: &mut DimensionFiller, w: &Dimensions, hidden: u64) -> u64 {
    let (usual, rule) = match f.family.spec().ffn {
        DefaultFfn::Times(8) => (hidden.saturating_mul(8), "8 x hidden"),
        DefaultFfn::Times(times) => (hidden.saturating_mul(times), "4 x hidden"),
        DefaultFfn::ThreeAndHalf => (hidden.saturating_mul(7) / 2, "3.5 x hidden"),
        DefaultFfn::TwoThirds => (
            (hidden.saturating_mul(8) / 3).div_ceil(256).saturating_mul(256),
            "two thirds of 4 x hidden, rounded up to a multiple of 256",
        ),
        DefaultFfn::Written => {
            return f.required(
                "ffn",
                w.ffn,
                FFN,
                "the feed-forward width, which has no default for this family",
            );
        }
    };
    f.or_default("ffn", w.ffn, FFN, usual, rule)
}

fn experts(f: &mut DimensionFiller, w: &Dimensions) -> (u64, u64) {
    if !f.is_free("experts") {
        return (
            f.check_fixed("experts", w.experts, 0),
            f.check_fixed("active-experts", w.active_experts, 0),
        );
    }
    let experts = f.or_default("experts", w.experts, EXPERTS, 8, FAMILY_DEFAULT);
    let active = f.or_default("active-experts", w.active_experts, EXPERTS, 2, FAMILY_DEFAULT);
    if active > experts {
        f.report_unusable("active-experts", active.to_string(), format!("at most `experts`, {experts}"));
    }
    (experts, active)
}

/// Returns the norms of a layer. Falcon's old decoder (7B: one key head) has one norm before both branches, its new one
/// (grouped key heads) `ln_attn` and `ln_mlp`, and the sequential one two; StableLM has only the first when parallel.
fn layer_norms(f: &mut DimensionFiller, w: &Dimensions, parallel: bool, ungrouped: bool) -> u64 {
    let family = f.family;
    let one = match family.name() {
        "falcon" => parallel && ungrouped,
        "stablelm" => parallel,
        _ => false,
    };
    let usual = if one { 1 } else { u64::try_from(family.spec().names.norms.len()).unwrap_or(2) };
    f.number_or_fixed("layer-norms", w.layer_norms, 2, usual)
}
