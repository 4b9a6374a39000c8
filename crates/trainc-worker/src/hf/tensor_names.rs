//! Mapping of tensors to those of Hugging Face for each model family.

use crate::config::{Config, Family};
use crate::exit::{Code, Failure};
use crate::kernels::rows::{Act, Norm};
use crate::model::layout::{Shape, Tensor};

/// Arrangement of a Hugging Face tensor's elements relative to our rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// The same rows in the same order.
    Rows,
    /// Transposed: GPT-2 stores its linear layers as `Conv1D`, inputs first.
    Transposed,
    /// Query, key and value rows of each head together, while ours has all queries, then all keys, then all
    /// values (GPT-NeoX).
    Interleaved {
        /// Attention heads.
        heads: usize,
        /// Rows of a head's query, key or value.
        dim: usize,
    },
}

/// A Hugging Face tensor that is part of one of our tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the Hugging Face tensor.
    pub name: String,
    /// Rows in our tensor; a vector counts as one column.
    pub rows: usize,
    /// Columns in our tensor.
    pub cols: usize,
    /// Shape of the Hugging Face tensor.
    pub sizes: Vec<usize>,
    /// Order of the elements.
    pub form: Arrangement,
}

impl Part {
    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.rows * self.cols
    }

    /// Returns the runs of elements within `from..to` that are consecutive in both tensors: (our index, their
    /// index, length). Not for transposed parts.
    pub fn contiguous_runs(&self, from: usize, to: usize) -> Vec<(usize, usize, usize)> {
        let Arrangement::Interleaved { heads, dim } = self.form else { return vec![(from, from, to - from)] };
        let run = dim * self.cols;
        let (mut out, mut at) = (Vec::new(), from);
        while at < to {
            let (block, inside) = (at / run, at % run);
            let (which, head) = (block / heads, block % heads);
            let len = (run - inside).min(to - at);
            out.push((at, (head * 3 + which) * run + inside, len));
            at += len;
        }
        out
    }

    /// Converts our elements to the Hugging Face arrangement.
    pub fn to_hf(&self, ours: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; ours.len()];
        if self.form == Arrangement::Transposed {
            for (r, row) in ours.chunks_exact(self.cols).enumerate() {
                for (c, value) in row.iter().enumerate() {
                    out[c * self.rows + r] = *value;
                }
            }
        } else {
            for (from, to, len) in self.contiguous_runs(0, ours.len()) {
                out[to..to + len].copy_from_slice(&ours[from..from + len]);
            }
        }
        out
    }
}

/// Returns the properties of a model that its family does not support.
pub fn unsupported(config: &Config) -> Vec<String> {
    let (s, m) = (Shape::from_model(&config.model), &config.model);
    let mut out = Vec::new();
    let mut need = |holds: bool, what: &str| {
        if !holds {
            out.push(what.to_owned());
        }
    };
    let (layer, whole) = (s.norm == Norm::Layer, s.heads.heads * s.heads.dim == s.hidden);
    match m.family {
        Family::Llama => {
            need(!layer, "`model.norm.kind` other than `rms`");
            need(s.act == Act::SwiGlu, "`model.activation` other than `swiglu`");
            need(!s.biases, "`model.biases` other than `none`");
            need(!s.parallel, "`model.parallel_residual`");
            need(s.rotated == s.heads.dim, "`model.positions` other than rotary over the whole head");
        }
        Family::Gpt2 => {
            need(layer, "`model.norm.kind` other than `layer`");
            need(s.act != Act::SwiGlu, "`model.activation` `swiglu`");
            need(s.biases, "`model.biases` other than `all`");
            need(!s.parallel, "`model.parallel_residual`");
            need(s.rotated == 0, "`model.positions.kind` other than `learned`");
            need(s.heads.heads == s.heads.kv_heads, "`model.kv_heads` other than `model.heads`");
            need(whole, "heads that do not fill `model.hidden_size`");
        }
        Family::GptNeox => {
            need(layer, "`model.norm.kind` other than `layer`");
            need(s.act != Act::SwiGlu, "`model.activation` `swiglu`");
            need(s.biases, "`model.biases` other than `all`");
            need(s.rotated > 0, "`model.positions.kind` other than `rotary`");
            need(s.heads.heads == s.heads.kv_heads, "`model.kv_heads` other than `model.heads`");
            need(whole, "heads that do not fill `model.hidden_size`");
        }
    }
    out
}

/// Fails if the model's family does not support it.
pub fn check_supported(config: &Config) -> Result<(), Failure> {
    let what = unsupported(config);
    if what.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Code::Config,
        format!(
            "config: `model.family`: Hugging Face models of this family do not support {}",
            what.join(", ")
        ),
    ))
}

