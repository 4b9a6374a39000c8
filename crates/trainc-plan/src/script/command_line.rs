//! The command line that a program parses, with argparse, `HfArgumentParser` or `TrlParser`.

use trainc_catalog::argument_classes::{self, ArgumentField, ArgumentKind};
use trainc_ir::script::literal;
use trainc_ir::{
    CommandLine, CommandOption, OptionDefault, ParserKind, ProgramVersion, Scalar, Script, ScriptModule,
    Takes, version_of,
};
use trainc_python::{Argument, Call, Class, Expr, Field, Import};

/// The deepest inheritance of classes that is followed.
const MAX_BASES: usize = 16;

/// Returns the command line of a program; `None` if it has no parser that is understood.
pub(super) fn read(script: &Script, programs: &[ProgramVersion]) -> Option<CommandLine> {
    let mut reader = Reader { script, programs, out: CommandLine::default(), finds_parser: false };
    reader.out.is_complete = script.is_whole;
    reader.out.rejects_unknown = true;
    reader.out.abbreviates = true;
    for module in &script.modules {
        for call in &module.module.calls {
            reader.call(module, call);
        }
    }
    reader.finds_parser.then_some(reader.out)
}

struct Reader<'a> {
    script: &'a Script,
    programs: &'a [ProgramVersion],
    out: CommandLine,
    finds_parser: bool,
}

