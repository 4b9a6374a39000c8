//! Low-rank adapters (Hu et al. 2021): a layer's weight is w + scale b a, and only a and b are trained.
//! Adapters are added to the gathered weights of their block, so its forward pass needs no change;
//! `gradients` computes their gradients.

use std::ops::Range;

use super::layout::{Initializer, Shape, Unit};
use crate::config::{self, Family};
use crate::hf::tensor_names;
use crate::kernels::gemm::{self, MatrixView, Update};

/// Linear layers of a block.
const PRODUCTS: [&str; 4] = ["qkv", "out", "up", "down"];

/// The adapters of a model.
#[derive(Clone, Debug)]
pub struct Lora {
    /// Columns of b, rows of a.
    pub rank: usize,
    /// Scale, alpha / rank.
    pub scale: f32,
    /// Names of modules, or `all-linear`.
    pub targets: Vec<String>,
    family: Family,
}

/// One adapter of a block.
#[derive(Clone, Debug)]
pub struct Target {
    /// Hugging Face's module in the block: `self_attn.q_proj`.
    pub module: &'static str,
    /// Range of the weight in the block's unit.
    pub weight: Range<usize>,
    /// Rows of the weight.
    pub rows: usize,
    /// Columns of the weight.
    pub cols: usize,
    /// Range of a in the adapter's unit.
    pub a: Range<usize>,
    /// Range of b in the adapter's unit.
    pub b: Range<usize>,
}

/// Matches names as `peft` does: the whole path, or its end after a dot.
fn matches(module: &str, target: &str) -> bool {
    target == "all-linear" || module == target || module.ends_with(&format!(".{target}"))
}

/// Returns the modules of a family that can have an adapter.
pub fn module_names(family: Family) -> Vec<&'static str> {
    match family {
        Family::Llama => vec![
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ],
        Family::Gpt2 => vec!["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"],
        Family::GptNeox => {
            vec!["attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"]
        }
    }
}

/// Returns the targets that match no module.
pub fn unknown_targets(model: &config::Model) -> Vec<String> {
    let known = module_names(model.family);
    let targets = model.adapter.iter().flat_map(|a| &a.targets);
    targets.filter(|t| !known.iter().any(|m| matches(m, t))).map(|t| format!("`{t}`")).collect()
}

impl Lora {
    /// Reads the adapters of a checked config.
    pub fn from_model(model: &config::Model) -> Option<Self> {
        let adapter = model.adapter.as_ref()?;
        Some(Self {
            rank: adapter.rank,
            scale: (adapter.alpha / adapter.rank as f64) as f32,
            targets: adapter.targets.clone(),
            family: model.family,
        })
    }

    /// Returns the adapters of one block: their unit and layout. Fresh adapters have no effect: b is 0, and a
    /// is uniform within 1 / sqrt(columns), as in `peft`.
    pub fn unit(&self, shape: &Shape, layer: usize) -> (Unit, Vec<Target>) {
        let (block, _) = shape.block(layer);
        let mut unit = Unit::new(format!("adapter.{layer}"));
        let mut targets = Vec::new();
        for product in PRODUCTS {
            let name = format!("block.{layer}.{product}.weight");
            let Some(weight) = block.tensors.iter().find(|t| t.name == name) else { continue };
            let mut at = weight.offset;
            for (module, rows) in tensor_names::modules(self.family, shape, product).unwrap_or_default() {
                let (cols, len) = (weight.cols, rows * weight.cols);
                if self.targets.iter().any(|target| matches(module, target)) {
                    let bound = 1.0 / (cols as f64).sqrt();
                    let a = unit.push_matrix(
                        &format!("{module}.a"),
                        self.rank,
                        cols,
                        Initializer::Uniform(bound),
                    );
                    let b = unit.push_matrix(&format!("{module}.b"), rows, self.rank, Initializer::Zero);
                    targets.push(Target { module, weight: at..at + len, rows, cols, a, b });
                }
                at += len;
            }
        }
        (unit, targets)
    }

    /// Adds the adapters `p` to a block's gathered parameters.
    pub fn add(&self, targets: &[Target], p: &[f32], block: &mut [f32], threads: usize) {
        for t in targets {
            let (a, b) = (
                MatrixView::new(&p[t.a.clone()], self.rank, t.cols),
                MatrixView::new(&p[t.b.clone()], t.rows, self.rank),
            );
            gemm::nn(&mut block[t.weight.clone()], t.cols, Update::Add, b, a, self.scale, threads);
        }
    }
}
