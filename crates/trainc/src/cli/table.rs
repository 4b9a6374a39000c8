//! A listing as text: a table, or where the columns do not suffice for one, a record for each row.

use trainc_catalog::listing::Listing;
use trainc_diag::text;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

/// A column of texts is not made narrower than this.
const LEAST: usize = 14;
/// A cell that takes more lines than this makes a column of crumbs beside empty ones: its rows are records.
const MOST_LINES: usize = 4;
/// Between two columns.
const GAP: usize = 2;

/// The listing in at most so many columns.
pub(super) fn table(listing: &Listing, most: usize) -> String {
    let wanted = widths(listing);
    let numeric: Vec<bool> = (0..wanted.len()).map(|column| is_numeric(listing, column)).collect();
    if whole(&wanted) <= most {
        return rows(listing, &wanted, &numeric);
    }
    match narrowed(listing, wanted, &numeric, most) {
        Some(widths) if !is_crumbled(listing, &widths) => rows(listing, &widths, &numeric),
        _ => records(listing, most),
    }
}

/// Whether a cell would stand in a column too narrow for it.
fn is_crumbled(listing: &Listing, widths: &[usize]) -> bool {
    let mut cells = listing.rows.iter().flat_map(|row| row.iter().zip(widths));
    cells.any(|(cell, width)| cell.width() > *width && fit(cell, *width).len() > MOST_LINES)
}

/// Columns as wide as their widest cell.
fn widths(listing: &Listing) -> Vec<usize> {
    let mut widths: Vec<usize> = listing.headers.iter().map(|header| header.width()).collect();
    for row in &listing.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    widths
}

fn whole(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Numbers stand to the right.
fn is_numeric(listing: &Listing, column: usize) -> bool {
    let is_number =
        |cell: &String| cell.is_empty() || cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
    !listing.rows.is_empty() && listing.rows.iter().all(|row| row.get(column).is_some_and(is_number))
}

/// The widest columns made narrower until all fit; the first, by which a row is known, stays as it is.
fn narrowed(listing: &Listing, mut widths: Vec<usize>, numeric: &[bool], most: usize) -> Option<Vec<usize>> {
    let least = |column: usize, header: &str| {
        let word = header.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        // Numbers stay whole: of their column only the header is broken.
        let cells = listing.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let wanted = if numeric.get(column) == Some(&true) { cells.unwrap_or(0) } else { LEAST };
        wanted.max(word)
    };
    let least: Vec<usize> = (0..).zip(&listing.headers).map(|(at, header)| least(at, header)).collect();
    while whole(&widths) > most {
        let over = whole(&widths) - most;
        let loose = widths.iter_mut().zip(&least).skip(1).filter(|(width, least)| **width > **least);
        let (width, least) = loose.max_by_key(|(width, _)| **width)?;
        *width = width.saturating_sub(over.min(4)).max(*least);
    }
    Some(widths)
}

fn rows(listing: &Listing, widths: &[usize], numeric: &[bool]) -> String {
    let headers: Vec<String> = listing.headers.iter().map(|header| (*header).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&headers).chain(&listing.rows) {
        let cells: Vec<Vec<String>> = row.iter().zip(widths).map(|(cell, width)| fit(cell, *width)).collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..lines {
            let mut line = String::new();
            for ((cell, width), right) in cells.iter().zip(widths).zip(numeric) {
                let part = cell.get(at).map_or("", String::as_str);
                let gap = " ".repeat(width.saturating_sub(part.width()));
                line += &if *right { format!("{gap}{part}") } else { format!("{part}{gap}") };
                line += &" ".repeat(GAP);
            }
            out += line.trim_end();
            out.push('\n');
        }
    }
    out
}

/// Every row as a block: its first cell, then the others under their headers.
fn records(listing: &Listing, most: usize) -> String {
    let names = listing.headers.iter().skip(1).map(|header| header.width()).max().unwrap_or(0);
    let room = most.saturating_sub(names + 2 * GAP).max(LEAST);
    let mut out = String::new();
    for row in &listing.rows {
        let mut cells = row.iter();
        out += &fit(cells.next().map_or("", String::as_str), most).join("\n");
        out.push('\n');
        for (cell, header) in cells.zip(listing.headers.iter().skip(1)).filter(|(cell, _)| !cell.is_empty()) {
            for (at, part) in fit(cell, room).iter().enumerate() {
                let name = if at == 0 { header } else { "" };
                out += format!("  {name:<names$}  {part}").trim_end();
                out.push('\n');
            }
        }
    }
    out
}

/// The lines of a cell: broken between words, and inside of one that is too long.
fn fit(cell: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in text::wrap(cell, width, 0) {
        let mut part = String::new();
        let mut used = 0;
        for c in line.chars() {
            let columns = c.width().unwrap_or(0);
            if used + columns > width && used > 0 {
                out.push(std::mem::take(&mut part));
                used = 0;
            }
            part.push(c);
            used += columns;
        }
        out.push(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_catalog::listing;

    fn sample() -> Listing {
        Listing {
            headers: vec!["name", "size", "source"],
            rows: vec![
                vec![
                    "ml.p4d.24xlarge".to_owned(),
                    "8".to_owned(),
                    "the provider\u{2019}s own page of types".to_owned(),
                ],
                vec!["b".to_owned(), "12".to_owned(), "config/one-file-with-a-long-name.json".to_owned()],
            ],
            json: serde_json::Value::Null,
        }
    }

    #[test]
    fn where_there_is_room_a_row_is_a_line() {
        assert_eq!(table(&sample(), 200).lines().count(), 3);
    }

    #[test]
    fn texts_are_wrapped_in_their_column() {
        let expected = "\
name             size  source
ml.p4d.24xlarge     8  the provider\u{2019}s own
                       page of types
b                  12  config/one-file-wi
                       th-a-long-name.jso
                       n
";
        assert_eq!(table(&sample(), 41), expected);
    }

    #[test]
    fn what_is_too_narrow_for_a_table_is_a_list() {
        let expected = "\
ml.p4d.24xlarge
  size    8
  source  the provider\u{2019}s own
          page of types
";
        assert!(table(&sample(), 30).starts_with(expected), "{}", table(&sample(), 30));
    }

    #[test]
    fn every_listing_fits() {
        for name in listing::NAMES {
            let listing = listing::named(name).unwrap();
            for most in [60, 80, 100, 200] {
                let text = table(&listing, most);
                let widest = text.lines().map(UnicodeWidthStr::width).max().unwrap();
                assert!(widest <= most, "{name} at {most}: {widest}");
            }
        }
    }
}
