//! Appending a row to a table of runs.

use std::collections::BTreeMap;

/// Columns of a table of runs.
const COLUMNS: &str = "id,family,source,year,framework,engine,model,params,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,gpu_mem_gib,gpus_per_node,nodes,intra_bw_gbps,inter_bw_gbps,precision,shard_degree,tp,pp,cp,ep,dp_replicas,zero_stage,micro_batch,global_batch_sequences,grad_accum,recompute,flash,offload,tokens_per_s,samples_per_s,step_s,tflops_per_gpu,mfu,tflops_convention,peak_mem_gib,mem_kind,oom,notes,code,model_id,virtual_stages,compiled,fp8_recipe,gated,experts,experts_per_token,lora_rank,grad_dtype,attention,loss,async_tp,moe_kernel,state_dtype,software,fabric,weight_dtype";

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

/// Returns the text to append to a table for a row. If ids are job names (`again`), a different row with the
/// same `id` is another run and gets a number; if the service names the runs, it is the same run.
pub fn append(table: &str, cells: &BTreeMap<&'static str, String>, again: bool) -> Addition {
    let head = table.lines().next().filter(|line| !line.trim().is_empty());
    let columns: Vec<&str> = head.unwrap_or(COLUMNS).trim_start_matches('\u{feff}').split(',').collect();
    let first = cells.get("id").cloned().unwrap_or_default();
    let at = columns.iter().position(|column| column.trim() == "id");
    // `id` is our first column; other tables have their own order.
    let of = |id: &str| {
        let id = quote_field(id);
        let same = move |line: &&str| at.and_then(|at| line.split(',').nth(at)) == Some(id.as_str());
        table.lines().skip(1).filter(same).map(str::trim_end).collect::<Vec<_>>()
    };
    let row = |id: &str| {
        let cell = |column: &&str| match column.trim() {
            "id" => quote_field(id),
            column => cells.get(column).map(|cell| quote_field(cell)).unwrap_or_default(),
        };
        columns.iter().map(cell).collect::<Vec<_>>().join(",")
    };
    let mut id = first.clone();
    for number in 2_u64.. {
        let there = of(&id);
        if there.is_empty() || first.is_empty() {
            break;
        }
        if !again || there.contains(&row(&id).as_str()) {
            return Addition::There;
        }
        id = format!("{first}-{number}");
    }
    let mut out = String::new();
    if head.is_none() {
        out.push_str(COLUMNS);
        out.push('\n');
    } else if !table.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&row(&id));
    out.push('\n');
    Addition::New { id, text: out }
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
            Addition::New { text, .. } => text,
            Addition::There => panic!("there"),
        };
        let first = text("");
        assert!(first.starts_with(COLUMNS) && first.contains(",\"x, \"\"y\"\"\","), "{first}");
        assert_eq!(append(&first, &cells, true), Addition::There);
        assert_eq!(text("notes,id,mine\n1,b,2"), "\n\"x, \"\"y\"\"\",a,\n");
    }

    #[test]
    fn another_run_of_one_job_is_numbered() {
        let cells = |seconds: &str| BTreeMap::from([("id", "a".to_owned()), ("step_s", seconds.to_owned())]);
        let mut table = "id,step_s\na,1\n".to_owned();
        for (seconds, name) in [("2", "a-2"), ("3", "a-3")] {
            let Addition::New { id, text } = append(&table, &cells(seconds), true) else {
                panic!("{seconds}")
            };
            assert_eq!(id, name);
            table += &text;
        }
        for seconds in ["1", "2", "3"] {
            assert_eq!(append(&table, &cells(seconds), true), Addition::There);
        }
        // If the service named it, it is the same run, still in progress.
        assert_eq!(append(&table, &cells("4"), false), Addition::There);
        assert_eq!(table, "id,step_s\na,1\na-2,2\na-3,3\n");
    }

    #[test]
    fn the_columns_are_those_of_the_table_that_ships() {
        let table = include_str!("../../data/runs.csv");
        assert_eq!(table.lines().next(), Some(COLUMNS));
    }
}
