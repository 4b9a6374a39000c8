"""Records what PyYAML and Python's json and tomllib read from small documents.

`python3 tests/python/document_cases.py --write` writes crates/trainc-document/tests/cases.json, which the tests of that
crate compare with their own reader; test_document_cases.py fails if it differs from what Python reads today.
"""

import datetime
import json
import struct
import sys
from pathlib import Path

import yaml

CASES = Path(__file__).resolve().parents[2] / "crates/trainc-document/tests/cases.json"

SCALARS = """
~ null Null NULL nULL none None yes Yes YES yES no No NO n y Y N true True TRUE tRUE false False FALSE on On ON off Off OFF
0 -0 +0 00 007 017 018 08 09 0o17 0O17 +017 -017 0_ 0_7 1_000 1__0 1_ _1 +1_000 -1_0 123 +12 -12 12345678901234567890
170141183460469231731687303715884105727 170141183460469231731687303715884105728 -170141183460469231731687303715884105729
0b0 0b101 0b1_0 0b_ 0b2 0b -0b11 0B1 0x0 0xff 0xFF 0x_f 0x_ 0x 0xg -0x1f 0X1F 0x_1_2
1:30 1:3 190:20:30 -1:30 +1:59 1:60 1:5:9 0:30 01:30 1:30: 1:30.5 190:20:30.15 1:2:3.4_5 1:70.5 -1:30.5 1_0:30
1. 1.0 .5 -.5 +.5 +0.5 1.5e3 1.5E3 1.5e+3 1.5E-3 1e5 1e-5 1E5 1e+5 5e-4 1.e5 1.e+5 .5e3 .5e+3 0.1_2 1_0.5 1._5 ._5 .5_ .
6.02e23 6.02e+23 1.0e+999 -1.0e+999 1.7976931348623157e+308 5.0e-324 0.1 3.14159 1.2.3 1,5 1.5f 0.0 -0.0
.inf .Inf .INF -.inf +.inf .iNF inf Infinity .nan .NaN .NAN -.nan nan NaN .Nan
<< = == => - -- --- ? . .. ... / @a `a %a !a &a *a
2001-12-14 2001-1-1 2001-12-32 2001-13-01 2001-02-29 2000-02-29 1900-02-29 0000-01-01 0001-01-01 20011214 2001-12
2001-12-14T21:59:43Z 2001-12-14t21:59:43.10-05:00 2001-12-14T21:59:43+5 2001-12-14T21:59:43+05:30 2001-12-14T24:00:00
2001-12-14T21:60:00 2001-12-14T21:59:60Z 2001-12-14T21:59:43.Z 2001-1-2T3:04:05 2001-12-14T21:59 2001-12-14T21:59:43z
2001-12-14T21:59:43+25:00 2001-12-14T21:59:43.123456789Z 2001-12-14T
a a:b a#b :a :: a: s3://bucket/prefix/ ml.p4d.24xlarge a,b a[b] a{b} [] {} [a] {a} [a,b] {a,b} [1:30] {a:1} {"a":1} {'a':1}
[a,] [,] {a,} [[]] {a:} http://x:80/ ${a} {{a}} a|b a>b a'b a"b 'a' "a" 'a''b' "a\\"b" "\\n" "\\x41" "\\u00e4" "\\U0001F600" "\\/" "\\a"
"\\q" '\\n' 'a 'a' "a "a"b ä 日本語 é
""".split()