impl Reader<'_> {
    fn call(&mut self, module: &ScriptModule, call: &Call) {
        match call.function() {
            "add_argument" => self.argument(module, call),
            "ArgumentParser" => {
                self.finds_parser = true;
                self.out.is_complete &= !call.is_open;
                let is_set = |name: &str| call.keyword(name).is_some();
                self.out.is_complete &=
                    !["parents", "fromfile_prefix_chars", "prefix_chars"].into_iter().any(is_set);
                self.out.abbreviates &= !is_set("allow_abbrev");
            }
            "parse_known_args" | "parse_known_intermixed_args" => self.out.rejects_unknown = false,
            // Options of subcommands, and those that a library adds.
            "add_subparsers" | "add_arguments" | "add_argparse_args" | "add_config_arguments" => {
                self.out.is_complete = false;
            }
            "set_defaults" => self.defaults(call),
            "HfArgumentParser" => self.dataclasses(module, call, ParserKind::Dataclasses),
            "TrlParser" => self.dataclasses(module, call, ParserKind::DataclassesAndFile),
            "parse_args_into_dataclasses" | "parse_args_and_config" => {
                let returns = |one: &Argument| one.value != Expr::Bool(false);
                if call.keyword("return_remaining_strings").is_some_and(returns) {
                    self.out.rejects_unknown = false;
                }
            }
            // A list of its own, not the command line.
            "parse_args"
                if call.positional().next().is_some_and(|one| matches!(one.value, Expr::List(_))) =>
            {
                self.out.is_complete = false;
            }
            _ => {}
        }
    }

    /// Reads an option of argparse.
    fn argument(&mut self, module: &ScriptModule, call: &Call) {
        self.finds_parser = true;
        let mut names = Vec::new();
        for one in call.positional() {
            match &one.value {
                Expr::Text(name) => names.push(name.clone()),
                _ => self.out.is_complete = false,
            }
        }
        self.out.is_complete &= !(call.is_open && names.is_empty());
        let names: Vec<String> = names
            .iter()
            .filter_map(|name| name.strip_prefix("--").or(name.strip_prefix('-')))
            .map(str::to_owned)
            .collect();
        let Some(longest) = names.iter().max_by_key(|name| name.len()) else { return };
        let text = |name: &str| match call.keyword(name).map(|one| &one.value) {
            Some(Expr::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let long = names.iter().find(|name| name.chars().count() > 1).unwrap_or(longest);
        let attribute = text("dest").map_or_else(|| long.replace('-', "_"), str::to_owned);
        let action = call.keyword("action").map(|one| &one.value);
        let takes = match action {
            Some(Expr::Text(action)) => match action.as_str() {
                "store_true" | "store_false" | "store_const" | "append_const" | "count" | "help"
                | "version" => Takes::Nothing,
                "append" | "extend" => Takes::Several,
                _ => value_of(call),
            },
            Some(Expr::Name(name)) if name.ends_with("BooleanOptionalAction") => Takes::Nothing,
            Some(_) => Takes::Unknown,
            None => value_of(call),
        };
        let implied = match action {
            Some(Expr::Text(action)) if action == "store_true" => Some(Scalar::Bool(false)),
            Some(Expr::Text(action)) if action == "store_false" => Some(Scalar::Bool(true)),
            _ => None,
        };
        let default = match call.keyword("default").map(|one| &one.value) {
            _ if call.is_open => OptionDefault::Unknown,
            None => implied.map_or(OptionDefault::None, OptionDefault::Value),
            Some(Expr::None) => OptionDefault::None,
            Some(other) => literal(other).map_or(OptionDefault::Unknown, OptionDefault::Value),
        };
        let choices = match call.keyword("choices").map(|one| &one.value) {
            Some(Expr::List(all)) => all.iter().map(literal).collect::<Option<Vec<_>>>().unwrap_or_default(),
            _ => Vec::new(),
        };
        let is_required = call.keyword("required").is_some_and(|one| one.value == Expr::Bool(true));
        self.out.options.push(CommandOption {
            names,
            attribute,
            takes,
            default,
            is_required,
            choices,
            span: Some(module.span(&call.at)),
            class: None,
        });
    }

    /// Applies `parser.set_defaults(name=value)`.
    fn defaults(&mut self, call: &Call) {
        for one in &call.arguments {
            let Some(name) = &one.keyword else { continue };
            for option in self.out.options.iter_mut().filter(|option| &option.attribute == name) {
                option.default = match &one.value {
                    Expr::None => OptionDefault::None,
                    value => literal(value).map_or(OptionDefault::Unknown, OptionDefault::Value),
                };
                option.is_required = false;
            }
        }
    }

    /// Reads the options of a parser of dataclasses.
    fn dataclasses(&mut self, module: &ScriptModule, call: &Call, kind: ParserKind) {
        self.finds_parser = true;
        self.out.parser = kind;
        // Both parsers are argparse's, with unknown options as an error.
        let given = call.positional().next().or(call.keyword("dataclass_types")).map(|one| &one.value);
        // A tuple that was given a name.
        let assigned = match given {
            Some(Expr::Name(name)) => {
                let mut all = module.module.assignments.iter();
                all.find(|one| &one.name == name && matches!(one.value, Expr::List(_))).map(|one| &one.value)
            }
            _ => None,
        };
        let classes: Vec<&Expr> = match assigned.or(given) {
            Some(Expr::List(all)) => all.iter().collect(),
            Some(one) => vec![one],
            None => Vec::new(),
        };
        self.out.is_complete &= !classes.is_empty() && !call.is_open;
        for class in classes {
            match class {
                Expr::Name(name) => self.class(module, name, 0),
                _ => self.out.is_complete = false,
            }
        }
        if kind == ParserKind::DataclassesAndFile {
            self.out.options.push(CommandOption {
                names: vec!["config".to_owned()],
                attribute: "config".to_owned(),
                takes: Takes::Text,
                default: OptionDefault::None,
                is_required: false,
                choices: Vec::new(),
                span: Some(module.span(&call.at)),
                class: None,
            });
        }
    }

    /// Adds the fields of a class, those of its bases first.
    fn class(&mut self, module: &ScriptModule, name: &str, depth: usize) {
        let local = self.local_class(module, name);
        let Some((home, class)) = local.filter(|_| depth < MAX_BASES) else {
            let full = module.module.full_name(name);
            let published = full.rsplit('.').next().unwrap_or(name).to_owned();
            if published == "object" || published == "ABC" {
                return;
            }
            self.library_class(&published);
            return;
        };
        let (home, class) = (home.clone(), class.clone());
        for base in &class.bases {
            self.class(&home, base, depth + 1);
        }
        for field in &class.fields {
            if let Some(option) = option_of(field, &home) {
                self.add(option);
            }
        }
    }

    /// Adds an option; that of a subclass hides one of its base.
    fn add(&mut self, option: CommandOption) {
        self.out.options.retain(|known| known.names != option.names);
        self.out.options.push(option);
    }

    /// Adds the fields of a class of a library.
    fn library_class(&mut self, name: &str) {
        self.out.classes.push(name.to_owned());
        let version = |package: &str| version_of(self.programs, package);
        let Some(fields) = argument_classes::fields(name, &version) else {
            self.out.is_complete = false;
            return;
        };
        for field in fields {
            self.add(option_of_library(field, name));
        }
    }

    /// Returns a class of the program by the name that a module has for it.
    fn local_class(&self, module: &ScriptModule, name: &str) -> Option<(&ScriptModule, &Class)> {
        let of = |module: &'_ &ScriptModule, name: &str| {
            module.module.classes.iter().any(|class| class.name == name)
        };
        let last = name.rsplit('.').next().unwrap_or(name);
        let own = self.script.modules.iter().find(|one| one.path == module.path && of(one, name));
        let home = if let Some(home) = own {
            home
        } else {
            let brings = |import: &&Import| import.names.iter().any(|(_, given)| given == name);
            let import = module.module.imports.iter().find(brings)?;
            let file = import.module.rsplit('.').next().unwrap_or_default();
            let is_home = |one: &&ScriptModule| {
                let stem = one.path.trim_end_matches(".py").trim_end_matches("/__init__");
                stem.rsplit('/').next() == Some(file) && of(one, last)
            };
            self.script.modules.iter().find(is_home)?
        };
        let class = home.module.classes.iter().find(|class| class.name == last)?;
        Some((home, class))
    }
}

