use super::*;
use crate::Module;

fn calls(module: &Module) -> Vec<&str> {
    module.calls.iter().map(|call| call.name.as_str()).collect()
}

#[test]
fn reads_calls_and_their_arguments() {
    let text = "parser.add_argument('--lr', \"-l\", type=float, default=1e-3)  # default=2\ntraining = \
        TrainingArguments(\n    output_dir=args.out,\n    per_device_train_batch_size=8, bf16=True, \
        warmup=-len(data) // 3, n=-1,\n    **more,\n)\n";
    let module = read(text);
    assert!(module.is_whole);
    assert_eq!(calls(&module), ["parser.add_argument", "TrainingArguments", "len"]);
    let add = &module.calls[0];
    let names: Vec<&Expr> = add.positional().map(|one| &one.value).collect();
    assert_eq!(names, [&Expr::Text("--lr".to_owned()), &Expr::Text("-l".to_owned())]);
    assert_eq!(add.keyword("default").unwrap().value, Expr::Float(1e-3));
    assert_eq!(add.keyword("type").unwrap().value, Expr::Name("float".to_owned()));
    assert!(!add.is_open);
    let arguments = &module.calls[1];
    assert!(arguments.is_open);
    assert_eq!(arguments.keyword("output_dir").unwrap().value, Expr::Name("args.out".to_owned()));
    assert_eq!(arguments.keyword("warmup").unwrap().value, Expr::Other);
    assert_eq!(arguments.keyword("n").unwrap().value, Expr::Int(-1));
    let size = arguments.keyword("per_device_train_batch_size").unwrap();
    assert_eq!(&text[size.at.clone()], "per_device_train_batch_size=8");
    assert_eq!(module.assignments[0].name, "training");
    let read = &module.attributes[1];
    assert_eq!((read.name.as_str(), &text[read.at.clone()]), ("out", "args.out"));
}

#[test]
fn reads_imports() {
    let text = "import os, torch.distributed as dist\nfrom trl import SFTConfig, SFTTrainer as T\nfrom . import \
        utils\nfrom ..a.b import *\ntry:\n    import flash_attn\nexcept ImportError:\n    pass\ndef f():\n    \
        import wandb\nimport a.b\n";
    let module = read(text);
    let shown: Vec<String> = module
        .imports
        .iter()
        .map(|one| {
            let names: Vec<String> = one.names.iter().map(|(own, given)| format!("{own}:{given}")).collect();
            format!("{}{} {} {}", ".".repeat(one.level), one.module, names.join(","), one.is_conditional)
        })
        .collect();
    let expected = [
        "os  false",
        "torch.distributed torch.distributed:dist false",
        "trl SFTConfig:SFTConfig,SFTTrainer:T false",
        ". utils:utils false",
        "..a.b *:* false",
        "flash_attn  true",
        "wandb  true",
        "a.b  false",
    ];
    assert_eq!(shown, expected);
    assert_eq!(module.full_name("T"), "trl.SFTTrainer");
    assert_eq!(module.full_name("dist.init_process_group"), "torch.distributed.init_process_group");
    assert_eq!(module.full_name("os.path.join"), "os.path.join");
}

#[test]
fn reads_dataclasses() {
    let text = "@dataclass(kw_only=True)\nclass A(trl.ModelConfig, Base):\n    \"\"\"Text.\"\"\"\n    model_id: str = \
        field(metadata={\"help\": \"x\"})\n    lr: Optional[float] = None\n    names: list[str] | None = \
        None\n    rank: int = 8\n\n    def f(self):\n        x: int = 1\n";
    let class = &read(text).classes[0];
    assert_eq!(class.name, "A");
    assert_eq!(class.bases, ["trl.ModelConfig", "Base"]);
    let names: Vec<&str> = class.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["model_id", "lr", "names", "rank"]);
    let name = |text: &str| Expr::Name(text.to_owned());
    let of = |of: &str, parts: Vec<Expr>| Expr::Subscript(Box::new(name(of)), parts);
    assert_eq!(class.fields[1].annotation, of("Optional", vec![name("float")]));
    assert_eq!(class.fields[2].annotation, of("Union", vec![of("list", vec![name("str")]), Expr::None]));
    assert_eq!(class.fields[3].default, Some(Expr::Int(8)));
    assert!(matches!(&class.fields[0].default, Some(Expr::Call(call)) if call.name == "field"));
}

#[test]
fn reads_variables_of_the_environment() {
    let text = "import os\na = os.environ[\"A\"]\nb = os.environ.get('B', 3)\nc = os.getenv(\"C\")\nos.environ[\"D\"] = \
        \"1\"\ne = {}.get(\"E\")\nf = os.environ[name]\n";
    let module = read(text);
    let mut found = module.variables();
    found.sort_unstable();
    assert_eq!(found, ["A", "B", "C"]);
}

#[test]
fn texts_are_those_that_the_program_uses() {
    let module =
        read("\"\"\"Docs.\"\"\"\n# \"comment\"\nx = \"a\" 'b\\n'\ny = f\"/opt/{x}/ml\"\nz = r\"\\d\"\n");
    let texts: Vec<&str> = module.texts.iter().map(|text| text.value.as_str()).collect();
    assert_eq!(texts, ["ab\\n", "/opt//ml", "\\d"]);
    assert_eq!(module.assignments[0].value, Expr::Text("ab\n".to_owned()));
    assert_eq!(module.assignments[1].value, Expr::Other);
    assert_eq!(module.assignments[2].value, Expr::Text("\\d".to_owned()));
}

#[test]
fn a_syntax_error_hides_only_its_place() {
    let module = read("f(1)\ndef (:\n    g(2)\nh(3)\n");
    assert!(!module.is_whole);
    assert!(calls(&module).contains(&"f"), "{:?}", module.calls);
    assert!(!read(&"x = 1\n".repeat(200_000)).is_whole);
}

/// Texts that take a parser much stack, memory or time.
#[test]
fn hostile_texts_end() {
    let deep = 20_000;
    let of = |begin: &str, middle: &str, end: &str| {
        [begin.repeat(deep), middle.to_owned(), end.repeat(deep)].concat()
    };
    for text in [
        of("(", "1", ")"),
        of("f(", "1", ")"),
        of("[", "", ""),
        of("not ", "1", ""),
        of("lambda: ", "1", ""),
        of("a.", "b", ""),
        of("a[", "b", "]"),
        of("-", "1", ""),
        of("'' ", "''", ""),
        of("x = ", "1", ""),
        of("f'{", "", ""),
        of("1 if a else ", "1", ""),
        of("@a\n", "class A: pass", ""),
        of("\u{0}", "\u{feff}", "é"),
    ] {
        let _ = read(&text);
    }
}
