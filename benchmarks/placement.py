"""Time and quality of placement over the die mixes of a space.

Usage: `OPENBLAS_NUM_THREADS=1 python -m benchmarks.placement [SPACE] [MODEL] [DESIGNS]`

Prints CPU milliseconds per placement and the objective (mean link bytes + worst link bytes of every part) of each
algorithm relative to the communication-aware one, and the gap that a long annealing from its result still finds.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.placement_quality.annealing import annealed
from benchmarks.placement_quality.cases import mixes
from hydra_dse.config import load_model, load_space
from hydra_dse.mapping import reference_parts
from hydra_dse.placement import Problem, forget_placements, place, place_design

ALGORITHMS = ("communication_aware", "hydra", "round_robin", "random")
ANNEALED = 12
STEPS = 6000


def main(space: str = "hydra-24", model_name: str = "nemotron-h-8b", limit: str = "710") -> None:
    model = load_model(model_name)
    designs = mixes(load_space(space))
    designs = designs[:: max(1, len(designs) // int(limit))]
    print(f"{space}, {model_name}: {len(designs)} die mixes")
    forget_placements()
    start = time.process_time()
    for design in designs:
        place_design(design, model, 0)
    total = time.process_time() - start
    print(f"place_design, first time: {1e3 * total / len(designs):.2f} ms CPU each with traffic and layouts")

    traffic = [reference_parts(design, model) for design in designs]
    objective: dict[str, list[float]] = {}
    for algorithm in ALGORITHMS:
        start = time.process_time()
        outcomes = [place(d.package, t, algorithm, 0) for d, t in zip(designs, traffic, strict=True)]
        each = 1e3 * (time.process_time() - start) / len(designs)
        objective[algorithm] = [outcome.objective_bytes for outcome in outcomes]
        ratio = np.array(objective[algorithm]) / np.array(objective[ALGORITHMS[0]])
        placed = np.isfinite(ratio)
        print(
            f"{algorithm:20s} {each:6.2f} ms CPU each, {placed.sum()} placed, objective x{ratio[placed].mean():.3f} "
            f"(min {ratio[placed].min():.3f}, max {ratio[placed].max():.3f})"
        )
    gaps = []
    chosen = [index for index, value in enumerate(objective[ALGORITHMS[0]]) if np.isfinite(value)]
    for index in chosen[:: max(1, len(chosen) // ANNEALED)]:
        problem = Problem.of(designs[index].package, traffic[index])
        outcome = place(designs[index].package, traffic[index], "communication_aware", 0)
        assert outcome.placement is not None
        reached, _ = annealed(problem, outcome.placement.slots, STEPS)
        gaps.append(outcome.objective_bytes / reached - 1)
    print(f"gap to {STEPS} steps of annealing: mean {np.mean(gaps):.1%}, max {np.max(gaps):.1%} of {len(gaps)} mixes")


if __name__ == "__main__":
    main(*sys.argv[1:])
