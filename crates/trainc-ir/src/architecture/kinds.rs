//! Kinds of activations, position encodings, norms and heads.

/// The activation function of the feed-forward layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// Exact GELU (by `erf`).
    Gelu,
    /// GELU by its tanh approximation (`gelu_new`, `gelu_fast`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `x * sigmoid(x)`, also called swish.
    #[default]
    Silu,
}

impl Activation {
    /// The supported spellings in Hugging Face configs (`hidden_act`, `activation_function`, …).
    pub const CONFIG_NAMES: [&'static str; 7] =
        ["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"];

    /// Parses one of [`Self::CONFIG_NAMES`].
    pub fn from_config_name(name: &str) -> Option<Self> {
        match name {
            "gelu" => Some(Self::Gelu),
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Some(Self::GeluTanh),
            "relu" => Some(Self::Relu),
            "silu" | "swish" => Some(Self::Silu),
            _ => None,
        }
    }
}

/// The position encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// A learned vector per position: the sequence cannot be longer than the table.
    Learned,
    /// Rotation of queries and keys, without parameters.
    #[default]
    Rotary,
    /// A bias by distance on the attention scores, without parameters.
    Alibi,
    /// A learned bias per bucket of distances and head (T5).
    Relative,
}

/// The normalisation layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Mean and variance; weight and bias: two parameters per channel.
    LayerNorm,
    /// Mean and variance; weight only (MPT).
    LayerNormWithoutBias,
    /// Root mean square; weight only.
    #[default]
    RmsNorm,
}

impl Norm {
    /// Returns whether the layer has a bias in addition to its weight.
    pub fn has_bias(self) -> bool {
        self == Self::LayerNorm
    }
}

/// The training objective, which determines the head above the layers, as in the Hugging Face classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The bare model (`BertModel`, with the pooler where the class has one).
    Base,
    /// Next-token prediction (`LlamaForCausalLM`, `GPT2LMHeadModel`).
    CausalLm,
    /// Masked-token prediction (`BertForMaskedLM`).
    MaskedLm,
    /// Text to text (`T5ForConditionalGeneration`).
    ConditionalGeneration,
    /// One label for a sequence.
    SequenceClassification {
        /// Number of labels.
        labels: u64,
    },
    /// One label for each token.
    TokenClassification {
        /// Number of labels.
        labels: u64,
    },
    /// Start and end of an answer span: two outputs per token.
    QuestionAnswering,
}

impl Class {
    /// The names in the catalogue and in messages, without the number of labels.
    pub const NAMES: [&'static str; 7] = [
        "base",
        "causal-lm",
        "masked-lm",
        "conditional-generation",
        "sequence-classification",
        "token-classification",
        "question-answering",
    ];

    /// Returns its name, one of [`Self::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::CausalLm => "causal-lm",
            Self::MaskedLm => "masked-lm",
            Self::ConditionalGeneration => "conditional-generation",
            Self::SequenceClassification { .. } => "sequence-classification",
            Self::TokenClassification { .. } => "token-classification",
            Self::QuestionAnswering => "question-answering",
        }
    }

    /// Returns the class with this number of labels, where it has labels.
    #[must_use]
    pub fn with_labels(self, labels: u64) -> Self {
        match self {
            Self::SequenceClassification { .. } => Self::SequenceClassification { labels },
            Self::TokenClassification { .. } => Self::TokenClassification { labels },
            Self::Base
            | Self::CausalLm
            | Self::MaskedLm
            | Self::ConditionalGeneration
            | Self::QuestionAnswering => self,
        }
    }

    /// Parses one of [`Self::NAMES`]. A classifier gets two labels, the default of Hugging Face configs
    /// (`num_labels`).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "base" => Some(Self::Base),
            "causal-lm" => Some(Self::CausalLm),
            "masked-lm" => Some(Self::MaskedLm),
            "conditional-generation" => Some(Self::ConditionalGeneration),
            "sequence-classification" => Some(Self::SequenceClassification { labels: 2 }),
            "token-classification" => Some(Self::TokenClassification { labels: 2 }),
            "question-answering" => Some(Self::QuestionAnswering),
            _ => None,
        }
    }
}
