"""An operator's demand as sums over a few features of a batch, which all operators and designs share.

FLOPs and bytes are linear in tokens, sequences, query-key pairs and contexts (each cut by an attention window), and in
`min(rows, 1)`, the share of iterations in which an operator runs and streams its weights.  The padding of GEMM rows to
tiles is a feature of the rows and of a die.  With factors that a batch does not change, the time of an operator is a
maximum of such sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.model.routing import Routing
from hydra_dse.operator_cost import tiles_of

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """A quantity of a batch.

    Attributes:
        name: which one, see `_VALUES` and `Tiles`.
        emitted: of emitted tokens instead of all.
        window: attention window that cuts it.
        routing: of the experts touched.
        tiles: number of the tiles that its rows fill.
    """

    name: str
    emitted: bool = False
    window: int | None = None
    routing: Routing | None = None
    tiles: int | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Known from the first question on: forms look features up again and again."""
        return hash((self.name, self.emitted, self.window, self.routing, self.tiles))


Form = Mapping[Feature, Number]
"""`Σ factor · feature`; factors are numbers, or arrays over designs."""


@dataclass(frozen=True)
class DemandForms:
    """`Demand` as forms; `runs` is the share of iterations in which the operator runs."""

    rows: Feature
    runs: Feature
    matmul_flops: Form
    vector_flops: Form
    weight_bytes: Form
    kv_read_bytes: Form
    kv_write_bytes: Form
    state_bytes: Form
    activation_bytes: Form
    kv_accesses: Form


def forms_of(operator: Operator, precision: Precision) -> DemandForms:
    """The forms of `Operator.demand`; `state_bytes` are read, and written again."""
    emitted, window = operator.rows_emitted, operator.window
    rows, tokens, prefill = Feature("rows", emitted), Feature("rows"), Feature("prefill_tokens")
    pairs, decode_pairs = Feature("prefill_pairs", window=window), Feature("decode_pairs", window=window)
    per_pair, per_decode_pair = operator.matmul_flops_per_pair, operator.matmul_flops_per_decode_pair
    kv = operator.kv_elements_per_token * precision.kv_bytes
    state = operator.state_elements * precision.state_bytes + operator.conv_state_elements * precision.conv_state_bytes
    return DemandForms(
        rows=rows,
        runs=Feature("runs", emitted),
        matmul_flops=_form(
            (rows, operator.matmul_flops_per_token),
            (prefill, operator.matmul_flops_per_prefill_token),
            (pairs, per_pair),
            (decode_pairs, per_pair if per_decode_pair is None else per_decode_pair),
        ),
        vector_flops=_form(
            (rows, operator.vector_flops_per_token),
            (prefill, operator.vector_flops_per_prefill_token),
            (Feature("decode_tokens"), operator.vector_flops_per_decode_token),
        ),
        weight_bytes=_weights(operator, precision),
        kv_read_bytes=_form((Feature("context", window=window), kv)),
        kv_write_bytes=_form((tokens, kv if operator.kv_writes else 0.0)),
        state_bytes=_form((Feature("sequences"), state)),
        activation_bytes=_form((rows, operator.activation_elements_per_token * precision.activation_bytes)),
        kv_accesses=_form((Feature("sequences"), operator.kv_heads)),
    )


def _weights(operator: Operator, precision: Precision) -> Form:
    emitted = operator.rows_emitted
    if operator.kind is OperatorClass.EMBEDDING:
        return _form((Feature("rows", emitted), operator.output_width * precision.weight_bytes))
    bytes_of_all = operator.weight_elements * precision.weight_bytes
    if operator.routing is None or operator.kind is not OperatorClass.EXPERTS:
        return _form((Feature("runs", emitted), bytes_of_all))
    return _form((Feature("touched", emitted, routing=operator.routing), bytes_of_all))


def _form(*terms: tuple[Feature, float]) -> Form:
    """Terms by feature, without those of factor 0."""
    found: dict[Feature, Number] = {}
    for feature, factor in terms:
        if factor:
            found[feature] = found.get(feature, 0.0) + factor
    return found


def added(*forms: Form) -> Form:
    """The sum of forms."""
    found: dict[Feature, Number] = {}
    for form in forms:
        for feature, factor in form.items():
            found[feature] = found[feature] + factor if feature in found else factor
    return found


def add_to(total: dict[Feature, Number], form: Form, factor: Number = 1.0) -> None:
    """Add a form times a factor to a sum, in place."""
    for feature, own in form.items():
        total[feature] = total[feature] + own * factor if feature in total else own * factor


def scaled(form: Form, factor: Number) -> Form:
    """A form times a factor."""
    return {feature: own * factor for feature, own in form.items()}