/// Returns the parts of a tensor, in the order of our elements.
pub fn parts(family: Family, shape: &Shape, tensor: &Tensor) -> Option<Vec<Part>> {
    let (name, vector) = (
        tensor.name.as_str(),
        tensor.name.rsplit('.').next() == Some("bias") || tensor.name.contains("norm"),
    );
    // Our vectors have one row; as parts they have one column.
    let (rows, cols) = if vector { (tensor.cols, 1) } else { (tensor.rows, tensor.cols) };
    let part = |name: String, rows: usize, form: Arrangement| {
        let sizes = match form {
            _ if vector => vec![rows],
            Arrangement::Transposed => vec![cols, rows],
            Arrangement::Rows | Arrangement::Interleaved { .. } => vec![rows, cols],
        };
        Part { name, rows, cols, sizes, form }
    };
    let one = |name: &str, form: Arrangement| Some(vec![part(name.to_owned(), rows, form)]);
    let Some(rest) = name.strip_prefix("block.") else {
        let (embed, positions, norm, head) = match family {
            Family::Llama => ("model.embed_tokens.weight", "", "model.norm", "lm_head.weight"),
            Family::Gpt2 => {
                ("transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f", "lm_head.weight")
            }
            Family::GptNeox => {
                ("gpt_neox.embed_in.weight", "", "gpt_neox.final_layer_norm", "embed_out.weight")
            }
        };
        return match name {
            "embed.tokens" => one(embed, Arrangement::Rows),
            "embed.positions" if !positions.is_empty() => one(positions, Arrangement::Rows),
            "head.norm.weight" | "head.norm.bias" => {
                one(&format!("{norm}.{}", name.rsplit('.').next()?), Arrangement::Rows)
            }
            "head.weight" => one(head, Arrangement::Rows),
            _ => None,
        };
    };
    let (layer, part_name) = rest.split_once('.')?;
    let (product, kind) = part_name.rsplit_once('.')?;
    let modules = modules(family, shape, product)?;
    let stem = layer_prefix(family);
    let form = match family {
        Family::Gpt2 if !vector => Arrangement::Transposed,
        Family::GptNeox if product == "qkv" => {
            Arrangement::Interleaved { heads: shape.heads.heads, dim: shape.heads.dim }
        }
        Family::Llama | Family::Gpt2 | Family::GptNeox => Arrangement::Rows,
    };
    let all =
        modules.into_iter().map(|(module, rows)| part(format!("{stem}.{layer}.{module}.{kind}"), rows, form));
    Some(all.collect())
}

/// Returns the name prefix of a layer's number.
pub fn layer_prefix(family: Family) -> &'static str {
    match family {
        Family::Llama => "model.layers",
        Family::Gpt2 => "transformer.h",
        Family::GptNeox => "gpt_neox.layers",
    }
}

/// Returns the modules that form one of our tensors inside a block, with the rows of each.
pub fn modules(family: Family, shape: &Shape, product: &str) -> Option<Vec<(&'static str, usize)>> {
    let (q, kv) = (shape.attention_width(), shape.heads.kv_heads * shape.heads.dim);
    let (h, f) = (shape.hidden, shape.inner);
    let out = match (family, product) {
        (Family::Llama | Family::GptNeox, "norm1") => vec![("input_layernorm", h)],
        (Family::Llama | Family::GptNeox, "norm2") => vec![("post_attention_layernorm", h)],
        (Family::Llama, "qkv") => {
            vec![("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)]
        }
        (Family::Llama, "out") => vec![("self_attn.o_proj", h)],
        (Family::Llama, "up") => vec![("mlp.gate_proj", f), ("mlp.up_proj", f)],
        (Family::Llama, "down") => vec![("mlp.down_proj", h)],
        (Family::Gpt2, "norm1") => vec![("ln_1", h)],
        (Family::Gpt2, "norm2") => vec![("ln_2", h)],
        (Family::Gpt2, "qkv") => vec![("attn.c_attn", q + 2 * kv)],
        (Family::Gpt2, "out") => vec![("attn.c_proj", h)],
        (Family::Gpt2, "up") => vec![("mlp.c_fc", f)],
        (Family::Gpt2, "down") => vec![("mlp.c_proj", h)],
        (Family::GptNeox, "qkv") => vec![("attention.query_key_value", q + 2 * kv)],
        (Family::GptNeox, "out") => vec![("attention.dense", h)],
        (Family::GptNeox, "up") => vec![("mlp.dense_h_to_4h", f)],
        (Family::GptNeox, "down") => vec![("mlp.dense_4h_to_h", h)],
        _ => return None,
    };
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_theirs_agree() {
        for form in
            [Arrangement::Rows, Arrangement::Transposed, Arrangement::Interleaved { heads: 2, dim: 3 }]
        {
            let part = Part { name: String::new(), rows: 18, cols: 5, sizes: Vec::new(), form };
            let ours: Vec<f32> = (0..90u8).map(f32::from).collect();
            let theirs = part.to_hf(&ours);
            let mut sorted = theirs.clone();
            sorted.sort_by(f32::total_cmp);
            assert_eq!(sorted, ours);
            if form == Arrangement::Transposed {
                assert_eq!(theirs[..3], [0.0, 5.0, 10.0]);
                continue;
            }
            for (from, to) in [(0, 90), (7, 61), (89, 90), (14, 16)] {
                let mut found: Vec<f32> = Vec::new();
                for (at, there, len) in part.contiguous_runs(from, to) {
                    assert_eq!(at, from + found.len());
                    found.extend(&theirs[there..there + len]);
                }
                assert_eq!(found, ours[from..to]);
            }
        }
    }
}
