//! The table of a node, made by the compiler from the declarations of its values.

#![expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, where an index out of range is an error"
)]

use super::declared::{Declared, Place};
use super::spec::{Arg, NodeSpec, Prop, Ty};

/// Returns whether two texts are equal.
pub(crate) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

/// Returns the number of arguments of the node.
pub(crate) const fn count_args(fields: &[Declared]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < fields.len() {
        count += matches!(fields[at].place, Place::Arg(_)) as usize;
        at += 1;
    }
    count
}

/// Returns the arguments of the node.
pub(crate) const fn args<const N: usize>(fields: &[Declared]) -> [Arg; N] {
    let mut out = [Arg { name: "", ty: Ty::Scalar, required: false, many: false }; N];
    let mut at = 0;
    while at < fields.len() {
        let Declared { name, ty, required, .. } = fields[at];
        if let Place::Arg(position) = fields[at].place {
            out[position] = Arg { name, ty, required, many: false };
        }
        at += 1;
    }
    out
}

/// Returns the number of properties of the node, or of one of its children.
pub(crate) const fn count_props(fields: &[Declared], child: &str) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < fields.len() {
        count += fields[at].is_prop_of(child) as usize;
        at += 1;
    }
    count
}

/// Returns the properties of the node, or of one of its children.
pub(crate) const fn props<const N: usize>(fields: &[Declared], child: &str) -> [Prop; N] {
    let mut out = [Prop { name: "", ty: Ty::Scalar, required: false, doc: "" }; N];
    let (mut count, mut at) = (0, 0);
    while at < fields.len() {
        let Declared { name, ty, required, doc, .. } = fields[at];
        if fields[at].is_prop_of(child) {
            out[count] = Prop { name, ty, required, doc };
            count += 1;
        }
        at += 1;
    }
    out
}

/// Returns the type of properties of any name, if the node takes them.
pub(crate) const fn free_props(fields: &[Declared]) -> Option<Ty> {
    let mut at = 0;
    while at < fields.len() {
        if matches!(fields[at].place, Place::AnyProps) {
            return Some(fields[at].ty);
        }
        at += 1;
    }
    None
}

/// Returns the number of children of the node.
pub(crate) const fn count_children(fields: &[Declared]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < fields.len() {
        count += match fields[at].place {
            Place::Children(tables) => tables.len(),
            _ => fields[at].is_child() as usize,
        };
        at += 1;
    }
    count
}

/// Returns the children of the node; `own` has the table of each field that is a child.
pub(crate) const fn child_tables<const N: usize>(
    fields: &[Declared],
    own: &[&'static NodeSpec],
) -> [&'static NodeSpec; N] {
    static NONE: NodeSpec = NodeSpec::LEAF;
    let mut out = [&NONE; N];
    let (mut count, mut pass) = (0, 0);
    while pass < 2 {
        let mut at = 0;
        while at < fields.len() {
            let tables = match fields[at].place {
                Place::Children(tables) => tables,
                _ if fields[at].is_child() => own.split_at(at).1.split_at(1).0,
                _ => &[],
            };
            let mut inner = 0;
            while inner < tables.len() && fields[at].is_last as usize == pass {
                out[count] = tables[inner];
                (count, inner) = (count + 1, inner + 1);
            }
            at += 1;
        }
        pass += 1;
    }
    out
}
