"""Placements against the optimum, against annealing, and in service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from findings_pages.run import Row, Run, Study, span, stored_rows

_WHERE = "on a mesh, a torus, a hexagonal grid and an irregular floorplan with dies of two sizes"
RUNS = {
    "placement-gap": Run(
        "placement-gap.csv",
        "python -m benchmarks.placement_quality gap --out placement-gap.csv",
        f"Nemotron-H-4B, all packages of small-9 {_WHERE}",
        False,
        "the optimum",
    ),
    "placement-24": Run(
        "placement-24.csv",
        "python -m benchmarks.placement_quality large --out placement-24.csv",
        f"Nemotron-H-4B, 12 packages of hydra-24 {_WHERE}",
        False,
        "communication_aware",
    ),
    "placement-effect": Run(
        "placement-effect.csv",
        "python -m benchmarks.placement_quality effect --out placement-effect.csv",
        f"Nemotron-H-4B under chat, one package {_WHERE}, 3 replications of 200 requests, 6 random placements",
        False,
        "communication_aware",
    ),
}
NAMES = {"communication_aware": "communication-aware", "round_robin": "round-robin", "hydra": "HYDRA's heuristic"}


def gaps(file: str, optimal: bool) -> Iterator[str]:
    """Objective of each algorithm relative to the reference."""
    heads = ["topology", "algorithm", "packages", "objective, mean", "worst"]
    heads += ["optimal", "CPU, ms"] if optimal else ["CPU, ms"]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in stored_rows(file):
        cells = [row["kind"], NAMES.get(row["algorithm"], row["algorithm"]), row["packages"], span(row, "mean", 3)]
        cells.append(f"{float(row['worst']):.3f}")
        cells += [f"{100 * float(row['share_optimal']):.0f} %"] if optimal else []
        yield "| " + " | ".join([*cells, f"{float(row['cpu_ms']):.1f}"]) + " |"


def effects() -> Iterator[str]:
    """Simulated ratios to the communication-aware placement."""
    yield "| topology | links, GB/s | placement | objective | saturation | mean TTFT at equal rate | |"
    yield "|---|---|---|---|---|---|---|"
    for row in stored_rows("placement-effect.csv"):
        name = NAMES.get(row["algorithm"], row["algorithm"])
        cells = [row["kind"], f"{float(row['link_gb_per_s']):g}", name, f"{float(row['objective']):.2f}"]
        yield "| " + " | ".join([*cells, span(row, "saturation", 3), span(row, "ttft"), _said(row)]) + " |"


def _said(row: Row) -> str:
    """What the interval of the saturation says."""
    low, high = float(row["saturation:low"]), float(row["saturation:high"])
    if low == high == 1.0:
        return "the same"
    return "undecided" if low <= 1.0 <= high else "slower" if high < 1.0 else "faster"


STUDIES = (
    Study(
        "placement-gap",
        "How far placements are from the optimum",
        "Mean plus worst link load relative to the exact optimum, which is found by enumeration that shares only the "
        "routes with the placement's code. Nine slots, mean over packages with its 95 % bootstrap interval. Annealing "
        "starts from a random placement and takes 4,000 steps.",
        partial(gaps, "placement-gap.csv", True),
    ),
    Study(
        "placement-24",
        "Placements of 24 tiles",
        "The same on 24 slots (irregular: 20), where the optimum is not known: relative to the communication-aware "
        "placement, below 1 is better than it. CPU times without those of layouts, which equal counts share.",
        partial(gaps, "placement-24.csv", False),
    ),
    Study(
        "placement-effect",
        "What a placement is worth in service",
        "A package of HYDRA's front under every placement, simulated with the same requests: ratios to the "
        "communication-aware placement with 95 % intervals over replications, of random placements over draws. TTFT "
        "at 0.8 of the least saturation among the placements of a package. With links of 256 GB/s random placements "
        "keep 0.44 to 0.74 of the saturation, the best of 64 by the objective 0.58 to 0.87, HYDRA's heuristic 0.39 to "
        "0.55; at that low a rate TTFT differs by up to 0.3. Annealing, a hundred times as slow, reaches 0.99 to 1.04, "
        "also where dies differ in size: with one sum for all parts of the work and all dies alike it kept 0.72 there.",
        effects,
    ),
)
