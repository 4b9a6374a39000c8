//! Appending a row to a table of runs.

use crate::csv;
use crate::own_runs::OWN_COLUMNS;
use std::collections::BTreeMap;
use trainc_diag::text;

/// Columns of a table of runs.
pub(crate) const COLUMNS: &str = "id,family,source,year,framework,engine,model,params,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,gpu_mem_gib,gpus_per_node,nodes,intra_bw_gbps,inter_bw_gbps,precision,shard_degree,tp,pp,cp,ep,dp_replicas,zero_stage,micro_batch,global_batch_sequences,grad_accum,recompute,flash,offload,tokens_per_s,samples_per_s,step_s,tflops_per_gpu,mfu,tflops_convention,peak_mem_gib,mem_kind,oom,notes,code,model_id,virtual_stages,compiled,fp8_recipe,gated,experts,experts_per_token,lora_rank,grad_dtype,attention,loss,async_tp,moe_kernel,state_dtype,software,fabric,weight_dtype";

/// Columns of measurements, of which a table needs one that the row has.
const MEASUREMENTS: [&str; 6] =
    ["step_s", "tokens_per_s", "samples_per_s", "mfu", "peak_mem_gib", "billed_seconds"];

/// Result of adding a row to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// The table already has the row.
    There,
    /// The row to add, after the header if the table is empty.
    New {
        /// Its `id`.
        id: String,
        /// Text to append.
        text: String,
    },
}

/// Reason why a row cannot be added to a table: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAddable(String);

/// Returns the text to append to a table for a row. If ids are job names (`again`), a different row with the
/// same `id` is another run and gets a number; if the service names the runs, it is the same run.
///
/// # Errors
///
/// If the file is another one, or has no column for any of the measurements.
pub fn append(
    table: &str,
    cells: &BTreeMap<&'static str, String>,
    again: bool,
) -> Result<Addition, NotAddable> {
    let mut rows = csv::rows(table.trim_start_matches('\u{feff}')).into_iter();
    let texts = |fields: Vec<csv::Field>| {
        fields.into_iter().map(|field| field.text.trim().to_owned()).collect::<Vec<_>>()
    };
    let is_empty = table.trim_start_matches('\u{feff}').trim().is_empty();
    let head = rows.next().filter(|_| !is_empty).map(texts);
    let columns = head
        .clone()
        .unwrap_or_else(|| COLUMNS.split(',').chain(OWN_COLUMNS.split(',')).map(str::to_owned).collect());
    let at = columns.iter().position(|column| column == "id");
    let at = at.ok_or_else(|| NotAddable("it is not a table of runs: it has no column `id`".to_owned()))?;
    let lacks = |name: &&str| !columns.iter().any(|column| column == name);
    let measured: Vec<&str> = MEASUREMENTS.into_iter().filter(|name| cells.contains_key(name)).collect();
    if !measured.is_empty() && measured.iter().all(lacks) {
        let names = text::backtick_list(&measured, "or");
        return Err(NotAddable(format!("it has no column {names}")));
    }
    let known: Vec<Vec<String>> = rows.map(texts).collect();
    let first = cells.get("id").map_or("", |id| id.trim());
    let row = |id: &str| -> Vec<String> {
        let cell = |column: &String| match column.as_str() {
            "id" => id.to_owned(),
            column => cells.get(column).map(|cell| cell.trim().to_owned()).unwrap_or_default(),
        };
        columns.iter().map(cell).collect()
    };
    let mut id = first.to_owned();
    for number in 2_u64.. {
        let mut there = known.iter().filter(|row| row.get(at) == Some(&id)).peekable();
        if there.peek().is_none() || first.is_empty() {
            break;
        }
        if !again || there.any(|one| is_same_run(&columns, one, &row(&id))) {
            return Ok(Addition::There);
        }
        id = format!("{first}-{number}");
    }
    let end =
        if table.split_once('\n').is_some_and(|(head, _)| head.ends_with('\r')) { "\r\n" } else { "\n" };
    let mut out = String::new();
    if head.is_none() {
        out.push_str(&columns.join(","));
        out.push_str(end);
    } else if !table.ends_with('\n') {
        // The rest of a row that was written by half stays one row.
        out.push_str(end);
    }
    out.push_str(&row(&id).iter().map(|cell| quote_field(cell)).collect::<Vec<_>>().join(","));
    out.push_str(end);
    // After an open quote the row would be a part of another one.
    let last = csv::rows(&format!("{table}{out}")).pop().map(texts);
    if last.as_deref() != Some(row(&id).as_slice()) {
        return Err(NotAddable("it ends inside a quoted field: close the quote first".to_owned()));
    }
    Ok(Addition::New { id, text: out })
}

