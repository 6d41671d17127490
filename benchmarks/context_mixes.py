"""The best die mix of hydra-24 by length of the context: `python -m benchmarks.context_mixes [--out FILE] [--quick]`.

Every package of hydra-24 with every batch limit is estimated under prompts of 1k to 256k tokens with short answers, and
under a chain of thought, so that no search stands between a context and its best package.  A hybrid with its state in
fp32, the same with bf16, which halves the state, a transformer without state, and other hybrids.  A row says what is
best, what is within 2 % of it, and what the best package of 1k tokens keeps.  `--out` is a CSV file; models that lie
there are not done again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np  # noqa: E402

from benchmarks.placement_quality.__main__ import Row, stored, write  # noqa: E402
from hydra_dse.config import load_calibration, load_space, load_workload  # noqa: E402
from hydra_dse.design.nouns import Design  # noqa: E402
from hydra_dse.estimator import estimate_designs  # noqa: E402
from hydra_dse.hardware.calibration import CalibrationSet  # noqa: E402
from hydra_dse.model.counts import kv_bytes_per_token, state_bytes_per_sequence  # noqa: E402
from hydra_dse.model.precision import Precision  # noqa: E402
from hydra_dse.workload import at_rate  # noqa: E402
from hydra_dse.workload.nouns import Workload  # noqa: E402

CONTEXTS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000)
REASONING = "reasoning"
LINK_GB_PER_S = 512
NEAR = 0.98
"""Packages that reach this share of the best are not told apart: estimates err by more."""
UNHURRIED = 1e-6
"""Requests per second: saturation does not depend on the offered rate, and at this one no design is refused for it."""
SATURATION = "saturation_tokens_per_s"
_AT_A_TIME = 512


@dataclass(frozen=True)
class Subject:
    """A model with the format of its state."""

    name: str
    model: str
    state: str = "fp32"


SUBJECTS = (
    Subject("nemotron-nano-9b-v2", "nemotron-nano-9b-v2"),
    Subject("nemotron-nano-9b-v2, bf16 state", "nemotron-nano-9b-v2", "bf16"),
    Subject("llama-3.1-8b", "llama-3.1-8b"),
    Subject("zamba2-7b", "zamba2-7b"),
    Subject("jamba-mini", "jamba-mini"),
    Subject("falcon-h1-3b", "falcon-h1-3b"),
)


def load_of(subject: Subject, context: int | str) -> Workload:
    """Prompts of a length with answers of 256 tokens, or prompts of 1,024 with chains of thought of 16,384."""
    if context == REASONING:
        return at_rate(load_workload("reasoning-1k-16k", [f"model={subject.model}"]), UNHURRIED)
    lengths = f"lengths={{prompt: {context}, output: {{mean: 256, cv: 0.5, maximum: 1024}}}}"
    return at_rate(load_workload("long-context-32k", [f"model={subject.model}", lengths]), UNHURRIED)


def designs_of(subject: Subject, every: int) -> list[Design]:
    """All packages of hydra-24 at one link bandwidth with every batch limit; of a quick run one in `every`."""
    space = load_space(
        "hydra-24", [f"parameters.link_gb_per_s={{choices: [{LINK_GB_PER_S}], unit: GB/s, inner: true}}"]
    )
    points = list(space.points())
    limits = len(next(one for one in space.parameters if one.name == "max_batch").choices)
    kept = [point for place, point in enumerate(points) if place // limits % every == 0]
    return [replace(space.build(point), precision=Precision(state=subject.state)) for point in kept]


def rows_of(subject: Subject, contexts: Sequence[int | str], every: int) -> Iterator[Row]:
    """One row a context."""
    designs = designs_of(subject, every)
    calibration = load_calibration("default")
    mixes = [_mix(design) for design in designs]
    first: tuple[int, ...] | None = None
    for context in contexts:
        workload = load_of(subject, context)
        values = _saturations(designs, workload, calibration)
        best_of = dict.fromkeys(mixes, 0.0)
        for mix, value in zip(mixes, values, strict=True):
            best_of[mix] = max(best_of[mix], value)
        top = int(values.argmax())
        if not values[top] > 0.0:
            continue
        first = mixes[top] if first is None else first
        near = [mix for mix, value in best_of.items() if value >= NEAR * values[top]]
        yield _row(subject, context, designs[top], values[top], near, best_of[first] / values[top], workload)


def _saturations(designs: Sequence[Design], workload: Workload, calibration: CalibrationSet) -> np.ndarray:
    """Saturation throughput by design, 0 where it cannot serve."""
    found = []
    for start in range(0, len(designs), _AT_A_TIME):
        table = estimate_designs(designs[start : start + _AT_A_TIME], workload, calibration, percentiles=False)
        column = np.nan_to_num(np.asarray(table.metrics[SATURATION], dtype=float), nan=0.0)
        found.append(np.where([bool(broken) for broken in table.violations], 0.0, column))
    return np.concatenate(found)


def _mix(design: Design) -> tuple[int, ...]:
    """Stacks and dies by group."""
    counts = {group.name: group.count for group in design.package.dies}
    return (design.package.stack_count, *(counts.get(name, 0) for name in ("Ap", "Ad", "Mp", "Md")))


def _row(
    subject: Subject,
    context: int | str,
    best: Design,
    value: float,
    near: Sequence[tuple[int, ...]],
    kept: float,
    workload: Workload,
) -> Row:
    stacks = [mix[0] for mix in near]
    prefill = [(mix[1] + mix[3]) / sum(mix[1:]) for mix in near]
    attention = [(mix[1] + mix[2]) / sum(mix[1:]) for mix in near]
    precision = best.precision or Precision()
    model = workload.models[0]
    row: Row = {"kind": subject.name, "context": context}
    row |= dict(zip(("hbm", "Ap", "Ad", "Mp", "Md"), _mix(best), strict=True))
    row |= {"max_batch": best.policy.max_batch, SATURATION: float(value), "mixes_near": len(near)}
    for name, shares in (("hbm", stacks), ("prefill_share", prefill), ("attention_share", attention)):
        row |= {f"{name}:low": min(shares), f"{name}:high": max(shares)}
    row |= {"first_keeps": float(kept), "state_bytes": state_bytes_per_sequence(model, precision)}
    return row | {"kv_bytes_per_token": kv_bytes_per_token(model, precision)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="CSV file; models that it holds are not done again")
    parser.add_argument("--quick", action="store_true", help="three contexts, one package in ten")
    options = parser.parse_args(arguments)
    for row in run(SUBJECTS, options.out, options.quick):
        print("  ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))


def run(subjects: Sequence[Subject], out: Path | None, quick: bool) -> list[Row]:
    """Rows of all models, written after each."""
    rows = stored(out)
    done = {row["kind"] for row in rows}
    contexts: tuple[int | str, ...] = (1_000, 32_000, 256_000) if quick else (*CONTEXTS, REASONING)
    for subject in subjects:
        if subject.name not in done:
            rows += rows_of(subject, contexts, 10 if quick else 1)
            if out is not None:
                write(out, rows)
    return rows


if __name__ == "__main__":
    main()
