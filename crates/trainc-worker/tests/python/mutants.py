"""Changes one place of the GPU engine at a time and expects its tests over the NCCL double to fail.

    TRAINC_TORCH_LIB=.../torch/lib mutants.py [NAME ...]

Works on a copy of the repository in target/mutants. Prints what became of each mutant; exit code 1 if one survived.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
COPY = ROOT / "target/mutants"
TESTS = "test(aten::every_collective) + test(aten::the_calls)"

# What mutants call: the buffers of a collective that may still be in progress, which no code of the worker can take.
TAKE_EARLY = (
    "impl<B> Pending<B> {\n",
    "impl<B> Pending<B> {\n    pub(crate) fn take_early(self) -> B {\n        self.buffers\n    }\n\n",
)

# Name: (file in src/aten, text, replacement). Every text occurs once.
MUTANTS = {
    "a collective starts without an event of compute": (
        "ffi.rs",
        'self.cuda("cudaEventRecord", (self.cuda.cudaEventRecord)(self.before, null_mut()))?;',
        "",
    ),
    "the side stream does not wait for compute": (
        "ffi.rs",
        'self.cuda("cudaStreamWaitEvent", waits)?;\n        }\n        self.nccl(function',
        "let _ = waits;\n        }\n        self.nccl(function",
        "let waits = (self.cuda.cudaStreamWaitEvent)(self.stream, self.before, 0);",
        "let waits = 0;",
    ),
    "the end of a collective is not recorded": (
        "ffi.rs",
        'self.cuda("cudaEventRecord", unsafe { (self.cuda.cudaEventRecord)(event, self.stream) })?;',
        "",
    ),
    "compute does not wait for a collective": (
        "ffi.rs",
        "let waits = unsafe { (self.cuda.cudaStreamWaitEvent)(null_mut(), event, 0) };",
        "let waits = 0;",
    ),
    "a rank's own part is at another place": (
        "ffi.rs",
        "to.cast::<u8>().add(communicator.rank * n * bytes)",
        "to.cast::<u8>().add((communicator.rank + 1) % communicator.size * n * bytes)",
    ),
    "a gather has too few elements": (
        "ffi.rs",
        "(self.nccl.ncclAllGather)(from.cast(), to, n, kind,",
        "(self.nccl.ncclAllGather)(from.cast(), to, n - 16, kind,",
    ),
    "a sum has too few elements": (
        "ffi.rs",
        "(self.nccl.ncclReduceScatter)(from, to, n, kind,",
        "(self.nccl.ncclReduceScatter)(from, to, n - 16, kind,",
    ),
    "f32 is sent as f64": ("ffi.rs", "Self::F32 => Some(7)", "Self::F32 => Some(8)"),
    "bf16 is sent as f32": ("ffi.rs", "Self::Bf16 => Some(9)", "Self::Bf16 => Some(7)"),
    "replicas are summed over the shard group": (
        "comm.rs",
        "Members::Replica => (Group::Replica, self.replicas)",
        "Members::Replica => (Group::Shard, self.shard.1)",
    ),
    "replicas are not summed": (
        "comm.rs",
        "match self.links(size) {",
        "match self.links(size).filter(|_| members != Members::Replica) {",
    ),
    "a gathered unit is not waited for": (
        "comm.rs",
        "self.note(Members::Shard, Operation::EndGather, n);\n        self.take(pending)",
        "self.note(Members::Shard, Operation::EndGather, n);\n        Ok(pending.take_early())",
    ),
    "a gradient's sum is not waited for": (
        "engine.rs",
        "let (full, part) = self.comm.take(pending)?;",
        "let (full, part) = pending.take_early();",
    ),
    "the sum over replicas is not waited for": (
        "engine.rs",
        "for (unit, waiting) in pending {\n            let gradient = self.comm.take(waiting)?;",
        "for (unit, waiting) in pending {\n            let gradient = waiting.take_early();",
    ),
    "the narrow sum over replicas is not waited for": (
        "engine.rs",
        "let part = self.comm.take(waiting)?;",
        "let part = waiting.take_early();",
    ),
    "a shard is written to another rank's place": (
        "engine.rs",
        "full.view(&[n as i64], self.rank * n)?.copy(&self.values[unit].master)?;\n        self.begun",
        "full.view(&[n as i64], (self.rank + 1) % self.degree * n)?.copy(&self.values[unit].master)?;\n        self.begun",
    ),
    "a buffer is reused before its unit is read": (
        "engine.rs",
        "let mut x = embedding_head::embed(&self.pass, &self.weights(0), inputs)?;",
        "self.free(0)?;\n        let mut x = embedding_head::embed(&self.pass, &self.weights(0), inputs)?;",
    ),
    "the last gradients of a step are not added": (
        "engine.rs",
        "for sum in 0..self.sums.len() {\n            self.settle(sum)?;\n        }\n        let device",
        "let device",
    ),
    "a second pass replaces the first one's gradient": (
        "engine.rs",
        "if trained.is_summed {\n            shard.copy",
        "if false {\n            shard.copy",
    ),
    "gradients of the last step are added": (
        "engine.rs",
        "self.trained().for_each(|trained| trained.is_summed = false);\n        Ok(())\n    }\n\n    fn clear",
        "Ok(())\n    }\n\n    fn clear",
    ),
    "a sum starts before its gradient is complete": (
        "engine.rs",
        "            d = self.pass.backward(&weights, adapters, &x, &saved, &d, gradient)?;\n            drop((x, saved));",
        "            let early = gradient.alias()?;\n            if self.adapter(layer).is_none() {\n"
        "                self.start_sum(sum, 1 + layer)?;\n            }\n"
        "            let (weights, adapters) = (self.weights(1 + layer), self.adapters(layer));\n"
        "            d = self.pass.backward(&weights, adapters, &x, &saved, &d, &early)?;\n            drop((x, saved));",
        "                self.free_block(layer)?;\n                self.start_sum(sum, 1 + layer)?;",
        "                self.free_block(layer)?;",
    ),
    "a buffer is reused before its gradient is added": (
        "engine.rs",
        "self.turn += 1;\n        self.settle(at)?;",
        "self.turn += 1;",
    ),
    "the tied embedding's gradient is not settled before the next pass": (
        "engine.rs",
        "if tied {\n                    self.settle(2)?;\n                }",
        "",
    ),
    "weights are exported before they are gathered": (
        "engine.rs",
        "let full = self.comm.end_gather(self.comm.begin_gather(full, n)?, n)?;\n        let values",
        "let full = self.comm.begin_gather(full, n)?.take_early();\n        let values",
    ),
    "one more unit is gathered ahead": (
        "engine.rs",
        "(1 + self.prefetch).min(self.order.len())",
        "(2 + self.prefetch).min(self.order.len())",
    ),
    "blocks are not freed after the forward pass": (
        "engine.rs",
        "if !keep || (self.reshard && layer + 1 < layers) {",
        "if !keep {",
    ),
}

# Mutants that change nothing, with the reason. They are run too: one that is caught has become an ordering of its own.
SAME = {
    "the vectors are not waited for": "the first unit is gathered later on the same stream, and is waited for",
    "memory of collectives is not kept": "a collective in progress owns its buffers, and none is dropped before it ends",
}
MUTANTS |= {
    "memory of collectives is not kept": (
        "ffi.rs",
        "self.kept.borrow_mut().push(buffer.alias()?);",
        "",
    ),
    "the vectors are not waited for": (
        "engine.rs",
        "vectors.values = Some(self.comm.take(pending)?);",
        "vectors.values = Some(pending.take_early());",
    ),
}


def run(command, **options):
    return subprocess.run(command, cwd=COPY, capture_output=True, text=True, **options)


def main(names):
    if not os.environ.get("TRAINC_TORCH_LIB"):
        sys.exit("error: set TRAINC_TORCH_LIB to torch/lib of an installed PyTorch")
    shutil.rmtree(COPY / "crates", ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CARGO_TARGET_DIR": str(COPY / "target")}
    test = ["cargo", "nextest", "run", "--locked", "-p", "trainc-worker", "--test", "main", "-E", TESTS]
    build = ["cargo", "test", "--locked", "-p", "trainc-worker", "--test", "main", "--no-run"]
    clean = run(test, env=environment)
    if clean.returncode != 0:
        sys.exit(f"error: the tests fail without a change\n{clean.stdout[-2000:]}{clean.stderr[-2000:]}")
    survived = 0
    for name, (file, *edits) in MUTANTS.items():
        if names and name not in names:
            continue
        path = COPY / "crates/trainc-worker/src/aten" / file
        original = path.read_text()
        text = original
        foreign = COPY / "crates/trainc-worker/src/aten/ffi.rs"
        functions = foreign.read_text()
        if any("take_early" in new for new in edits[1::2]):
            assert functions.count(TAKE_EARLY[0]) == 1
            foreign.write_text(functions.replace(*TAKE_EARLY))
        for old, new in zip(edits[::2], edits[1::2]):
            assert text.count(old) == 1, f"{name}: {text.count(old)} times in {file}: {old}"
            text = text.replace(old, new)
        path.write_text(text)
        try:
            built = run(build, env=environment)
            if built.returncode != 0:
                result = "DOES NOT COMPILE\n" + built.stderr[-1500:]
            else:
                try:
                    result = "caught" if run(test, env=environment, timeout=600).returncode else "SURVIVED"
                except subprocess.TimeoutExpired:
                    result = "caught"
        finally:
            path.write_text(original)
            foreign.write_text(functions)
        reason = SAME.get(name)
        if result == "SURVIVED" and reason:
            result = f"no difference ({reason})"
        survived += result != "caught" and not reason
        print(f"{result}: {name}", flush=True)
    print(f"{len(names) or len(MUTANTS)} mutants, {survived} not caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
