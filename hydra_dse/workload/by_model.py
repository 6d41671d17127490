"""A workload seen by each of the models it is for: the same classes and lengths, thinned arrivals.

Requests go to a model independently with its share `s`.  Of a renewal process with squared coefficient of variation
`c²` of the gaps, a gap between two kept arrivals is a geometric sum of gaps: `s·c² + 1 − s`.  An MMPP keeps its
phases, with rates `s` times as high.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hydra_dse.model.blocks import Model
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints, Slo, Workload
from hydra_dse.workload.pieces import Piece
from hydra_dse.workload.sampling import joined_points, length_points


@dataclass(frozen=True)
class Served:
    """One model of a workload.

    Attributes:
        label: its name, made unique; what the metrics of this model are marked with.
        classes: indices into `Workload.classes`.
    """

    model: Model
    label: str
    classes: tuple[int, ...]


def served(workload: Workload) -> tuple[Served, ...]:
    """The distinct models of a workload's classes in order; classes of equal models share its weights."""
    classes: dict[int, list[int]] = {}
    distinct: list[Model] = []
    for index, kind in enumerate(workload.classes):
        model = workload.models[kind.model_index]
        if model not in distinct:
            distinct.append(model)
        classes.setdefault(distinct.index(model), []).append(index)
    names = [model.name for model in distinct]
    labels = [
        name if names.count(name) == 1 else f"{name}#{names[: at + 1].count(name)}" for at, name in enumerate(names)
    ]
    return tuple(
        Served(model, label, tuple(classes[at])) for at, (model, label) in enumerate(zip(distinct, labels, strict=True))
    )


@dataclass(frozen=True)
class Part:
    """The stationary requests of one model.

    Attributes:
        share: of all requests.
        promises: share among the model's requests and SLO of each of its classes.
    """

    share: float
    arrivals: ArrivalStatistics
    lengths: LengthPoints
    promises: tuple[tuple[float, Slo], ...]


def part_of(workload: Workload, piece: Piece, kinds: Sequence[int]) -> Part:
    """What classes `kinds` are of a stationary workload's piece."""
    shares = [piece.class_shares[index] for index in kinds]
    share = sum(shares) / sum(piece.class_shares)
    if len(kinds) == len(workload.classes):
        lengths = piece.lengths
    else:
        lengths = joined_points([length_points(workload, index) for index in kinds], shares)
    promises = tuple((own / sum(shares), workload.classes[index].slo) for own, index in zip(shares, kinds, strict=True))
    return Part(share, thinned(piece.arrivals, share), lengths, promises)


def thinned(arrivals: ArrivalStatistics, share: float) -> ArrivalStatistics:
    """Arrivals of which each is kept with probability `share`."""
    rate = arrivals.rate_per_s * share
    if arrivals.phases:
        phases = tuple((phase_rate * share, sojourn_s) for phase_rate, sojourn_s in arrivals.phases)
        return replace(arrivals, rate_per_s=rate, phases=phases, cv=_kept_cv(arrivals.cv, share))
    return ArrivalStatistics(rate, _kept_cv(arrivals.cv, share))


def _kept_cv(cv: float, share: float) -> float:
    return math.sqrt(share * cv**2 + 1.0 - share)
