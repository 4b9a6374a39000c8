//! GPU types, as far as the cost model distinguishes them.

/// GPU types with separate constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuKind {
    /// V100.
    V100,
    /// T4.
    T4,
    /// A100 and A800, 40 and 80 GB.
    A100,
    /// A10G.
    A10G,
    /// L4.
    L4,
    /// L40S.
    L40S,
    /// H100 and H800.
    H100,
    /// H200.
    H200,
    /// B200 and B300.
    B200,
}

impl GpuKind {
    /// All types with the prefix of their names, longest first.
    pub const ALL: [(&'static str, Self); 13] = [
        ("L40S", Self::L40S),
        ("A10G", Self::A10G),
        ("A100", Self::A100),
        ("A800", Self::A100),
        ("V100", Self::V100),
        ("H100", Self::H100),
        ("H800", Self::H100),
        ("H200", Self::H200),
        ("GB200", Self::B200),
        ("B200", Self::B200),
        ("B300", Self::B200),
        ("T4", Self::T4),
        ("L4", Self::L4),
    ];

    /// Returns the type of an accelerator, by its short or product name: `A100-SXM4-40GB`,
    /// `NVIDIA A100 SXM4 40GB`, `Tesla T4`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = ["NVIDIA ", "Tesla "].iter().find_map(|maker| name.strip_prefix(maker)).unwrap_or(name);
        Self::ALL.iter().find(|(word, _)| name.starts_with(word)).map(|(_, kind)| *kind)
    }

    /// Returns every type that has its own constants.
    pub fn with_own_constants() -> impl Iterator<Item = Self> {
        [Self::V100, Self::T4, Self::A100, Self::A10G, Self::L4, Self::L40S, Self::H100, Self::B200]
            .into_iter()
    }

    /// Returns the type whose constants apply: an H200 is an H100 with different memory.
    #[must_use]
    pub fn kind_of_constants(self) -> Self {
        if self == Self::H200 { Self::H100 } else { self }
    }

    /// Returns its word in files of constants.
    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(word, kind)| *kind == self && !matches!(*word, "GB200"))
            .map_or("", |(word, _)| word)
    }
}
