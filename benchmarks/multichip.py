"""Published serving on several chips against the package simulator: `python -m benchmarks.multichip [--write]`.

One batch of equal requests: its prompts in one iteration, then decode steps up to the last token, each executed
operator by operator in events (`--detail operators`), with flows that share links and memories. Steps are executed
at a few contexts and interpolated between. Each row is predicted by `measured`, and by the machine's own parameters,
as many as the published rows that they are solved on (`OWN`); all other rows check them. Designs lie in
`benchmarks/multichip_designs/`; models that neither the project nor that folder holds are read from the folder of
published configurations (`HYDRA_DSE_REFERENCE`). `--write` puts tables into `docs/multichip.csv` and
`docs/multichip_parameters.csv`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.multichip_rows import Case, cases, published
from hydra_dse.config import load_calibration, load_design, load_model
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import block_names, map_design, precision_of
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import OperatorClass
from hydra_dse.placement import place_design
from simulators.iteration import Attended, Composition
from simulators.noi.flows import FlowNetwork
from simulators.package import PlacedHardware
from simulators.package.alone import run_alone
from simulators.package.operators import OperatorCost

DESIGNS = Path(__file__).resolve().parent / "multichip_designs"
OUT = DESIGNS.parents[1] / "docs" / "multichip.csv"
SOLVED = OUT.with_name("multichip_parameters.csv")
FloatArray = NDArray[np.float64]
CONTEXTS = 3
"""Contexts at which decode steps are executed: a step is piecewise linear in the context."""
MATRIX = (
    OperatorClass.ATTENTION_PROJECTION, OperatorClass.ATTENTION, OperatorClass.MLP, OperatorClass.EXPERTS,
    OperatorClass.LM_HEAD,
)  # fmt: skip


BOUNDS = {
    "stream": ("1", 0.05, 1.0), "weights": ("1", 0.05, 1.0), "share": ("1", 0.005, 1.0), "kv_access": ("B", 1e2, 1e9),
    "iteration_overhead": ("s", 1e-6, 1.0), "collective_overhead": ("s", 1e-9, 1e-2),
}  # fmt: skip
"""Unit and limits: share of the bandwidth (weights and KV, or weights alone), of the peak, fixed costs."""


Named = tuple[str, str, str, int, int]
"""Design, model, what, tokens in and batch: one row."""

SN40L, SN40L_OLD = "sn40l", "sn40l, Llama-2-7B"
OWN: Mapping[str, Mapping[str, Named]] = {
    SN40L: {
        "stream": ("sn40l-8", "llama-3.1-8b", "end to end", 512, 1),
        "kv_access": ("sn40l-8", "llama-3.1-8b", "end to end", 512, 16),
    },
    SN40L_OLD: {"weights": ("sn40l-8", "llama-2-7b", "end to end", 512, 1)},
    "wormhole": {
        "stream": ("wormhole-1", "llama-3.1-8b", "decode step", 128, 32),
        "iteration_overhead": ("wormhole-1", "llama-3.2-1b", "decode step", 128, 32),
        "share": ("wormhole-1", "llama-3.1-8b", "first token", 128, 1),
        "collective_overhead": ("wormhole-8", "qwq-32b", "decode step", 128, 32),
    },
}
"""Parameters of each machine with the rows that they are solved on together. The older software of SN40L takes those of
the newer one, but for one factor on the time of streamed weights."""


def model_of(name: str) -> Model:
    """A model of the library, of this benchmark, or of the published configurations.

    Raises:
        InputError: none of them has it.
    """
    for folder in (DESIGNS / "models", published() / "models"):
        if (folder / f"{name}.json").is_file():
            return load_model(str(folder / f"{name}.json"))
    return load_model(name)


def calibration(values: Mapping[str, float]) -> CalibrationSet:
    """`measured` with a machine's own parameters in it; none of them: as shipped, with a host."""
    base = load_calibration("measured").default
    if not values:
        return CalibrationSet(base, {})
    memory = dict(base.memory) | dict.fromkeys(("weights", "kv"), values["stream"])
    memory["weights"] = values.get("weights", memory["weights"])
    compute = dict(base.compute) | (dict.fromkeys(MATRIX, values["share"]) if "share" in values else {})
    own = replace(
        base,
        memory=memory,
        compute=compute,
        iteration_overhead_s=values.get("iteration_overhead", 0.0),
        collective_overhead_s=values.get("collective_overhead", base.collective_overhead_s),
        kv_access_bytes=values.get("kv_access", base.kv_access_bytes),
    )
    return CalibrationSet(own, {})


def owner_of(case: Case) -> str:
    """Whose own parameters a row is predicted by."""
    name = case.design.split("-")[0]
    return SN40L_OLD if (name, case.model) == (SN40L, "llama-2-7b") else name


