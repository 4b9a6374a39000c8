//! Placeholders of no value: which value is meant.

use super::{Binder, T0230};
use std::collections::BTreeSet;
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_diag::text;

impl Binder<'_> {
    pub(super) fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        self.unknown_as(name, name, span)
    }

    /// That the plan has no such value: as it is written, and as its words would be written.
    pub(super) fn unknown_as(&self, written: &str, name: &str, span: Span) -> Diagnostic {
        let at = self.inside(span, written);
        let diagnostic = Diagnostic::new(&T0230, at, format!("the plan has no value `{written}`"));
        if self.table.entries.contains_key(name) {
            return diagnostic.help(format!("write `{{{{ {name} }}}}`")).fix(at, name);
        }
        let known = self.table.entries.keys().map(String::as_str);
        let (group, last) = name.split_once('.').unwrap_or((name, ""));
        if matches!(group, "memory" | "speed") {
            return diagnostic
                .note("predicted figures are not available to the job: they must not reach its digest");
        }
        if let Some(near) = self.of_part(name) {
            return diagnostic.help(format!("did you mean `{{{{ {near} }}}}`?")).fix(at, near);
        }
        // `batch.micro_batch` is `batch.micro` in more words, and a slip away from another value: which of two is meant
        // nobody knows, so that nothing is edited.
        let longer = |path: &&str| {
            path.split_once('.').is_some_and(|(g, n)| {
                let words = |whole: &str, part: &str| {
                    let rest = whole.strip_prefix(part).and_then(|rest| rest.strip_prefix('_'));
                    rest.is_some() || whole.strip_suffix(part).is_some_and(|rest| rest.ends_with('_'))
                };
                g == group && !n.is_empty() && words(last, n)
            })
        };
        let meant: BTreeSet<&str> =
            known.clone().filter(longer).chain(text::nearest(name, known.clone())).collect();
        let shown: Vec<String> = meant.iter().map(|path| format!("{{{{ {path} }}}}")).collect();
        if !meant.is_empty() {
            let diagnostic = diagnostic.help(format!("did you mean {}?", text::ticked(&shown, "or")));
            return match meant.first() {
                Some(only) if meant.len() == 1 => diagnostic.fix(at, *only),
                _ => diagnostic,
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
            diagnostic.note(format!("known: {}", same.join(", ")))
        }
    }

    /// The value that a longer path means: what the optimizer has stands under `train` by its own name.
    fn of_part(&self, name: &str) -> Option<&str> {
        let (group, rest) = name.split_once('.')?;
        let (_, last) = rest.rsplit_once('.')?;
        let path = format!("{group}.{}", last.replace('-', "_"));
        self.table.entries.keys().find(|known| **known == path).map(String::as_str)
    }
}
