//! Enums whose variants are words of the output.

/// Declares an enum with one word for each variant, in output and in JSON. The crate that calls it needs
/// `serde` with `derive`.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All variants, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns its word.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.word())
            }
        }
    };
}
