//! What each family fixes: names of its Hugging Face modules, kinds, biases, defaults.
//!
//! Source: the `modeling_*.py` and `configuration_*.py` of transformers 5; `tests/python/verify_models.py`
//! counts every catalogue row with these classes. A row below differs from the one that it is built on only
//! in what it names.

use super::family::{Family, Ffn, Names, Spec};
use super::kinds::{Activation, Class, Norm, Positions};

const LIKE_GPT2_NAMES: Names = Names { tokens: "wte", positions: "wpe", qkv: &["attn.c_attn"], out: "attn.c_proj", mlp: &["mlp.c_fc", "mlp.c_proj"], norms: &["ln_1", "ln_2"], final_norm: "ln_f", head: "lm_head" };

const LIKE_LLAMA_NAMES: Names = Names { tokens: "embed_tokens", positions: "", qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], out: "self_attn.o_proj", mlp: &["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"], norms: &["input_layernorm", "post_attention_layernorm"], final_norm: "norm", head: "lm_head" };

const LIKE_BERT_NAMES: Names = Names { tokens: "embeddings.word_embeddings", positions: "embeddings.position_embeddings", qkv: &["attention.self.query", "attention.self.key", "attention.self.value"], out: "attention.output.dense", mlp: &["intermediate.dense", "output.dense"], norms: &["attention.output.LayerNorm", "output.LayerNorm"], final_norm: "", head: "" };

const LIKE_BLOOM_NAMES: Names = Names { tokens: "word_embeddings", positions: "", qkv: &["self_attention.query_key_value"], out: "self_attention.dense", mlp: &["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"], norms: &["input_layernorm", "post_attention_layernorm"], final_norm: "ln_f", head: "lm_head" };

const GPT2: Spec = Spec { name: "gpt2", model_type: "gpt2", prefix: "GPT2", layer: "GPT2Block", class: Class::CausalLm, norm: Norm::LayerNorm, activation: Activation::GeluTanh, positions: Positions::Learned, gated: false, biases: [true, true, true], head_bias: false, tied: true, parallel: false, dropout: true, vocab: 50_257, max_positions: 1_024, ffn: Ffn::Times(4), head_dim: 0, free: &[], names: LIKE_GPT2_NAMES };

const LLAMA: Spec = Spec { name: "llama", model_type: "llama", prefix: "Llama", layer: "LlamaDecoderLayer", class: Class::CausalLm, norm: Norm::RmsNorm, activation: Activation::Silu, positions: Positions::Rotary, gated: true, biases: [false, false, false], head_bias: false, tied: false, parallel: false, dropout: false, vocab: 32_000, max_positions: 2_048, ffn: Ffn::TwoThirds, head_dim: 0, free: &["head-dim", "kv-heads", "qkv-bias", "out-bias", "mlp-bias"], names: LIKE_LLAMA_NAMES };

const BLOOM: Spec = Spec { name: "bloom", model_type: "bloom", prefix: "Bloom", layer: "BloomBlock", class: Class::CausalLm, norm: Norm::LayerNorm, activation: Activation::GeluTanh, positions: Positions::Alibi, gated: false, biases: [true, true, true], head_bias: false, tied: true, parallel: false, dropout: false, vocab: 250_880, max_positions: 2_048, ffn: Ffn::Times(4), head_dim: 0, free: &[], names: LIKE_BLOOM_NAMES };

const BERT: Spec = Spec { name: "bert", model_type: "bert", prefix: "Bert", layer: "BertLayer", class: Class::Base, norm: Norm::LayerNorm, activation: Activation::Gelu, positions: Positions::Learned, gated: false, biases: [true, true, true], head_bias: false, tied: true, parallel: false, dropout: true, vocab: 30_522, max_positions: 512, ffn: Ffn::Times(4), head_dim: 0, free: &["types"], names: LIKE_BERT_NAMES };

const GPT_NEO: Spec = Spec { name: "gpt-neo", model_type: "gpt_neo", prefix: "GPTNeo", layer: "GPTNeoBlock", biases: [false, true, true], dropout: false, max_positions: 2_048, names: Names { qkv: &["attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"], out: "attn.attention.out_proj", ..LIKE_GPT2_NAMES }, ..GPT2 };

