//! Reads a module.

use crate::{
    Argument, Assignment, Attribute, Call, Class, ENVIRON_ITEM, Expr, Field, Import, Module, Text, is_environ,
};
use std::ops::ControlFlow;
use tree_sitter::{Node, ParseOptions, ParseState, Parser, TreeCursor};

/// The most bytes of a module. Scripts of the largest public repositories have a quarter of it.
const MAX_BYTES: usize = 512 << 10;
/// The most calls of the parser's progress callback for one text.
const MAX_STEPS: usize = 40_000;
/// The greatest depth of an expression that is read.
const MAX_DEPTH: usize = 24;
/// The greatest depth of the syntax tree that is visited.
const MAX_TREE_DEPTH: usize = 400;

/// Reads a module. A text that is too large, or too much work for the parser, gives an empty module.
pub fn read(text: &str) -> Module {
    let mut out = Module::default();
    if text.len() > MAX_BYTES {
        return out;
    }
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_python::LANGUAGE.into()).is_err() {
        return out;
    }
    let mut steps = 0_usize;
    let mut go_on = |_: &ParseState| {
        steps += 1;
        if steps > MAX_STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let bytes = text.as_bytes();
    let options = ParseOptions::new().progress_callback(&mut go_on);
    let tree =
        parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
    let Some(tree) = tree else { return out };
    out.is_whole = !tree.root_node().has_error();
    let mut reader = Reader { text, out };
    reader.visit_all(&mut tree.walk());
    reader.out
}

struct Reader<'a> {
    text: &'a str,
    out: Module,
}

