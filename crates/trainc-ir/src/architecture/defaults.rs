//! Builds an architecture from written dimensions: sets and records defaults of the family, reports problems.

use super::Architecture;
use super::builder::{EXPERTS, FFN, HIDDEN, LAYERS, POSITIONS, Surroundings, VOCAB, build, int};
use super::dimensions::{ArchitectureProblem, Defaulted, Dimensions};
use super::family::Family;
use super::fields::Fields;
use super::kinds::{Activation, Positions};
use super::spec::intern;
use serde_json::Value;

/// Collects defaults and problems while fields are set.
struct DimensionFiller {
    family: Family,
    fields: Fields<'static>,
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
        self.family.spec().free.iter().any(|free| free == field)
    }

    fn give(&mut self, field: &'static str, value: u64) {
        self.fields.give(field, int(value));
    }

    /// Returns the default of a field.
    fn usual(&self, field: &str) -> u64 {
        self.fields.number(field).unwrap_or(0)
    }

    /// Returns the rule of a default in words.
    fn rule(&self, field: &str) -> Option<&'static str> {
        self.family.spec().default.get(field)?.rule.as_deref()
    }

    /// Sets a number that varies in some families; its default is not recorded.
    fn number_or_fixed(&mut self, field: &'static str, written: Option<u64>, max: u64) {
        let name = intern(&field.replace('-', "_"));
        let usual = self.usual(name);
        let value = match written {
            Some(written) if self.is_free(field) => self.check_bounds(field, written, max),
            written => self.check_fixed(field, written, usual),
        };
        self.give(name, value);
    }

    fn flag_or_fixed(&mut self, field: &'static str, written: Option<bool>) -> bool {
        let name = intern(&field.replace('-', "_"));
        let usual = self.usual(name) > 0;
        let value = if self.is_free(field) {
            written.unwrap_or(usual)
        } else {
            self.check_fixed(field, written, usual)
        };
        self.give(name, u64::from(value));
        value
    }
}

const FAMILY_DEFAULT: &str = "default of the family's Hugging Face configuration";

impl Architecture {
    /// Builds an architecture and sets missing dimensions by the rules of the family; returns the defaults
    /// too.
    ///
    /// Sources of the defaults: the `configuration_*.py` of transformers 5; for Llama's feed-forward width
    /// the rule of the original code (two thirds of 4h, rounded up to a multiple of 256). All problems are
    /// reported together.
    pub fn from_dimensions(
        family: Family,
        written: &Dimensions,
    ) -> Result<(Self, Vec<Defaulted>), Vec<ArchitectureProblem>> {
        let spec = family.spec();
        let fields = Fields::new(family, &Value::Null, None);
        let mut fill = DimensionFiller { family, fields, defaulted: Vec::new(), problems: Vec::new() };
        let f = &mut fill;
        let w = written;

        let hidden = f.required("hidden", w.hidden, HIDDEN, "the width of the residual stream");
        let layers = f.required("layers", w.layers, LAYERS, "the number of layers");
        let heads = f.required("heads", w.heads, HIDDEN, "the number of attention heads");
        f.give("hidden", hidden);
        f.give("layers", layers);
        f.give("heads", heads);
        let head_dim = head_dim(f, w, hidden, heads);
        f.give("head_dim", head_dim);
        let kv_heads = kv_heads(f, w, heads);
        f.give("kv_heads", kv_heads);
        let ffn = ffn(f, w);
        f.give("ffn", ffn);
        let vocab = f.usual("vocab");
        let vocab = f.or_default("vocab", w.vocab, VOCAB, vocab, FAMILY_DEFAULT);
        f.give("vocab", vocab);
        let positions = f.usual("positions");
        let positions = f.or_default("positions", w.positions, POSITIONS, positions, FAMILY_DEFAULT);
        f.give("positions", positions);
        let (experts, active_experts) = experts(f, w);
        f.give("experts", experts);
        f.give("active_experts", active_experts);
        let decoder_layers = if f.is_free("decoder-layers") {
            f.or_default("decoder-layers", w.decoder_layers, LAYERS, layers, "same as the encoder")
        } else {
            f.check_fixed("decoder-layers", w.decoder_layers, 0)
        };
        f.give("decoder_layers", decoder_layers);
        f.number_or_fixed("types", w.types, VOCAB);
        f.number_or_fixed("buckets", w.buckets, VOCAB);
        f.number_or_fixed("word-embedding", w.word_embedding, HIDDEN);
        let gated = f.flag_or_fixed("gated", w.gated);
        f.flag_or_fixed("qkv-bias", w.qkv_bias);
        f.flag_or_fixed("out-bias", w.out_bias);
        f.flag_or_fixed("mlp-bias", w.mlp_bias);
        f.flag_or_fixed("parallel", w.parallel);
        f.flag_or_fixed("final-norm", w.final_norm);
        let alibi = if f.is_free("alibi") {
            w.alibi.unwrap_or(spec.positions == Positions::Alibi)
        } else {
            f.check_fixed("alibi", w.alibi, spec.positions == Positions::Alibi)
        };
        f.give("alibi", u64::from(alibi));
        f.number_or_fixed("layer-norms", w.layer_norms, 4);

        // T5 1.1 uses gated GELU and an untied head.
        let gated_t5 = spec.positions == Positions::Relative && gated;
        let tied = w.tied.unwrap_or_else(|| {
            let (tied, rule) = if gated_t5 {
                (false, "T5 1.1 has an untied head")
            } else {
                (f.usual("tied") > 0, FAMILY_DEFAULT)
            };
            f.record("tied", format!("#{tied}"), rule);
            tied
        });
        f.give("tied", u64::from(tied));
        let activation = w.activation.or_else(|| gated_t5.then_some(Activation::GeluTanh));
        let rope_theta = if !alibi && spec.positions == Positions::Rotary {
            // Defaults of transformers; no count depends on it.
            let usual = f.usual("rope_theta");
            w.rope_theta.map_or(usual, |theta| f.check_bounds("rope-theta", theta, POSITIONS))
        } else {
            f.check_fixed("rope-theta", w.rope_theta, 0)
        };
        if !fill.problems.is_empty() {
            return Err(fill.problems);
        }
        let around = Surroundings { container: None, unknown_type: None, activation, rope_theta };
        let DimensionFiller { fields, defaulted, .. } = fill;
        match build(&fields, &around) {
            Some(architecture) => Ok((architecture, defaulted)),
            None => Err(fields.into_problems()),
        }
    }
}

