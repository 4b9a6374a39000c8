#!/usr/bin/env python3
"""Compares two builds of trainc over every manifest of the repository.

    tests/compare_binaries.py OLD NEW [--only TEXT] [--show KIND] [--limit N] [--jobs N] [--account]

Both run `check -o json`, `plan --offline -o json` and `emit --out` on the examples (with each of their
environments), the manifests of tests/ and the cases of tests/suite/ and of the pages. The summary has one section for each kind
of difference: exit codes, problems, digests, requests, policies, other files, members of the plan. Equal
differences are one line, with the manifests that have them. `--only` takes the manifests whose path contains the
text, `--show` prints one kind alone, with every value. `--account` also emits with an account and applies to one in
memory, whose resources and requests are compared.

Exits with 0 if nothing differs, 1 if something does, 2 if a build could not be run. Needs Python 3.9 and no
packages.
"""

import argparse
import collections
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TODAY = "2026-06-01"
ACCOUNT = "111122223333"
FLAGS = ["--today", TODAY, "--worker", str(ROOT / "tests/fixtures/trainc-worker")]
KINDS = ["crash", "exit code", "problem", "wording", "digest", "request", "policy", "file", "plan"]

# The program of the cases, as tests/support.rs has it.
SCRIPT = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument('--lr', type=float)
parser.add_argument('--warmup-steps', type=int)
parser.add_argument('--seed', type=int)
parser.add_argument('--resume', action='store_true')
args, _ = parser.parse_known_args()
checkpoints = '/opt/ml/checkpoints'
"""

Case = collections.namedtuple("Case", "name directory manifest flags")


def has_job(text):
    return re.search(r"(?m)^job( |$)", text) is not None


def repository_cases():
    """The examples, with each of their environments, and the whole manifests of tests/, where they are."""
    for manifest in sorted((ROOT / "examples").rglob("*.kdl")):
        if not has_job(manifest.read_text()):
            continue
        path = str(manifest.relative_to(ROOT))
        top = ROOT / pathlib.Path(*pathlib.Path(path).parts[:2])
        layers = "".join(layer.read_text() for layer in top.rglob("*.kdl"))
        environments = set(re.findall(r'(?m)^\s*env "([^"]+)"', layers))
        yield Case(path, ROOT, path, [])
        for name in sorted(environments):
            yield Case(f"{path} --env {name}", ROOT, path, ["--env", name])
    for manifest in sorted((ROOT / "tests").rglob("*.kdl")):
        path = str(manifest.relative_to(ROOT))
        if not path.startswith("tests/suite/") and has_job(manifest.read_text()):
            yield Case(path, ROOT, path, [])


def blocks_of_page(page):
    """The manifests of a code's page, as (name, stands alone, text)."""
    counts = collections.Counter()
    for section, tags, text in re.findall(r"(?ms)^## (Wrong|Right)$|^```kdl(.*?)\n(.*?)^```$", page):
        if section:
            word = section.lower()
            continue
        counts[word] += 1
        number = f" {counts[word]}" if counts[word] > 1 else ""
        yield f"page: {word}{number}", "alone" in tags.split(), text


def cases_of_suite(path):
    """The cases of a file of tests/suite/, as (name, flags, stands alone, texts by name); CONTRIBUTING.md has the form."""
    for text in re.split(r"(?m)^(?=--- )", path.read_text())[1:]:
        head, *lines = text.rstrip().split("\n")
        flags, alone, files = [], False, {"": []}
        for line in lines:
            if line.startswith("+++ "):
                files[line[len("+++ "):]] = []
            elif line.startswith("// args: "):
                flags = line[len("// args: "):].split()
            elif line == "// alone":
                alone = True
            elif not line.startswith("//"):
                list(files.values())[-1].append(line[4:])
        yield head[4:-4], flags, alone, {name: "\n".join(text) + "\n" for name, text in files.items()}


def suite_cases(scratch):
    """The cases of tests/suite and of the pages, laid over their base in one directory with the layers of tests/fixtures."""
    shutil.copytree(ROOT / "tests/fixtures", scratch, dirs_exist_ok=True)
    (scratch / ".git").mkdir()
    found = []
    for path in sorted((ROOT / "tests/suite").glob("*.kdl")):
        cases = [case for case in cases_of_suite(path) if not case[0].startswith("page: ")]
        found += [(path.stem, *case) for case in cases]
    for path in [*ROOT.glob("src/codes/*.md"), *ROOT.glob("crates/*/src/codes/*.md")]:
        found += [(path.stem, name, [], alone, {"": text}) for name, alone, text in blocks_of_page(path.read_text())]
    for code, title, flags, alone, files in sorted(found, key=lambda one: one[:2]):
        text = files.pop("")
        for name, beside in files.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_text(beside)
        if not alone and not has_job(text):
            text = 'extends "base.kdl"; job "example" {\n' + text.rstrip("\n") + "\n}\n"
        name = f"{code}-{re.sub('[^A-Za-z0-9]+', '-', title)}.kdl"
        (scratch / name).write_text(text)
        for source in ["./scripts", *re.findall(r'source="([^":]+)"', text)]:
            directory = (scratch / source).resolve()
            if scratch not in directory.parents or "missing" in source:
                continue
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / "train.py").exists():
                (directory / "train.py").write_text(SCRIPT)
        flags = [flag for flag in flags if flag != "--complete"]
        yield Case(f"tests/suite/{code}.kdl: {title}", scratch, name, flags)


