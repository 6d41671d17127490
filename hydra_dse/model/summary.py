"""What a model costs: parameters, caches, and the work of a prefill and of a decode step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from hydra_dse.model.blocks import Block, FeedForward, Mixer, Model, MoE
from hydra_dse.model.counts import (
    active_parameters,
    block_parameters,
    conv_state_elements,
    kv_bytes,
    kv_bytes_per_token,
    kv_elements,
    outer_parameters,
    state_bytes_per_sequence,
    state_elements,
    total_parameters,
    weight_bytes,
)
from hydra_dse.model.lowering import operators_of
from hydra_dse.model.operators import Batch
from hydra_dse.model.precision import BYTES_PER_ELEMENT, Precision

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class BlockRow:
    """Equal blocks of a model.

    Attributes:
        label, description: short name; what the mixers and the feed-forward part are.
        count: blocks of this kind; `layers` are their places, from 0.
        parameters: of all of them together, shared weights once.
        kv_bytes_per_token, state_bytes_per_sequence: of all of them together.
    """

    label: str
    description: str
    count: int
    layers: tuple[int, ...]
    parameters: int
    kv_bytes_per_token: float
    state_bytes_per_sequence: float


@dataclass(frozen=True)
class StepCost:
    """FLOPs of one iteration with one sequence, and the bytes it moves from and to memory.

    Attributes:
        tokens: tokens processed; `context_tokens`: tokens attended to.
        matmul_flops, vector_flops: on matrix and on vector units; the head works for the last token only.
        flops: their sum.
        flops_with_all_logits: the same if the head worked for every token.
        weight_bytes, kv_bytes, state_bytes: read and written, each weight once.
        bytes: their sum.
    """

    tokens: int
    context_tokens: int
    matmul_flops: float
    vector_flops: float
    flops: float
    flops_with_all_logits: float
    weight_bytes: float
    kv_bytes: float
    state_bytes: float
    bytes: float


@dataclass(frozen=True)
class ModelSummary:
    """A model in figures; bytes at its own precision.

    Attributes:
        weight_bytes_by_format: all weights in each number format, in bytes.
        kv_bytes_at_context: KV cache of one sequence at the decode step's context, windows considered.
        blocks: distinct blocks in order of first appearance.
        outer_parameters: embedding, head and final norm.
    """

    name: str
    family: str
    source: str
    layers: int
    hidden_size: int
    vocabulary: int
    max_position_embeddings: int | None
    precision: Precision
    total_parameters: int
    active_parameters: int
    outer_parameters: int
    weight_bytes: float
    weight_bytes_by_format: dict[str, float]
    kv_bytes_per_token: float
    kv_bytes_at_context: float
    state_bytes_per_sequence: float
    blocks: tuple[BlockRow, ...]
    prefill: StepCost
    decode: StepCost

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain data for JSON (product.md, `model show --json`)."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def summarise(
    model: Model, *, prefill_tokens: int = 1024, context_tokens: int = 1024, precision: Precision | None = None
) -> ModelSummary:
    """Summarise a model: a prefill of `prefill_tokens`, a decode step of one sequence at `context_tokens`."""
    used = model.precision if precision is None else precision
    return ModelSummary(
        name=model.name,
        family=model.family,
        source=model.source,
        layers=len(model.blocks),
        hidden_size=model.hidden_size,
        vocabulary=model.vocabulary,
        max_position_embeddings=model.max_position_embeddings,
        precision=used,
        total_parameters=total_parameters(model),
        active_parameters=active_parameters(model),
        outer_parameters=outer_parameters(model),
        weight_bytes=weight_bytes(model, used),
        weight_bytes_by_format={name: weight_bytes(model, replace(used, weights=name)) for name in BYTES_PER_ELEMENT},
        kv_bytes_per_token=kv_bytes_per_token(model, used),
        kv_bytes_at_context=kv_bytes(model, used, context_tokens),
        state_bytes_per_sequence=state_bytes_per_sequence(model, used),
        blocks=block_rows(model, used),
        prefill=prefill_cost(model, used, prefill_tokens),
        decode=decode_cost(model, used, context_tokens),
    )


def block_rows(model: Model, precision: Precision) -> tuple[BlockRow, ...]:
    """Return one row per distinct block, borrowers of weights together with their owners."""
    places: dict[Block, list[int]] = {}
    for place, block in enumerate(model.blocks):
        places.setdefault(replace(block, weights_of=None), []).append(place)
    return tuple(_row(model, precision, block, found) for block, found in places.items())


def prefill_cost(model: Model, precision: Precision, tokens: int) -> StepCost:
    """Cost of one prompt: every token attends to half the prompt on average (`tokens²/2` pairs)."""
    batch = Batch(
        prefill_tokens=float(tokens),
        prefill_sequences=1.0,
        prefill_pairs=tokens * tokens / 2,
        prefill_context_tokens=float(tokens),
        emitted_tokens=1.0,
    )
    return _cost(model, precision, batch, tokens, tokens)


def decode_cost(model: Model, precision: Precision, context: int) -> StepCost:
    """Cost of one token of one sequence whose context is `context` tokens."""
    batch = Batch(decode_sequences=1.0, decode_context_tokens=float(context), emitted_tokens=1.0)
    return _cost(model, precision, batch, 1, context)


def _cost(model: Model, precision: Precision, batch: Batch, tokens: int, context: int) -> StepCost:
    matmul = vector = weights = cache = state = every_logit = 0.0
    for operator in operators_of(model):
        demand, times = operator.demand(batch, precision), operator.count
        matmul += times * float(demand.matmul_flops)
        vector += times * float(demand.vector_flops)
        weights += times * float(demand.weight_bytes)
        cache += times * float(demand.kv_read_bytes + demand.kv_write_bytes)
        state += times * float(demand.state_read_bytes + demand.state_write_bytes)
        if operator.rows_emitted:
            every_logit += times * operator.matmul_flops_per_token * (tokens - 1)
    return StepCost(
        tokens=tokens,
        context_tokens=context,
        matmul_flops=matmul,
        vector_flops=vector,
        flops=matmul + vector,
        flops_with_all_logits=matmul + vector + every_logit,
        weight_bytes=weights,
        kv_bytes=cache,
        state_bytes=state,
        bytes=weights + cache + state,
    )


def _row(model: Model, precision: Precision, block: Block, places: list[int]) -> BlockRow:
    cached = sum(kv_elements(mixer) for mixer in block.mixers)
    recurrent = sum(state_elements(mixer) for mixer in block.mixers)
    convolved = sum(conv_state_elements(mixer) for mixer in block.mixers)
    state = recurrent * precision.state_bytes + convolved * precision.conv_state_bytes
    return BlockRow(
        label=block.label,
        description=_describe(block),
        count=len(places),
        layers=tuple(places),
        parameters=sum(block_parameters(model, model.blocks[place]) for place in places),
        kv_bytes_per_token=len(places) * cached * precision.kv_bytes,
        state_bytes_per_sequence=len(places) * state,
    )


def _describe(block: Block) -> str:
    parts: list[Mixer | FeedForward] = [*block.mixers]
    if block.feed_forward is not None:
        parts.append(block.feed_forward)
    return " + ".join(_describe_part(part) for part in parts) or "none"


_SHOWN = {
    "Attention": ("heads", "kv_heads", "head_dim", "window", "keeps_kv"),
    "LatentAttention": ("heads", "kv_rank", "rope_dim", "query_rank"),
    "Mamba1": ("inner", "state", "dt_rank"),
    "Mamba2": ("heads", "head_dim", "state", "groups"),
    "DeltaNet": ("key_heads", "value_heads", "key_dim", "value_dim"),
    "ShortConv": ("width", "conv"),
    "Mlp": ("inner", "gated"),
    "MoE": ("inner", "shared_inner", "latent_width"),
}


def _describe_part(part: Mixer | FeedForward) -> str:
    name = type(part).__name__
    shown: Iterable[str] = _SHOWN[name]
    values = [(field, getattr(part, field)) for field in shown]
    if isinstance(part, MoE):
        values = [("experts", part.routing.experts), ("top_k", part.routing.top_k), *values]
    listed = ", ".join(f"{field} {value}" for field, value in values if value is not None)
    return f"{name}({listed})"
