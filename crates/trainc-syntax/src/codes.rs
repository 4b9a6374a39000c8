//! The diagnostic codes of this crate.

use trainc_diag::{Code, declare_code};

declare_code!(T0101, "syntax-error", Error, "the text is not valid KDL");
declare_code!(T0102, "bare-unit", Error, "a value is missing its quotes");
declare_code!(T0103, "keyword-needs-hash", Error, "a keyword is missing its `#`");
declare_code!(T0104, "unclosed-brace", Error, "a block is never closed");
declare_code!(T0105, "unmatched-brace", Error, "a closing brace has no matching opening brace");
declare_code!(T0106, "unclosed-string", Error, "a string is never closed");
declare_code!(T0107, "file-too-large", Error, "the file is too large for a manifest", found_in: Bytes);
declare_code!(T0108, "nesting-too-deep", Error, "blocks are nested too deeply", found_in: Bytes);
declare_code!(T0109, "number-too-large", Error, "a number is too large");
declare_code!(T0110, "not-utf8", Error, "the file is not valid UTF-8", found_in: Bytes);
declare_code!(T0111, "too-many-entries", Error, "a list is too long for a manifest", found_in: Bytes);
declare_code!(T0112, "unclosed-comment", Error, "a comment is never closed");
declare_code!(T0120, "unknown-node", Error, "a node name that is not valid here");
declare_code!(T0121, "unknown-property", Error, "a property that the node does not support");
declare_code!(T0122, "duplicate-node", Error, "a node that may appear only once is repeated");
declare_code!(T0123, "duplicate-property", Error, "a property is repeated on one node");
declare_code!(T0124, "wrong-type", Error, "a value has the wrong type");
declare_code!(T0125, "unit-missing", Error, "a number is missing its unit");
declare_code!(T0126, "unit-unknown", Error, "a size, duration or rate with an unknown unit or format");
declare_code!(T0127, "unknown-value", Error, "a value that is not one of the allowed values");
declare_code!(T0128, "unexpected-argument", Error, "an argument that the node does not accept");
declare_code!(T0129, "missing-value", Error, "a node is missing a required argument or property");
declare_code!(T0130, "out-of-range", Error, "a number is out of range");
declare_code!(T0131, "type-annotation", Error, "a KDL type annotation, which the language does not use");
declare_code!(T0132, "multiple-jobs", Error, "a manifest describes more than one job");
declare_code!(T0133, "misplaced-node", Error, "a node is outside the block that it belongs to");
declare_code!(
    T0134,
    "other-version-required",
    Error,
    "a file for other versions of trainc",
    ends: Speed
);
declare_code!(T0135, "invalid-requirement", Error, "a required version of trainc that cannot be read");
declare_code!(
    T0145,
    "placeholder-not-allowed",
    Error,
    "a placeholder in a value that does not support placeholders"
);
declare_code!(T0150, "yaml-manifest", Error, "a manifest that is written in YAML");
declare_code!(T0151, "json-manifest", Error, "a JSON file in place of a manifest");
declare_code!(T0152, "toml-manifest", Error, "a manifest that is written in TOML");

/// All of them.
pub static ALL: &[&Code] = &[
    &T0101, &T0102, &T0103, &T0104, &T0105, &T0106, &T0107, &T0108, &T0109, &T0110, &T0111, &T0112, &T0120,
    &T0121, &T0122, &T0123, &T0124, &T0125, &T0126, &T0127, &T0128, &T0129, &T0130, &T0131, &T0132, &T0133,
    &T0134, &T0135, &T0145, &T0150, &T0151, &T0152,
];
