"""A model as a short list of operators: FLOPs and bytes of each mixer and feed-forward part.

Equal parts of different blocks become one operator with a count.  Formulas, per token and with `d` the width of the
residual stream, are those of docs/concepts/cost-model.md: 2 FLOPs per weight of a projection; attention
`2·heads·(key + value)` per query-key pair; scans chunk-wise as GEMMs in prefill, as updates on vector units in decode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hydra_dse.model.blocks import Attention, Block, FeedForward, Mixer, Mlp, Model, MoE
from hydra_dse.model.feed_forward_operators import feed_forward_operators, mlp_adapters
from hydra_dse.model.mixer_operators import attention_adapters, mixer_operators
from hydra_dse.model.operators import Operator, OperatorClass

NORM_FLOPS_PER_ELEMENT = 7.0
"""Square, sum, scale and weight of a root-mean-square norm, and the residual addition before it."""


@dataclass(frozen=True)
class _Norms:
    vectors: int


@dataclass(frozen=True)
class _Projection:
    elements: int


@dataclass(frozen=True)
class _Adapters:
    part: Mixer | FeedForward


_Part = Mixer | FeedForward | _Norms | _Projection | _Adapters


def operators_of(model: Model) -> tuple[Operator, ...]:
    """Return the operators of a model in order of first execution.

    `count` is how often an operator runs per iteration, `weight_copies` how many of these own their weights:
    `Σ weight_elements·weight_copies` is the total of the parameters.
    """
    uses: Counter[_Part] = Counter()
    owned: Counter[_Part] = Counter()
    for block in model.blocks:
        for part, owns in _parts(block):
            uses[part] += 1
            owned[part] += owns
    operators = [_embedding(model)]
    taken: set[str] = set()
    for part, count in uses.items():
        label = _unique(_label(part), taken)
        for operator in _lower(part, model.hidden_size):
            named = replace(operator, name=f"{label}_{operator.name}", count=count, weight_copies=owned[part])
            operators.append(named)
    return (*operators, _final_norm(model), _lm_head(model))


def parts_of(block: Block, hidden: int) -> list[tuple[object, int]]:
    """Return the parts of a block in order, each with the number of its operators; equal parts share operators."""
    return [(part, len(_lower(part, hidden))) for part, _ in _parts(block)]


def _parts(block: Block) -> Iterator[tuple[_Part, bool]]:
    """Parts of a block in order, each with whether the block owns its weights."""
    owns = block.weights_of is None
    yield _Norms(block.norms), owns
    for mixer in block.mixers:
        yield mixer, owns
        if isinstance(mixer, Attention) and mixer.adapter_rank:
            yield _Adapters(mixer), True
    if block.feed_forward is not None:
        yield block.feed_forward, owns
        if isinstance(block.feed_forward, Mlp) and block.feed_forward.adapter_rank:
            yield _Adapters(block.feed_forward), True
    if block.own_parameters:
        yield _Projection(block.own_parameters), True


def _lower(part: _Part, hidden: int) -> list[Operator]:
    if isinstance(part, _Norms):
        return [_norm("norm", part.vectors * hidden)]
    if isinstance(part, _Projection):
        return [_own_projection(part.elements, hidden)]
    if isinstance(part, _Adapters):
        adapted = part.part
        if isinstance(adapted, Attention):
            return attention_adapters(adapted, hidden)
        return mlp_adapters(adapted, hidden) if isinstance(adapted, Mlp) else []
    if isinstance(part, Mlp | MoE):
        return feed_forward_operators(part, hidden)
    return mixer_operators(part, hidden)


def _label(part: _Part) -> str:
    if isinstance(part, _Norms):
        return "block"
    if isinstance(part, _Projection):
        return "shared"
    if isinstance(part, _Adapters):
        return f"{_label(part.part)}_adapter"
    base = _LABELS[type(part).__name__]
    if isinstance(part, Attention):
        base += f"_window{part.window}" if part.window is not None else ""
        base += "" if part.keeps_kv else "_reuse"
    return base


_LABELS = {
    "Attention": "attention",
    "LatentAttention": "latent_attention",
    "Mamba1": "mamba",
    "Mamba2": "mamba2",
    "DeltaNet": "delta",
    "ShortConv": "short_conv",
    "Mlp": "mlp",
    "MoE": "moe",
}


def _unique(label: str, taken: set[str]) -> str:
    """The label with the first number that makes it new (the second `mamba` of a model must not be `mamba2`)."""
    name, number = label, 1
    while name in taken:
        number += 1
        name = f"{label}{number}"
        if name in _LABELS.values():
            name = f"{label}_{number}"
    taken.add(name)
    return name


def _norm(name: str, elements: int) -> Operator:
    return Operator(
        name=name,
        kind=OperatorClass.NORM,
        weight_elements=elements,
        vector_flops_per_token=NORM_FLOPS_PER_ELEMENT * elements,
        activation_elements_per_token=2.0 * elements,
    )


def _own_projection(elements: int, hidden: int) -> Operator:
    outputs = elements // hidden
    return Operator(
        name="projection",
        kind=OperatorClass.ATTENTION_PROJECTION,
        weight_elements=elements,
        matmul_flops_per_token=2.0 * elements,
        reduce_width=hidden,
        output_width=outputs,
        activation_elements_per_token=hidden + outputs,
        gather_elements_per_token=hidden,
    )


def _embedding(model: Model) -> Operator:
    return Operator(
        name="embedding",
        kind=OperatorClass.EMBEDDING,
        weight_elements=model.vocabulary * model.hidden_size,
        output_width=model.hidden_size,
        activation_elements_per_token=model.hidden_size,
    )


def _final_norm(model: Model) -> Operator:
    """The norm before the head, with whatever other parameters lie outside the blocks."""
    width = model.hidden_size
    return replace(_norm("final_norm", width), weight_elements=model.extra_parameters)


def _lm_head(model: Model) -> Operator:
    """The head: it owns no weights where it reuses the embedding table."""
    elements = model.vocabulary * model.hidden_size
    return Operator(
        name="lm_head",
        kind=OperatorClass.LM_HEAD,
        weight_copies=0 if model.tied_embeddings else 1,
        weight_elements=elements,
        matmul_flops_per_token=2.0 * elements,
        reduce_width=model.hidden_size,
        output_width=model.vocabulary,
        activation_elements_per_token=model.hidden_size + model.vocabulary,
        gather_elements_per_token=model.hidden_size,
        rows_emitted=True,
    )
