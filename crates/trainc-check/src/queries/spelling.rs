//! Spellings that AWS accepts in names.

/// Returns the nearest spelling made of ASCII letters, digits and `joint`, which is `-` or `_`.
pub(crate) fn nearest_spelling(written: &str, joint: char) -> String {
    let mut out = String::new();
    for c in written.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.ends_with(joint) {
            out.push(joint);
        }
    }
    let out = out.trim_matches(joint).to_owned();
    if joint == '_' && out.starts_with(|c: char| c.is_ascii_digit()) { format!("_{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::nearest_spelling;

    #[test]
    fn other_characters_become_the_joint() {
        assert_eq!(nearest_spelling("my_job v2", '-'), "my-job-v2");
        assert_eq!(nearest_spelling("--a..b--", '-'), "a-b");
        assert_eq!(nearest_spelling("8BIT-X", '_'), "_8BIT_X");
        assert_eq!(nearest_spelling("___", '-'), "");
    }
}