impl Reader<'_> {
    /// Visits each node in the order of the text, without recursion.
    fn visit_all(&mut self, cursor: &mut TreeCursor<'_>) {
        let mut depth = 0;
        loop {
            let descends = self.visit(cursor.node());
            if descends && depth < MAX_TREE_DEPTH && cursor.goto_first_child() {
                depth += 1;
                continue;
            }
            self.out.is_whole &= depth < MAX_TREE_DEPTH;
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                depth -= 1;
            }
        }
    }

    /// Notes what a node says. Returns whether its children are of interest.
    fn visit(&mut self, node: Node<'_>) -> bool {
        match node.kind() {
            "import_statement" | "import_from_statement" => {
                self.import(node);
                false
            }
            "call" => {
                if let Some(call) = self.call(node, 0) {
                    self.out.calls.push(call);
                }
                true
            }
            "subscript" => {
                self.environ_item(node);
                true
            }
            "class_definition" => {
                self.class(node);
                true
            }
            "assignment" => {
                self.assignment(node);
                true
            }
            "attribute" => {
                self.attribute(node);
                true
            }
            "string" | "concatenated_string" => {
                let is_statement =
                    node.parent().is_some_and(|parent| parent.kind() == "expression_statement");
                let is_part = node.parent().is_some_and(|parent| parent.kind() == "concatenated_string");
                if !is_statement && !is_part {
                    self.out.texts.push(Text { value: self.literal_parts(node), at: node.byte_range() });
                }
                // Expressions in an f-string.
                true
            }
            "comment" => false,
            _ => true,
        }
    }

    fn slice(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn import(&mut self, node: Node<'_>) {
        let at = node.byte_range();
        let is_conditional = is_conditional(node);
        let mut cursor = node.walk();
        let alias = |reader: &Self, node: Node<'_>| -> (String, String) {
            let field = |name| node.child_by_field_name(name).map(|node| reader.slice(node).to_owned());
            match node.kind() {
                "aliased_import" => (field("name").unwrap_or_default(), field("alias").unwrap_or_default()),
                _ => (reader.slice(node).to_owned(), reader.slice(node).to_owned()),
            }
        };
        if node.kind() == "import_statement" {
            let names: Vec<(String, String)> =
                node.children_by_field_name("name", &mut cursor).map(|name| alias(self, name)).collect();
            for (module, given) in names {
                // `import a.b` gives the name `a`, by which `a.b.c` is full already.
                let names = if module == given { Vec::new() } else { vec![(module.clone(), given)] };
                self.out.imports.push(Import { module, level: 0, names, is_conditional, at: at.clone() });
            }
            return;
        }
        let Some(of) = node.child_by_field_name("module_name") else { return };
        let written = self.slice(of);
        let module = written.trim_start_matches('.');
        let level = written.len() - module.len();
        let mut names: Vec<(String, String)> =
            node.children_by_field_name("name", &mut cursor).map(|name| alias(self, name)).collect();
        if names.is_empty() {
            names.push(("*".to_owned(), "*".to_owned()));
        }
        let module = module.trim().to_owned();
        self.out.imports.push(Import { module, level, names, is_conditional, at });
    }

    fn call(&self, node: Node<'_>, depth: usize) -> Option<Call> {
        let name = self.dotted(node.child_by_field_name("function")?).unwrap_or_default();
        let list = node.child_by_field_name("arguments")?;
        let mut call = Call { name, arguments: Vec::new(), is_open: false, at: node.byte_range() };
        if list.kind() != "argument_list" {
            call.is_open = true;
            return Some(call);
        }
        let mut cursor = list.walk();
        for argument in list.named_children(&mut cursor) {
            let at = argument.byte_range();
            match argument.kind() {
                "comment" => {}
                "list_splat" | "dictionary_splat" => call.is_open = true,
                "keyword_argument" => {
                    let Some(name) = argument.child_by_field_name("name") else { continue };
                    let value = argument.child_by_field_name("value");
                    let value = value.map_or(Expr::Other, |value| self.expression(value, depth + 1));
                    call.arguments.push(Argument { keyword: Some(self.slice(name).to_owned()), value, at });
                }
                _ => {
                    let value = self.expression(argument, depth + 1);
                    call.arguments.push(Argument { keyword: None, value, at });
                }
            }
        }
        Some(call)
    }

    /// Notes `os.environ["X"]`, unless it is set.
    fn environ_item(&mut self, node: Node<'_>) {
        let of = node.child_by_field_name("value").and_then(|node| self.dotted(node));
        let is_target = node.parent().is_some_and(|parent| {
            parent.kind() == "assignment" && parent.child_by_field_name("left") == Some(node)
        });
        if !of.is_some_and(|of| is_environ(&of)) || is_target {
            return;
        }
        let Some(key) = node.child_by_field_name("subscript") else { return };
        let argument = Argument { keyword: None, value: self.expression(key, 1), at: key.byte_range() };
        let name = ENVIRON_ITEM.to_owned();
        self.out.calls.push(Call { name, arguments: vec![argument], is_open: false, at: node.byte_range() });
    }

    fn class(&mut self, node: Node<'_>) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let mut bases = Vec::new();
        if let Some(list) = node.child_by_field_name("superclasses") {
            let mut cursor = list.walk();
            let each = list.named_children(&mut cursor).filter(|base| base.kind() != "keyword_argument");
            bases.extend(each.filter_map(|base| self.dotted(base)));
        }
        let mut fields = Vec::new();
        if let Some(body) = node.child_by_field_name("body") {
            let mut cursor = body.walk();
            for statement in body.named_children(&mut cursor) {
                let Some(assignment) = statement.named_child(0).filter(|it| it.kind() == "assignment") else {
                    continue;
                };
                let Some(left) =
                    assignment.child_by_field_name("left").filter(|it| it.kind() == "identifier")
                else {
                    continue;
                };
                let Some(annotation) = assignment.child_by_field_name("type") else { continue };
                let annotation = annotation.named_child(0).map_or(Expr::Other, |it| self.expression(it, 1));
                let default = assignment.child_by_field_name("right").map(|it| self.expression(it, 1));
                let name = self.slice(left).to_owned();
                fields.push(Field { name, annotation, default, at: assignment.byte_range() });
            }
        }
        let at = name.byte_range();
        let name = self.slice(name).to_owned();
        self.out.classes.push(Class { name, bases, fields, at });
    }

    fn assignment(&mut self, node: Node<'_>) {
        let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return;
        };
        let Some(name) = self.dotted(left) else { return };
        let value = self.expression(right, 0);
        self.out.assignments.push(Assignment { name, value, at: node.byte_range() });
    }

    fn attribute(&mut self, node: Node<'_>) {
        let Some(name) = node.child_by_field_name("attribute") else { return };
        let at = node.byte_range();
        self.out.attributes.push(Attribute { name: self.slice(name).to_owned(), at });
    }

    /// Returns a name with its dots; `None` for another expression.
    fn dotted(&self, node: Node<'_>) -> Option<String> {
        let mut parts = Vec::new();
        let mut node = node;
        loop {
            match node.kind() {
                "identifier" | "dotted_name" => {
                    parts.push(self.slice(node));
                    break;
                }
                "attribute" if parts.len() < MAX_DEPTH => {
                    parts.push(self.slice(node.child_by_field_name("attribute")?));
                    node = node.child_by_field_name("object")?;
                }
                _ => return None,
            }
        }
        parts.reverse();
        Some(parts.join("."))
    }

    fn expression(&self, node: Node<'_>, depth: usize) -> Expr {
        if depth > MAX_DEPTH {
            return Expr::Other;
        }
        let children = |node: Node<'_>| -> Vec<Expr> {
            let mut cursor = node.walk();
            let each = node.named_children(&mut cursor).filter(|it| it.kind() != "comment");
            each.map(|it| self.expression(it, depth + 1)).collect()
        };
        match node.kind() {
            "none" => Expr::None,
            "true" => Expr::Bool(true),
            "false" => Expr::Bool(false),
            "integer" => integer(self.slice(node)),
            "float" => float(self.slice(node)),
            "unary_operator" => {
                let is_minus = self.slice(node).starts_with('-');
                let inner = node.child_by_field_name("argument").map(|it| self.expression(it, depth + 1));
                match inner {
                    Some(Expr::Int(number)) if is_minus => Expr::Int(-number),
                    Some(Expr::Float(number)) if is_minus => Expr::Float(-number),
                    _ => Expr::Other,
                }
            }
            "string" | "concatenated_string" => self.string(node).map_or(Expr::Other, Expr::Text),
            "identifier" | "attribute" => self.dotted(node).map_or(Expr::Other, Expr::Name),
            "call" => self.call(node, depth).map_or(Expr::Other, |call| Expr::Call(Box::new(call))),
            "list" | "tuple" | "set" | "expression_list" => Expr::List(children(node)),
            "parenthesized_expression" => {
                node.named_child(0).map_or(Expr::Other, |it| self.expression(it, depth + 1))
            }
            "subscript" => {
                let of = node.child_by_field_name("value");
                let Some(of) = of.map(|it| self.expression(it, depth + 1)) else { return Expr::Other };
                let mut cursor = node.walk();
                let inner = node.children_by_field_name("subscript", &mut cursor);
                Expr::Subscript(Box::new(of), inner.map(|it| self.expression(it, depth + 1)).collect())
            }
            // Annotations have nodes of their own.
            "type" => node.named_child(0).map_or(Expr::Other, |it| self.expression(it, depth + 1)),
            "generic_type" => {
                let mut inner = children(node).into_iter();
                let Some(of) = inner.next() else { return Expr::Other };
                let rest = match inner.next() {
                    Some(Expr::List(rest)) => rest,
                    other => other.into_iter().chain(inner).collect(),
                };
                Expr::Subscript(Box::new(of), rest)
            }
            "type_parameter" => Expr::List(children(node)),
            "binary_operator" | "union_type" => union(children(node)),
            _ => Expr::Other,
        }
    }

    /// Returns the value of a text without placeholders.
    fn string(&self, node: Node<'_>) -> Option<String> {
        let mut out = String::new();
        let strings = if node.kind() == "string" { vec![node] } else { parts(node) };
        for string in strings {
            let is_raw = self.slice(string).split(['"', '\'']).next()?.to_ascii_lowercase().contains('r');
            for part in parts(string) {
                match part.kind() {
                    "string_content" if is_raw => out.push_str(self.slice(part)),
                    "string_content" => out.push_str(&unescape(self.slice(part))?),
                    "interpolation" | "comment" => return None,
                    _ => {}
                }
            }
        }
        Some(out)
    }

    /// Returns the literal parts of a text.
    fn literal_parts(&self, node: Node<'_>) -> String {
        let mut out = String::new();
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            match node.kind() {
                "string_content" => out.push_str(self.slice(node)),
                "string" | "concatenated_string" => {
                    waiting.extend(parts(node).into_iter().rev());
                }
                _ => {}
            }
        }
        out
    }
}

