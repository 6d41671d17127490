"""The hand-off between pools with memories of their own: what moves, over which links, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.solution import Solution
from hydra_dse.estimator.transfers import handed_over_s, transfer_s
from hydra_dse.hardware.fabric import fabric_links, port_names
from hydra_dse.mapping import MappedDesign
from hydra_dse.network_load import LinkLoad
from hydra_dse.profile.compose import component_names
from hydra_dse.profile.nouns import ServiceProfile


@dataclass(frozen=True)
class HandoffLink:
    """One directed link on the way.

    Attributes:
        link: `slot→slot`.
        source: component or port that sends.
        target: component or port that receives.
        fabric: whether it joins two packages.
        bytes_per_request: of a mean request.
        busy_share: share of time in which hand-offs keep it busy.
    """

    link: str
    source: str
    target: str
    fabric: bool
    bytes_per_request: float
    busy_share: float


@dataclass(frozen=True)
class HandoffRow:
    """Caches of finished prompts on their way to the decode pool.

    Attributes:
        requests_per_s: that are handed over.
        kv_bytes: of a mean request.
        state_bytes: of any request.
        fabric_bytes: of them what crosses links between packages, once for each such link.
        latency_s: of the links between packages on the longest path.
        alone_s: time of the busiest memory or link.
        moved_s: mean time beside other transfers that come at random, latency included.
        most_per_s: requests per second that the way carries at most.
        links: that carry anything, the busiest first.
    """

    requests_per_s: float
    kv_bytes: float
    state_bytes: float
    fabric_bytes: float
    latency_s: float
    alone_s: float
    moved_s: float
    most_per_s: float
    links: tuple[HandoffLink, ...]


def explain_handoff(
    design: Design, mapped: MappedDesign, profile: ServiceProfile, solution: Solution, lengths: LengthMoments
) -> HandoffRow | None:
    """The hand-off of one placed design at a solved state; None where it is a pointer."""
    if profile.handoff is None or design.placement is None:
        return None
    load = LinkLoad(design.package, design.placement)
    joining = solution.served_per_s * lengths.decoding_share
    kv = float(profile.kv_bytes_per_token[0]) * lengths.stored
    state = float(profile.state_bytes_per_sequence[0])
    on_links = load.loads(mapped.handoff) * (kv + state)
    between = fabric_links(design.package)
    names = component_names(design.package)
    at = {**port_names(design.package), **{slot: names[n] for n, slot in enumerate(design.placement.slots)}}
    busy = float(joining[0]) * on_links / load.capacity
    rows = [
        HandoffLink(
            link=f"{load.routes.links[number][0]}→{load.routes.links[number][1]}",
            source=at[load.routes.links[number][0]],
            target=at[load.routes.links[number][1]],
            fabric=number in between,
            bytes_per_request=float(on_links[number]),
            busy_share=float(busy[number]),
        )
        for number in np.argsort(-busy, kind="stable").tolist()
        if on_links[number] > 0
    ]
    alone = float(transfer_s(profile, lengths)[0])
    return HandoffRow(
        requests_per_s=float(joining[0]),
        kv_bytes=kv,
        state_bytes=state,
        fabric_bytes=float(on_links[between.start : between.stop].sum()),
        latency_s=float(profile.handoff.latency_s[0]),
        alone_s=alone,
        moved_s=float(handed_over_s(profile, lengths, joining)[0]),
        most_per_s=1.0 / alone,
        links=tuple(rows),
    )
