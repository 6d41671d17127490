"""FLOPs, parameters and bytes of a decoder stack in training and inference.

Decoder block, forward, batch b, length s, hidden h, KV width k, FFN width f, n matrices:
`F = 2bsh(2h + 2k) + 4bs²h + 2n·bshf`; counting causal pairs only halves the s² term; the LM head adds `2bshV`.
Training is 3 forwards (4 with full recomputation).  Through a memory in training pass the weights twice and their
gradient once (`3·P·w`), the optimizer's state if it lives there, and every stored activation once each way.
"""

from __future__ import annotations

from dataclasses import dataclass

from hydra_dse.bench.record import ModelShape

_OPTIMIZER_BYTES = {"fp32": 8.0, "bf16": 4.0, "fp16": 4.0}
_MIXED_OPTIMIZER_BYTES = 12.0


def optimizer_bytes(precision: str) -> float:
    """Adam's state of a parameter: two moments in the format of training; mixed precision keeps fp32 weights besides.

    A precision that names no pure format (`"mixed"`, `""`) is mixed: 16-bit products, fp32 weights and moments.
    """
    return _OPTIMIZER_BYTES.get(precision.lower(), _MIXED_OPTIMIZER_BYTES)


@dataclass(frozen=True)
class Counting:
    """How FLOPs and bytes are counted.

    Attributes:
        causal: count only the pairs below the diagonal.
        recompute: the forward pass is run again for the backward pass; only block inputs are stored.
    """

    causal: bool = False
    recompute: bool = False


def complete(shape: ModelShape) -> bool:
    """Whether the shape says enough for FLOPs."""
    return shape.layers is not None and shape.hidden is not None


def kv_width(shape: ModelShape) -> int:
    """Width of all keys."""
    return shape.kv_width or shape.hidden or 0


def ffn_width(shape: ModelShape) -> int:
    """Inner width of the feed-forward part: 4 × hidden where the shape does not say."""
    return shape.ffn or 4 * (shape.hidden or 0)


def block_flops(shape: ModelShape, batch: float, sequence: float, causal: bool = False) -> float:
    """Forward FLOPs of one decoder block."""
    h = float(shape.hidden or 0)
    projections = 2 * batch * sequence * h * (2 * h + 2 * kv_width(shape))
    attention = 4 * batch * sequence**2 * h * (0.5 if causal else 1.0)
    return projections + attention + 2 * shape.matrices * batch * sequence * h * ffn_width(shape)


def forward_flops(shape: ModelShape, batch: float, sequence: float, causal: bool = False) -> float:
    """Forward FLOPs of the stack with its LM head, where the vocabulary is known."""
    head = 2.0 * batch * sequence * (shape.hidden or 0) * (shape.vocabulary or 0)
    return (shape.layers or 0) * block_flops(shape, batch, sequence, causal) + head


def decode_flops(shape: ModelShape, batch: float, context: float) -> float:
    """FLOPs of a step that gives each of `batch` sequences one token at a context length."""
    h = float(shape.hidden or 0)
    token = 2 * h * (2 * h + 2 * kv_width(shape)) + 2 * shape.matrices * h * ffn_width(shape)
    return batch * ((shape.layers or 0) * (token + 4 * context * h) + 2.0 * h * (shape.vocabulary or 0))


def step_flops(shape: ModelShape, batch: float, sequence: float, phase: str, counting: Counting) -> float:
    """FLOPs of a step in a phase (`"serving"` counts as prefill)."""
    if phase == "decode":
        return decode_flops(shape, batch, sequence)
    forward = forward_flops(shape, batch, sequence, counting.causal)
    if phase != "training":
        return forward
    return forward * (4.0 if counting.recompute else 3.0)


def block_parameters(shape: ModelShape) -> float:
    """Matrix parameters of one block."""
    h = float(shape.hidden or 0)
    return h * (2 * h + 2 * kv_width(shape)) + shape.matrices * h * ffn_width(shape)


def parameters(shape: ModelShape) -> float:
    """Matrix parameters of the stack and one embedding table."""
    return (shape.layers or 0) * block_parameters(shape) + float(shape.hidden or 0) * (shape.vocabulary or 0)


def block_activations(shape: ModelShape, recompute: bool = False) -> float:
    """Elements of one token that a block keeps for its backward pass.

    Residual twice, both normed inputs, query, attention output: 6h; keys and values: 2k; every operand of the
    feed-forward part: n·f.  Attention scores are not kept (they are recomputed tile by tile).
    """
    h = float(shape.hidden or 0)
    return h if recompute else 6 * h + 2 * kv_width(shape) + shape.matrices * ffn_width(shape)


@dataclass(frozen=True)
class Behind:
    """What lives behind a memory level, so that its traffic passes it."""

    weights: bool = False
    activations: bool = False
    optimizer: bool = False


def level_bytes(
    shape: ModelShape,
    batch: float,
    sequence: float,
    phase: str,
    behind: Behind,
    element_bytes: float = 2.0,
    recompute: bool = False,
    state_bytes: float = _MIXED_OPTIMIZER_BYTES,
) -> float:
    """Return the bytes that pass a memory level in one step; `state_bytes` is the optimizer's of a parameter."""
    count, layers = parameters(shape), shape.layers or 0
    tokens = batch * (1.0 if phase == "decode" else sequence)
    training = phase == "training"
    total = 0.0
    if behind.weights:
        total += (3.0 if training else 1.0) * count * element_bytes
    if behind.optimizer and training:
        total += 2.0 * state_bytes * count
    if behind.activations:
        # Nothing waits for a backward pass in inference: only what goes from block to block need pass.
        total += 2.0 * tokens * layers * block_activations(shape, recompute or not training) * element_bytes
    if behind.activations and phase == "decode":
        total += batch * sequence * layers * 2.0 * kv_width(shape) * element_bytes
    return total
