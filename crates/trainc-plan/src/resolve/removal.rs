//! Takes away what `#null` names, once all layers are merged.

use trainc_diag::source::Spanned;
use trainc_syntax::ast::{Node, Value};

/// Removes each `#null` in a node, with the node whose only value it is, and keeps its place. The members of
/// `request` and the values of a `vary` are values also where they are `#null`.
pub(super) fn take_away(node: &mut Node) {
    let Some(spec) = node.spec else { return };
    let removed = &mut node.removed;
    node.children.retain_mut(|child| {
        let place = child.removal();
        match place {
            Some(at) => removed.push(Spanned::new(child.name.value.clone(), at)),
            None => take_away(child),
        }
        place.is_none()
    });
    node.props.retain(|(key, value)| {
        if value.value == Value::Null {
            removed.push(Spanned::new(key.value.clone(), value.span));
        }
        value.value != Value::Null
    });
    let is_taken = |(at, arg): &(usize, &Spanned<Value>)| {
        arg.value == Value::Null && spec.arg(*at).is_some_and(|known| !known.many)
    };
    if let Some((at, arg)) = node.args.iter().enumerate().find(is_taken) {
        removed.extend(spec.arg(at).map(|known| Spanned::new(known.name.to_owned(), arg.span)));
        node.args.truncate(at);
    }
}

