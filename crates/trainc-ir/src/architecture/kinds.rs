//! What a block is made of, as far as counts, activations and a worker need to know.

/// The non-linearity of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// Exact GELU (by `erf`).
    Gelu,
    /// GELU by its tanh approximation (`gelu_new`, `gelu_fast`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `x * sigmoid(x)`, also called swish.
    Silu,
}

impl Activation {
    /// The spellings of Hugging Face configs (`hidden_act`, `activation_function`, …) that are known.
    pub const CONFIG_NAMES: [&'static str; 7] =
        ["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"];

    /// Reads one of [`Self::CONFIG_NAMES`].
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

/// How a model knows the order of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// A learned vector per position: the sequence cannot be longer than the table.
    Learned,
    /// Rotation of queries and keys: no parameters.
    Rotary,
    /// A bias by distance on the attention scores: no parameters.
    Alibi,
    /// A learned bias per bucket of distances and head (T5).
    Relative,
}

/// The normalisation layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Mean and variance; weight and bias: two parameters a channel.
    LayerNorm,
    /// Mean and variance; weight only (MPT).
    LayerNormWithoutBias,
    /// Root mean square; weight only.
    RmsNorm,
}

impl Norm {
    /// Whether the layer has a bias beside its weight.
    pub fn has_bias(self) -> bool {
        self == Self::LayerNorm
    }
}

/// What the model is trained to do: the head above the stack of layers, as the Hugging Face classes have it.
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
        /// How many labels there are.
        labels: u64,
    },
    /// Start and end of an answer span: two outputs a token.
    QuestionAnswering,
}

impl Class {
    /// The names of the catalogue and of messages, without the count of labels.
    pub const NAMES: [&'static str; 6] = [
        "base",
        "causal-lm",
        "masked-lm",
        "conditional-generation",
        "sequence-classification",
        "question-answering",
    ];

    /// One of [`Self::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::CausalLm => "causal-lm",
            Self::MaskedLm => "masked-lm",
            Self::ConditionalGeneration => "conditional-generation",
            Self::SequenceClassification { .. } => "sequence-classification",
            Self::QuestionAnswering => "question-answering",
        }
    }

    /// Reads one of [`Self::NAMES`]; a classifier gets the two labels that are the default of every
    /// Hugging Face config (`num_labels`).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "base" => Some(Self::Base),
            "causal-lm" => Some(Self::CausalLm),
            "masked-lm" => Some(Self::MaskedLm),
            "conditional-generation" => Some(Self::ConditionalGeneration),
            "sequence-classification" => Some(Self::SequenceClassification { labels: 2 }),
            "question-answering" => Some(Self::QuestionAnswering),
            _ => None,
        }
    }
}