VALUES = [
    "2001-12-14 21:59:43", "2001-12-14 21:59:43.10 -5", "2001-12-14  21:59:43 Z", "2001-12-14\t21:59:43", "2001-12-14 21:59:43 +5:30",
    "a b", "a  b", "a #b", "a: b", "a : b", "a :b", "- a", "? a", "# a", "1 2", "yes no", "1 # one", "'a' b", '"a" b', "'a: b'",
    "!!str 1", "!!str", "!!str yes", "!!int '3'", "!!int 3", "!!int abc", "!!int 0x1f", "!!int '0o17'", "!!float 1", "!!float 1e-5", "!!float '1.5'",
    "!!float abc", "!!float nan", "!!float '.nan'", "!!float 'inf'", "!!bool yes", "!!bool 'no'", "!!bool 1", "!!null ''", "!!null a", "!!null",
    "!!timestamp 2001-12-14", "!!timestamp '2001-12-14'", "!!timestamp a", "!!binary aGVsbG8=", "!!seq [1]", "!!seq {a: 1}", "!!map {a: 1}",
    "!!map [1]", "!!set {a, b}", "!!omap [a: 1, b: 2]", "!!pairs [a: 1, a: 2]", "!!merge a", "!!value a", "! 12", "! '12'", "! a", "! [1]", "! {a: 1}", "!Ref a", "!Sub no",
    "!Ref [a]", "!<tag:yaml.org,2002:str> 1", "!!python/name:os.system", "!!python/object/apply:os.getcwd []",
    "&a 1", "&a [1, &b 2]", "*a", "[&a 1, *a, *a]", "[&a [1], *a]", "[&a 1, &a 2, *a]", "{&a a: 1, b: *a}", "{&a a: 1, *a : 2}", "&a [*a]",
    "{a: 1, a: 2}", "{a: 1, 'a': 2}", "{1: a, 1.0: b}", "{1: a, true: b}", "{0: a, false: b, no: c}", "{null: a, ~: b, '': c}", "{1: a, '1': b}", "{2001-12-14: a}",
    "{[1]: a}", "{{a: 1}: b}", "{? [1] : a}", "{? a : b}", "{? a}", "{a}", "{a, b: 1}", "[a: 1, b: 2]", "[? a : b]", "[a: {b: 1}]", "['a':1]", "[\"a\":1]", "[a:1]",
    "{<<: {a: 1}, b: 2}", "{b: 2, <<: {a: 1, b: 3}}", "{<<: [{a: 1, b: 1}, {a: 2, c: 2}], c: 3}", "{<<: 1}", "{<<: [1]}", "{<<: []}", "{<<: {<<: {a: 1}, b: 2}}",
    "{'<<': {a: 1}}", "{<<: {a: 1}, <<: {a: 2, b: 3}}", "{a: 0, <<: {a: 1}, a: 2}", "{=: 1}", "[=]", "[<<]", "{a: =}", "{!!merge x: {a: 1}}",
    "{a: 1,b: 2}", "{a: 1 ,b: 2}", "{ }", "[ ]", "[a b, c d]", "[a, b", "{a: 1", "]", "}", "[a]]", "{a: 1}}", "[a] b", "{a: 1} b", "[a\n]", "{a: 1\n}", "[a,\nb]", "[a\n b]",
    "{a:\n 1}", "{a\n: 1}", "{'a'\n: 1}", "[a # c\n]", "[a #c]\n", "[#c\na]", "|\n a\n b", "|\n a\n  b\n c", "|-\n a\n", "|+\n a\n\n", "|+\n a", "|2\n  a", "|1\n  a", "|\n\n a", "|\n  a\n b",
    ">\n a\n b", ">\n a\n\n b", ">-\n a\n b\n", ">+\n a\n\n", ">\n a\n  b\n c", "> # c\n a", "|#c\n a", "| a", ">2-\n   a", "|a\n b", "|\n\ta", "'a\n b'", "'a\n\n b'", '"a\n b"', '"a\\\n b"', '"a \n b"',
    "a\n b", "a\n\n b", "a\n # c\n b", "a\tb", "a \t# c", "\ta", "'\ta'", "@", "`", "%", "a%b", "a@b", "-a", "?a", ":a", "- - a", "-\ta", "[-]", "[-a]", "[- a]", "[?]", "[:]", "[a:]", "{:}", "{: a}",
    "&a", "&a &b c", "!a !b c", "*", "&", "!", "!!", "'", '"', '"\\', '"\\x4"', '"\\u12"', '"\\ud83d\\ude00"', '"\\e\\0\\_\\N\\L\\P\\t\\ "', "\x07", "\u0080", "\ufeff", "\u2028", "a\u0085b", "a\u2028b",
]