/// Returns the places of all values and nodes that were taken away, by their paths.
pub(super) fn places(job: &Node) -> Vec<Spanned<String>> {
    fn collect(node: &Node, path: &str, out: &mut Vec<Spanned<String>>) {
        out.extend(node.removed.iter().map(|one| Spanned::new(format!("{path}{}", one.value), one.span)));
        for child in node.children.iter().filter(|child| child.spec.is_some()) {
            collect(child, &format!("{path}{}.", child.name.value), out);
        }
    }
    let mut out = Vec::new();
    collect(job, "", &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::{merge_nodes, set_flag};
    use trainc_diag::Problems;
    use trainc_diag::source::SourceMap;
    use trainc_ir::Override;

    /// A merged job, what its layers changed, and the texts of the layers.
    struct Merge {
        job: Node,
        overrides: Vec<Override>,
        sources: SourceMap,
    }

    /// Merges the nodes of files, and then values as `--set` writes them.
    fn merge(layers: &[&str], sets: &[&str]) -> Merge {
        let (mut sources, mut problems) = (SourceMap::default(), Problems::default());
        let mut overrides = Vec::new();
        let mut read = |text: &str| {
            let source = sources.add("layer.kdl", text);
            trainc_syntax::parse(source, text, &mut problems).unwrap().job.unwrap()
        };
        let mut job = read("job \"x\" {}\n");
        for layer in layers {
            let layer = read(&format!("job \"x\" {{\n{layer}\n}}\n"));
            merge_nodes(&mut job.children, layer.children, "", &mut overrides);
        }
        for set in sets {
            let nodes =
                set_flag::parse_set_flag(set, None, &job.children, &mut sources, &mut problems).unwrap();
            merge_nodes(&mut job.children, nodes, "", &mut overrides);
        }
        let problems: Vec<String> = problems.iter().map(|one| one.message.clone()).collect();
        assert!(problems.is_empty(), "{problems:?}");
        take_away(&mut job);
        Merge { job, overrides, sources }
    }

    /// Returns what is left, each node with its arguments, properties and children.
    fn shown(node: &Node) -> String {
        let value = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Int(n) => n.to_string(),
            other => format!("{other:?}"),
        };
        let mut out = node.name.value.clone();
        for arg in &node.args {
            out += &format!(" {}", value(&arg.value));
        }
        for (key, written) in &node.props {
            out += &format!(" {}={}", key.value, value(&written.value));
        }
        if !node.children.is_empty() {
            let children: Vec<String> = node.children.iter().map(shown).collect();
            out += &format!(" {{ {} }}", children.join("; "));
        }
        out
    }

    #[track_caller]
    fn check(layers: &[&str], sets: &[&str], expected: &str) {
        let merged = merge(layers, sets);
        let left: Vec<String> = merged.job.children.iter().map(shown).collect();
        assert_eq!(left.join("; "), expected, "{layers:?} {sets:?}");
    }

    #[test]
    fn null_takes_away_what_an_earlier_layer_set() {
        let base = "cluster \"ml.p4d.24xlarge\" nodes=2 { spot max-wait=\"2d\"; max-run \"1d\"; }\n\
            budget usd=10 hard=#true\ntrain { seed 7; steps 10; }\n\
            program \"a.py\" { hyperparameter \"x\" 1; hyperparameter \"y\" 2; environment A=1 B=2; }";
        let cluster = "cluster ml.p4d.24xlarge nodes=2 { spot max-wait=Milliseconds(172800000); max-run \
            Milliseconds(86400000) }";
        let rest = "budget usd=10 hard=Bool(true); train { seed 7; steps 10 }";
        let program = "program a.py { hyperparameter x 1; hyperparameter y 2; environment A=1 B=2 }";
        check(&[base], &[], &format!("{cluster}; {rest}; {program}"));
        check(
            &[base, "cluster { spot #null; max-run #null; }\nbudget #null\nprogram #null"],
            &[],
            "cluster ml.p4d.24xlarge nodes=2; train { seed 7; steps 10 }",
        );
        check(
            &[base, "cluster nodes=#null\nprogram { hyperparameter \"x\" #null; environment B=#null; }"],
            &["train.seed=#null", "cluster.spot=#null", "budget.hard=#null"],
            "cluster ml.p4d.24xlarge { max-run Milliseconds(86400000) }; budget usd=10; train { steps 10 }; \
                program a.py { hyperparameter y 2; environment A=1 }",
        );
        check(
            &[
                base,
                "cluster #null\nbudget #null\ntrain #null\n\
                    program { hyperparameter #null; environment #null; }",
            ],
            &[],
            "program a.py",
        );
        check(
            &[base],
            &[
                "cluster=#null",
                "budget=#null",
                "train=#null",
                "program.hyperparameter.x=#null",
                "program.environment.A=#null",
            ],
            "program a.py { hyperparameter y 2; environment B=2 }",
        );
    }

    #[test]
    fn an_argument_goes_alone_where_the_layer_writes_more_of_the_node() {
        let base = "cluster \"ml.p4d.24xlarge\" nodes=2";
        let groups = "cluster #null nodes=#null { group \"a\" instance=\"ml.g5.xlarge\" nodes=1; }";
        check(&[base, groups], &[], "cluster { group a instance=ml.g5.xlarge nodes=1 }");
    }

    #[test]
    fn named_nodes_go_by_their_name_or_together() {
        let base = "channel \"train\" s3=\"s3://b/t/\"\nchannel \"test\" s3=\"s3://b/v/\"\n\
            storage \"lustre\" name=\"a\" id=\"fs-1\"\nstorage \"lustre\" name=\"b\" id=\"fs-2\"\n\
            role create=#true { read \"s3://b/1/\"; read \"s3://b/2/\"; }";
        check(
            &[base, "channel \"train\" #null\nstorage name=\"a\" #null\nrole { read \"s3://b/1/\" #null; }"],
            &[],
            "channel test s3=s3://b/v/; storage lustre name=b id=fs-2; \
                role create=Bool(true) { read s3://b/2/ }",
        );
        check(
            &[
                base,
                "channel #null\nchannel \"new\" s3=\"s3://b/n/\"\nstorage #null\n\
                    role { read \"s3://b/3/\"; read #null; }",
            ],
            &[],
            "role create=Bool(true) { read s3://b/3/ }; channel new s3=s3://b/n/",
        );
        check(
            &[base],
            &["channel.train=#null", "storage.b=#null", "role.read=#null"],
            "channel test s3=s3://b/v/; storage lustre name=a id=fs-1; role create=Bool(true)",
        );
    }

    #[test]
    fn later_layers_set_it_again() {
        check(&["train { seed 7; }", "train { seed #null; }", "train { seed 8; }"], &[], "train { seed 8 }");
        check(&["budget usd=1 hard=#true", "budget #null"], &["budget.usd=2"], "budget usd=2");
    }

    #[test]
    fn nothing_is_taken_where_nothing_was_set() {
        check(
            &["train { steps 10; }", "train { seed #null; }\nbudget #null\nbucket \"b\" #null"],
            &[],
            "train { steps 10 }",
        );
        let alone = merge(&["region #null\ntrain { seed #null; steps 1; }"], &[]);
        assert!(alone.overrides.is_empty());
        let places: Vec<String> = places(&alone.job).into_iter().map(|one| one.value).collect();
        assert_eq!(places, ["region", "train.seed"]);
    }

    #[test]
    fn null_does_not_choose_one_of_two_that_exclude_each_other() {
        check(&["train { tokens 9; }", "train { steps #null; }"], &[], "train { tokens 9 }");
        check(&["train { tokens 9; }", "train { tokens #null; steps 5; }"], &[], "train { steps 5 }");
    }

    #[test]
    fn null_is_a_value_in_request_and_in_a_sweep() {
        check(
            &["request { ProfilerConfig #null; }\nsweep { vary \"train.seed\" 1 #null; }"],
            &[],
            "request { ProfilerConfig Null }; sweep { vary train.seed 1 Null }",
        );
        check(&["sweep { vary \"train.seed\" 1 2; }", "sweep { vary \"train.seed\" #null; }"], &[], "sweep");
    }

    /// Returns what changed, each as `path: earlier text by later text`; a minus marks what was taken away.
    fn changes(merged: &Merge) -> Vec<String> {
        let text = |span| merged.sources.slice(span);
        let shown = |one: &Override| {
            let mark = if one.is_removed { "-" } else { "" };
            let by = one.replaced_by.clone().map_or_else(String::new, |by| format!("{by} "));
            format!("{mark}{}: {} by {by}{}", one.path, text(one.from), text(one.by))
        };
        merged.overrides.iter().map(shown).collect()
    }

    #[test]
    fn removals_are_recorded_with_both_places() {
        let merged = merge(
            &[
                "cluster \"ml.p4d.24xlarge\" { spot max-wait=\"2d\"; }\n\
                    train { seed 7; }\nchannel \"t\" s3=\"s3://b/\"",
                "cluster { spot #null; }\nchannel #null",
            ],
            &["train.seed=#null"],
        );
        assert_eq!(
            changes(&merged),
            ["-channel.t: channel by #null", "-cluster.spot: spot by #null", "-train.seed: 7 by #null"]
        );
    }

    #[test]
    fn another_engine_drops_what_it_does_not_support() {
        let base = "parallel engine=\"fsdp\" { strategy \"full-shard\"; wrap \"Block\"; shard-degree 8; \
            prefetch \"none\"; }";
        let merged = merge(&[base, "parallel engine=\"ddp\""], &[]);
        assert_eq!(shown(&merged.job.children[0]), "parallel engine=ddp");
        assert_eq!(
            changes(&merged),
            [
                "-parallel.strategy: \"full-shard\" by parallel.engine \"ddp\"",
                "-parallel.wrap: \"Block\" by parallel.engine \"ddp\"",
                "-parallel.shard-degree: 8 by parallel.engine \"ddp\"",
                "-parallel.prefetch: \"none\" by parallel.engine \"ddp\"",
                "parallel.engine: \"fsdp\" by \"ddp\"",
            ]
        );
        // What both support stays, unless it is a word of the earlier engine.
        check(&[base, "parallel engine=\"worker\""], &[], "parallel engine=worker { shard-degree 8 }");
        check(&[base], &["parallel.engine=deepspeed"], "parallel engine=deepspeed { shard-degree 8 }");
        check(
            &[base, "parallel engine=\"accelerate\" { strategy \"zero-3\"; }"],
            &[],
            "parallel engine=accelerate { strategy zero-3; wrap Block; shard-degree 8 }",
        );
        check(
            &["parallel engine=\"accelerate\" file=\"a.yaml\"", "parallel engine=\"deepspeed\""],
            &[],
            "parallel engine=deepspeed",
        );
        check(
            &[
                "parallel engine=\"ddp\" launcher=\"mpi\" { mpi-env A=1; processes 8; }",
                "parallel engine=\"smp\"",
            ],
            &[],
            "parallel engine=smp { mpi-env A=1; processes 8 }",
        );
    }

    /// What the earlier engine does not support either is a mistake of its own, and so is what the later
    /// layer writes; an engine that does not exist drops nothing.
    #[test]
    fn mistakes_are_not_dropped() {
        for (base, later, expected) in [
            (
                "parallel engine=\"fsdp\" { tensor-degree 8; }",
                "parallel engine=\"ddp\"",
                "parallel engine=ddp { tensor-degree 8 }",
            ),
            ("parallel { wrap \"B\"; }", "parallel engine=\"ddp\"", "parallel engine=ddp { wrap B }"),
            (
                "parallel engine=\"fsdp\"",
                "parallel engine=\"ddp\" { wrap \"B\"; }",
                "parallel engine=ddp { wrap B }",
            ),
            (
                "parallel engine=\"fsdp\" { wrap \"B\"; }",
                "parallel engine=\"dpp\"",
                "parallel engine=dpp { wrap B }",
            ),
            (
                "parallel engine=\"fsdp\" { wrap \"B\"; }",
                "parallel engine=\"fsdp\"",
                "parallel engine=fsdp { wrap B }",
            ),
        ] {
            check(&[base, later], &[], expected);
        }
    }
}
