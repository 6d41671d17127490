"""Routing skew: how unevenly the tokens of a workload choose among the experts of a mixture.

A property of the workload, because the same model is used unevenly by one kind of text and evenly by another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hydra_dse.errors import Fault, InputError
from hydra_dse.model.blocks import Block, Model, MoE


@dataclass(frozen=True)
class RoutingSkew:
    """Popularity of experts; the default is uniform.

    Attributes:
        zipf: exponent of a Zipf law over the experts of every layer, the first expert being the most popular.
        shares: share of the tokens by expert, in place of the law: one histogram for all sparse layers, or one per
            sparse layer in the order of the model.
    """

    zipf: float = 0.0
    shares: tuple[tuple[float, ...], ...] = ()


def with_skew(model: Model, skew: RoutingSkew) -> Model:
    """Return the model with its mixtures routed by a skew; the model itself where nothing changes.

    Raises:
        InputError: histograms that do not fit the experts or the sparse layers of the model.
    """
    sparse = [index for index, block in enumerate(model.blocks) if isinstance(block.feed_forward, MoE)]
    if not sparse or (not skew.shares and skew.zipf == 0):
        return model
    if len(skew.shares) > 1 and len(skew.shares) != len(sparse):
        raise InputError(
            Fault(
                f"{len(skew.shares)} histograms for the {len(sparse)} sparse layers of {model.name}; give one for all "
                "or one per sparse layer"
            )
        )
    blocks = list(model.blocks)
    for number, index in enumerate(sparse):
        shares = skew.shares[number if len(skew.shares) > 1 else 0] if skew.shares else ()
        blocks[index] = _routed(blocks[index], skew.zipf, shares, model.name)
    return replace(model, blocks=tuple(blocks))


def _routed(block: Block, zipf: float, shares: tuple[float, ...], name: str) -> Block:
    part = block.feed_forward
    if not isinstance(part, MoE):
        return block
    routing = part.routing
    if shares and len(shares) != routing.experts:
        raise InputError(
            Fault(f"{len(shares)} shares for the {routing.experts} experts of {name}; give one per expert")
        )
    used = sum(share > 0 for share in shares)
    if shares and used < routing.top_k:
        raise InputError(
            Fault(f"{used} experts have a share above 0, but each token of {name} uses {routing.top_k} different ones")
        )
    return replace(block, feed_forward=replace(part, routing=replace(routing, skew=zipf, shares=shares)))
