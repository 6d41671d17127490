"""Which traffic an operator causes, and its loads on the resources that may bind."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import MappedOperator
from hydra_dse.profile.envelope import envelope
from hydra_dse.profile.row_table import ExpertTable, RowTable, widened
from hydra_dse.profile.rows import READS, WEIGHTS, WRITES

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OperatorTerms:
    """Which patterns an operator uses, and their loads on the resources that may bind.

    `link_s` has shape (patterns of the operator, links kept, rows), `site_s` the same over its access kinds.
    """

    mapped: MappedOperator
    patterns: tuple[int, ...]
    kinds: tuple[int, ...]
    link_s: FloatArray
    site_s: FloatArray
    experts: ExpertTable | None = None


def terms_of(table: RowTable, link_count: int, site_count: int) -> list[OperatorTerms]:
    """Terms of each operator; resources are padded to the given numbers."""
    links: dict[tuple[int, ...], FloatArray] = {}
    sites: dict[tuple[int, ...], FloatArray] = {}
    terms = []
    for number, (mapped, moves) in enumerate(zip(table.operators, table.transfer_patterns, strict=True)):
        patterns, kinds = _used(mapped)
        patterns += moves
        if patterns not in links:
            links[patterns] = _rows_last(envelope(table.link_s[:, np.array(patterns, dtype=np.int64)]))
        if kinds not in sites:
            sites[kinds] = _rows_last(envelope(table.site_s[:, np.array(kinds, dtype=np.int64)]))
        experts = table.experts.get(number)
        if experts is not None:
            site_s, link_s = widened(experts.site_s, site_count), widened(experts.link_s, link_count)
            experts = replace(experts, site_s=site_s, link_s=link_s)
        terms.append(OperatorTerms(mapped, patterns, kinds, links[patterns], sites[kinds], experts))
    return terms


def _used(mapped: MappedOperator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Memory patterns and access kinds that an operator uses at all."""
    operator, base = mapped.operator, 3 * mapped.group
    weights = [0] if operator.weight_elements > 0 else []
    kv = operator.kv_elements_per_token > 0
    state = operator.state_elements + operator.conv_state_elements > 0
    patterns = [WEIGHTS] * len(weights) + ([READS, WRITES] if kv or state else [])
    kinds = weights + [1] * kv + [2] * state
    return tuple(base + p for p in patterns), tuple(base + kind for kind in kinds)


def _rows_last(loads: FloatArray) -> FloatArray:
    return np.ascontiguousarray(np.moveaxis(loads, 0, -1))
