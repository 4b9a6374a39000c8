//! Renders the tables of the language as a KDL document, `schemas/manifest.v1.kdl`, for `trainc schema manifest`, editors
//! and readers. A test checks that the file is up to date.

use super::literal::quoted;
use super::nodes::{ALLOW, ENGINE_NAMES, ENV, EXTENDS, JOB, REQUIRES, engines_of};
use super::spec::{NodeSpec, Repeat, Ty};
use std::fmt::Write as _;

const HEAD: &str = "\
// The manifest language of trainc, node by node. Generated from the compiler's tables; do not edit.
//
//   node \"x\" { … }           a node that is valid here, once unless it has `repeat`
//   argument, property        its values: name, type, and `required=#true` if some layer must set it
//   any-property, any-child   values of any name
//   only                      the engines that support it
//   repeat \"by first\"         may be repeated, distinguished by the first argument; \"by name\": by the property `name`
//
// Types: text and plain (strings); whole LOW..HIGH and number LOW..HIGH (bounds included); bool; size such as
// \"500GiB\"; duration such as \"5d\"; rate such as \"600GB/s\"; steps such as \"200 steps\"; fraction such as 0.01;
// any: a string, a number or a bool. `text` and `any` support placeholders such as \"{{ batch.micro }}\";
// `plain` does not. #null in place of a value or of a whole node, as in `seed #null` and `spot #null`, takes
// away what an earlier layer set; in `request` it is a value.
version 1
";

/// Renders the whole language.
pub fn render() -> String {
    let mut out = HEAD.to_owned();
    out.push_str(
        "\n// At the top level of a manifest: the versions of trainc that it is for, one job, the layers that\n\
         // it extends, and the layers that --env applies.\n",
    );
    out.push_str("// A file without a job is a layer: it takes the children of job at its top level.\n");
    node(&mut out, &REQUIRES, 0);
    node(&mut out, &EXTENDS, 0);
    node(&mut out, &JOB, 0);
    let _ = writeln!(out, "node \"env\" {{");
    line(&mut out, 1, "doc", &[ENV.doc]);
    values(&mut out, &ENV, 1);
    line(&mut out, 1, "repeat", &["by first"]);
    line(&mut out, 1, "children-of", &["job"]);
    out.push_str("}\n\n// Valid in every node.\n");
    node(&mut out, &ALLOW, 0);
    out
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("    ");
    }
}

/// Writes a node with string arguments.
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
        line(out, depth, "any-property", &[&ty.schema_name()]);
    }
}

/// Returns the type of a property in the schema. The engine is parsed as a string, so that names from other tools get a
/// help; here it is a list of words.
pub(super) fn property_type(spec: &NodeSpec, prop: &str, ty: Ty) -> Ty {
    if spec.name == "parallel" && prop == "engine" { Ty::Word(ENGINE_NAMES) } else { ty }
}

fn value(out: &mut String, depth: usize, kind: &str, name: &str, ty: Ty, required: bool) {
    indent(out, depth);
    let _ = write!(out, "{kind} {} {}", quoted(name), quoted(&ty.schema_name()));
    if required {
        out.push_str(" required=#true");
    }
}
