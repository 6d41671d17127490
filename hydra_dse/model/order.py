"""The order in which the blocks of a model run its operators."""

from __future__ import annotations

from hydra_dse.model.blocks import Model
from hydra_dse.model.lowering import operators_of, parts_of


def block_operators(model: Model) -> tuple[tuple[str, ...], ...]:
    """Return the names of the operators of the embedding, of each block in turn, and of the final norm and head.

    Names are those of `operators_of`; an operator with `count` instances appears in as many places.
    """
    names = [operator.name for operator in operators_of(model)]
    of_part: dict[object, tuple[str, ...]] = {}
    at = 1
    blocks = [parts_of(block, model.hidden_size) for block in model.blocks]
    for parts in blocks:
        for part, operators in parts:
            if part not in of_part:
                of_part[part] = tuple(names[at : at + operators])
                at += operators
    inside = [tuple(name for part, _ in parts for name in of_part[part]) for parts in blocks]
    return ((names[0],), *inside, tuple(names[at:]))