def solve(owner: str, rows: Sequence[Case], given: Mapping[str, float] | None = None) -> dict[str, float]:
    """A machine's own parameters: least squares of log errors on the rows named for them, within limits.

    Args:
        owner: a key of `OWN`.
        rows: published rows, those named among them.
        given: parameters that stay as they are.
    """
    from scipy.optimize import least_squares

    names, known = OWN[owner], {named(case): case for case in rows}
    chosen = [known[row] for row in names.values()]
    low, high = (np.log([BOUNDS[name][side] for name in names]) for side in (1, 2))
    start = np.log([{**START, **(given or {})}[name] for name in names])

    def values(logs: FloatArray) -> dict[str, float]:
        return {**(given or {}), **dict(zip(names, np.exp(logs).tolist(), strict=True))}

    def errors(logs: FloatArray) -> list[float]:
        return [float(np.log(predicted_s(case, values(logs)) / case.seconds)) for case in chosen]

    found = least_squares(errors, start, bounds=(low, high), diff_step=1e-3, xtol=1e-4, max_nfev=20)
    return values(found.x)


START = {
    "stream": 0.8,
    "weights": 0.8,
    "kv_access": 1e6,
    "iteration_overhead": 5e-3,
    "collective_overhead": 5e-5,
    "share": 0.3,
}


def named(case: Case) -> Named:
    """The name of a row."""
    return case.design, case.model, case.what, case.input, case.batch


def own_parameters(rows: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Own parameters of every machine."""
    newer = solve(SN40L, rows)
    return {SN40L: newer, SN40L_OLD: solve(SN40L_OLD, rows, newer), "wormhole": solve("wormhole", rows)}


@cache
def placed_on(design: str, model: str) -> tuple[Model, Design]:
    """A model and the placed machine that serves it."""
    served = model_of(model)
    placed, violations = place_design(load_design(DESIGNS / f"{design}.yaml"), served, 0)
    if violations:
        raise InputError(Fault("; ".join(map(str, violations)), file=design))
    return served, placed


def machine(design: str, model: str, values: Mapping[str, float]) -> OperatorCost:
    """The placed machine that executes iterations."""
    served, placed = placed_on(design, model)
    hardware = PlacedHardware(placed, map_design(placed, served), calibration(values), precision_of(placed, served))
    return OperatorCost(hardware, "serve", block_names(served, 1), FlowNetwork())


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


def predicted_s(case: Case, values: Mapping[str, float]) -> float:
    """What the simulator says of a case under own parameters (none: `measured`)."""
    cost = machine(case.design, case.model, values)
    if case.what == "decode step":
        return executed_s(cost, step(cost, case.input, case.batch))
    first = executed_s(cost, prompts(cost, case.input, case.batch))
    if case.output == 1:
        return first
    contexts = np.linspace(case.input, case.input + case.output, CONTEXTS).round().astype(int)
    times = [executed_s(cost, step(cost, int(context), case.batch)) for context in contexts]
    each = np.interp(np.arange(case.input, case.input + case.output - 1), contexts, times)
    return float(first + each.sum())


def table(rows: Sequence[Case], own: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """Rows of the table."""
    found = []
    for case in rows:
        owner = owner_of(case)
        errors = [f"{predicted_s(case, values) / case.seconds - 1:+.3f}" for values in ({}, own[owner])]
        if owner == SN40L_OLD:  # unchanged, before the factor
            errors.append(f"{predicted_s(case, own[SN40L]) / case.seconds - 1:+.3f}")
        solved = named(case) in OWN[owner].values()
        load = [str(case.input), str(case.output), str(case.batch)]
        figures = [case.machine, case.model, case.what, *load, f"{case.seconds:.4g}", *errors[:2]]
        found.append([*figures, errors[2] if len(errors) > 2 else "", "solved" if solved else ""])
    return found


def parameters(own: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """Own parameters with the row that each was solved on."""
    return [
        [owner, name, f"{own[owner][name]:.4g}", BOUNDS[name][0], f"{model}, {what}, {tokens} tokens, batch {batch}"]
        for owner, names in OWN.items()
        for name, (_, model, what, tokens, batch) in names.items()
    ]


def main(arguments: list[str]) -> int:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.multichip", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name} and {SOLVED.name}")
    chosen = parser.parse_args(arguments)
    if not published().is_dir():
        sys.stderr.write(f"no published tables at {published()}: set HYDRA_DSE_REFERENCE\n")
        return 2
    rows = list(cases(published()))
    own = own_parameters(rows)
    names = ["machine", "model", "what", "input", "output", "batch", "seconds", "measured", "own", "unchanged", "use"]
    tables = {
        SOLVED: [["machine", "parameter", "value", "unit", "row"], *parameters(own)],
        OUT: [names, *table(rows, own)],
    }
    for path, lines in tables.items():
        with path.open("w", encoding="utf-8", newline="") if chosen.write else nullcontext(sys.stdout) as stream:
            csv.writer(stream, lineterminator="\n").writerows(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