const GPTJ: Spec = Spec { name: "gptj", model_type: "gptj", prefix: "GPTJ", layer: "GPTJBlock", positions: Positions::Rotary, biases: [false, false, true], head_bias: true, tied: false, parallel: true, vocab: 50_400, names: Names { positions: "", qkv: &["attn.q_proj", "attn.k_proj", "attn.v_proj"], out: "attn.out_proj", mlp: &["mlp.fc_in", "mlp.fc_out"], norms: &["ln_1"], ..LIKE_GPT2_NAMES }, ..BLOOM };

const GPT_NEOX: Spec = Spec { name: "gpt-neox", model_type: "gpt_neox", prefix: "GPTNeoX", layer: "GPTNeoXLayer", activation: Activation::Gelu, positions: Positions::Rotary, tied: false, parallel: true, vocab: 50_432, free: &["qkv-bias", "out-bias", "parallel"], names: Names { tokens: "embed_in", qkv: &["attention.query_key_value"], out: "attention.dense", final_norm: "final_layer_norm", head: "embed_out", ..LIKE_BLOOM_NAMES }, ..BLOOM };

const GPT_BIGCODE: Spec = Spec { name: "gpt-bigcode", model_type: "gpt_bigcode", prefix: "GPTBigCode", layer: "GPTBigCodeBlock", free: &["kv-heads"], ..GPT2 };

const MISTRAL: Spec = Spec { name: "mistral", model_type: "mistral", prefix: "Mistral", layer: "MistralDecoderLayer", max_positions: 131_072, ffn: Ffn::ThreeAndHalf, free: &["head-dim", "kv-heads"], ..LLAMA };

const MIXTRAL: Spec = Spec { name: "mixtral", model_type: "mixtral", prefix: "Mixtral", layer: "MixtralDecoderLayer", max_positions: 131_072, ffn: Ffn::ThreeAndHalf, free: &["head-dim", "kv-heads", "experts"], names: Names { mlp: &["block_sparse_moe.experts.w1", "block_sparse_moe.experts.w3", "block_sparse_moe.experts.w2"], ..LIKE_LLAMA_NAMES }, ..LLAMA };

const QWEN2: Spec = Spec { name: "qwen2", model_type: "qwen2", prefix: "Qwen2", layer: "Qwen2DecoderLayer", biases: [true, false, false], vocab: 151_936, max_positions: 32_768, ffn: Ffn::Written, free: &["kv-heads"], ..LLAMA };

const QWEN3: Spec = Spec { name: "qwen3", model_type: "qwen3", prefix: "Qwen3", layer: "Qwen3DecoderLayer", vocab: 151_936, max_positions: 32_768, ffn: Ffn::Written, head_dim: 128, free: &["head-dim", "kv-heads", "qkv-bias", "out-bias"], ..LLAMA };

const GEMMA: Spec = Spec { name: "gemma", model_type: "gemma", prefix: "Gemma", layer: "GemmaDecoderLayer", activation: Activation::GeluTanh, tied: true, vocab: 256_000, max_positions: 8_192, ffn: Ffn::Times(8), head_dim: 256, free: &["head-dim", "kv-heads", "qkv-bias", "out-bias"], ..LLAMA };

const GEMMA2: Spec = Spec { name: "gemma2", model_type: "gemma2", prefix: "Gemma2", layer: "Gemma2DecoderLayer", activation: Activation::GeluTanh, tied: true, vocab: 256_000, max_positions: 8_192, ffn: Ffn::Written, head_dim: 256, free: &["head-dim", "kv-heads", "qkv-bias", "out-bias"], names: Names { norms: &["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"], ..LIKE_LLAMA_NAMES }, ..LLAMA };

const PHI: Spec = Spec { name: "phi", model_type: "phi", prefix: "Phi", layer: "PhiDecoderLayer", positions: Positions::Rotary, head_bias: true, tied: false, parallel: true, vocab: 51_200, free: &["kv-heads"], names: Names { out: "self_attn.dense", mlp: &["mlp.fc1", "mlp.fc2"], norms: &["input_layernorm"], final_norm: "final_layernorm", ..LIKE_LLAMA_NAMES }, ..BLOOM };

const PHI3: Spec = Spec { name: "phi3", model_type: "phi3", prefix: "Phi3", layer: "Phi3DecoderLayer", vocab: 32_064, max_positions: 4_096, ffn: Ffn::Written, free: &["kv-heads"], names: Names { qkv: &["self_attn.qkv_proj"], mlp: &["mlp.gate_up_proj", "mlp.down_proj"], ..LIKE_LLAMA_NAMES }, ..LLAMA };