/// Returns what an option takes, by its `type=` and `nargs=`.
fn value_of(call: &Call) -> Takes {
    if let Some(count) = call.keyword("nargs")
        && count.value != Expr::Text("?".to_owned())
    {
        return Takes::Several;
    }
    match call.keyword("type").map(|one| &one.value) {
        None => Takes::Text,
        Some(Expr::Name(name)) => match name.as_str() {
            "int" => Takes::Int,
            "float" => Takes::Float,
            "str" => Takes::Text,
            "bool" => Takes::TrueIfAny,
            _ => Takes::Unknown,
        },
        Some(_) => Takes::Unknown,
    }
}

/// Returns the option of a dataclass's field; `None` if it has none.
fn option_of(field: &Field, module: &ScriptModule) -> Option<CommandOption> {
    let mut default = field.default.as_ref().map(|value| match value {
        Expr::None => OptionDefault::None,
        other => literal(other).map_or(OptionDefault::Unknown, OptionDefault::Value),
    });
    if let Some(Expr::Call(call)) = &field.default
        && call.function() == "field"
    {
        if call.keyword("init").is_some_and(|one| one.value == Expr::Bool(false)) {
            return None;
        }
        default = match call.keyword("default").map(|one| &one.value) {
            Some(Expr::None) => Some(OptionDefault::None),
            Some(other) => Some(literal(other).map_or(OptionDefault::Unknown, OptionDefault::Value)),
            None if call.keyword("default_factory").is_some() || call.is_open => Some(OptionDefault::Unknown),
            None => None,
        };
    }
    let takes = takes_of(&field.annotation);
    let is_on = default == Some(OptionDefault::Value(Scalar::Bool(true)));
    Some(CommandOption {
        names: spellings(&field.name, takes == Takes::Truth && is_on),
        attribute: field.name.clone(),
        takes,
        is_required: default.is_none(),
        default: default.unwrap_or(OptionDefault::None),
        choices: choices_of(&field.annotation),
        span: Some(module.span(&field.at)),
        class: None,
    })
}

