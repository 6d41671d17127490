"""Activations that move between dies before and after each operator.

The residual stream is sharded over all dies of a pool.  Under a tensor split (by width) every die of a group
receives all of it (`gather`) and gives every die of the pool its part of the sums (`reduce`): no multicast is assumed.
Under replicas (split by rows) only the rows that a die does not hold itself move.  Under expert parallelism a row goes
once to every other die that holds one of its experts (`dispatch`), which returns one sum (`combine`).  An operator that
gathers nothing finds its input where its predecessor left it, so it moves only where the two run on different groups
(`forward`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping.experts import ExpertPlacement
from hydra_dse.mapping.layout import overlaps
from hydra_dse.mapping.nouns import ExecutionGroup, Transfer
from hydra_dse.model.operators import Operator, OperatorClass

FloatArray = NDArray[np.float64]
Shares = tuple[tuple[int, ...], tuple[int, ...], FloatArray]

# Operators that work inside a mixer or a feed-forward part, whose input is not the residual stream.
_INNER = frozenset(OperatorClass) - {
    OperatorClass.EMBEDDING,
    OperatorClass.NORM,
    OperatorClass.ROUTER,
    OperatorClass.LM_HEAD,
}


def transfers_of(
    placed: Sequence[tuple[Operator, int]], groups: Sequence[ExecutionGroup], homes: ExecutionGroup
) -> list[tuple[Transfer, ...]]:
    """Return the transfers of each operator; `homes` is the group of all dies, which holds the residual stream."""
    gathers: dict[int, Shares] = {}
    reduces: dict[int, Shares] = {}
    moves: list[tuple[Transfer, ...]] = []
    previous: tuple[Operator, int] | None = None
    for operator, group in placed:
        mine = []
        if operator.gather_elements_per_token > 0:
            if group not in gathers:
                gathers[group] = _gather(groups[group], homes)
            kind = "gather" if groups[group].experts is None else "dispatch"
            mine += _transfer(gathers[group], operator.gather_elements_per_token, kind)
        elif previous is not None and _follows(operator, previous[0]) and previous[1] != group:
            # Half of what an operator holds per token is its input, half its output.
            width = operator.activation_elements_per_token / 2
            mine += _transfer(forward_shares(groups[previous[1]], groups[group]), width, "forward")
        if operator.reduce_elements_per_token > 0:
            if group not in reduces:
                reduces[group] = _reduce(groups[group], homes)
            kind = "reduce" if groups[group].experts is None else "combine"
            mine += _transfer(reduces[group], operator.reduce_elements_per_token, kind)
        moves.append(tuple(mine))
        if operator.kind is not OperatorClass.NORM:
            previous = (operator, group)
    return moves


def _follows(operator: Operator, before: Operator) -> bool:
    return operator.kind in _INNER and before.kind in _INNER and before.reduce_elements_per_token == 0


def _transfer(shares: Shares, elements: float, kind: str) -> list[Transfer]:
    sources, targets, share = shares
    return [Transfer(sources, targets, share, elements, kind)] if share.any() else []


def _gather(group: ExecutionGroup, homes: ExecutionGroup) -> Shares:
    if group.experts is not None:
        return homes.dies, group.dies, _dispatch(group, homes, group.experts)
    if group.parallelism == "replica":
        return forward_shares(homes, group)
    share = np.repeat(homes.work_share[:, None], len(group.dies), axis=1)
    return homes.dies, group.dies, _without_self(share, homes.dies, group.dies)


def _reduce(group: ExecutionGroup, homes: ExecutionGroup) -> Shares:
    if group.experts is not None:
        return group.dies, homes.dies, _dispatch(group, homes, group.experts).T
    if group.parallelism == "replica":
        return forward_shares(group, homes)
    share = np.repeat(homes.work_share[None, :], len(group.dies), axis=0)
    return group.dies, homes.dies, _without_self(share, group.dies, homes.dies)


def _dispatch(group: ExecutionGroup, homes: ExecutionGroup, experts: ExpertPlacement) -> FloatArray:
    """Share of the rows that go from each die of the pool to each die with experts; copies serve what is near."""
    near = overlaps(homes.work_share, experts.share) * experts.replicated_hit
    return _without_self(np.outer(homes.work_share, experts.visits) + near, homes.dies, group.dies)


def forward_shares(source: ExecutionGroup, target: ExecutionGroup) -> Shares:
    """Bytes from each die of one group to each of another when an operand moves from one to the other."""
    share = overlaps(source.work_share, target.work_share)
    return source.dies, target.dies, _without_self(share, source.dies, target.dies)


def _without_self(share: FloatArray, sources: tuple[int, ...], targets: tuple[int, ...]) -> FloatArray:
    same = np.array(sources)[:, None] == np.array(targets)[None, :]
    return np.where(same, 0.0, share)
