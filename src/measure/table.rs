//! A row more in a table of runs.

use std::collections::BTreeMap;

/// The columns of a table of runs, in their order.
const COLUMNS: &str = "id,family,source,year,framework,engine,model,params,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,gpu_mem_gib,gpus_per_node,nodes,intra_bw_gbps,inter_bw_gbps,precision,shard_degree,tp,pp,cp,ep,dp_replicas,zero_stage,micro_batch,global_batch_sequences,grad_accum,recompute,flash,offload,tokens_per_s,samples_per_s,step_s,tflops_per_gpu,mfu,tflops_convention,peak_mem_gib,mem_kind,oom,notes";

/// What to add to a table of that text so that it has the row too: the head first where the table is empty. `None` where
/// a row of that `id` is there already.
pub fn append(table: &str, cells: &BTreeMap<&'static str, String>) -> Option<String> {
    let head = table.lines().next().filter(|line| !line.trim().is_empty());
    let columns: Vec<&str> = head.unwrap_or(COLUMNS).trim_start_matches('\u{feff}').split(',').collect();
    let id = cells.get("id").map(|id| field(id)).unwrap_or_default();
    let at = columns.iter().position(|column| column.trim() == "id");
    // An id is the first of our columns; a table of another order is looked through by its own.
    let there =
        table.lines().skip(1).any(|line| at.and_then(|at| line.split(',').nth(at)) == Some(id.as_str()));
    if there && !id.is_empty() {
        return None;
    }
    let row: Vec<String> = columns
        .iter()
        .map(|column| cells.get(column.trim()).map(|cell| field(cell)).unwrap_or_default())
        .collect();
    let mut out = String::new();
    if head.is_none() {
        out.push_str(COLUMNS);
        out.push('\n');
    } else if !table.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&row.join(","));
    out.push('\n');
    Some(out)
}

/// A field as RFC 4180 writes it.
fn field(text: &str) -> String {
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
        let first = append("", &cells).unwrap();
        assert!(first.starts_with(COLUMNS) && first.ends_with("\"x, \"\"y\"\"\"\n"), "{first}");
        assert_eq!(append(&first, &cells), None);
        assert_eq!(append("notes,id,mine\n1,b,2", &cells).unwrap(), "\n\"x, \"\"y\"\"\",a,\n");
    }

    #[test]
    fn the_columns_are_those_of_the_table_that_ships() {
        let table = include_str!("../../data/runs.csv");
        assert_eq!(table.lines().next(), Some(COLUMNS));
    }
}
