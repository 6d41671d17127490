"""Operators: conservation over any model, hand-counted work of small ones, and the limits of each formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.model import (
    Batch,
    Block,
    Model,
    Operator,
    Precision,
    kv_bytes_per_token,
    operators_of,
    state_bytes_per_sequence,
    total_parameters,
)
from hydra_dse.model.blocks import (
    Attention,
    DeltaNet,
    FeedForward,
    LatentAttention,
    Mamba1,
    Mamba2,
    Mixer,
    Mlp,
    MoE,
    ShortConv,
)
from hydra_dse.model.operators import OperatorClass, Routing

PRECISION = Precision()
WIDTH = 32

flags = st.booleans()
widths = st.sampled_from([8, 16, 24])
heads = st.sampled_from([2, 4])

attentions = st.builds(
    Attention,
    heads=st.just(4),
    kv_heads=st.sampled_from([1, 2, 4]),
    head_dim=widths,
    value_dim=st.none() | widths,
    input_width=st.none() | st.just(64),
    bias=flags,
    qk_norm=flags,
    output_gate=flags,
    window=st.none() | st.just(16),
    keeps_kv=flags,
    output_bias=st.none() | flags,
    projects_output=flags,
    adapter_rank=st.sampled_from([0, 4]),
    extra_parameters=st.sampled_from([0, 4]),
)
latents = st.builds(
    LatentAttention,
    heads=heads,
    kv_rank=widths,
    rope_dim=st.just(4),
    nope_dim=widths,
    value_dim=widths,
    query_rank=st.none() | widths,
    output_gate=flags,
    bias=flags,
)
mamba1s = st.builds(
    Mamba1, inner=st.just(64), state=widths, conv=st.just(4), dt_rank=widths, norms=flags, bias=flags, conv_bias=flags
)
mamba2s = st.builds(
    Mamba2,
    heads=heads,
    head_dim=widths,
    state=widths,
    groups=st.sampled_from([1, 2]),
    conv=st.sampled_from([2, 4]),
    bias=flags,
    conv_bias=flags,
    gated_norm=flags,
    output_bias=st.none() | flags,
)
gated_deltas = st.builds(
    DeltaNet, key_heads=st.just(2), value_heads=heads, key_dim=widths, value_dim=widths, conv=st.just(4)
)
channel_deltas = st.builds(
    DeltaNet,
    key_heads=st.just(2),
    value_heads=st.just(2),
    key_dim=widths,
    value_dim=widths,
    conv=st.just(4),
    per_channel_gate=st.just(True),
    decay_rank=widths,
    gate_rank=st.sampled_from([0, 8]),
)
convolutions = st.builds(ShortConv, width=st.just(WIDTH), conv=st.just(3), bias=flags)
mixers: st.SearchStrategy[Mixer] = st.one_of(
    attentions, latents, mamba1s, mamba2s, gated_deltas, channel_deltas, convolutions
)
routings = st.builds(Routing, experts=st.just(8), top_k=st.sampled_from([1, 2, 8]))
mixtures = st.builds(
    MoE,
    inner=widths,
    routing=routings,
    gated=flags,
    shared_inner=st.sampled_from([0, 16]),
    shared_gate=flags,
    latent_width=st.none() | widths,
    router_bias=flags,
    expert_bias=flags,
)
mlps = st.builds(Mlp, inner=widths, gated=flags, bias=flags, adapter_rank=st.sampled_from([0, 4]))
parts: st.SearchStrategy[FeedForward | None] = st.none() | mlps | mixtures


@st.composite
def models(draw: st.DrawFn) -> Model:
    blocks: list[Block] = []
    for _ in range(draw(st.integers(1, 6))):
        owners = [place for place, block in enumerate(blocks) if block.weights_of is None]
        if owners and draw(flags):
            owner = draw(st.sampled_from(owners))
            source = blocks[owner]
            block = Block(source.label, source.mixers, source.feed_forward, source.norms, owner, source.own_parameters)
        else:
            chosen = tuple(draw(st.lists(mixers, max_size=2)))
            block = Block("block", chosen, draw(parts), draw(st.integers(0, 3)), None, draw(st.sampled_from([0, 1024])))
        blocks.append(block)
    return Model("any", "any", WIDTH, 100, tuple(blocks), draw(flags), extra_parameters=WIDTH)


def total(operators: tuple[Operator, ...], name: str, batch: Batch, precision: Precision = PRECISION) -> float:
    return sum(operator.count * float(getattr(operator.demand(batch, precision), name)) for operator in operators)


@given(model=models())
def test_operators_own_every_parameter_of_any_model_exactly_once(model: Model) -> None:
    owned = sum(operator.weight_elements * operator.weight_copies for operator in operators_of(model))
    assert owned == total_parameters(model)


@given(model=models())
def test_a_token_writes_the_cache_that_the_blocks_keep(model: Model) -> None:
    written = total(operators_of(model), "kv_write_bytes", Batch(decode_sequences=1.0, emitted_tokens=1.0))
    assert written == kv_bytes_per_token(model, PRECISION)


@given(model=models())
def test_a_sequence_reads_and_writes_the_state_of_the_blocks(model: Model) -> None:
    operators, batch = operators_of(model), Batch(decode_sequences=3.0, emitted_tokens=3.0)
    assert total(operators, "state_read_bytes", batch) == 3 * state_bytes_per_sequence(model, PRECISION)
    assert total(operators, "state_write_bytes", batch) == 3 * state_bytes_per_sequence(model, PRECISION)


@given(model=models())
def test_names_are_unique_and_runs_are_never_fewer_than_copies(model: Model) -> None:
    operators = operators_of(model)
    assert len({operator.name for operator in operators}) == len(operators)
    assert all(operator.count >= operator.weight_copies >= 0 for operator in operators)


@given(model=models(), tokens=st.integers(1, 5000))
def test_every_projection_does_two_flops_per_weight_and_token(model: Model, tokens: int) -> None:
    for operator in operators_of(model):
        if operator.kind in (OperatorClass.MLP, OperatorClass.SSM_PROJECTION, OperatorClass.ATTENTION_PROJECTION):
            matrix = operator.matmul_flops_per_token / 2
            assert 0 < matrix <= operator.weight_elements
            # What is no matrix is a bias or a norm: at most a few vectors as long as its sides.
            assert operator.weight_elements - matrix <= 4 * (operator.reduce_width + operator.output_width)


@given(model=models(), sequences=st.integers(1, 50), context=st.integers(1, 10_000))
def test_a_batch_of_arrays_equals_its_entries_one_by_one(model: Model, sequences: int, context: int) -> None:
    counts = np.array([1.0, float(sequences)])
    batch = Batch(decode_sequences=counts, decode_context_tokens=counts * context, emitted_tokens=counts)
    for operator in operators_of(model):
        together = operator.demand(batch, PRECISION)
        for place, count in enumerate(counts):
            alone = operator.demand(Batch(0.0, 0.0, 0.0, 0.0, count, count * context, count), PRECISION)
            for name in ("matmul_flops", "vector_flops", "weight_bytes", "kv_read_bytes", "state_read_bytes"):
                value = np.broadcast_to(getattr(together, name), counts.shape)[place]
                assert value == pytest.approx(float(getattr(alone, name)))


@given(model=models())
def test_an_empty_batch_asks_for_nothing(model: Model) -> None:
    operators = operators_of(model)
    for name in ("matmul_flops", "vector_flops", "weight_bytes", "kv_read_bytes", "kv_write_bytes", "state_read_bytes"):
        assert total(operators, name, Batch()) == 0


def small(*blocks: Block, tied: bool = False) -> Model:
    return Model("small", "small", WIDTH, 100, blocks, tied, extra_parameters=WIDTH)


def test_decode_of_a_transformer_layer_matches_a_count_by_hand() -> None:
    model = small(Block("attention", (Attention(heads=4, kv_heads=2, head_dim=8),), Mlp(inner=64), norms=2))
    batch = Batch(decode_sequences=5.0, decode_context_tokens=5 * 70.0, emitted_tokens=5.0)
    projections = 32 * (32 + 16 + 16) + 32 * 32 + 3 * 32 * 64
    attention = 4 * 4 * 8 * 70  # scores and weighted sum, two FLOPs each, over four heads of eight
    operators = operators_of(model)
    assert total(operators, "matmul_flops", batch) == 5 * (2 * projections + attention + 2 * 32 * 100)
    assert total(operators, "kv_read_bytes", batch) == 5 * 70 * 2 * 2 * 8 * 2
    assert total(operators, "kv_write_bytes", batch) == 5 * 2 * 2 * 8 * 2


def test_prefill_of_a_prompt_attends_to_half_of_it() -> None:
    operators = operators_of(small(Block("attention", (Attention(heads=4, kv_heads=2, head_dim=8),))))
    core = next(operator for operator in operators if operator.kind is OperatorClass.ATTENTION)
    demand = core.demand(Batch(100.0, 1.0, 100 * 100 / 2, 100.0), PRECISION)
    assert demand.matmul_flops == 4 * 4 * 8 * 100 * 100 / 2


def test_mamba2_prefill_runs_on_matrix_units_and_decode_on_vector_units() -> None:
    mixer = Mamba2(heads=4, head_dim=16, state=8, groups=1, conv=4, chunk=64)
    scan = next(o for o in operators_of(small(Block("mamba", (mixer,)))) if o.kind is OperatorClass.SSM_SCAN)
    prefill = scan.demand(Batch(prefill_tokens=128.0, prefill_sequences=1.0), PRECISION)
    decode = scan.demand(Batch(decode_sequences=2.0), PRECISION)
    # Per token: C·Bᵀ and its product with X over half a chunk, states in, states out.
    assert prefill.matmul_flops == 128 * (64 * 8 + 64 * 4 * 16 + 2 * 8 * 64 + 2 * 8 * 64)
    assert decode.matmul_flops == 0
    assert decode.vector_flops - 2 * scan.vector_flops_per_token == 2 * 6 * 4 * 16 * 8
    assert decode.state_read_bytes == 2 * 4 * 16 * 8 * 4


def test_mamba1_never_runs_on_matrix_units() -> None:
    mixer = Mamba1(inner=64, state=8, conv=4, dt_rank=4)
    scan = next(o for o in operators_of(small(Block("mamba", (mixer,)))) if o.kind is OperatorClass.SSM_SCAN)
    demand = scan.demand(Batch(prefill_tokens=10.0, prefill_sequences=1.0), PRECISION)
    assert demand.matmul_flops == 0
    assert demand.vector_flops >= 10 * 9 * 64 * 8


def test_latent_attention_decodes_in_the_latent_space_and_prefills_expanded() -> None:
    mixer = LatentAttention(heads=4, kv_rank=64, rope_dim=8, nope_dim=16, value_dim=16)
    core = next(o for o in operators_of(small(Block("mla", (mixer,)))) if o.kind is OperatorClass.ATTENTION)
    prefill = core.demand(Batch(10.0, 1.0, 50.0, 10.0), PRECISION)
    decode = core.demand(Batch(decode_sequences=1.0, decode_context_tokens=50.0), PRECISION)
    assert prefill.matmul_flops == 50 * 2 * 4 * (16 + 8 + 16)
    assert decode.matmul_flops == 50 * 2 * 4 * (2 * 64 + 8)
    assert decode.kv_read_bytes == 50 * (64 + 8) * 2


def test_a_window_bounds_what_decode_reads() -> None:
    windowed = Attention(heads=4, kv_heads=4, head_dim=8, window=16)
    core = next(o for o in operators_of(small(Block("attention", (windowed,)))) if o.kind is OperatorClass.ATTENTION)
    demand = core.demand(Batch(decode_sequences=2.0, decode_context_tokens=2 * 1000.0), PRECISION)
    assert demand.kv_read_bytes == 2 * 16 * 2 * 4 * 8 * 2


def test_a_borrower_of_a_cache_reads_but_does_not_write_it() -> None:
    borrower = Attention(heads=4, kv_heads=4, head_dim=8, keeps_kv=False)
    core = next(o for o in operators_of(small(Block("attention", (borrower,)))) if o.kind is OperatorClass.ATTENTION)
    demand = core.demand(Batch(decode_sequences=1.0, decode_context_tokens=10.0), PRECISION)
    assert demand.kv_read_bytes == 10 * 2 * 4 * 8 * 2
    assert demand.kv_write_bytes == 0


def test_one_token_streams_exactly_its_experts_and_many_tokens_all() -> None:
    mixture = MoE(inner=16, routing=Routing(experts=8, top_k=2))
    experts = [o for o in operators_of(small(Block("moe", (), mixture))) if o.kind is OperatorClass.EXPERTS]
    assert sum(o.weight_elements for o in experts) == 8 * 3 * 32 * 16
    one = sum(float(o.demand(Batch(decode_sequences=1.0), PRECISION).weight_bytes) for o in experts)
    many = sum(float(o.demand(Batch(decode_sequences=1e4), PRECISION).weight_bytes) for o in experts)
    assert one == pytest.approx(2 * 3 * 32 * 16 * 2)
    assert many == pytest.approx(8 * 3 * 32 * 16 * 2)
    assert sum(o.matmul_flops_per_token for o in experts) == 2 * 2 * 3 * 32 * 16


def test_shared_weights_are_owned_once_and_streamed_at_every_use() -> None:
    first = Block("shared", (), Mlp(inner=16))
    model = small(first, Block("shared", (), Mlp(inner=16), weights_of=0))
    mlp = [o for o in operators_of(model) if o.kind is OperatorClass.MLP]
    assert {(o.count, o.weight_copies) for o in mlp} == {(2, 1)}


def test_projections_split_by_query_heads_and_the_cache_by_key_value_heads() -> None:
    operators = operators_of(small(Block("attention", (Attention(heads=8, kv_heads=2, head_dim=8),))))
    units = {o.name: o.parallel_units for o in operators if o.kind.value.startswith("attention")}
    assert units == {"attention_qkv": 8, "attention_core": 2, "attention_out": 8}


def test_a_tied_head_owns_no_weights_but_still_works() -> None:
    head = operators_of(small(Block("none"), tied=True))[-1]
    assert head.kind is OperatorClass.LM_HEAD
    assert head.weight_copies == 0
    assert head.demand(Batch(prefill_tokens=50.0, emitted_tokens=2.0), PRECISION).matmul_flops == 2 * 2 * 32 * 100


def test_the_embedding_reads_one_row_per_token() -> None:
    embedding = operators_of(small(Block("none")))[0]
    assert embedding.demand(Batch(prefill_tokens=7.0), PRECISION).weight_bytes == 7 * 32 * 2


@given(model=models())
def test_columns_gather_what_their_matrix_takes_and_rows_reduce_what_it_gives(model: Model) -> None:
    for operator in operators_of(model):
        if operator.gather_elements_per_token:
            assert operator.gather_elements_per_token >= operator.reduce_width or operator.name.endswith("_up")
        if operator.reduce_elements_per_token and operator.output_width:
            assert operator.reduce_elements_per_token == operator.output_width