fn head_dim(f: &mut DimensionFiller, w: &Dimensions, hidden: u64, heads: u64) -> u64 {
    let own = f.fields.default_expression("head_dim").is_some_and(|rule| rule != "hidden / heads");
    if f.is_free("head-dim") {
        if let Some(written) = w.head_dim {
            return f.check_bounds("head-dim", written, HIDDEN);
        }
        if own {
            let usual = f.usual("head_dim");
            f.record("head-dim", usual.to_string(), FAMILY_DEFAULT);
            return usual;
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
    let rule = f.rule("kv_heads").unwrap_or("same as query heads");
    let usual = f.usual("kv_heads");
    let kv_heads = f.or_default("kv-heads", w.kv_heads, HIDDEN, usual, rule);
    if !heads.is_multiple_of(kv_heads) && w.heads.is_some() {
        f.report_indivisible("kv-heads", kv_heads, ("heads", heads));
    }
    kv_heads
}

fn ffn(f: &mut DimensionFiller, w: &Dimensions) -> u64 {
    if f.fields.default_expression("ffn").is_none() {
        let what = "the feed-forward width, which has no default for this family";
        return f.required("ffn", w.ffn, FFN, what);
    }
    let rule = f.rule("ffn").unwrap_or(FAMILY_DEFAULT);
    let usual = f.usual("ffn");
    f.or_default("ffn", w.ffn, FFN, usual, rule)
}

fn experts(f: &mut DimensionFiller, w: &Dimensions) -> (u64, u64) {
    if !f.is_free("experts") {
        return (
            f.check_fixed("experts", w.experts, 0),
            f.check_fixed("active-experts", w.active_experts, 0),
        );
    }
    let (experts, active) = (f.usual("experts"), f.usual("active_experts"));
    let experts = f.or_default("experts", w.experts, EXPERTS, experts, FAMILY_DEFAULT);
    let active = f.or_default("active-experts", w.active_experts, EXPERTS, active, FAMILY_DEFAULT);
    if active > experts {
        f.report_unusable("active-experts", active.to_string(), format!("at most `experts`, {experts}"));
    }
    (experts, active)
}