DOCUMENTS = [
    "", "\n", "# c", "---", "---\n", "--- a", "---a", "--- # c\na", "...", "---\n...", "a\n...", "a\n---\nb", "---\na\n---\nb\n...\n", "--- a\n--- b", "a\n...\nb", "a\n...\n---\nb", "---\n---", "a: 1\n---\nb: 2\n",
    "%YAML 1.1\n---\na", "%YAML 1.2\n---\na: no", "%YAML 2.0\n---\na", "%TAG ! tag:yaml.org,2002:\n---\n!str 1", "%TAG !y! tag:yaml.org,2002:\n---\n!y!str 1", "%FOO x\n---\na", "%YAML 1.1\na", "!y!str 1",
    "\ufeffa: 1", "\ufeff{\"a\": 1}", "a: 1\n\ufeffb: 2", "a: 1\r\nb: 2\r\n", "a: 1\rb: 2", "a: 1\n\n\nb: 2", "a: 1\n b: 2", " a: 1\nb: 2", "  a: 1\n  b: 2", "a:\n  b:\n    c: 1\n  d: 2\ne: 3", "a:\n- 1\n- 2\nb: 3",
    "a:\n  - 1\n  - 2", "- a\n- b", "- a: 1\n  b: 2\n- c", "- - a\n  - b\n- c", "-\n  a\n-\n  b", "- a\n b", "- a\n-b", "a:\n\tb: 1", "a:\tb", "a: \tb", "\ta: 1", "a: 1\t", "a: b: c", "a: 'b': c", "a: [b]: c", "a\nb: 1", "a b: 1",
    "? a\n: b", "? a\n? b", "? - a\n: b", "? a: 1\n: b", "? |\n  a\n: b", ": a", "a:", "a:\nb:", "a: # c\n  b", "a: |\n  x\n  y\nb: 1", "a: >-\n  x\n  y\nb: 1", "a: |\n x", "a: |\n\nb: 1", "a: |+\n  x\n\nb: 1", "a: 'x\n  y'",
    "a: x\n  y\nb: z", "a: x\n y: z", "a: \"x\n  y\"", "a: {b: 1,\nc: 2}", "a: [1,\n2\n]", "a: [\n1, 2\n]\nb: 1", "{\n\"a\": 1,\n\"b\": [1, 2]\n}", "{\"a\": {\"b\": null, \"c\": true}, \"d\": 1e5}", "[\n  1,\n  2,\n]", "{\"a\":1,\"b\":2}",
    "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}", "base: &b\n  x: 1\n  y: 2\njob:\n  <<: *b\n  y: 3", "a: &x\n  b: 1\nc:\n  <<: [*x, {d: 1}]\n  b: 2", "a: &x 1\nb: *x\n---\nc: *x", "a: *x\nb: &x 1", "&a a: 1\nb: *a", "a: &a\n  b: *a",
    "a: !Ref b\nc: !Sub '${AWS::Region}'\nd: !GetAtt a.b", "a: !!str\nb: 1", "a: !!set\n  ? x\n  ? y", "!!map\na: 1", "--- !!str\na", "--- |\n a\n b", "--- >\n a\n b", "--- {a: 1}", "--- 'a'\n", "'a': 1\n\"b\": 2", "a: 1\na: 2\nb: 1",
    "lr: 1e-5\nwd: 1.0e-5\nflag: no\nname: on\nport: 22:22\nmode: 0755\nver: 1.10\nnone: ~\nday: 2026-01-01", "a: 1 #c", "a: 1#c", "a: '1'#c", "a:#c", "a #c: 1", "#c\na: 1\n#d\n", "a: 1\n#c\n  #d\nb: 2", "a:\n  #c\n  b: 1",
    "a: -1\nb: - 1", "a: -\n", "-", "- ", "- -", "-\n-", "a: ?", "a: :", "a: :b", "a::b", "a:: b", "a: ,", "a: ]", "a: }", "a: x]", "a: x}", "a: %x", "%x: a", "a: @x", "a: !x", "a: &x", "a: *", "key with spaces: 1", "'': 1", "\"\": 1",
    "a:\n - b\n -  c\n - d: 1\n   e: 2", "a:\n    - b\n   - c", "a:\n  b: 1\n c: 2", "a:\n- b\n  c", "a: - b", "a: 1\n- b", "- a\nb: 1", "a\n- b", "x" * 1030 + ": 1", "'" + "x" * 1020 + "': 1", "? " + "x" * 1030 + "\n: 1",
    "a: \"\\\n  b\"", "a: \"b\\\n\n  c\"", "a: 'b\n\n\n  c'", "a: >\n  b\n\n\n  c\n   d\n  e\n\n", "a: |1\n b\n", "a: |9\n         b", "a: |0\n b", "a: |-1\n b", "a: |1-\n b\n\n", "a: |\n   b\n  c\n", "a: |\n    \n  b", "a: |\n  b\n # c\n", "a: |\n  b\n# c\n",
]

