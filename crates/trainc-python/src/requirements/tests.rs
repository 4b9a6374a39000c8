use super::*;

fn contents(text: &str) -> Vec<Content> {
    read(text, "3.12").lines.into_iter().map(|line| line.content).collect()
}

fn package(line: &str) -> Package {
    match contents(line).pop() {
        Some(Content::Package(package)) => package,
        other => panic!("{line}: {other:?}"),
    }
}

/// The examples of PEP 440, and common lines.
#[test]
fn a_line_accepts_versions() {
    for (line, yes, no) in [
        ("a", "0.1", None),
        ("a>=1.0", "1.10.1", Some("0.34.2")),
        ("a~=1.4.2", "1.4.9", Some("1.5.0")),
        ("a~=2.2", "2.9", Some("3.0")),
        ("a==1.2.*", "1.2.7", Some("1.3.0")),
        ("a!=1.2.*,<2", "1.3.0", Some("1.2.7")),
        ("a (>1.0, <=1.5)", "1.5", Some("1.5.1")),
        ("torch==2.8.0", "2.8.0+cu129", Some("2.4.1")),
    ] {
        let found = package(line);
        assert_eq!(found.accepts(yes), Some(true), "{line} {yes}");
        if let Some(no) = no {
            assert_eq!(found.accepts(no), Some(false), "{line} {no}");
        }
    }
    assert_eq!(package("transformers==5.24.0").exact().as_deref(), Some("5.24.0"));
    assert_eq!(package("trl==1.*").exact(), None);
    assert_eq!(package("Flash_Attn == 2.8.3").name, "flash-attn");
    assert_eq!(package("trl[vllm]==0.23.0").extras, ["vllm"]);
}

#[test]
fn markers_decide_what_a_container_installs() {
    assert!(package("a==1 ; sys_platform == 'linux'").applies);
    assert!(!package("a==1; platform_system=='Windows'").applies);
    assert!(package("a; python_version >= '3.10'").applies && !package("a; python_version < '3.9'").applies);
}

#[test]
fn lines_have_places() {
    let text = "\u{feff}# first\r\ntorch==2.4.1  # pin\r\n\r\n  trl \\\r\n  ==1.0\n-r more.txt\n";
    let found = read(text, "3.12");
    let shown: Vec<&str> = found.lines.iter().map(|line| &text[line.at.clone()]).collect();
    assert_eq!(shown[0], "torch==2.4.1");
    assert!(shown[1].starts_with("trl"), "{shown:?}");
    assert_eq!(shown[2], "-r more.txt");
    // A last line that would go on is a line, as for pip.
    assert_eq!(contents("a==1\nnot a line! \\").len(), 2);
}

#[test]
fn addresses_and_options() {
    let address = |line: &str| match contents(line).pop() {
        Some(Content::Address { address, package }) => (address, package),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(
        address("git+ssh://git@github.com/acme/common.git@v3").0,
        "git+ssh://git@github.com/acme/common.git@v3"
    );
    assert_eq!(address("-e git+https://x/y.git#egg=my_pkg").0, "git+https://x/y.git#egg=my_pkg");
    assert_eq!(address("../common").0, "../common");
    assert_eq!(
        address("trl @ https://host/trl-1.0-py3-none-any.whl"),
        ("https://host/trl-1.0-py3-none-any.whl".to_owned(), Some("trl".to_owned()))
    );
    for (line, name, value) in [
        ("-r other.txt", "--requirement", "other.txt"),
        ("-rother.txt", "--requirement", "other.txt"),
        ("--extra-index-url https://x/simple", "--extra-index-url", "https://x/simple"),
        ("--index-url=https://x/simple", "--index-url", "https://x/simple"),
        ("--pre", "--pre", ""),
    ] {
        let expected = Content::Option { name: name.to_owned(), value: value.to_owned() };
        assert_eq!(contents(line), [expected], "{line}");
    }
}

#[test]
fn lines_that_pip_rejects() {
    for line in ["transformers=4.56.2", "peft=>0.17", "torch==", "a b", "==1.0", "numpy>=1.x"] {
        assert!(
            matches!(contents(line).as_slice(), [Content::Invalid { .. }]),
            "{line}: {:?}",
            contents(line)
        );
    }
    assert!(contents("# torch=1\n\n").is_empty());
    assert!(matches!(contents("torch==2.1 --hash=sha256:00").as_slice(), [Content::Package(_)]));
}
