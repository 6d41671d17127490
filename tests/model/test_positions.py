"""What a decode step of several positions asks of an operator, by hand."""

from __future__ import annotations

from hydra_dse.model.operators import Batch, Operator, OperatorClass
from hydra_dse.model.precision import Precision

# Two sequences of contexts 50 and 70 compute three positions each.
STEP = Batch(decode_sequences=2.0, decode_context_tokens=120.0, emitted_tokens=6.0, tokens_per_sequence=3.0)
BF16 = Precision()


def test_positions_share_the_weights_of_a_projection() -> None:
    mlp = Operator("up", OperatorClass.MLP, weight_elements=1000.0, matmul_flops_per_token=2000.0)
    demand = mlp.demand(STEP, BF16)
    assert (demand.rows, demand.matmul_flops, demand.weight_bytes) == (6.0, 12_000.0, 2000.0)


def test_every_position_attends_and_writes_while_the_cache_is_read_once() -> None:
    attention = Operator("core", OperatorClass.ATTENTION, kv_elements_per_token=4.0, matmul_flops_per_pair=16.0).demand(
        STEP, BF16
    )
    assert attention.matmul_flops == 16.0 * 3 * 120
    assert (attention.kv_read_bytes, attention.kv_write_bytes) == (8.0 * 120, 8.0 * 6)


def test_every_position_updates_the_state_which_is_read_and_written_once() -> None:
    scan = Operator("scan", OperatorClass.SSM_SCAN, state_elements=50.0, vector_flops_per_decode_token=300.0)
    demand = scan.demand(STEP, BF16)
    assert demand.vector_flops == 6 * 300.0
    assert (demand.state_read_bytes, demand.state_write_bytes) == (2 * 200.0, 2 * 200.0)


def test_every_position_passes_the_head() -> None:
    head = Operator(
        "head", OperatorClass.LM_HEAD, weight_elements=600.0, matmul_flops_per_token=1200.0, rows_emitted=True
    )
    demand = head.demand(STEP, BF16)
    assert (demand.matmul_flops, demand.weight_bytes) == (6 * 1200.0, 1200.0)