fn parts(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).collect()
}

/// Returns whether a statement may not run, or may fail: it is in a function, a branch or a `try`.
fn is_conditional(node: Node<'_>) -> bool {
    let mut parent = node.parent();
    while let Some(node) = parent {
        match node.kind() {
            "module" | "block" | "with_statement" => {}
            _ => return true,
        }
        parent = node.parent();
    }
    false
}

/// Returns `X | Y` of an annotation as a list of its parts; another operation is not understood.
fn union(parts: Vec<Expr>) -> Expr {
    let is_type = |part: &Expr| matches!(part, Expr::Name(_) | Expr::None | Expr::Subscript(..));
    if parts.len() == 2 && parts.iter().all(is_type) {
        return Expr::Subscript(Box::new(Expr::Name("Union".to_owned())), parts);
    }
    Expr::Other
}

fn integer(text: &str) -> Expr {
    let plain = text.replace('_', "").to_ascii_lowercase();
    let parsed = match plain.get(..2) {
        Some("0x") => i128::from_str_radix(plain.get(2..).unwrap_or_default(), 16).ok(),
        Some("0o") => i128::from_str_radix(plain.get(2..).unwrap_or_default(), 8).ok(),
        Some("0b") => i128::from_str_radix(plain.get(2..).unwrap_or_default(), 2).ok(),
        _ => plain.parse().ok(),
    };
    parsed.map_or(Expr::Other, Expr::Int)
}

fn float(text: &str) -> Expr {
    text.replace('_', "").parse().map_or(Expr::Other, Expr::Float)
}

/// Returns a text with its escapes replaced; `None` if one is not understood.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\n' => {}
            same @ ('\\' | '\'' | '"') => out.push(same),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
