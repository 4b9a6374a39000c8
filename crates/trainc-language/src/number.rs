//! Number formats that must never change between versions, since names are derived from them.

/// Formats a float as Python's `repr` and `json.dumps` do: `0.0002`, `1e-05`, `1.0`.
///
/// Both print the shortest digits that parse to the same number. They differ from Rust in using an exponent
/// below 1e-4 and from 1e16 on, and in printing at least two digits of it.
pub fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        // Left: printed by CPython 3.11 `repr`.
        for (python, value) in [
            ("0.0002", 2e-4),
            ("1e-05", 1e-5),
            ("0.01", 0.01),
            ("1.0", 1.0),
            ("0.0001", 1e-4),
            ("1e+16", 1e16),
            ("1000000000000000.0", 1e15),
            ("1.5e-07", 1.5e-7),
            ("0.1", 0.1),
            ("0.0", 0.0),
            ("-2.5", -2.5),
            ("1e+300", 1e300),
        ] {
            assert_eq!(python_float(value), python);
        }
    }
}
