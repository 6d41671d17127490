"""Time and quality of placement over the die mixes of a space.

Usage: `OPENBLAS_NUM_THREADS=1 python benchmarks/placement.py [SPACE] [MODEL] [DESIGNS]`

Prints CPU milliseconds per placement and the objective (mean link bytes + worst link bytes) of each algorithm relative
to the communication-aware one, and the gap that a long annealing from its result still finds.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace

import numpy as np

from hydra_dse.config import load_model, load_space
from hydra_dse.design.nouns import Design
from hydra_dse.mapping import reference_traffic
from hydra_dse.placement import Problem, forget_placements, place, place_design
from hydra_dse.placement.patterns import Pattern
from hydra_dse.rng import derive

ALGORITHMS = ("communication_aware", "hydra", "round_robin", "random")
ANNEALED = 12
STEPS = 6000


def mixes(name: str) -> list[Design]:
    """One design per outer point of the space."""
    space = load_space(name)
    inner = {parameter.name for parameter in space.parameters if parameter.inner}
    seen: dict[tuple[object, ...], Design] = {}
    for point in space.points():
        outer = tuple(value for key, value in point.items() if key not in inner)
        if outer not in seen:
            seen[outer] = space.build(point)
    return list(seen.values())


def annealed(problem: Problem, start: tuple[int, ...], steps: int) -> float:
    """Objective share that simulated annealing reaches from a placement, layouts included."""
    rng = derive(0, "anneal", *start)
    slots = np.array(start)
    known: dict[object, Pattern] = {}

    def pattern_of(candidate: np.ndarray) -> Pattern:
        layout = problem.layout_of(candidate)
        return known.setdefault(layout, Pattern(problem.package.topology, layout))

    cost = best = problem.cost(pattern_of(slots), slots)
    for step in range(steps):
        temperature = 0.05 * best * (1 - step / steps) ** 2 + 1e-12
        i, j = rng.integers(problem.count, size=2)
        moved = slots.copy()
        moved[[i, j]] = moved[[j, i]]
        if not problem.legal(moved):
            continue
        changed = problem.cost(pattern_of(moved), moved)
        if changed <= cost or rng.random() < math.exp((cost - changed) / temperature):
            slots, cost, best = moved, changed, min(best, changed)
    return best


def main(space: str = "hydra-24", model_name: str = "nemotron-h-8b", limit: str = "710") -> None:
    model = load_model(model_name)
    designs = mixes(space)
    designs = designs[:: max(1, len(designs) // int(limit))]
    print(f"{space}, {model_name}: {len(designs)} die mixes")
    forget_placements()
    start = time.process_time()
    for design in designs:
        place_design(design, model, 0)
    total = time.process_time() - start
    print(f"place_design, first time: {1e3 * total / len(designs):.2f} ms CPU each with traffic and layouts")

    traffic = [reference_traffic(design, model) for design in designs]
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
        problem = Problem(replace(designs[index].package), traffic[index])
        outcome = place(designs[index].package, traffic[index], "communication_aware", 0)
        assert outcome.placement is not None
        reached = annealed(problem, outcome.placement.slots, STEPS) * problem.scale
        gaps.append(outcome.objective_bytes / reached - 1)
    print(f"gap to {STEPS} steps of annealing: mean {np.mean(gaps):.1%}, max {np.max(gaps):.1%} of {len(gaps)} mixes")


if __name__ == "__main__":
    main(*sys.argv[1:])
