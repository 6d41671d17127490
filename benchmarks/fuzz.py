"""Damaged input files through the command line: `python -m benchmarks.fuzz [MUTANTS]` (10,000).

Shipped files, traces of requests, measured profiles, a bundle and the files of a finished run are changed in a few
characters, lines or values; the command that reads them must end with an exit code of ours: no other exception, no
hang, no memory beyond a bound.  A file that makes it fail is left in the working directory.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.rng import derive

ROOT = Path(__file__).resolve().parents[1]
CHARACTERS = "\t\n :,-[]{}#&*!|>'\"%@`$?0123456789.eE+aznM~\x00\u00e9\u2028"
AWKWARD = (
    "-1", "0", "1e400", ".nan", "null", "[]", "{}", "true", "1 GB", "99999999999999999999", "''", "*a", "x" * 300,
    "1e-300", "../../etc/passwd", "/dev/zero", "[" * 100, "1" * 500, "<<", "&a [*a]", "\ud55c\uae00", "1e18 GB/s",
)  # fmt: skip
MOST_CPU_S = 20
"""CPU time that a command may take on a damaged file."""
MOST_MEMORY = 1 << 30
"""Bytes by which the memory of the process may grow over all files."""


def mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, drop or add a few characters."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(changed) + 1))
        new = CHARACTERS[int(rng.integers(len(CHARACTERS)))].encode()
        kind = int(rng.integers(3))
        changed[at : at + (kind != 2)] = b"" if kind == 1 else new
    return bytes(changed)


def mutate_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Drop, repeat, swap, cut or indent lines."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    at, other = (int(index) for index in rng.integers(len(lines), size=2))
    kind = int(rng.integers(5))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines = lines[:at]
    else:
        lines[at] = b"  " + lines[at]
    return b"".join(lines)


def mutate_value(data: bytes, rng: np.random.Generator, separator: bytes = b" ") -> bytes:
    """Put an awkward value in the place of one word or cell."""
    words = data.split(separator)
    at = int(rng.integers(len(words)))
    words[at] = AWKWARD[int(rng.integers(len(AWKWARD)))].encode()
    return separator.join(words)


def mutant(data: bytes, suffix: str, *name: str | int) -> bytes:
    """The damaged file of that name."""
    rng = derive(5, "fuzz", *name)
    kind = int(rng.integers(3))
    if kind == 2:
        return mutate_value(data, rng, b"," if suffix == ".csv" else b" ")
    return (mutate_bytes, mutate_lines)[kind](data, rng)


@dataclass(frozen=True)
class Target:
    """A file and the command that reads it; `{}` in the words stands for the file."""

    name: str
    file: Path
    words: tuple[str, ...]


def shipped() -> list[Target]:
    """Experiments, workloads, lengths, models, spaces and designs, checked with all that they name."""
    files = [
        *sorted((ROOT / "experiments").glob("*.yaml")),
        *sorted((ROOT / "workloads").glob("**/*.yaml")),
        *sorted((ROOT / "workloads" / "models").glob("*.json")),
        *sorted((ROOT / "search_spaces").glob("**/*.yaml")),
    ]
    return [Target(f"{file.parent.name}/{file.name}", file, ("check", "{}")) for file in files]


def profiles() -> list[Target]:
    """Measured tables and profiles."""
    tables = sorted((ROOT / "hydra_dse" / "library" / "measurements").glob("*.yaml"))
    return [
        Target("dabench-profiles.csv", ROOT / "docs" / "dabench-profiles.csv", ("bench", "tier1", "{}")),
        *(Target(f"measurements/{file.name}", file, ("calibrate", "{}", "--bootstrap", "0")) for file in tables),
    ]


def library(folder: Path) -> list[Target]:
    """One entry of each kind of the hardware library, as a file of its own."""
    from hydra_dse.config.dump import to_yaml
    from hydra_dse.config.library import library as of_kind

    found = []
    for kind in ("chiplets", "memories", "links"):
        entries = of_kind(kind).data[kind]
        if isinstance(entries, dict):
            file = folder / f"{kind}.yaml"
            file.write_text(to_yaml(dict(next(iter(entries.values())))), encoding="utf-8")
            found.append(Target(file.name, file, ("check", "{}")))
    return found


TRACES = {
    "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,55\n",
    "burstgpt.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n",
    "vidur.csv": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,20\n1.25,200,30\n",
    "lengths.csv": "prompt_tokens,output_tokens\n100,20\n200,30\n",
    "mooncake.jsonl": '{"timestamp": 0, "input_length": 6955, "output_length": 52, "hash_ids": [0, 1, 2, 3]}\n'
    '{"timestamp": 3052, "input_length": 6472, "output_length": 26, "hash_ids": [0, 1, 4]}\n',
}
CLIENT = {
    "chunk-0-trace.csv": "0,2.5,1.1,Gamma,0.8,0.5\n600,1.5,0.9,Weibull,1.2,0.7\n",
    "chunk-0-dataset.json": '{"0": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{10: 0.25, 40: 0.75}"}}',
}


def traces(folder: Path) -> list[Target]:
    """Recorded requests of several formats, and the folder of a client whose traffic is sampled."""
    for name, text in TRACES.items():
        (folder / name).write_text(text, encoding="utf-8")
    client = folder / "client"
    client.mkdir()
    for name, text in CLIENT.items():
        (client / name).write_text(text, encoding="utf-8")
    alone = [Target(name, folder / name, ("check", "{}")) for name in TRACES]
    return [*alone, *(Target(f"client/{name}", client / name, ("check", str(client))) for name in CLIENT)]


CARD = """\
version: 1
description: a card to be damaged
workload:
  model:
    phase: inference
    model_family: llama-3.1-8b
    precision: bf16
    iteration: 4
    model_arch: {num_params: 8030261248, num_layers: 32, num_heads: 32, head_dim: 128}
  data: {batch_size: 4, seq_len: 128, input_len: 128, output_len: 16}
  hardware:
    network_topo: {topology: slingshot, bandwidth_gbps: [2000, 200]}
    xpu_spec: {type: GPU, model: nvidia_h100, total_count: 2, count_per_node: 2}