/// Returns true if two rows are of one run: its day is that of the report.
fn is_same_run(columns: &[String], one: &[String], other: &[String]) -> bool {
    let pairs = one.iter().zip(other).zip(columns);
    one.len() == other.len()
        && pairs.filter(|(_, column)| !matches!(column.as_str(), "date" | "year")).all(|((a, b), _)| a == b)
}

/// Quotes a field as in RFC 4180.
fn quote_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_where_its_columns_are() {
        let cells = BTreeMap::from([("id", "a".to_owned()), ("notes", "x, \"y\"".to_owned())]);
        let text = |table: &str| match append(table, &cells, true) {
            Ok(Addition::New { text, .. }) => text,
            other => panic!("{other:?}"),
        };
        let first = text("");
        assert!(first.starts_with(COLUMNS) && first.contains(",\"x, \"\"y\"\"\","), "{first}");
        assert_eq!(append(&first, &cells, true), Ok(Addition::There));
        assert_eq!(text("notes,id,mine\n1,b,2"), "\n\"x, \"\"y\"\"\",a,\n");
    }

    #[test]
    fn a_report_of_another_day_is_of_the_same_run() {
        let of = |date: &str| {
            BTreeMap::from([("id", "a".to_owned()), ("step_s", "1".to_owned()), ("date", date.to_owned())])
        };
        let table = "id,step_s,date\na,1,2026-11-27\n";
        assert_eq!(append(table, &of("2026-11-28"), true), Ok(Addition::There));
    }

    #[test]
    fn nothing_is_added_inside_an_open_quote() {
        let cells = BTreeMap::from([("id", "a".to_owned()), ("step_s", "1".to_owned())]);
        for table in ["id,step_s\nb,\"2", "id,step_s\nb,\"2\n"] {
            let why = append(table, &cells, true).unwrap_err().to_string();
            assert!(why.contains("inside a quoted field"), "{why}");
        }
    }

    #[test]
    fn another_run_of_one_job_is_numbered() {
        let cells = |seconds: &str| BTreeMap::from([("id", "a".to_owned()), ("step_s", seconds.to_owned())]);
        let mut table = "id,step_s\na,1\n".to_owned();
        for (seconds, name) in [("2", "a-2"), ("3", "a-3")] {
            let Ok(Addition::New { id, text }) = append(&table, &cells(seconds), true) else {
                panic!("{seconds}")
            };
            assert_eq!(id, name);
            table += &text;
        }
        for seconds in ["1", "2", "3"] {
            assert_eq!(append(&table, &cells(seconds), true), Ok(Addition::There));
        }
        // If the service named it, it is the same run, still in progress.
        assert_eq!(append(&table, &cells("4"), false), Ok(Addition::There));
        assert_eq!(table, "id,step_s\na,1\na-2,2\na-3,3\n");
    }

    /// What spreadsheets, other tools and an interrupted write leave behind.
    #[test]
    fn a_row_is_added_to_what_is_there() {
        let cells = BTreeMap::from([("id", "a".to_owned()), ("step_s", "1".to_owned())]);
        let text = |table: &str| match append(table, &cells, false) {
            Ok(Addition::New { text, .. }) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text("\u{feff}\"id\",step_s\r\nb,2\r\n"), "a,1\r\n");
        assert_eq!(text("id,step_s\nb"), "\na,1\n");
        // A line break and a comma in another cell.
        let other = "notes,id,step_s\n\"x,\ny\",a,2\n";
        assert_eq!(append(other, &cells, false), Ok(Addition::There));
        let refused = |table: &str| append(table, &cells, false).unwrap_err().to_string();
        assert!(refused("job \"a\" {\n}\n").contains("no column `id`"));
        assert!(refused("id,notes\n").contains("no column `step_s`"));
    }

    #[test]
    fn the_columns_are_those_of_the_table_that_ships() {
        let table = include_str!("../../data/runs.csv");
        assert_eq!(table.lines().next(), Some(COLUMNS));
    }
}