const STABLELM: Spec = Spec { name: "stablelm", model_type: "stablelm", prefix: "StableLm", layer: "StableLmDecoderLayer", norm: Norm::LayerNorm, vocab: 50_304, max_positions: 4_096, ffn: Ffn::Written, free: &["kv-heads", "qkv-bias", "parallel"], ..LLAMA };

const FALCON: Spec = Spec { name: "falcon", model_type: "falcon", prefix: "Falcon", layer: "FalconDecoderLayer", activation: Activation::Gelu, positions: Positions::Rotary, biases: [false, false, false], parallel: true, vocab: 65_024, free: &["kv-heads", "qkv-bias", "out-bias", "mlp-bias", "parallel", "layer-norms", "alibi"], ..BLOOM };

const OPT: Spec = Spec { name: "opt", model_type: "opt", prefix: "OPT", layer: "OPTDecoderLayer", activation: Activation::Relu, vocab: 50_272, max_positions: 2_048, free: &["word-embedding", "qkv-bias", "out-bias", "mlp-bias", "final-norm"], names: Names { positions: "embed_positions", out: "self_attn.out_proj", mlp: &["fc1", "fc2"], norms: &["self_attn_layer_norm", "final_layer_norm"], final_norm: "final_layer_norm", ..LIKE_LLAMA_NAMES }, ..GPT2 };

const MPT: Spec = Spec { name: "mpt", model_type: "mpt", prefix: "Mpt", layer: "MptBlock", norm: Norm::LayerNormWithoutBias, activation: Activation::Gelu, biases: [false, false, false], vocab: 50_368, names: Names { positions: "", qkv: &["attn.Wqkv"], out: "attn.out_proj", mlp: &["ffn.up_proj", "ffn.down_proj"], norms: &["norm_1", "norm_2"], final_norm: "norm_f", ..LIKE_GPT2_NAMES }, ..BLOOM };

const ROBERTA: Spec = Spec { name: "roberta", model_type: "roberta", prefix: "Roberta", layer: "RobertaLayer", vocab: 50_265, max_positions: 514, ..BERT };

const DISTILBERT: Spec = Spec { name: "distilbert", model_type: "distilbert", prefix: "DistilBert", layer: "TransformerBlock", free: &[], names: Names { qkv: &["attention.q_lin", "attention.k_lin", "attention.v_lin"], out: "attention.out_lin", mlp: &["ffn.lin1", "ffn.lin2"], norms: &["sa_layer_norm", "output_layer_norm"], ..LIKE_BERT_NAMES }, ..BERT };

const T5: Spec = Spec { name: "t5", model_type: "t5", prefix: "T5", layer: "T5Block", class: Class::ConditionalGeneration, norm: Norm::RmsNorm, activation: Activation::Relu, positions: Positions::Relative, biases: [false, false, false], vocab: 32_128, head_dim: 64, free: &["head-dim", "decoder-layers", "buckets", "gated"], names: Names { tokens: "shared", qkv: &["SelfAttention.q", "SelfAttention.k", "SelfAttention.v"], out: "SelfAttention.o", mlp: &["DenseReluDense.wi", "DenseReluDense.wo"], norms: &["SelfAttention.layer_norm", "DenseReluDense.layer_norm"], final_norm: "final_layer_norm", ..LIKE_LLAMA_NAMES }, ..BERT };

impl Family {
    /// The row of this family.
    pub(super) const fn spec(self) -> &'static Spec {
        match self {
            Self::Gpt2 => &GPT2,
            Self::GptNeo => &GPT_NEO,
            Self::GptJ => &GPTJ,
            Self::GptNeoX => &GPT_NEOX,
            Self::GptBigCode => &GPT_BIGCODE,
            Self::Llama => &LLAMA,
            Self::Mistral => &MISTRAL,
            Self::Mixtral => &MIXTRAL,
            Self::Qwen2 => &QWEN2,
            Self::Qwen3 => &QWEN3,
            Self::Gemma => &GEMMA,
            Self::Gemma2 => &GEMMA2,
            Self::Phi => &PHI,
            Self::Phi3 => &PHI3,
            Self::StableLm => &STABLELM,
            Self::Falcon => &FALCON,
            Self::Opt => &OPT,
            Self::Bloom => &BLOOM,
            Self::Mpt => &MPT,
            Self::Bert => &BERT,
            Self::Roberta => &ROBERTA,
            Self::DistilBert => &DISTILBERT,
            Self::T5 => &T5,
        }
    }
}
