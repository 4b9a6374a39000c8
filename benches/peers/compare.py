"""Compares trainc with calculon and llm-analysis on the same published runs.

    python3 benches/peers/compare.py --trainc target/release/trainc --calculon ~/calculon

Compares the step times of `crates/trainc-calibrate/data/runs.csv`, as `trainc calibrate` reads them, with the prediction
of each tool. llm-analysis is installed from PyPI into a venv; calculon is not on PyPI (the package of that name is
unrelated): pass a checkout of github.com/calculon-ai/calculon, or leave it out. Each tool runs with its shipped settings:
calculon with the efficiencies of its A100 and H100 systems, llm-analysis with its defaults, trainc with its constants,
which were fitted to this table, and with `--left-out` also with constants fitted without the row's source.
"""

import argparse
import contextlib
import csv
import datetime
import io
import json
import logging
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLM_ANALYSIS = "llm-analysis==0.2.2"
CALCULON_NEEDS = ["numpy", "psutil", "pandas"]
# calculon reduces gradients over data-parallel ranks and can shard optimizer states; it has no other stages.
STAGES = {"": 0, "0": 0, "1": 1, "2": 2, "3": 3}


def number(row, name, default=None):
    text = row[name].strip()
    return float(text) if text else default


class Cannot(Exception):
    """The tool cannot express the row."""


def first_words(error):
    """Returns the first line of an error, without the numbers of the row."""
    words = str(error).splitlines()[0] if str(error) else "an assertion"
    return re.sub(r"[(]?[0-9.]+[)]?", "…", words)[:70]


def whole(row):
    """Returns the layout of a row in integers; raises Cannot if the row does not give one."""
    def need(name, default=None):
        value = number(row, name, default)
        if value is None:
            raise Cannot(f"the row has no {name}")
        return int(value)

    tp, pp = need("tp", 1), need("pp", 1)
    gpus = need("gpus_per_node") * need("nodes")
    if need("cp", 1) > 1 or need("ep", 1) > 1:
        raise Cannot("context or expert parallelism")
    if gpus % (tp * pp):
        raise Cannot("the degrees do not divide the GPUs")
    if row["engine"].lower().find("lora") >= 0 or "adapter" in row["engine"].lower():
        raise Cannot("adapters")
    if row["offload"].strip() not in ("", "0", "none"):
        raise Cannot("offload")
    stage = STAGES.get(row["zero_stage"].strip())
    if stage is None:
        raise Cannot("its sharding stage")
    dp = gpus // (tp * pp)
    if need("dp_replicas", dp) not in (dp, 1) and stage == 3:
        raise Cannot("sharded replicas")
    hidden = need("hidden")
    batch = need("global_batch_sequences")
    micro = number(row, "micro_batch")
    if micro is None:
        accumulation = number(row, "grad_accum")
        if accumulation is None:
            raise Cannot("the row has no micro-batch")
        micro = batch / dp / accumulation
    if micro < 1 or batch % (dp * int(micro)):
        raise Cannot("the batch does not divide")
    # A row without `recompute` counts as no recomputation, for all tools.
    recompute = row["recompute"].strip() or "none"
    if recompute not in ("none", "selective", "full"):
        raise Cannot("recomputation of a part")
    heads, kv = need("heads"), need("kv_heads", number(row, "heads"))
    ffn = need("ffn", 4 * hidden)
    return {
        "tp": tp, "pp": pp, "dp": dp, "gpus": gpus, "stage": stage, "batch": batch, "micro": int(micro),
        "recompute": recompute, "layers": need("layers"), "hidden": hidden, "heads": heads, "kv": kv, "ffn": ffn,
        "vocab": need("vocab", 51200), "seq": need("seq"), "nodes": need("nodes"), "per_node": need("gpus_per_node"),
        "gated": ffn != 4 * hidden, "flash": row["flash"].strip() == "1",
    }


