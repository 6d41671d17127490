"""The stages of a pipeline: consecutive blocks of a model, each stage on dies of its own.

Blocks are dealt as evenly as they divide; the first stages take one more.  The embedding belongs to the first stage,
the final norm and the head to the last.  Later stages begin with an operator that only receives the residual stream.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from hydra_dse.mapping.nouns import ExecutionGroup, Transfer
from hydra_dse.mapping.operands import Operands
from hydra_dse.mapping.transfers import forward_shares
from hydra_dse.model import Model, block_operators, operators_of
from hydra_dse.model.operators import Operator, OperatorClass

_OUTER = 2  # final norm and head


@lru_cache(maxsize=256)
def stages_of(operands: Operands, degree: int) -> tuple[tuple[Operator, ...], ...]:
    """Operators of each stage, in order; all in one stage where the degree is 1."""
    model = operands.model
    if degree == 1 or model is None:
        return (operands.operators,)
    stages: list[tuple[Operator, ...]] = []
    for number, blocks in enumerate(np.array_split(np.arange(len(model.blocks)), degree)):
        part = operators_of(replace(model, blocks=tuple(model.blocks[block] for block in blocks.tolist())))
        inner = part[0 if number == 0 else 1 : None if number == degree - 1 else -_OUTER]
        arrival = (Operator(name="arrival", kind=OperatorClass.NORM),) if number else ()
        stages.append(tuple(replace(one, name=f"stage{number + 1}_{one.name}") for one in (*arrival, *inner)))
    return tuple(stages)


def block_names(model: Model, degree: int) -> tuple[tuple[str, ...], ...]:
    """Names of the operators of `stages_of` in order of execution, by block (see `hydra_dse.model.block_operators`)."""
    if degree == 1:
        return block_operators(model)
    found: list[tuple[str, ...]] = []
    for number, blocks in enumerate(np.array_split(np.arange(len(model.blocks)), degree)):
        whole = block_operators(replace(model, blocks=tuple(model.blocks[block] for block in blocks.tolist())))
        inner = whole[0 if number == 0 else 1 : None if number == degree - 1 else -1]
        arrival = (("arrival",),) if number else ()
        found += [tuple(f"stage{number + 1}_{name}" for name in block) for block in (*arrival, *inner)]
    return tuple(found)


def handed_on(source: ExecutionGroup, target: ExecutionGroup, elements: float) -> tuple[Transfer, ...]:
    """The residual stream moves from the dies of one stage to those of the next."""
    sources, targets, share = forward_shares(source, target)
    return (Transfer(sources, targets, share, elements, "stage"),) if share.any() else ()
