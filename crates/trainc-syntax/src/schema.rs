//! The language as a document: every node with its values, rendered from the tables that the readers use.
//!
//! In: nothing but the tables. Out: text that is itself KDL, `schemas/manifest.v1.kdl`, for `trainc schema
//! manifest`, editors and people. A test holds the file equal to it.

use super::literal::quoted;
use super::nodes::{ALLOW, ENGINE_NAMES, ENV, EXTENDS, JOB, engines_of};
use super::spec::{NodeSpec, Repeat, Ty};
use std::fmt::Write as _;

const HEAD: &str = "\
// The manifest language of trainc, node by node. Rendered from the compiler's own tables; do not edit.
//
//   node \"x\" { … }           a node that may stand here, once unless `repeat` says otherwise
//   argument, property        its values: name, type, and `required=#true` if all layers together must give it
//   any-property, any-child   values of any name
//   only                      the engines that take it
//   repeat \"by first\"         many may stand here, told apart by the first argument; \"by name\": by the property
//
// Types: text and plain, which are strings; whole LOW..HIGH and number LOW..HIGH (bounds included); bool; size as
// \"500GiB\"; duration as \"5d\"; rate as \"600GB/s\"; steps as \"200 steps\"; fraction as 0.01; any: a string, a
// number, a bool or #null. Placeholders, as \"{{ batch.micro }}\", are taken by `text` and `any`, not by `plain`.
version 1
";

/// The whole language.
pub fn render() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("\n// At the top of a manifest: one job, layers under it, and layers over it by --env.\n");
    out.push_str("// A file without a job is a layer: it takes the children of job at its top.\n");
    node(&mut out, &EXTENDS, 0);
    node(&mut out, &JOB, 0);
    let _ = writeln!(out, "node \"env\" {{");
    line(&mut out, 1, "doc", &[ENV.doc]);
    values(&mut out, &ENV, 1);
    line(&mut out, 1, "repeat", &["by first"]);
    line(&mut out, 1, "children-of", &["job"]);
    out.push_str("}\n\n// In every node.\n");
    node(&mut out, &ALLOW, 0);
    out
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("    ");
    }
}

/// A node of texts.
fn line(out: &mut String, depth: usize, name: &str, texts: &[&str]) {
    indent(out, depth);
    out.push_str(name);
    for text in texts {
        out.push(' ');
        out.push_str(&quoted(text));
    }
    out.push('\n');
}

fn node(out: &mut String, spec: &NodeSpec, depth: usize) {
    indent(out, depth);
    let _ = writeln!(out, "node {} {{", quoted(spec.name));
    line(out, depth + 1, "doc", &[spec.doc]);
    if let Some(engines) = engines_of(spec) {
        line(out, depth + 1, "only", engines);
    }
    values(out, spec, depth + 1);
    match spec.repeat {
        Repeat::Once => {}
        Repeat::ByFirst => line(out, depth + 1, "repeat", &["by first"]),
        Repeat::ByName => line(out, depth + 1, "repeat", &["by name"]),
        Repeat::Many => line(out, depth + 1, "repeat", &["many"]),
    }
    if spec.free_children {
        line(out, depth + 1, "any-child", &[]);
    }
    for child in spec.children {
        node(out, child, depth + 1);
    }
    indent(out, depth);
    out.push_str("}\n");
}

fn values(out: &mut String, spec: &NodeSpec, depth: usize) {
    for arg in spec.args {
        value(out, depth, "argument", arg.name, arg.ty, arg.required);
        if arg.many {
            out.push_str(" many=#true");
        }
        out.push('\n');
    }
    for prop in spec.props {
        value(out, depth, "property", prop.name, property_type(spec, prop.name, prop.ty), prop.required);
        let _ = writeln!(out, " doc={}", quoted(prop.doc));
    }
    if let Some(ty) = spec.free_props {
        line(out, depth, "any-property", &[&ty.word()]);
    }
}

/// The engine's name is read as a text, so that a name from another tool can be answered; here it is a word.
pub(super) fn property_type(spec: &NodeSpec, prop: &str, ty: Ty) -> Ty {
    if spec.name == "parallel" && prop == "engine" { Ty::Word(ENGINE_NAMES) } else { ty }
}

fn value(out: &mut String, depth: usize, kind: &str, name: &str, ty: Ty, required: bool) {
    indent(out, depth);
    let _ = write!(out, "{kind} {} {}", quoted(name), quoted(&ty.word()));
    if required {
        out.push_str(" required=#true");
    }
}