def gpu_family(row):
    name = row["gpu"].upper()
    for family in ("A100", "A800", "H100", "H800"):
        if name.startswith(family):
            return family.replace("800", "100")
    raise Cannot(f"no description of {row['gpu'] or 'the GPU'}")


class Calculon:
    """github.com/calculon-ai/calculon, as `calculon llm` runs it."""

    def __init__(self, path):
        sys.path.insert(0, str(path))
        import calculon
        from calculon.llm import Llm

        self.calculon, self.llm = calculon, Llm
        systems = {"A100": "a100_80g.json", "H100": "h100_80g_nvl8.json"}
        self.systems = {gpu: json.loads((path / "systems" / name).read_text()) for gpu, name in systems.items()}
        commit = subprocess.run(["git", "-C", str(path), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        self.version = commit.stdout.strip() or "checkout"

    def prepare(self, row):
        one = whole(row)
        if one["stage"] > 1:
            raise Cannot("sharded gradients or parameters")
        if one["flash"]:
            raise Cannot("flash attention")
        if one["gated"] or one["kv"] != one["heads"]:
            raise Cannot("gated layers, grouped heads")
        if one["layers"] % one["pp"]:
            raise Cannot("layers that the stages do not divide")
        if row["precision"] not in ("fp16", "bf16"):
            raise Cannot(f"precision {row['precision']}")
        system = json.loads(json.dumps(self.systems[gpu_family(row)]))
        memory = number(row, "gpu_mem_gib")
        if memory:
            system["mem1"]["GiB"] = memory
        between = number(row, "inter_bw_gbps")
        if between and one["nodes"] > 1:
            # GB/s of one GPU, of Gbit/s of a node.
            system["networks"][1]["bandwidth"] = between / 8 / one["per_node"]
        recompute = {"none": "none", "selective": "attn_only", "full": "full"}[one["recompute"]]
        sequence = "+SP" in row["engine"]
        application = {
            "hidden": one["hidden"], "feedforward": one["ffn"], "seq_size": one["seq"], "attn_heads": one["heads"],
            "attn_size": one["hidden"] // one["heads"], "num_blocks": one["layers"],
        }
        inside = one["tp"] * one["dp"] <= one["per_node"] and one["nodes"] == 1
        execution = {
            "num_procs": one["gpus"], "tensor_par": one["tp"], "pipeline_par": one["pp"], "data_par": one["dp"],
            "tensor_par_net": 0, "pipeline_par_net": 0 if one["nodes"] == 1 else 1, "data_par_net": 0 if inside else 1,
            "batch_size": one["batch"], "microbatch_size": one["micro"], "datatype": "float16",
            "fused_activation": False, "attention_type": "multihead", "activation_recompute": recompute,
            "pipeline_interleaving": 1, "optimizer_sharding": one["stage"] == 1 and one["dp"] > 1,
            "tensor_par_comm_type": "rs_ag" if sequence else "ar", "tensor_par_overlap": "none",
            "seq_par_ag_redo": sequence and recompute != "full", "data_par_overlap": False, "weight_offload": False,
            "activations_offload": False, "optimizer_offload": False, "training": True,
        }
        return application, execution, system

    def predict(self, prepared):
        application, execution, system = prepared
        logger = logging.getLogger("calculon")
        logger.setLevel(logging.CRITICAL)
        machine = self.calculon.System(system, logger) if self.takes_logger() else self.calculon.System(system)
        model = self.llm(self.llm.Application(application), logger)
        try:
            model.compile(machine, self.llm.Execution.from_json(execution))
            model.run(machine)
        except (self.llm.Error, AssertionError) as error:
            raise Cannot(f"refused: {first_words(error)}") from error
        return model.get_total_time()

    def takes_logger(self):
        import inspect

        return len(inspect.signature(self.calculon.System.__init__).parameters) > 2


class LlmAnalysis:
    """github.com/cli99/llm-analysis, `LLMAnalysis.training` with its defaults."""

    def __init__(self, efficiency=None):
        self.efficiency = efficiency
        import llm_analysis.analysis as analysis
        import llm_analysis.config as config
        import llm_analysis.logger as logger
        from importlib.metadata import version

        logger.logger.setLevel(logging.CRITICAL)
        self.analysis, self.config, self.version = analysis, config, version("llm-analysis")

    def prepare(self, row):
        one = whole(row)
        if row["precision"] not in ("fp16", "bf16"):
            raise Cannot(f"precision {row['precision']}")
        if one["layers"] % one["pp"]:
            raise Cannot("layers that the stages do not divide")
        memory = number(row, "gpu_mem_gib") or 80
        names = {"A100": "a100-sxm-80gb" if memory > 60 else "a100-sxm-40gb", "H100": "h100-sxm-80gb"}
        gpu = self.config.get_gpu_config_by_name(names[gpu_family(row)])
        between = number(row, "inter_bw_gbps")
        if between:
            gpu.inter_node_bandwidth_in_GB_per_sec = between / 8
        return one, gpu

    def predict(self, prepared):
        one, gpu = prepared
        config = self.config
        try:
            model = config.ModelConfig(
                name="row", num_layers=one["layers"], n_head=one["heads"], hidden_dim=one["hidden"],
                vocab_size=one["vocab"], max_seq_len=one["seq"], num_key_value_heads=one["kv"],
                ffn_embed_dim=one["ffn"],
            )
            tool = self.analysis.LLMAnalysis(
                model, gpu, config.get_dtype_config_by_name("w16a16e16"),
                config.ParallelismConfig(tp_size=one["tp"], pp_size=one["pp"], dp_size=one["dp"], sp_size=one["tp"]),
                **({} if self.efficiency is None else {"flops_efficiency": self.efficiency}),
            )
            recompute = {"none": 0, "selective": 1, "full": 2}[one["recompute"]]
            with contextlib.redirect_stdout(io.StringIO()):
                summary = tool.training(
                    batch_size_per_gpu=one["micro"], global_batch_size=one["batch"], seq_len=one["seq"],
                    activation_recomputation=self.analysis.ActivationRecomputation(recompute),
                    ds_zero=self.analysis.DSZeRO(one["stage"]), flash_attn=one["flash"],
                    mlp_gated_linear_units=one["gated"],
                )
        except (AssertionError, ValueError, ZeroDivisionError) as error:
            raise Cannot(f"refused: {first_words(error)}") from error
        return summary["latency_per_iter"]


def trainc_json(binary, extra):
    ran = subprocess.run(
        [binary, "calibrate", "crates/trainc-calibrate/data/runs.csv", "-o", "json", *extra], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


def trainc_rows(binary):
    return trainc_json(binary, [])["rows"]


def errors_of(tool, rows, measured):
    """Errors by row, why the others have none, and layouts a second of the tool alone."""
    found, reasons, prepared = {}, {}, {}
    for row in rows:
        try:
            prepared[row["id"]] = tool.prepare(row)
            found[row["id"]] = tool.predict(prepared[row["id"]]) / measured[row["id"]] - 1
        except Cannot as why:
            reasons[str(why)] = reasons.get(str(why), 0) + 1
    started, done = time.perf_counter(), 0
    while found and time.perf_counter() - started < 3:
        for name in found:
            tool.predict(prepared[name])
            done += 1
    return found, reasons, done / (time.perf_counter() - started)


def line(name, errors, rate):
    absolute = [abs(error) for error in errors]
    if not absolute:
        return f"| {name} | 0 | | | {rate} |"
    mean, median = 100 * statistics.mean(absolute), 100 * statistics.median(absolute)
    return f"| {name} | {len(absolute)} | {mean:.1f} % | {median:.1f} % | {rate} |"


def mean_of(errors):
    absolute = [abs(error) for error in errors]
    return statistics.mean(absolute) if absolute else None


def summary_table(shown_rows):
    """Prints the table of docs/performance.md: one line per tool, and trainc over all rows last."""
    percent = lambda share: "" if share is None else f"{100 * share:.1f} %"
    print(f"| {datetime.date.today()} | rows | mean error | trainc there | trainc, source left out | layouts/s, one core |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, count, own, here, away, rate in shown_rows:
        print(f"| {name} | {count} | {percent(own)} | {percent(here)} | {percent(away)} | {rate} |")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--trainc", default=str(ROOT / "target/release/trainc"))
    arguments.add_argument("--trainc-rate", default="", metavar="WORDS", help="layouts a second on one core, as `cargo bench --bench predict` prints them: '780,000 to 910,000'")
    arguments.add_argument("--calculon", type=pathlib.Path, help="a checkout of github.com/calculon-ai/calculon")
    arguments.add_argument("--left-out", action="store_true", help="also with constants fitted without the row's source")
    given = arguments.parse_args()
    venv = pathlib.Path(os.environ.get("PEERS_VENV", tempfile.gettempdir() + "/trainc-peers-venv"))
    python = venv / "bin/python"
    if pathlib.Path(sys.prefix) != venv:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", LLM_ANALYSIS, *CALCULON_NEEDS], check=True)
        os.execv(str(python), [str(python), *sys.argv])

    judged = trainc_rows(given.trainc)
    measured = {one["id"]: one["step_seconds"]["measured"] for one in judged if one.get("step_seconds")}
    trainc = {one["id"]: one["step_seconds"]["error"] for one in judged if one.get("step_seconds")}
    left_out, all_left_out = {}, None
    if given.left_out:
        with tempfile.TemporaryDirectory() as dir:
            summary = trainc_json(given.trainc, ["--write", f"{dir}/constants.toml"])["summary"]
        tier = summary["by_tier"]["C"]
        left_out = {name: one["mean_error"] for name, one in tier["by_family"].items()}
        all_left_out = tier["step_seconds"]["mean_error"]
    table = (ROOT / "crates/trainc-calibrate/data/runs.csv").read_text()
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row["id"] in measured]
    print(f"{len(rows)} rows with a step time that trainc judges\n")
    # "FLOPS efficiency achieved by Megatron-LM is ~0.5 for LLM training", llm-analysis says of its default of 1.
    tools = [("llm-analysis", LlmAnalysis()), ("llm-analysis, flops_efficiency 0.5,", LlmAnalysis(0.5))]
    if given.calculon:
        tools.append(("calculon", Calculon(given.calculon.resolve())))
    shown_rows = []
    for name, tool in tools:
        errors, reasons, rate = errors_of(tool, rows, measured)
        shown = f"{name} {tool.version}"
        print(f"| the rows that {shown} can say | rows | mean error | median | layouts/s, one core |\n| --- | --- | --- | --- | --- |")
        print(line(shown, errors.values(), f"{rate:,.0f}"))
        print(line("trainc", [trainc[id] for id in errors], given.trainc_rate))
        away = None
        if left_out and errors:
            # The mean of a family is used for each of its rows: the errors of this fit are not printed per row.
            away = statistics.mean(left_out[row["family"]] for row in rows if row["id"] in errors)
            print(f"| trainc, each source left out of the fit | {len(errors)} | {100 * away:.1f} % | | |")
        here = mean_of(trainc[id] for id in errors)
        shown_rows.append((f"{name} {tool.version}", len(errors), mean_of(errors.values()), here, away, f"{rate:,.0f}"))
        families = sorted({row["family"] for row in rows if row["id"] in errors})
        print(f"\nFamilies: {', '.join(families)}. The other {len(rows) - len(errors)} rows:")
        for why, count in sorted(reasons.items(), key=lambda item: -item[1]):
            print(f"  {count:4}  {why}")
        print()
    shown_rows.append(("trainc", len(rows), mean_of(trainc.values()), None, all_left_out, given.trainc_rate))
    summary_table(shown_rows)


if __name__ == "__main__":
    main()
