"""A whole space in order, in groups that share an outer point: what a search is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hydra_dse.search.outer import OuterPoint, OuterSpace
from hydra_dse.search.variants import Candidate


def generations(space: OuterSpace, size: int) -> Iterator[list[Candidate]]:
    """Every outer point of the space with all its variants, `size` outer points at a time."""
    points = space.points()
    while batch := [_whole(space, point) for point in islice(points, size)]:
        yield batch


def _whole(space: OuterSpace, point: OuterPoint) -> Candidate:
    variants = space.variants(point)
    return Candidate(point, tuple(index for index, _ in variants), tuple(done for _, done in variants))