@dataclass(frozen=True, eq=False)
class Tiles:
    """How the rows of a GEMM fill the matrix cores of a die; `array_rows`, `share` of shape (n,).

    Attributes:
        share: of the rows that one die has.
        table: rows and share of the peak, of a die with measured ones.
    """

    array_rows: FloatArray
    share: FloatArray
    table: tuple[tuple[float, float], ...] = ()

    def equals(self, other: Tiles) -> bool:
        """Whether rows fill both alike."""
        same = np.array_equal(self.array_rows, other.array_rows) and np.array_equal(self.share, other.share)
        return same and self.table == other.table

    def value(self, name: str, rows: FloatArray, where: slice | NDArray[np.int64]) -> FloatArray:
        """A feature of rows of shape (designs, k): `rows` times the growth of time over the peak."""
        tile = self.array_rows[where][:, None]
        # Fewer than one row stands for an operator that runs in some iterations only: it then has one row.
        mine = np.maximum(rows * self.share[where][:, None], 1.0)
        if name == "padded":
            return np.asarray(rows * (tiles_of(mine, tile) * tile / mine))
        if name == "measured":
            table_rows, share = np.array(self.table, dtype=np.float64).T
            return np.asarray(rows / np.interp(mine, table_rows, share))
        return np.asarray(rows * (np.maximum(mine, tile) if name == "streamed" else 1.0) / mine)


@dataclass(eq=False)
class FeatureList:
    """The features that a block needs, numbered in order of first use."""

    tiles: Sequence[Tiles]
    index: dict[Feature, int] = field(default_factory=dict)

    def number(self, feature: Feature) -> int:
        """The number of a feature, a new one if need be."""
        return self.index.setdefault(feature, len(self.index))

    def extremes(self, used: Sequence[int]) -> FloatArray:
        """Extreme values of some features, shape (extremes, used): all values are sums of these, none negative.

        Tokens are those of prompts and of decoders, padded rows are at least the rows, and those at least the share of
        iterations with any.
        """
        together: list[frozenset[int]] = []
        for emitted in (False, True):
            rows = self._of(("rows",), emitted)
            padded, runs = self._of(("padded", "streamed"), emitted), self._of(("runs",), emitted)
            together += [frozenset({number}) for number in padded]
            for phase in ((),) if emitted else (("prefill_tokens",), ("decode_tokens",)):
                grow = frozenset({*rows, *padded, *self._of(phase, False)})
                together += [grow, grow | runs]
        tied = frozenset().union(*together)
        together += [frozenset({number}) for number in used if number not in tied]
        kept = dict.fromkeys(found & set(used) for found in together)
        return np.array([[float(number in found) for number in used] for found in kept if found])

    def _of(self, names: Sequence[str], emitted: bool) -> frozenset[int]:
        return frozenset(
            number for feature, number in self.index.items() if feature.name in names and feature.emitted == emitted
        )

    def values(self, batch: Batch, shape: tuple[int, int], where: slice | NDArray[np.int64]) -> FloatArray:
        """All features of batches with fields of shape (designs, k) or plain numbers, shape (designs, features, k)."""
        found = np.empty((shape[0], len(self.index), shape[1]))
        for feature, number in self.index.items():
            if feature.tiles is None:
                found[:, number] = _VALUES[feature.name](batch, feature)
            else:
                rows = np.broadcast_to(_rows(batch, feature), shape)
                found[:, number] = self.tiles[feature.tiles].value(feature.name, rows, where)
        return found


def _rows(batch: Batch, feature: Feature) -> Number:
    return batch.emitted_tokens if feature.emitted else batch.tokens


def _cut(amount: Number, most: Callable[[float], Number], window: int | None) -> Number:
    return amount if window is None else np.minimum(amount, most(float(window)))


def _decode_context(batch: Batch, feature: Feature) -> Number:
    return _cut(batch.decode_context_tokens, lambda window: batch.decode_sequences * window, feature.window)


def _context(batch: Batch, feature: Feature) -> Number:
    read = _cut(
        batch.prefill_context_tokens,
        lambda window: batch.prefill_tokens + batch.prefill_sequences * window,
        feature.window,
    )
    return read + _decode_context(batch, feature)


def _touched(batch: Batch, feature: Feature) -> Number:
    routing = feature.routing
    return 0.0 if routing is None else routing.distinct(_rows(batch, feature)) / routing.experts


_VALUES: Mapping[str, Callable[[Batch, Feature], Number]] = {
    "rows": _rows,
    "runs": lambda batch, feature: np.minimum(_rows(batch, feature), 1.0),
    "prefill_tokens": lambda batch, _: batch.prefill_tokens,
    "decode_tokens": lambda batch, _: batch.decode_sequences * batch.tokens_per_sequence,
    "sequences": lambda batch, _: batch.sequences,
    "prefill_pairs": lambda batch, feature: _cut(
        batch.prefill_pairs, lambda window: batch.prefill_tokens * window, feature.window
    ),
    "decode_pairs": lambda batch, feature: _decode_context(batch, feature) * batch.tokens_per_sequence,
    "context": _context,
    "touched": _touched,
}
