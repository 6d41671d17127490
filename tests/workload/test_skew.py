"""Routing skew of a workload, as read from files and as applied to models."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.config import load_workload
from hydra_dse.errors import InputError
from hydra_dse.model import operators_of
from hydra_dse.model.blocks import Block, Mlp, Model, MoE
from hydra_dse.model.routing import Routing
from hydra_dse.workload import RoutingSkew, with_skew

SPARSE = Block("moe", feed_forward=MoE(inner=32, routing=Routing(4, 2)))
DENSE = Block("mlp", feed_forward=Mlp(64))
MODEL = Model("toy", "toy", 16, 100, (SPARSE, DENSE, SPARSE))


def written(folder: Path, routing: str, model: str = "mixtral-8x7b") -> Path:
    path = folder / "load.yaml"
    path.write_text(
        f"model: {model}\narrivals: {{process: poisson, rate: 2/s}}\nlengths: {{prompt: 100, output: 20}}\n{routing}\n"
    )
    return path


def routings(model: Model) -> list[Routing]:
    return [block.feed_forward.routing for block in model.blocks if isinstance(block.feed_forward, MoE)]


def test_without_skew_the_model_stays_the_same_object() -> None:
    assert with_skew(MODEL, RoutingSkew()) is MODEL


def test_a_zipf_law_holds_in_every_sparse_layer_and_keeps_one_operator_for_all() -> None:
    skewed = with_skew(MODEL, RoutingSkew(zipf=0.7))
    assert [routing.skew for routing in routings(skewed)] == [0.7, 0.7]
    assert [op.count for op in operators_of(skewed) if op.name.endswith("experts_up")] == [2]


def test_histograms_by_layer_make_operators_of_their_own() -> None:
    skewed = with_skew(MODEL, RoutingSkew(shares=((4.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 4.0))))
    assert [routing.shares[0] for routing in routings(skewed)] == [4.0, 1.0]
    assert [op.count for op in operators_of(skewed) if op.name.endswith("experts_up")] == [1, 1]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (((1.0, 2.0),), "2 shares for the 4 experts"),
        (((1.0, 0.0, 0.0, 0.0),), "1 experts have a share above 0"),
        (((1.0,) * 4,) * 3, "3 histograms for the 2 sparse layers"),
    ],
)
def test_histograms_that_do_not_fit_the_model_are_refused(shares: tuple[tuple[float, ...], ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_skew(MODEL, RoutingSkew(shares=shares))


def test_a_file_states_the_skew(tmp_path: Path) -> None:
    workload = load_workload(written(tmp_path, "routing: {zipf: 0.5}"))
    assert workload.routing == RoutingSkew(zipf=0.5)
    assert {routing.skew for routing in routings(workload.models[0])} == {0.5}


def test_a_dense_model_has_nothing_to_skew(tmp_path: Path) -> None:
    workload = load_workload(written(tmp_path, "routing: {zipf: 0.5}", "llama-3.1-8b"))
    assert not routings(workload.models[0])


def test_a_histogram_of_the_wrong_length_names_file_and_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"load\.yaml:4:.*routing.*2 shares for the 8 experts"):
        load_workload(written(tmp_path, "routing: {shares: [1, 2]}"))


def test_two_ways_to_state_a_skew_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give one of zipf, shares and layer_shares"):
        load_workload(written(tmp_path, "routing: {zipf: 1, shares: [1, 2]}"))
