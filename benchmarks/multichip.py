"""Published serving on several chips against the package simulator: `python -m benchmarks.multichip [--write]`.

One batch of equal requests: its prompts in one iteration, then decode steps up to the last token, each executed
operator by operator in events (`--detail operators`), with flows that share links and memories. Steps are executed
at a few contexts and interpolated between. Designs lie in `benchmarks/multichip_designs/`; models that the project
does not bundle are read from the folder of published configurations (`HYDRA_DSE_REFERENCE`). `--write` puts the
table into `docs/multichip.csv`.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from hydra_dse.config import load_calibration, load_design, load_model
from hydra_dse.config.machines import load_machine_fits
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import block_names, map_design, precision_of
from hydra_dse.model.operators import OperatorClass
from hydra_dse.placement import place_design
from simulators.iteration import Attended, Composition
from simulators.noi.flows import FlowNetwork
from simulators.package import PlacedHardware
from simulators.package.execution import run_alone
from simulators.package.operators import OperatorCost

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "docs" / "multichip.csv"
CONTEXTS = 3
"""Contexts at which decode steps are executed: a step is piecewise linear in the context."""
MATRIX = (
    OperatorClass.ATTENTION_PROJECTION, OperatorClass.ATTENTION, OperatorClass.MLP, OperatorClass.EXPERTS,
    OperatorClass.LM_HEAD,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A published measurement: one batch of requests on one machine.

    Attributes:
        seconds: end to end (`what` = `"end to end"`), of one decode step, or to the first token of one prompt.
    """

    machine: str
    design: str
    model: str
    what: str
    input: int
    output: int
    batch: int
    seconds: float


def cases(folder: Path) -> Iterator[Case]:
    """Rows of the published tables that run on several chips."""
    models = {"Meta-Llama-3-8B": "llama-3.1-8b", "Llama-2-7b-hf": str(folder / "models" / "llama-2-7b.json")}
    with (folder / "dabench" / "sn40l_inference.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            model = models.get(row["model"].rsplit("/", 1)[-1])
            if model is None or not row["end_to_end_latency_s"]:
                continue
            load = int(row["input_tokens"]), int(row["output_tokens"]), int(row["batch_size"])
            yield Case("8 SN40L", "sn40l-8", model, "end to end", *load, float(row["end_to_end_latency_s"]))
            if row["ttft_s"]:
                yield Case("8 SN40L", "sn40l-8", model, "first token", load[0], 1, load[2], float(row["ttft_s"]))
    names = {"Qwen2.5-7B": "qwen2.5-7b.json", "Qwen3-32B": "qwen3-32b.json", "Mixtral-8x7B": "mixtral-8x7b.json"}
    chips = {"TP=2": ("2 Wormhole", "wormhole-2"), "TP=8": ("8 Wormhole", "wormhole-8")}
    with (folder / "dabench" / "tenstorrent_inference.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["model"] in names and row["parallelism"] in chips:
                machine, model = chips[row["parallelism"]], str(folder / "models" / names[row["model"]])
                tokens, batch = int(row["input_tokens"]), int(row["batch_size"])
                yield Case(*machine, model, "first token", tokens, 1, 1, float(row["ttft_ms"]) / 1e3)
                rate = float(row["output_tokens_per_s_per_user"])
                yield Case(*machine, model, "decode step", tokens, 2, batch, 1.0 / rate)


@cache
def calibration(name: str, design: str) -> CalibrationSet:
    """`measured`; or that with the shares fitted to the chip itself, and without a host."""
    measured = load_calibration("measured")
    if name == "measured":
        return measured
    fits = {fit.phase: fit for fit in load_machine_fits(design.split("-")[0])}
    shares = dict.fromkeys(MATRIX, fits["prefill"].value("share"))
    stream = fits["decode"].value("stream")
    memory = {**measured.default.memory, "weights": stream, "kv": stream}
    own = replace(
        measured.default, compute={**measured.default.compute, **shares}, memory=memory, iteration_overhead_s=0.0
    )
    return CalibrationSet(own, {})


@cache
def machine(design: str, model: str, name: str) -> OperatorCost:
    """The placed machine that executes iterations."""
    served = load_model(model)
    placed, violations = place_design(load_design(HERE / "multichip_designs" / f"{design}.yaml"), served, 0)
    if violations:
        raise InputError(Fault("; ".join(map(str, violations)), file=design))
    formats = precision_of(placed, served)
    hardware = PlacedHardware(placed, map_design(placed, served), calibration(name, design), formats)
    network = FlowNetwork()
    return OperatorCost(hardware, "serve", block_names(served, 1), network)


def executed_s(cost: OperatorCost, batch: Composition) -> float:
    """Time of one iteration alone, operator by operator."""
    return float(run_alone(cost.programs.network, cost.programs.program(batch)).now_s)


def prompts(cost: OperatorCost, tokens: int, batch: int) -> Composition:
    """All prompts in one iteration, causal."""
    pairs = batch * tokens * (tokens + 1) // 2
    attended = Attended(0, pairs, batch * tokens, 0)
    return Composition(batch * tokens, batch, 0, batch, attended, (attended,) * len(cost.windows))


def step(cost: OperatorCost, context: int, batch: int) -> Composition:
    """A decode step of equal sequences."""
    attended = Attended(batch * context, 0, 0, batch)
    return Composition(0, 0, batch, batch, attended, (attended,) * len(cost.windows))


def predicted_s(case: Case, name: str) -> float:
    """What the simulator says of a case."""
    cost = machine(case.design, case.model, name)
    if case.what == "decode step":
        return executed_s(cost, step(cost, case.input, case.batch))
    first = executed_s(cost, prompts(cost, case.input, case.batch))
    if case.output == 1:
        return first
    contexts = np.linspace(case.input, case.input + case.output, CONTEXTS).round().astype(int)
    times = [executed_s(cost, step(cost, int(context), case.batch)) for context in contexts]
    each = np.interp(np.arange(case.input, case.input + case.output - 1), contexts, times)
    return float(first + each.sum())


def table(folder: Path) -> list[list[str]]:
    """Rows of the table."""
    rows = []
    for case in cases(folder):
        if case.model.endswith(".json") and not Path(case.model).is_file():
            continue
        fitted = case.design.startswith("sn40l")
        sides = [f"{predicted_s(case, 'measured') / case.seconds - 1:+.3f}"]
        sides.append(f"{predicted_s(case, 'own') / case.seconds - 1:+.3f}" if fitted else "")
        load = [str(case.input), str(case.output), str(case.batch)]
        label = Path(case.model).name.removesuffix(".json")
        rows.append([case.machine, label, case.what, *load, f"{case.seconds:.4g}", *sides])
    return rows


def main(arguments: list[str]) -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.multichip", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name}")
    chosen = parser.parse_args(arguments)
    folder = Path(os.environ.get("HYDRA_DSE_REFERENCE", "../shared/reference"))
    if not folder.is_dir():
        sys.stderr.write(f"no published tables at {folder}: set HYDRA_DSE_REFERENCE\n")
        return 2
    names = ["machine", "model", "what", "input", "output", "batch", "seconds", "measured", "own"]
    rows = table(folder)
    with OUT.open("w", encoding="utf-8", newline="") if chosen.write else sys.stdout as stream:
        csv.writer(stream, lineterminator="\n").writerows([names, *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
