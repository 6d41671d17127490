"""Times and rates of the phases of an elastic design, and means over them (see `elastic`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.disaggregated_tables import Tables, contention_of, saturation_of, tables_of
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.role_chain import RoleRates, RoleState, solve_roles
from hydra_dse.profile.nouns import RoleProfile, ServiceProfile

FloatArray = NDArray[np.float64]

HIGHEST_LEVEL = 200.0
"""A threshold of more prompts is taken as this many."""


def state_tables(profile: ServiceProfile, roles: RoleProfile, state: int, lengths: LengthMoments) -> Tables:
    """What is asked of the pools in one state."""
    return tables_of(replace(profile, pools=roles.pools[state], contention=roles.contention[state, state]), lengths)


def pair_tables(
    profile: ServiceProfile,
    roles: RoleProfile,
    states: Sequence[Tables],
    key: tuple[int, int],
    lengths: LengthMoments,
) -> Tables:
    """The same while prefill is in one state and decode in another."""
    prefill, decode = states[key[0]], states[key[1]]
    if key[0] == key[1]:
        return prefill
    beside = replace(profile, contention=roles.contention[key])
    contention = contention_of(
        beside, prefill.prompts, prefill.single, prefill.packed, decode.decode, prefill.nodes, lengths
    )
    return replace(prefill, step_s=decode.step_s, contention=contention)


def solve_alike(rates: RoleRates, variability: FloatArray) -> RoleState:
    """Solve the chain with the threshold at which its work is that of the queue.

    A queue of variability `v = (c_a² + c_s²)/2` is as long as an exponential one of prompts `v` times as large.  So
    many of those as make up the work of `up − 2` prompts more than the one that is served and the one that comes.
    A threshold between two whole numbers is a mixture of both.
    """
    up = rates.up + np.maximum(rates.up - 2.0, 0.0) * (1.0 / np.clip(variability, 0.25, 4.0) - 1.0)
    up = np.clip(np.nan_to_num(up, nan=1.0), rates.down + 1.0, HIGHEST_LEVEL)
    whole = np.floor(up)
    low = solve_roles(replace(rates, up=whole))
    return low.mixed(solve_roles(replace(rates, up=whole + 1.0)), up - whole)


def speed_beside(tables: Tables, full: FloatArray) -> FloatArray:
    """Speed of decode beside a prefill iteration, a share `full` of which are packed, shape (n, k)."""
    between = tables.contention
    return np.asarray((1.0 - full) * between.decode_single + full * between.decode_packed)


def summed(share: FloatArray, rates: Sequence[FloatArray]) -> FloatArray:
    """Mean of rates of shape (n, k) over the phases."""
    return np.asarray(sum(share[:, i, None] * rate for i, rate in enumerate(rates)))


def blended(prompts: Sequence[PrefillTimes], weight: FloatArray) -> PrefillTimes:
    """Mean times of prompts over the phases that serve them."""

    def mean(name: str) -> FloatArray:
        values = [getattr(times, name) for times in prompts]
        shape = (-1, *([1] * (values[0].ndim - 1)))
        return np.asarray(sum(weight[:, i].reshape(shape) * value for i, value in enumerate(values)))

    return PrefillTimes(*(mean(name) for name in ("alone_s", "iterations", "last_s", "full_s", "shared_s", "budget")))


def scaled(times: PrefillTimes, factor: FloatArray) -> PrefillTimes:
    """All times longer by a factor of shape (n,)."""
    narrow, wide = factor[:, None], factor[:, None, None]
    return PrefillTimes(
        times.alone_s * wide,
        times.iterations,
        times.last_s * wide,
        times.full_s * narrow,
        times.shared_s * narrow,
        times.budget,
    )


def role_saturation(states: Sequence[Tables], roles: RoleProfile, lengths: LengthMoments) -> FloatArray:
    """Saturation rate, shape (n,).

    In overload prompts always wait, so dies go to prefill until finished prompts pause it.  Where prefill is slower
    than decode even in the highest state, or faster even in the lowest, the design stays there.  Else it alternates
    between the two neighbours between which both are equally fast.
    """
    tandem = np.stack([saturation_of(tables, lengths) for tables in states], axis=1)
    prefill = np.stack([_prefill_rate(tables, lengths) for tables in states], axis=1)
    decode = np.stack([_decode_rate(tables, lengths) for tables in states], axis=1)
    at_top = np.take_along_axis(tandem, roles.highest[:, None], axis=1)[:, 0]
    result = at_top
    excess = prefill - decode
    for low in range(len(states) - 1):
        inside = (low >= roles.lowest) & (low + 1 <= roles.highest)
        crosses = inside & (excess[:, low] < 0) & (excess[:, low + 1] > 0)
        share = -excess[:, low] / np.where(crosses, excess[:, low + 1] - excess[:, low], 1.0)
        mixed = prefill[:, low] + share * (prefill[:, low + 1] - prefill[:, low])
        result = np.where(crosses, mixed, result)
    lowest = np.take_along_axis(excess, roles.lowest[:, None], axis=1)[:, 0]
    at_bottom = np.take_along_axis(tandem, roles.lowest[:, None], axis=1)[:, 0]
    return np.asarray(np.where(lowest >= 0, at_bottom, result))


def _prefill_rate(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Prompts per second beside a full decode batch."""
    speed = tables.nodes.at(tables.contention.prefill_packed, tables.limit[:, None])[:, 0]
    return np.asarray(speed / (lengths.prompt * tables.prompts.token_s[:, 0]))


def _decode_rate(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Requests per second of a full decode batch beside full prefill iterations."""
    life = lengths.decode * tables.step_s / tables.contention.decode_packed
    at_limit = tables.nodes.at(life, tables.limit[:, None])[:, 0]
    return np.asarray(tables.limit / at_limit / max(lengths.decoding_share, 1e-9))