/// Returns the option of a field of a library's class.
fn option_of_library(field: &ArgumentField, class: &str) -> CommandOption {
    let takes = match &field.kind {
        ArgumentKind::Bool => Takes::Truth,
        ArgumentKind::Int => Takes::Int,
        ArgumentKind::Float => Takes::Float,
        ArgumentKind::Text => Takes::Text,
        ArgumentKind::List(_) => Takes::Several,
        ArgumentKind::Map | ArgumentKind::Other => Takes::Unknown,
    };
    let default = match field.value_if_absent(|_| false) {
        Some(Scalar::Null) => OptionDefault::None,
        Some(value) => OptionDefault::Value(value.clone()),
        None => OptionDefault::Unknown,
    };
    let is_on = field.default.scalar() == Some(&Scalar::Bool(true));
    CommandOption {
        names: spellings(field.name, takes == Takes::Truth && is_on),
        attribute: field.name.to_owned(),
        takes,
        default,
        is_required: field.is_required(),
        choices: field.choices.clone(),
        span: None,
        class: Some(class.to_owned()),
    }
}

/// Returns the spellings of a field's option. A switch that is on has one that turns it off.
fn spellings(name: &str, is_on: bool) -> Vec<String> {
    let dashed = name.replace('_', "-");
    let mut names = vec![name.to_owned()];
    if dashed != name {
        names.push(dashed.clone());
    }
    if is_on {
        names.extend([format!("no_{name}"), format!("no-{dashed}")]);
    }
    names
}

/// Returns what a field of this type takes.
fn takes_of(annotation: &Expr) -> Takes {
    match annotation {
        Expr::Name(name) => match name.as_str() {
            "int" => Takes::Int,
            "float" => Takes::Float,
            "str" => Takes::Text,
            "bool" => Takes::Truth,
            "list" | "List" => Takes::Several,
            _ => Takes::Unknown,
        },
        Expr::Subscript(of, parts) => match of.as_ref() {
            Expr::Name(name) => match name.rsplit('.').next().unwrap_or_default() {
                "Optional" => parts.first().map_or(Takes::Unknown, takes_of),
                "Union" => {
                    let mut some = parts.iter().filter(|part| !matches!(part, Expr::None));
                    let first = some.next().map_or(Takes::Unknown, takes_of);
                    if some.next().is_some() { Takes::Unknown } else { first }
                }
                "list" | "List" => Takes::Several,
                "Literal" => Takes::Text,
                _ => Takes::Unknown,
            },
            _ => Takes::Unknown,
        },
        _ => Takes::Unknown,
    }
}

