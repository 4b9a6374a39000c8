//! Strings without a closing quote: finds the start of the properties that would otherwise be part of the
//! string.

use super::characters::is_space;

/// The longest line that is searched, in bytes.
const LONGEST: usize = 4_096;

/// Returns the offset of the properties after a string without a closing quote: the first space of `body`
/// after which only properties follow, up to its end, a comment, or a block. `body` starts with the string's
/// quote.
///
/// A text may contain `lr=3` too: several words without a quoted value after them are taken as text.
pub fn trailing_properties(body: &str) -> Option<usize> {
    if body.len() > LONGEST {
        return None;
    }
    let mut at = 0;
    while let Some(blank) = body.get(at..).and_then(|rest| rest.find(is_space)).map(|found| at + found) {
        match scan_properties(body, blank) {
            Ok(quoted) if quoted || !body.get(..blank)?.contains(is_space) => return Some(blank),
            Ok(_) => return None,
            // No run of properties that starts before this offset gets past it.
            Err(stopped) => at = stopped.max(blank + 1),
        }
    }
    None
}

/// Reads properties from a space on. Returns whether one of their values is quoted, or the offset of
/// something else.
fn scan_properties(body: &str, from: usize) -> Result<bool, usize> {
    let rest = |at: usize| body.get(at..).unwrap_or("");
    let run = |at: usize, is: &dyn Fn(char) -> bool| rest(at).find(|c| !is(c)).map_or(body.len(), |n| at + n);
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let (mut at, mut any, mut quoted) = (from, false, false);
    loop {
        let start = run(at, &is_space);
        let here = rest(start);
        let is_block = here.starts_with(['{', '}', ';']) && here.matches('"').count().is_multiple_of(2);
        if any && (here.is_empty() || here.starts_with("//") || is_block) {
            return Ok(quoted);
        }
        let key = run(start, &is_key);
        let is_name = here.starts_with(|c: char| c.is_ascii_alphabetic());
        if start == at || !is_name || !rest(key).starts_with('=') {
            return Err(start.max(key));
        }
        let value = key + 1;
        at = if rest(value).starts_with('"') {
            quoted = true;
            let close = rest(value + 1).find('"').ok_or(value + 1)?;
            value + 1 + close + 1
        } else {
            let end = run(value, &|c| !is_space(c) && !"\"{};".contains(c));
            let plain = rest(value).starts_with(|c: char| c.is_ascii_alphanumeric() || "#+-".contains(c));
            if !plain || end == value {
                return Err(value);
            }
            end
        };
        any = true;
    }
}

#[cfg(test)]
mod tests {
    use super::trailing_properties;

    #[test]
    fn trailing_properties_are_not_part_of_the_string() {
        let rest = |body: &str| trailing_properties(body).map(|at| body[at..].trim().to_owned());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(rest("\"adamw lr=2e-5 warmup=\"50 steps\""), some("lr=2e-5 warmup=\"50 steps\""));
        assert_eq!(rest("\"ml.p4d nodes=2"), some("nodes=2"));
        assert_eq!(rest("\"ml.p4d nodes=2 placement=#true // two"), some("nodes=2 placement=#true // two"));
        assert_eq!(rest("\"x nodes=1 { max-run \"1h\" }"), some("nodes=1 { max-run \"1h\" }"));
        // Several words are text, up to a property with a quoted value.
        assert_eq!(rest("\"see lr=3"), some("lr=3"));
        assert_eq!(rest("\"as we use lr=3"), None);
        assert_eq!(rest("\"as lr=3 is low until=\"2027-01-01\""), some("until=\"2027-01-01\""));
        // A pattern, or a text that ends with an equals sign, is not a property.
        assert_eq!(rest("\"train loss=([0-9.]+)"), None);
        assert_eq!(rest("\"a b= c"), None);
        assert_eq!(rest("\"a b=\"c"), None);
        assert_eq!(rest("\"5d"), None);
        assert_eq!(rest("\""), None);
        assert_eq!(rest(&format!("\"x a=1{}", " ".repeat(5_000))), None);
    }
}
