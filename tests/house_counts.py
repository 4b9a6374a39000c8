#!/usr/bin/env python3
"""Counts how often one idea is said in several rooms: `tests/house_counts.py [ROOT]`.

With `--check` it exits with 1 if a count is above its limit; `tests/house.rs` runs it so. Limits may only fall.
Production code is every .rs file outside of tests, benches and examples, without blank lines, comments and `#[cfg(test)]` items.
"""

import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(next((one for one in sys.argv[1:] if not one.startswith("-")), pathlib.Path(__file__).parents[1]))

# What a file needs to be no production code: its folder or its name.
TEST_PARTS = {"tests", "benches", "fuzz", "documents", "target", "trainc-testing", "trainc-fuzz", "trainc-research"}
TEST_NAMES = re.compile(r"(^|_)tests?\.rs$")

# A sample of properties of many nodes, and the field of the resolved language. Both are words that mean nothing else.
PROPERTIES = {
    "max-wait": "max_wait_seconds",
    "max-pending": "max_pending_seconds",
    "interruptions-per-hour": "interruptions_per_hour",
    "warm-pool": "warm_pool_seconds",
    "training-plan": "training_plan",
    "node-mtbf": "node_mtbf_seconds",
    "multiple-jobs": "multiple_jobs",
    "encrypt-traffic": "encrypt_traffic",
    "security-groups": "security_groups",
    "expert-degree": "expert_degree",
    "prescaled-batch": "prescaled_batch",
    "shard-optimizer-state": "shard_optimizer_state",
    "active-microbatches": "num_active_micro_batches",
    "flash-attention": "flash_attention",
    "weight-decay": "weight_decay",
    "augmented-manifest": "augmented_manifest",
    "record-wrapper": "record_wrapper",
    "accept-eula": "accept_eula",
    "drive-cache": "drive_cache",
    "metadata-iops": "metadata_iops",
    "remote-debug": "remote_debug",
    "session-chaining": "session_chaining",
}


def production_files():
    for folder in [ROOT / "src", ROOT / "crates"]:
        for path in sorted(folder.rglob("*.rs")):
            parts = path.relative_to(ROOT).parts
            if not TEST_PARTS.intersection(parts) and not TEST_NAMES.search(path.name) and "src" in parts:
                yield path


def without_tests(text):
    """The text without items under `#[cfg(test)]`: a module declaration, or everything up to its closing brace."""
    kept, skipping, lines = [], False, iter(text.split("\n"))
    for line in lines:
        if line.strip() == "#[cfg(test)]":
            indent = line[: len(line) - len(line.lstrip())]
            for item in lines:
                if item.rstrip().endswith(";") and item.startswith(indent) and not item.startswith(indent + " "):
                    break
                if item.rstrip() in (indent + "}", indent + "};"):
                    break
        else:
            kept.append(line)
    return kept


def count():
    code = wide = engines = codes = on_sagemaker = 0
    for path in production_files():
        for line in without_tests(path.read_text()):
            bare = line.strip()
            wide += len(line) > 110
            if not bare or bare.startswith("//"):
                continue
            code += 1
            if "trainc-engine" not in path.parts:
                engines += len(re.findall(r"\bEngine::(?=[A-Z])", line))
            codes += len(re.findall(r'"T\d{4}"', line))
            on_sagemaker += len(re.findall(r"\bon_sagemaker\.is_(?:some|none)\b", line))
    tests = [one for one in (ROOT / "tests").rglob("*") if one.is_file() and "__pycache__" not in one.parts]
    fixtures = sum(one.suffix not in (".py", ".rs") for one in tests)
    texts = ["\n".join(line for line in without_tests(path.read_text()) if not line.strip().startswith("//")) for path in production_files()]
    texts += [path.read_text() for kind in ["tsv", "toml"] for path in (ROOT / "crates").glob(f"*/src/**/*.{kind}")]

    def files(name, field):
        word = re.compile(rf"(?<![\w-])(?:{name}|{field})(?![\w-])")
        return sum(bool(word.search(text)) for text in texts)

    spread = {name: files(name, field) for name, field in PROPERTIES.items()}
    return {
        "lines of production code": code,
        "lines over 110 columns": wide,
        "`Engine::` outside its room": engines,
        "codes as strings": codes,
        "questions whether a cluster is on SageMaker": on_sagemaker,
        "files of fixtures": fixtures,
        "files of a property (median)": statistics.median(spread.values()),
    }, spread


# No count may be above its limit. A limit may only fall.
LIMITS = {
    "lines over 110 columns": 300,
    "`Engine::` outside its room": 0,
    "codes as strings": 3,
    "questions whether a cluster is on SageMaker": 10,
    "files of fixtures": 700,
    "files of a property (median)": 8,
}


if __name__ == "__main__":
    counts, spread = count()
    for name, value in counts.items():
        print(f"{value:>9,}  {name}" if isinstance(value, int) else f"{value:>9}  {name}")
    if "-v" in sys.argv:
        print("  ".join(f"{name} {value}" for name, value in sorted(spread.items(), key=lambda one: one[1])))
    above = [f"{name}: {counts[name]}, at most {limit}" for name, limit in LIMITS.items() if counts[name] > limit]
    if "--check" in sys.argv and above:
        sys.exit("\n".join(above))