JSON = [
    "null", "true", "false", "0", "-0", "1", "-1", "01", "1.", ".5", "1.5", "-1.5e3", "1e5", "1E+5", "1e", "1e400", "-1e400", "1e-400", "12345678901234567890", "1" + "0" * 60, "NaN", "Infinity", "-Infinity", "nan", "+1", "0x1",
    '""', '"a"', '"ä"', '"\\u00e4"', '"\\ud83d\\ude00"', '"\\n\\t\\"\\\\\\/\\b\\f\\r"', '"\\a"', '"\\u12"', '"\\u12g4"', '"a', '"a\nb"', '"a\tb"', "'a'", '"\x7f"', '"\u2028"',
    "[]", "[ ]", "[1]", "[1,2]", "[1, 2 ]", "[1,]", "[,1]", "[1 2]", "[", "]", "[1", "[1}", "[[[]]]", "{}", "{ }", '{"a":1}', '{"a": 1, "b": [true, null]}', '{"a":1,}', '{"a"}', '{"a":}', "{a: 1}", "{1: 2}", '{"a":1 "b":2}', '{"a":1}}',
    '{"a":1,"a":2}', '{"a":1,"b":2,"a":3}', '{"":1}', '{"a":{"a":1}}', "", " ", " 1 ", "\n1\n", "\x0b1", "1 2", "// c\n1", "1 // c", "/* c */1", "tru", "nul", "trueish", "truefalse", "\ufeff1", '{"a":\ufeff1}', "\u00a01", '{"<<": {"a": 1}}',
]

TOML = [
    "", "a = 1", "a = 1\nb = 'x'", "a = 1_000", "a = 0o17", "a = 0x1F", "a = 0b11", "a = 017", "a = +1", "a = 1.5", "a = 1e-5", "a = 1.", "a = .5", "a = inf", "a = -nan", "a = true", "a = no", "a = yes", "a = 2026-01-01", "a = 2026-01-01T01:02:03Z",
    "a = 01:02:03", "a = 'x'", 'a = "x\\n"', 'a = """\nx\ny"""', "a = '''x'''", "a = [1, 2]", "a = [1, 'x', [2]]", "a = {b = 1}", "a.b = 1", "a.b = 1\na.c = 2", "[a]\nb = 1", "[a.b]\nc = 1\n[a]\nd = 2", "[[a]]\nb = 1\n[[a]]\nb = 2", "a = 1\na = 2",
    "[a]\n[a]", "a = {b = 1}\na.c = 2", "a", "a =", "= 1", "[a", "a = [1", "a = 'x", "'a b' = 1", '"" = 1', "a = 1 # c", "# c", "a = 9223372036854775807", "a = 1\n[b]\na = 2",
]


class Written(str):
    """The text of a date as it is written."""


class Tagged:
    """A value with a standard tag that is read as it is."""


class Loader(yaml.SafeLoader):
    """The loader of `safe_load`, with dates as they are written."""


def timestamp(loader, node):
    yaml.SafeLoader.construct_yaml_timestamp(loader, node)
    return Written(node.value)


def tagged(_loader, _node):
    return Tagged()


Loader.add_constructor("tag:yaml.org,2002:timestamp", timestamp)
for name in ("binary", "set", "omap", "pairs"):
    Loader.add_constructor(f"tag:yaml.org,2002:{name}", tagged)


def canonical(value):
    """Returns a value as text that says its types."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"int {value}"
    if isinstance(value, float):
        return "float nan" if value != value else f"float {struct.pack('>d', value).hex()}"
    if isinstance(value, (Written, datetime.date, datetime.time)):
        return f"time {value}" if isinstance(value, Written) else "time"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{canonical(key)}: {canonical(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Tagged):
        return "tagged"
    raise TypeError(type(value))


def read(kind, text):
    """Returns what Python reads, or None for an error."""
    try:
        if kind == "yaml":
            return canonical(list(yaml.load_all(text, Loader)))
        if kind == "json":
            return canonical(json.loads(text))
        import tomllib  # Python 3.11
        return canonical(tomllib.loads(text))
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return None


def cases():
    """Returns the kind and the text of each case."""
    texts = []
    for scalar in SCALARS:
        texts += [scalar, f"a: {scalar}", f"- {scalar}", f"[{scalar}, 1]", f"{{a: {scalar}}}", f"{scalar}: 1"]
    for value in VALUES:
        texts += [value, f"a: {value}", f"- {value}"]
    texts += DOCUMENTS
    for kind, all_texts in (("yaml", texts), ("yaml", JSON), ("json", JSON), ("toml", TOML)):
        for text in dict.fromkeys(all_texts):
            yield kind, text


def record():
    """Returns the cases with what Python reads, one a line."""
    rows = [json.dumps([kind, text, read(kind, text)], ensure_ascii=True) for kind, text in cases()]
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        CASES.write_text(record())
    else:
        sys.exit(__doc__)
