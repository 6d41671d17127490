"""Distributions of latencies by replication, as tables of quantiles (see `hydra_dse.results.quantiles`)."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.results.quantiles import LATENCIES, Quantiles, quantiles_of, weighted_quantiles_of
from simulators.serving.metrics import latencies
from simulators.serving.run import Outcome


def distributions(outcomes: Sequence[Outcome]) -> dict[str, tuple[Quantiles, ...]]:
    """By latency, the table of every replication that has samples of it; kinds without any are left out."""
    found: dict[str, list[Quantiles]] = {kind: [] for kind in LATENCIES}
    for outcome in outcomes:
        samples = latencies(outcome.visits, outcome.first)
        for kind in LATENCIES:
            if kind == "tbt":
                if len(outcome.gap_s):
                    found[kind].append(weighted_quantiles_of(outcome.gap_s, outcome.gap_weight))
                continue
            sample = samples.pop(kind)
            if len(sample):  # our own arrays, each let go of before the next: of a million requests every copy counts
                found[kind].append(quantiles_of(sample, overwrite=True))
    return {kind: tuple(tables) for kind, tables in found.items() if tables}
