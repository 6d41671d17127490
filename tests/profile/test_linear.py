"""Operators together by matrix products against the same operators one by one."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_workload
from hydra_dse.model.lowering import operators_of
from hydra_dse.model.operators import Batch
from hydra_dse.profile import build_profile
from hydra_dse.profile.block import PoolBlock
from hydra_dse.profile.features import FeatureList, Form, forms_of
from hydra_dse.profile.hardware import HardwareTable
from tests.mapping import pieces
from tests.mapping.pieces import design, real
from tests.profile.designs import batches, full_die_grid, random_design

MODELS = {"hybrid": pieces.nemotron_h_8b(), "mixed": load_workload("azure-conversation").models[0]}


def blocks(model: str, serving: str) -> list[tuple[PoolBlock, PoolBlock]]:
    """Blocks of random designs of all styles of dies, evaluated together and one by one."""
    table = HardwareTable(MODELS[model], real())
    table.index([full_die_grid(random_design(seed, serving)) for seed in range(12)])
    found = []
    for one in [one for pool in table.pools for one in pool]:
        precision = table.entries[one.entries[0]].precision
        links, sites = one.table.link_s.shape[2], one.table.site_s.shape[2]
        pair = [PoolBlock(one.table, precision, links, sites, one_by_one) for one_by_one in (False, True)]
        found.append((pair[0], pair[1]))
    return found


@pytest.mark.parametrize("serving", ["colocated", "disaggregated"])
@pytest.mark.parametrize("model", MODELS)
def test_operators_together_agree_with_operators_one_by_one(model: str, serving: str) -> None:
    left = 0
    for together, apart in blocks(model, serving):
        size = together.link_s.shape[0]
        assert len(apart.linear.left) == len(apart.terms)
        left += len(together.linear.left)
        rows, batch = np.arange(size), batches(size, 7)
        assert together.time_s(batch, rows, 1.0) == pytest.approx(apart.time_s(batch, rows, 1.0), rel=1e-12)
        for flight in (1.0, np.full(size, 2.0)):
            first, second = together.iteration(batch, rows, flight), apart.iteration(batch, rows, flight)
            assert first.time_s == pytest.approx(second.time_s, rel=1e-12)
            assert first.energy_j == pytest.approx(second.energy_j, rel=1e-12)
            assert first.site_busy_s == pytest.approx(second.site_busy_s, rel=1e-12)
            assert first.link_busy_s == pytest.approx(second.link_busy_s, rel=1e-12)
            for name, busy in second.die_busy_s.items():
                assert first.die_busy_s[name] == pytest.approx(busy, rel=1e-12)
    assert left == 0


def test_a_chunk_of_designs_out_of_order_is_that_of_the_whole() -> None:
    for together, _ in blocks("hybrid", "colocated"):
        size = together.link_s.shape[0]
        batch, rows = batches(size, 3), np.arange(size)
        whole = together.time_s(batch, rows, 1.0)
        order = rows[::-1]
        turned = Batch(**{name: getattr(batch, name)[::-1] for name in _FIELDS})
        assert together.time_s(turned, order, 1.0)[::-1] == pytest.approx(whole, rel=1e-14)


_FIELDS = (
    "prefill_tokens",
    "prefill_sequences",
    "prefill_pairs",
    "prefill_context_tokens",
    "decode_sequences",
    "decode_context_tokens",
    "emitted_tokens",
)


@pytest.mark.parametrize("model", MODELS)
def test_forms_of_an_operator_give_its_demand(model: str) -> None:
    batch, precision = batches(1, 5), pieces.PRECISION
    for operator in [one for one in operators_of(MODELS[model]) if one.routing is None]:
        demand, forms = operator.demand(batch, precision), forms_of(operator, precision)

        def value(form: Form) -> object:
            features = FeatureList([])
            numbers = {features.number(feature): factor for feature, factor in form.items()}
            values = features.values(batch, (1, 5), slice(0, 1))
            return pytest.approx(sum(factor * values[:, number] for number, factor in numbers.items()), rel=1e-12)

        assert demand.matmul_flops + np.zeros((1, 5)) == value(forms.matmul_flops)
        assert demand.vector_flops + np.zeros((1, 5)) == value(forms.vector_flops)
        assert demand.weight_bytes + np.zeros((1, 5)) == value(forms.weight_bytes)
        assert demand.kv_read_bytes + np.zeros((1, 5)) == value(forms.kv_read_bytes)
        assert demand.kv_write_bytes + np.zeros((1, 5)) == value(forms.kv_write_bytes)
        assert demand.state_read_bytes + np.zeros((1, 5)) == value(forms.state_bytes)
        assert demand.activation_bytes + np.zeros((1, 5)) == value(forms.activation_bytes)


def test_a_row_count_that_fills_its_tiles_up_to_rounding_takes_no_other_tile() -> None:
    pool = build_profile([design(pieces.two_families())], MODELS["hybrid"], real()).pools["serve"]
    times = [pool.time_s(Batch(prefill_tokens=tokens, emitted_tokens=1.0))[0, 0] for tokens in (512.0, 512.0 + 1e-10)]
    assert times[1] == pytest.approx(times[0], rel=1e-9)
