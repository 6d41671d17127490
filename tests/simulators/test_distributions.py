"""Tables of quantiles of a simulated run against its metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Placement
from hydra_dse.results import Evaluation
from hydra_dse.results.quantiles import LATENCIES, pooled
from hydra_dse.workload import Lengths, fixed
from simulators.serving import ServingSimulator


@cache
def evaluation(lengths: Lengths | None = None, requests: int = 200, replications: int = 3) -> Evaluation:
    space = load_space("small-9")
    point = space.complete({"hbm": 4, "Ap": 1, "Ad": 1, "Mp": 1, "link_gb_per_s": 512, "max_batch": 8})
    assert point is not None
    design = replace(space.build(point), placement=Placement((4, 1, 3, 5, 7, 0, 2, 6, 8)))
    chat = load_workload("azure-conversation")
    classes = tuple(replace(kind, lengths=lengths or kind.lengths) for kind in chat.classes)
    workload = replace(chat, models=(load_model("nemotron-h-4b"),), classes=classes)
    options = EvaluationOptions(requests, replications, rate_per_s=0.5, saturate=False)
    [found] = ServingSimulator().evaluate([design], workload, load_calibration("default"), options, 1)
    return found


def test_there_is_a_table_of_every_latency_and_replication():
    found = evaluation().distributions
    assert list(found) == list(LATENCIES)
    for kind in ("ttft", "e2e"):
        assert [table.samples for table in found[kind]] == [180, 180, 180]
    for tables in found.values():
        assert all(np.all(np.diff(table.seconds) >= 0) and table.seconds[0] >= 0 for table in tables)


@pytest.mark.parametrize("kind", LATENCIES)
def test_replications_together_have_the_percentiles_of_the_metrics(kind):
    tables = evaluation().distributions[kind]
    wanted = [evaluation().metrics[f"{kind}_{name}_s"] for name in ("p50", "p90", "p99")]
    # Tables hold steps of 0.005: what is between two of them lies between their values.
    low, high = (pooled(tables, np.array([0.5, 0.9, 0.99]) + side) for side in (-0.01, 0.01))
    assert np.all(low - 1e-12 <= wanted) and np.all(wanted <= high + 1e-12)


def test_a_latency_that_no_request_has_is_left_out():
    assert set(evaluation(fixed(64, 1), 40, 1).distributions) == {"ttft", "e2e"}