/// Returns the values of a `Literal[…]`.
fn choices_of(annotation: &Expr) -> Vec<Scalar> {
    match annotation {
        Expr::Subscript(of, parts) if matches!(of.as_ref(), Expr::Name(name) if name.ends_with("Literal")) => {
            parts.iter().map(literal).collect::<Option<Vec<_>>>().unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::read as read_script;
    use trainc_diag::source::SourceMap;
    use trainc_ir::{SourceFile, SourceTree, Val};

    /// Returns the command line of a program with transformers 4.56.2 and TRL 0.23.0.
    fn command_line(files: &[(&str, &str)]) -> Option<CommandLine> {
        let file = |(path, text): &(&str, &str)| SourceFile::new(*path, text.as_bytes().to_vec(), false);
        let tree = SourceTree { dir: "src".to_owned(), files: files.iter().map(file).collect() };
        let program = |package, version: &str| ProgramVersion {
            package,
            version: Val::default(version.to_owned(), "test"),
            is_installed: Some(true),
        };
        let programs = [program("transformers", "4.56.2"), program("trl", "0.23.0")];
        let script = read_script("train.py", &tree, "src", &programs, &mut SourceMap::default())?;
        script.command_line.clone()
    }

    fn of(text: &str) -> CommandLine {
        command_line(&[("train.py", text)]).unwrap()
    }

    #[test]
    fn argparse_declares_options() {
        let line = of(
            "p = argparse.ArgumentParser()\np.add_argument('-n', \"--train-batch\", type=int, default=4)\n\
            p.add_argument(\n    '--fp16', action = 'store_true')\np.add_argument('--data', required=True)\n\
            p.add_argument('--on', type=bool)\np.add_argument('--mode', choices=['a', 'b'])\n\
            p.add_argument('--layers', nargs='+')\np.add_argument('--x', type=lambda t: t == 'y')\n\
            p.add_argument('--grad', action=argparse.BooleanOptionalAction)\np.parse_args()\n",
        );
        let shown: Vec<(&str, Takes, bool)> = line
            .options
            .iter()
            .map(|option| (option.attribute.as_str(), option.takes, option.is_required))
            .collect();
        let expected = [
            ("train_batch", Takes::Int, false),
            ("fp16", Takes::Nothing, false),
            ("data", Takes::Text, true),
            ("on", Takes::TrueIfAny, false),
            ("mode", Takes::Text, false),
            ("layers", Takes::Several, false),
            ("x", Takes::Unknown, false),
            ("grad", Takes::Nothing, false),
        ];
        assert_eq!(shown, expected);
        assert!(line.is_complete && line.rejects_unknown && line.abbreviates);
        assert_eq!(line.options[0].names, ["n", "train-batch"]);
        assert_eq!(line.options[0].default, OptionDefault::Value(Scalar::Int(4)));
        assert_eq!(line.options[1].default, OptionDefault::Value(Scalar::Bool(false)));
        assert_eq!(line.options[4].choices, ["a", "b"].map(|word| Scalar::Text(word.to_owned())));
        assert!(line.option("train-b").is_some() && line.option("train_batch").is_none());
    }

    #[test]
    fn what_cannot_be_followed_leaves_options_unknown() {
        for text in [
            "p = ArgumentParser()\np.add_argument(\"--\" + name)\np.add_argument('--x')\np.parse_args()\n",
            "p = ArgumentParser(parents=[base])\np.add_argument('--x')\n",
            "p = ArgumentParser()\nlib.add_arguments(p)\n",
            "p = ArgumentParser()\ns = p.add_subparsers()\n",
            "p = ArgumentParser()\np.add_argument('--x')\np.parse_args(['--x', '1'])\n",
            "p = HfArgumentParser((Unknown,))\n",
            "p = HfArgumentParser(classes())\n",
        ] {
            assert!(!of(text).is_complete, "{text}");
        }
        assert!(!of("p = ArgumentParser()\np.parse_known_args()\n").rejects_unknown);
        assert_eq!(command_line(&[("train.py", "print(1)\n")]), None);
    }

    #[test]
    fn options_of_an_imported_module_count() {
        let line = command_line(&[
            ("train.py", "from cli import parse\nparse()\n"),
            (
                "cli.py",
                "def parse():\n    p = argparse.ArgumentParser()\n    p.add_argument('--lr', type=float)\n",
            ),
        ]);
        assert_eq!(line.unwrap().option("lr").unwrap().takes, Takes::Float);
    }

    /// As transformers' parser and TRL's do: a subclass hides its base's fields, `no_` turns a switch off.
    #[test]
    fn dataclasses_declare_options() {
        let line = of(
            "@dataclass\nclass Base:\n    depth: int = 1\n    hidden: bool = True\n@dataclass\nclass \
            Args(Base):\n    name: str\n    depth: int = 2\n    names: list[str] = field(default_factory=list)\n    \
            secret: int = field(init=False)\nclasses = (Args, SFTConfig)\nparser = TrlParser(classes)\n\
            parser.parse_args_and_config()\n",
        );
        assert_eq!(line.parser, ParserKind::DataclassesAndFile);
        assert_eq!(line.classes, ["SFTConfig"]);
        assert!(line.is_complete);
        assert_eq!(line.option("depth").unwrap().default, OptionDefault::Value(Scalar::Int(2)));
        assert!(line.option("name").unwrap().is_required && line.option("secret").is_none());
        assert!(line.option("no_hidden").is_some() && line.option("config").is_some());
        // training_args.py of 4.56.2 and sft_config.py of 0.23.0.
        let default = |name: &str| line.option(name).unwrap().default.clone();
        assert_eq!(default("per_device_train_batch_size"), OptionDefault::Value(Scalar::Int(8)));
        assert_eq!(default("learning-rate"), OptionDefault::Value(Scalar::Float(2e-5)));
        assert!(line.option("max_length").is_some() && line.option("max_seq_length").is_none());
    }
}
