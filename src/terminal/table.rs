//! A listing as text: a table, or a record for each row where the table would be too wide.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use trainc_catalog::listing::Listing;
use trainc_diag::text;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

/// Minimum width of a column of text.
const MIN_WIDTH: usize = 14;
/// Maximum lines of a cell: a listing with a longer one is printed as records.
const MAX_LINES: usize = 4;
/// Spaces between two columns.
const GAP: usize = 2;

/// Formats a listing in at most `width` columns; without a width each row is a line.
pub(crate) fn table(listing: &Listing, width: Option<usize>) -> String {
    let columns: Vec<Column> = (0..listing.headers.len()).map(|at| Column::new(listing, at)).collect();
    let Some(width) = width else {
        return lines(listing, &columns, usize::from(u16::MAX), None).concat();
    };
    let min_width: usize = columns.iter().map(|column| column.min + GAP).sum();
    if min_width > width + GAP {
        return format_records(listing, width);
    }
    let lines = lines(listing, &columns, width, None);
    if lines.len() == self::lines(listing, &columns, width, Some(MAX_LINES)).len() {
        lines.concat()
    } else {
        format_records(listing, width)
    }
}

struct Column {
    /// Minimum width, without the gap.
    min: usize,
    is_numeric: bool,
}

impl Column {
    fn new(listing: &Listing, at: usize) -> Self {
        let cells = || listing.rows.iter().filter_map(move |row| row.get(at));
        let header = listing.headers.get(at).copied().unwrap_or_default();
        let word = header.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let content = cells().map(|cell| cell.width()).max().unwrap_or(0);
        let is_number =
            |cell: &String| cell.is_empty() || cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
        let is_numeric = !listing.rows.is_empty() && cells().all(is_number);
        // Neither the first column, which names the row, nor a number is wrapped.
        let is_whole = at == 0 || is_numeric;
        let min = if is_whole { content } else { content.min(MIN_WIDTH) };
        Self { min: min.max(word), is_numeric }
    }
}

/// The lines of the table, with each row cut to `max_lines` lines.
fn lines(listing: &Listing, columns: &[Column], width: usize, max_lines: Option<usize>) -> Vec<String> {
    let cells = |width: usize| u16::try_from(width).unwrap_or(u16::MAX);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(cells(width + GAP))
        .set_header(listing.headers.clone())
        .add_rows(listing.rows.clone());
    for (column, Column { min, is_numeric }) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, cells(GAP)));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(cells(min + GAP))));
        if *is_numeric {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in table.row_iter_mut() {
        if let Some(max_lines) = max_lines {
            row.max_height(max_lines);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Formats each row as a block: its first cell, then the others, each behind its header.
fn format_records(listing: &Listing, width: usize) -> String {
    let names = listing.headers.iter().skip(1).map(|header| header.width()).max().unwrap_or(0);
    let room = width.saturating_sub(names + 2 * GAP).max(MIN_WIDTH);
    let mut out = String::new();
    for row in &listing.rows {
        let mut cells = row.iter();
        out += &fit(cells.next().map_or("", String::as_str), width).join("\n");
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

/// Wraps a cell between words, and inside a word that is too long.
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
            brief: usize::MAX,
        }
    }

    #[test]
    fn where_there_is_room_a_row_is_a_line() {
        assert_eq!(table(&sample(), Some(200)).lines().count(), 3);
        assert_eq!(table(&sample(), None), table(&sample(), Some(200)));
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
        assert_eq!(table(&sample(), Some(41)), expected);
    }

    #[test]
    fn what_is_too_narrow_for_a_table_is_a_list() {
        let expected = "\
ml.p4d.24xlarge
  size    8
  source  the provider\u{2019}s own
          page of types
";
        assert!(table(&sample(), Some(30)).starts_with(expected), "{}", table(&sample(), Some(30)));
    }

    #[test]
    fn every_listing_fits() {
        for name in listing::NAMES {
            let listing = listing::by_table_name(name, None).unwrap();
            for most in [60, 80, 100, 200] {
                let text = table(&listing, Some(most));
                let widest = text.lines().map(UnicodeWidthStr::width).max().unwrap();
                assert!(widest <= most, "{name} at {most}: {widest}");
            }
        }
    }
}