"""
KERNELS = (("gemm_bf16", 0, 40), ("ncclDevKernel_AllReduce", 42, 20), ("flash_attention", 65, 30), ("memcpy", 99, 5))


def bundle(folder: Path) -> list[Target]:
    """A workload card, and the traces of two ranks with a few kernels."""
    place = folder / "bundle"
    place.mkdir()
    (place / "bundle.yaml").write_text(CARD, encoding="utf-8")
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": long, "args": {"stream": 7}}
        for name, start, long in KERNELS
    ]
    for rank in (0, 1):
        trace = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (place / f"rank{rank}_trace.json").write_text(json.dumps(trace, indent=1), encoding="utf-8")
    return [
        Target("bundle/bundle.yaml", place / "bundle.yaml", ("card", "check", "{}")),
        Target("bundle/rank0_trace.json", place / "rank0_trace.json", ("trace", "metrics", str(place))),
        Target("bundle/rank1_trace.json", place / "rank1_trace.json", ("trace", "check", str(place))),
    ]


def of_run(run: Path) -> list[Target]:
    """The files of a finished run, each read by commands that need it."""
    words = {
        "experiment.yaml": ("validate", "{run}"),
        "provenance.json": ("diff", "{run}", "{run}"),
        "designs.parquet": ("diff", "{run}", "{run}"),
        "validation.csv": ("validate", "{run}"),
    }
    return [
        Target(f"run/{name}", run / name, tuple(word.replace("{run}", str(run)) for word in command))
        for name, command in words.items()
    ]


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` after so much CPU time."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {seconds} s of CPU")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run(words: Sequence[str]) -> tuple[int, str]:
    """Exit code and messages of a command in this process; whatever else it raises passes through."""
    import click

    from hydra_dse.cli.app import app
    from hydra_dse.errors import InputError, Interrupted, NothingFeasible, UnitError

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), limited(MOST_CPU_S):
        try:
            code = app.main(list(words), prog_name="hydra-dse", standalone_mode=False)
        except (InputError, UnitError, NothingFeasible, Interrupted, click.ClickException) as error:
            return 2, str(error)
        except click.exceptions.Exit as ended:
            return ended.exit_code, said.getvalue()
    return code if isinstance(code, int) else 0, said.getvalue()


def attempt(target: Target, number: int, folder: Path) -> tuple[int, str, bytes]:
    """Exit code and messages on the damaged file, and the file.

    A file of a run is damaged in its place and put back; others are written to `folder`.
    """
    whole = target.file.read_bytes()
    damaged = mutant(whole, target.file.suffix, target.name, number)
    in_place = not any("{}" in word for word in target.words)
    place = target.file if in_place else folder / target.file.name
    place.write_bytes(damaged)
    try:
        return *run([word.replace("{}", str(place)) for word in target.words]), damaged
    finally:
        if in_place:
            place.write_bytes(whole)


def peak_memory() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def small_run(folder: Path) -> Path:
    """A finished, validated run of a few designs."""
    from hydra_dse.config import load_experiment
    from hydra_dse.studies import sweep, validate

    small = ["search.trials=16", "search.population=8", "validation.requests=60", "validation.replications=2"]
    sweep(load_experiment("quickstart", [*small, "validation.top=2"]), folder / "run")
    validate(folder / "run")
    return folder / "run"


def every(folder: Path) -> list[Target]:
    """All targets; what does not ship is made in `folder`."""
    made = [*library(folder), *traces(folder), *bundle(folder), *of_run(small_run(folder))]
    return [*shipped(), *profiles(), *made]


@dataclass
class Outcome:
    """What became of many damaged files; `grown` in bytes of peak memory."""

    done: int = 0
    refused: int = 0
    failures: int = 0
    grown: int = 0


def campaign(mutants: int) -> Outcome:
    """Damage at least so many files; what makes a command fail is printed and kept."""
    found = Outcome()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "whole").mkdir()
        targets = every(folder / "whole")
        before = peak_memory()
        for number in range(-(-mutants // len(targets))):
            for target in targets:
                found.done += 1
                try:
                    found.refused += attempt(target, number, folder)[0] == 2
                except Exception as error:
                    found.failures += 1
                    print(f"{target.name} {number}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                    kept = Path(f"fuzz-{number}-{target.name.replace('/', '-')}")
                    kept.write_bytes(mutant(target.file.read_bytes(), target.file.suffix, target.name, number))
        found.grown = peak_memory() - before
    return found


def main() -> None:
    found = campaign(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    print(
        f"{found.done} damaged files, {found.refused} refused, {found.failures} failures, "
        f"memory grew by {found.grown / 1e6:.0f} MB"
    )
    sys.exit(bool(found.failures) or found.grown > MOST_MEMORY)


if __name__ == "__main__":
    main()
