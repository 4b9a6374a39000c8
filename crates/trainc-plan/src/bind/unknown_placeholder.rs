//! Reports placeholders with an unknown path and suggests a path.

use super::{Binder, T0230};
use std::collections::BTreeSet;
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_diag::text;

impl Binder<'_> {
    /// Reports an unknown path, as written and with its hyphens replaced by underscores.
    pub(super) fn unknown_path(&self, written: &str, name: &str, span: Span) -> Diagnostic {
        let at = self.span_of_piece(span, written);
        let diagnostic = Diagnostic::new(&T0230, at, format!("the plan has no value `{written}`"));
        if self.values.entries.contains_key(name) {
            return diagnostic.help(format!("write `{{{{ {name} }}}}`")).fix(at, name);
        }
        let known = self.values.entries.keys().map(String::as_str);
        let (group, last) = name.split_once('.').unwrap_or((name, ""));
        if matches!(group, "memory" | "speed") {
            return diagnostic.note(
                "placeholders cannot use predictions, since these must not change the digest of the job",
            );
        }
        if let Some(near) = self.optimizer_path(name) {
            return diagnostic.help(format!("did you mean `{{{{ {near} }}}}`?")).fix(at, near);
        }
        // `batch.micro_batch` extends `batch.micro` and also resembles another path. With two candidates
        // there is no edit.
        let longer = |path: &&str| {
            path.split_once('.').is_some_and(|(g, n)| {
                let words = |whole: &str, part: &str| {
                    let rest = whole.strip_prefix(part).and_then(|rest| rest.strip_prefix('_'));
                    rest.is_some() || whole.strip_suffix(part).is_some_and(|rest| rest.ends_with('_'))
                };
                g == group && !n.is_empty() && words(last, n)
            })
        };
        let candidates: BTreeSet<String> = known
            .clone()
            .filter(longer)
            .chain(text::nearest(name, known.clone()))
            .map(str::to_owned)
            .collect();
        let shown: Vec<String> = candidates.iter().map(|path| format!("{{{{ {path} }}}}")).collect();
        if !candidates.is_empty() {
            let help = format!("did you mean {}?", text::backtick_list(&shown, "or"));
            return match candidates.first() {
                Some(only) if candidates.len() == 1 => diagnostic.help(help).fix(at, only),
                _ => diagnostic.choose(help, &candidates),
            };
        }
        let same: Vec<&str> = known
            .clone()
            .filter(|path| {
                path.split_once('.')
                    .is_some_and(|(g, n)| (g == group) || (!last.is_empty() && n == last) || n == name)
            })
            .collect();
        if let [only] = same.as_slice() {
            return diagnostic.help(format!("did you mean `{{{{ {only} }}}}`?")).fix(at, *only);
        }
        if same.is_empty() {
            diagnostic.note("groups of values: job, mesh, model, batch, cluster, run, train, checkpoint")
        } else {
            diagnostic.note(format!("valid paths: {}", same.join(", ")))
        }
    }

    /// Returns the short form of a path such as `train.optimizer.lr`: settings of the optimizer are under
    /// `train`.
    fn optimizer_path(&self, name: &str) -> Option<&str> {
        let (group, rest) = name.split_once('.')?;
        let (_, last) = rest.rsplit_once('.')?;
        let path = format!("{group}.{}", last.replace('-', "_"));
        self.values.entries.keys().find(|known| **known == path).map(String::as_str)
    }
}
