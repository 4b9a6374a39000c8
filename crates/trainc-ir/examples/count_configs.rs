//! Counts the parameters of configs: reads lines of JSON with a `config`, writes each line's count or its problems.
//!
//! `tests/python/sweep_models.py` compares the counts with the classes of transformers.

use std::io::{BufRead as _, Write as _};
use trainc_ir::architecture::{Architecture, parse_hf_config};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case = parse_hf_config(&line?)?;
        let config = case.get("config").unwrap_or(&serde_json::Value::Null);
        let answer = match Architecture::from_hf_config(config) {
            Ok(a) => {
                let class = a.class_of_hf_config(config).unwrap_or_else(|| a.default_class());
                serde_json::json!({
                    "parameters": a.parameters_for_class(class).map(|count| count.total),
                    "class": a.class_name(class),
                    "matrices": a.linear_modules().iter().map(|module| module.path).collect::<Vec<_>>(),
                    "unknown": a.unknown_type,
                })
            }
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                serde_json::json!({ "problems": problems })
            }
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