def run(binary, case, environment, *arguments):
    """Exit code (None after a minute), standard output, standard error."""
    flags = [*FLAGS, *case.flags] if "--today" not in case.flags else [*FLAGS[2:], *case.flags]
    command = [binary, *arguments, *flags, case.manifest]
    try:
        ran = subprocess.run(
            command,
            cwd=case.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return None, b"", b"no end within a minute"
    return ran.returncode, ran.stdout, ran.stderr


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def applied(path):
    """What an account in memory has after `apply`, without its times and random keys."""
    account = parsed(path.read_bytes()) if path.exists() else None
    if not isinstance(account, dict):
        return b""
    names = ["roles", "file_systems", "associations", "buckets", "objects"]
    made = {name: account.get(name) for name in names}
    made["objects"] = {uri: item for uri, item in made["objects"].items() if not uri.endswith(".key")}
    made["jobs"] = {name: job["job"]["request"] for name, job in account.get("jobs", {}).items()}
    return json.dumps(made, sort_keys=True, indent=1).encode()


def observe(binary, case, environment, out, with_account):
    """Everything that a build says of a manifest."""
    seen = {"exit": {}, "crash": [], "files": {}}
    results = {
        "check": run(binary, case, environment, "check", "-o", "json"),
        "plan": run(binary, case, environment, "plan", "--offline", "-o", "json"),
    }
    # Of a manifest with errors nothing is written.
    if results["check"][0] != 3:
        results["emit"] = run(binary, case, environment, "emit", "--quiet", "--out", str(out))
        if with_account:
            out.mkdir(exist_ok=True)
            account = ["--account", ACCOUNT]
            there = ["--quiet", "--out", str(out / "account")]
            results["emit --account"] = run(binary, case, environment, "emit", *account, *there)
            simulated = out / "simulated.json"
            chosen = [f"--simulate={simulated}", "--yes", "--quiet"]
            results["apply"] = run(binary, case, environment, "apply", *account, *chosen)
            seen["files"]["applied.json"] = applied(simulated)
            simulated.unlink(missing_ok=True)
    for command, (code, _, error) in results.items():
        seen["exit"][command] = code
        if code is None or code < 0 or code >= 100:
            seen["crash"].append(f"{command}: exit {code}: {error.decode(errors='replace').strip()[:200]}")
    checked = parsed(results["check"][1]) or {}
    seen["problems"] = [one for manifest in checked.get("manifests", []) for one in manifest["problems"]]
    plan = parsed(results["plan"][1])
    seen["plan"] = plan if isinstance(plan, dict) else {"jobs": plan}
    for path in sorted(out.rglob("*")):
        if path.is_file():
            seen["files"][str(path.relative_to(out))] = path.read_bytes()
    shutil.rmtree(out, ignore_errors=True)
    return seen


def short(value, whole=False):
    text = json.dumps(value, ensure_ascii=False)
    return text if whole or len(text) <= 60 else text[:57] + "…"


def leaves(value, path=""):
    """Every value of a JSON document by its path; items of a list go by their name, if they have one."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            members = item if isinstance(item, dict) else {}
            names = [members.get(key) for key in ("code", "name", "Name", "ChannelName", "Key", "Sid")]
            name = next((name for name in names if isinstance(name, str)), index)
            yield from leaves(item, f"{path}[{name}]")
    else:
        yield path, value


def changed_members(old, new, whole):
    """One line for each member of a document that was added, removed or changed."""
    before, after = collections.defaultdict(list), collections.defaultdict(list)
    for table, document in ((before, old), (after, new)):
        for path, value in leaves(document):
            table[path].append(value)
    for path in sorted({*before, *after}):
        was, now = before.get(path), after.get(path)
        if was == now:
            continue
        if was is None:
            yield f"+ {path}: {short(now[0], whole)}"
        elif now is None:
            yield f"- {path}: {short(was[0], whole)}"
        else:
            yield f"  {path}: {short(was[0], whole)} -> {short(now[0], whole)}"


def changed_problems(old, new):
    """Problems that appear, disappear or change their severity or place; then those with other words."""

    def place(one):
        return one["code"], one["severity"], one["file"], one["start"], one["end"]

    before, after = collections.Counter(map(place, old)), collections.Counter(map(place, new))
    gone, added = before - after, after - before
    for code in sorted({key[0] for key in [*gone, *added]}):
        was = collections.Counter(key[1] for key in gone.elements() if key[0] == code)
        now = collections.Counter(key[1] for key in added.elements() if key[0] == code)
        if was == now:
            yield "problem", f"{code}: at another place"
            continue
        kept = was & now
        was, now = sorted((was - kept).elements()), sorted((now - kept).elements())
        if was and now:
            yield "problem", f"{code}: {', '.join(was)} -> {', '.join(now)}"
        else:
            yield "problem", f"{'- ' if was else '+ '}{code} {', '.join(was or now)}"
    texts = collections.defaultdict(lambda: ([], []))
    for side, problems in enumerate((old, new)):
        for one in problems:
            texts[place(one)][side].append(one)
    for key, (was, now) in sorted(texts.items()):
        if len(was) == len(now) and was != now:
            members = sorted({name for a, b in zip(was, now) for name in a if a[name] != b.get(name)})
            yield "wording", f"{key[0]}: {', '.join(members)}" if members else f"{key[0]}: order"


def kind_of_file(path):
    if path.endswith("sagemaker/training-job.json") or path == "applied.json":
        return "request"
    return "policy" if path.startswith(("iam/", "account/iam/")) else "file"


def changed_files(old, new, whole):
    for path in sorted({*old, *new}):
        was, now = old.get(path), new.get(path)
        # plan.json is compared as the output of `plan`; the pages are made from it.
        if was == now or path.endswith("plan.json"):
            continue
        kind = kind_of_file(path)
        if was is None or now is None:
            yield kind, f"{'+' if was is None else '-'} {path}"
        elif path.endswith(".json"):
            for line in changed_members(parsed(was), parsed(now), whole):
                yield kind, f"{path}: {line.strip()}"
        elif whole:
            texts = [side.decode(errors="replace").splitlines() for side in (was, now)]
            yield kind, "\n      ".join([path, *difflib.unified_diff(*texts, lineterm="", n=0)][:40])
        else:
            yield kind, path


def differences(old, new, whole):
    """Pairs of a kind and a line."""
    for text in sorted({*new["crash"]} - {*old["crash"]}):
        yield "crash", f"+ {text}"
    for text in sorted({*old["crash"]} - {*new["crash"]}):
        yield "crash", f"- {text}"
    for command, code in old["exit"].items():
        if command in new["exit"] and code != new["exit"][command]:
            yield "exit code", f"{command}: {code} -> {new['exit'][command]}"
    yield from changed_problems(old["problems"], new["problems"])
    digests = [side["plan"].get("digest") for side in (old, new)]
    if digests[0] != digests[1]:
        had, has = (digest is not None for digest in digests)
        yield "digest", "another digest" if had and has else "- digest" if had else "+ digest"
    yield from changed_files(old["files"], new["files"], whole)
    # Problems and digest have sections of their own, and the job's name ends with the digest.
    shown = ("problems", "digest", "training_job_name")
    plans = [{k: v for k, v in side["plan"].items() if k not in shown} for side in (old, new)]
    for line in changed_members(*plans, whole):
        # Without the values, equal changes of many manifests are one line.
        yield "plan", line.strip() if whole else re.sub(r"^[+-]?\s*(\w+(\.\w+)?).*$", r"\1", line.strip())


def print_summary(found, cases, options):
    kinds = [options.show] if options.show else KINDS
    for kind in kinds:
        lines = found.get(kind, {})
        manifests = {name for names in lines.values() for name in names}
        print(f"\n{kind}: {len(manifests)} of {len(cases)} manifests")
        for line, names in sorted(lines.items(), key=lambda item: (-len(item[1]), item[0])):
            shown = names if options.show else names[: options.limit]
            more = f", and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            print(f"  {len(names):4} {line}\n       {', '.join(shown)}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", metavar="TEXT", help="manifests whose path contains the text")
    kinds = ", ".join(KINDS)
    parser.add_argument("--show", choices=KINDS, metavar="KIND", help=f"one kind, with every value: {kinds}")
    parser.add_argument("--limit", type=int, default=4, help="manifests named on a line")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--account", action="store_true", help="also with an account, and applied to one in memory")
    options = parser.parse_args()
    binaries = [shutil.which(os.path.abspath(path)) for path in (options.old, options.new)]
    if None in binaries:
        sys.exit(f"{parser.prog}: {(options.old, options.new)[binaries.index(None)]} is not a program")
    with tempfile.TemporaryDirectory(prefix="trainc-compare-") as scratch:
        scratch = pathlib.Path(scratch).resolve()
        (scratch / "home").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(scratch / "home"), "NO_COLOR": "1"}
        cases = [*repository_cases(), *suite_cases(scratch / "suite")]
        cases = [case for case in cases if options.only in case.name]

        def compare(number):
            pair = [
                observe(binary, cases[number], environment, scratch / f"out-{number}-{side}", options.account)
                for side, binary in enumerate(binaries)
            ]
            return list(differences(*pair, whole=options.show is not None)), pair[0]["exit"]["check"]

        found = collections.defaultdict(lambda: collections.defaultdict(list))
        ok = 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for case, (lines, code) in zip(cases, pool.map(compare, range(len(cases)))):
                ok += code == 0
                for kind, line in lines:
                    if case.name not in found[kind][line]:
                        found[kind][line].append(case.name)
    print(f"{len(cases)} manifests, {ok} of which have no error in the old build")
    print_summary(found, cases, options)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
