"""What an operator asks of hardware: FLOPs and bytes as functions of an iteration's batch.

A model is lowered to a short list of `Operator`s, each with the number of identical instances in the model.
An iteration is described by a `Batch`: totals over its sequences.  Both are plain numbers or NumPy arrays of
any broadcastable shape, so that the estimator asks for thousands of batches at once and a simulator for one.
Formulas: docs/concepts/cost-model.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hydra_dse.model.precision import Precision
from hydra_dse.model.routing import Routing

if TYPE_CHECKING:
    from numpy.typing import NDArray

Number: TypeAlias = "float | NDArray[np.float64]"

__all__ = ["Batch", "Demand", "Number", "Operator", "OperatorClass", "Routing"]


class OperatorClass(StrEnum):
    """Classes that a design maps to die groups and a calibration gives efficiencies to."""

    EMBEDDING = "embedding"
    NORM = "norm"
    ATTENTION_PROJECTION = "attention_projection"
    ATTENTION = "attention"
    SSM_PROJECTION = "ssm_projection"
    SSM_CONV = "ssm_conv"
    SSM_SCAN = "ssm_scan"
    MLP = "mlp"
    ROUTER = "router"
    EXPERTS = "experts"
    LM_HEAD = "lm_head"


@dataclass(frozen=True)
class Batch:
    """One engine iteration as totals over its sequences; every field broadcasts with the others.

    Attributes:
        prefill_tokens: prompt tokens processed in this iteration.
        prefill_sequences: sequences with a prompt chunk in this iteration.
        prefill_pairs: causal query-key pairs of the chunks, `Σ chunk·(prior + chunk/2)`.
        prefill_context_tokens: tokens whose keys the chunks read, `Σ (prior + chunk)`.
        decode_sequences: sequences that decode.
        decode_context_tokens: `Σ context` over decoding sequences (prompt + tokens so far).
        emitted_tokens: rows of the LM head: all positions of decoders, and one of each prompt that ends here.
        tokens_per_sequence: positions that an iteration computes of a decoding sequence (1 without speculation).
    """

    prefill_tokens: Number = 0.0
    prefill_sequences: Number = 0.0
    prefill_pairs: Number = 0.0
    prefill_context_tokens: Number = 0.0
    decode_sequences: Number = 0.0
    decode_context_tokens: Number = 0.0
    emitted_tokens: Number = 0.0
    tokens_per_sequence: float = 1.0

    @cached_property
    def tokens(self) -> Number:
        """All tokens that pass through the blocks."""
        return self.prefill_tokens + self.decode_sequences * self.tokens_per_sequence

    @cached_property
    def sequences(self) -> Number:
        """All sequences of the iteration: each reads and writes its recurrent state once."""
        return self.prefill_sequences + self.decode_sequences


@dataclass(frozen=True)
class Demand:
    """What one instance of an operator asks for in one iteration (whole model width, before any sharding)."""

    matmul_flops: Number
    vector_flops: Number
    rows: Number
    weight_bytes: Number
    kv_read_bytes: Number
    kv_write_bytes: Number
    state_read_bytes: Number
    state_write_bytes: Number
    activation_bytes: Number
    kv_accesses: Number = 0.0
    """Reads of the KV of one sequence and head: each costs its start, whatever its size."""


@dataclass(frozen=True)
class Operator:
    """One kind of operator and how its demand grows with the batch.

    Attributes:
        name: unique inside a model, e.g. `"mlp_up"`.
        kind: the class that designs map and calibrations describe.
        count: instances in the model that run once per iteration.
        weight_copies: instances that own weights (fewer than `count` where blocks share weights).
        weight_elements: parameters of one instance (all experts of a mixture).
        matmul_flops_per_token, vector_flops_per_token: work per token (or per emitted token, see `rows_emitted`).
        matmul_flops_per_prefill_token: work that only prompt tokens have (chunked scans run as GEMMs).
        vector_flops_per_prefill_token, vector_flops_per_decode_token: work that only one phase has (recurrent
            updates run on vector units in decode).
        matmul_flops_per_pair: attention work per causal query-key pair.
        matmul_flops_per_decode_pair: the same in decode where it differs (absorbed latent attention), else None.
        reduce_width, output_width: inner and outer dimension of the GEMM (0 = none): array utilisation.
        kv_elements_per_token: KV-cache elements written per token and read per context token.
        kv_heads: heads whose KV a sequence reads, each on its own.
        kv_writes: whether it writes its KV (False where a layer reuses another's cache).
        state_elements, conv_state_elements: recurrent state per sequence, read and written each iteration.
        window: attention window in tokens, None = unlimited.
        activation_elements_per_token: elements in and out per token, held in SRAM between operators.
        gather_elements_per_token: elements of the residual stream that every die of its group must receive before
            it starts (column-parallel GEMM of a tensor split), 0 where its input is already local.
        reduce_elements_per_token: elements of partial sums that every die of its group gives to the residual
            stream when it ends (row-parallel GEMM of a tensor split), 0 where its output stays local.
        parallel_units: units a tensor split must divide (heads, KV heads, groups; 0 = any split).
        routing: mixture routing, None for dense operators.
        rows_emitted: True where only emitted tokens pass (LM head).
    """

    name: str
    kind: OperatorClass
    count: int = 1
    weight_copies: int = 1
    weight_elements: float = 0.0
    matmul_flops_per_token: float = 0.0
    vector_flops_per_token: float = 0.0
    matmul_flops_per_prefill_token: float = 0.0
    vector_flops_per_prefill_token: float = 0.0
    vector_flops_per_decode_token: float = 0.0
    matmul_flops_per_pair: float = 0.0
    matmul_flops_per_decode_pair: float | None = None
    reduce_width: int = 0
    output_width: int = 0
    kv_elements_per_token: float = 0.0
    kv_heads: int = 0
    kv_writes: bool = True
    state_elements: float = 0.0
    conv_state_elements: float = 0.0
    window: int | None = None
    activation_elements_per_token: float = 0.0
    gather_elements_per_token: float = 0.0
    reduce_elements_per_token: float = 0.0
    parallel_units: int = 0
    routing: Routing | None = None
    rows_emitted: bool = False

    def demand(self, batch: Batch, precision: Precision) -> Demand:
        """Return what one instance asks for in an iteration with this batch."""
        rows = batch.emitted_tokens if self.rows_emitted else batch.tokens
        prefill_pairs, decode_pairs, context = self._attended(batch) if self._attends else (0.0, 0.0, 0.0)
        decode_tokens = batch.decode_sequences * batch.tokens_per_sequence
        per_pair, per_decode_pair = self.matmul_flops_per_pair, self.matmul_flops_per_decode_pair
        state = self.state_elements * precision.state_bytes + self.conv_state_elements * precision.conv_state_bytes
        kv_token_bytes = self.kv_elements_per_token * precision.kv_bytes
        return Demand(
            matmul_flops=_sum_of(
                (self.matmul_flops_per_token, rows),
                (self.matmul_flops_per_prefill_token, batch.prefill_tokens),
                (per_pair, prefill_pairs),
                (per_pair if per_decode_pair is None else per_decode_pair, decode_pairs),
            ),
            vector_flops=_sum_of(
                (self.vector_flops_per_token, rows),
                (self.vector_flops_per_prefill_token, batch.prefill_tokens),
                (self.vector_flops_per_decode_token, decode_tokens),
            ),
            rows=rows,
            weight_bytes=self._weights_touched(rows) * precision.weight_bytes,
            kv_read_bytes=_sum_of((kv_token_bytes, context)),
            kv_write_bytes=_sum_of((kv_token_bytes, batch.tokens)) if self.kv_writes else 0.0,
            state_read_bytes=_sum_of((state, batch.sequences)),
            state_write_bytes=_sum_of((state, batch.sequences)),
            activation_bytes=rows * self.activation_elements_per_token * precision.activation_bytes,
            kv_accesses=_sum_of((self.kv_heads, batch.sequences)),
        )

    @property
    def update_flops_per_token(self) -> float:
        """Vector FLOPs of a scan as recurrent updates, its form on vector dies; 0 where there is none."""
        recurrent = self.kind is OperatorClass.SSM_SCAN and self.vector_flops_per_decode_token > 0
        return self.vector_flops_per_token + self.vector_flops_per_decode_token if recurrent else 0.0

    @property
    def _attends(self) -> bool:
        """Whether anything it asks for depends on contexts."""
        per_pair = self.matmul_flops_per_decode_pair or self.matmul_flops_per_pair
        return per_pair > 0 or self.kv_elements_per_token > 0

    def _attended(self, batch: Batch) -> tuple[Number, Number, Number]:
        """Query-key pairs of prefill and of decode, and context read; cut by the window (exact at equal contexts)."""
        decode = batch.decode_context_tokens
        pairs, read = batch.prefill_pairs, batch.prefill_context_tokens
        if self.window is not None:
            decode = np.minimum(decode, batch.decode_sequences * float(self.window))
            pairs = np.minimum(pairs, batch.prefill_tokens * float(self.window))
            read = np.minimum(read, batch.prefill_tokens + batch.prefill_sequences * float(self.window))
        return pairs, decode * batch.tokens_per_sequence, read + decode

    def _weights_touched(self, rows: Number) -> Number:
        """Weight elements streamed: rows of a table, the distinct experts of a mixture, else all that runs."""
        if self.kind is OperatorClass.EMBEDDING:
            return rows * float(self.output_width)
        runs = np.minimum(np.asarray(rows, dtype=np.float64), 1.0)
        if self.routing is None or self.kind is not OperatorClass.EXPERTS:
            return np.asarray(runs * self.weight_elements)
        share = self.routing.distinct(rows) / self.routing.experts
        return np.asarray(share * self.weight_elements)


def _sum_of(*terms: tuple[float, Number]) -> Number:
    """`Σ factor · amount` in order; most operators have none of most terms, so zero factors are passed over."""
    total: Number = 0.0
    for factor, amount in terms:
        if factor:
            total = total + amount * factor
    return total
