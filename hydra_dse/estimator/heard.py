"""What latencies are made of, of some designs of a batch: nobody asks for distributions of an overloaded one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.company import Company
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.stages import Entry, Stall, Stream

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def entry_of(entry: Entry, rows: BoolArray) -> Entry:
    """The entry of some designs, `rows` of shape (n,)."""
    return replace(
        entry,
        own_s=entry.own_s[rows],
        waits=entry.waits[rows],
        wait_s=entry.wait_s[rows],
        behind=_company(entry.behind, rows),
        behind_lone=_company(entry.behind_lone, rows),
        beside=entry.beside[rows],
        mean_wait_s=entry.mean_wait_s[rows],
        residual_s=_some(entry.residual_s, rows),
        blocked=entry.blocked[rows],
        blocked_s=entry.blocked_s[rows],
        held=_some(entry.held, rows),
        held_s=_some(entry.held_s, rows),
        order=_some(entry.order, rows),
        blocked_order=_some(entry.blocked_order, rows),
        blocked_points=_some(entry.blocked_points, rows),
        running=_some(entry.running, rows),
    )


def stream_of(stream: Stream, rows: BoolArray) -> Stream:
    """The stream of some designs; its state stays that of all, for distributions do not look at it."""
    return replace(
        stream,
        joining_per_s=stream.joining_per_s[rows],
        batch=stream.batch[rows],
        step_s=stream.step_s[rows],
        extra_s=stream.extra_s[rows],
        extra_square=stream.extra_square[rows],
        gaps=Mixture(stream.gaps.value[rows], stream.gaps.weight[rows], stream.gaps.smooth),
        full=stream.full[rows],
        slot_s=stream.slot_s[rows],
        longest_s=stream.longest_s[rows],
        leaving_s=stream.leaving_s[rows],
        leaving_scv=stream.leaving_scv[rows],
        moved_s=stream.moved_s[rows],
        stall=None if stream.stall is None else _stall(stream.stall, rows),
        moved_by_inverse_s=_some(stream.moved_by_inverse_s, rows),
    )


def _company(company: Company, rows: BoolArray) -> Company:
    return Company(company.chance[rows], company.extra_s[rows])


def _stall(stall: Stall, rows: BoolArray) -> Stall:
    return Stall(
        share=stall.share[rows],
        mean_s=stall.mean_s[rows],
        variance=stall.variance[rows],
        cap_s=stall.cap_s[rows],
        spared_s=stall.spared_s[rows],
        usual_s=stall.usual_s[rows],
    )


def _some(values: FloatArray | None, rows: BoolArray) -> FloatArray | None:
    return None if values is None else values[rows]
