"""Metrics of prefix caches and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from simulators.serving.run import Outcome

if TYPE_CHECKING:
    from simulators.serving.metrics import Summary


def idle_share(outcome: Outcome, share: float) -> dict[str, float]:
    """Share of cache memory held for later requests, where there is a prefix cache; `share` of a byte second."""
    if not outcome.system.policy.prefix_cache:
        return {}
    return {"prefix_occupancy": (outcome.end.idle_byte_seconds - outcome.start.idle_byte_seconds) * share}


def add_reuse(summary: Summary, outcomes: Sequence[Outcome]) -> None:
    """Share of prompt tokens found in the cache, and the time of sessions, where there are such."""
    if outcomes[0].system.policy.prefix_cache:
        pairs = [_tokens(outcome) for outcome in outcomes]
        summary.mean_of("prefix_hit_share", [found / offered for found, offered in pairs], [n for _, n in pairs])
    drawn = outcomes[0].drawn
    if drawn is not None and drawn.turn is not None:
        sessions = [(session_s(outcome), _sessions(outcome)) for outcome in outcomes]
        known = [(seconds, count) for seconds, count in sessions if count]
        if known:
            summary.mean_of("session_e2e_mean_s", [s for s, _ in known], [float(n) for _, n in known])


def _tokens(outcome: Outcome) -> tuple[float, float]:
    """Prompt tokens found and offered."""
    visits = outcome.visits
    served = ~visits.rejected[outcome.first :]
    found, offered = visits.cached_tokens[outcome.first :][served], visits.prompt_tokens[outcome.first :][served]
    return float(found.sum()), float(max(offered.sum(), 1))


def _sessions(outcome: Outcome) -> int:
    """Sessions that begin among the counted requests."""
    turn = None if outcome.drawn is None else outcome.drawn.turn
    return 0 if turn is None else int((turn[outcome.visits.drawn[outcome.first :]] == 0).sum())


def session_s(outcome: Outcome) -> float:
    """Mean time of a session, think times included: time in all counted turns over the sessions that begin.

    In the long run that is the mean over sessions, and none has to be whole in the run to count.
    """
    visits, drawn, first = outcome.visits, outcome.drawn, outcome.first
    begun = _sessions(outcome)
    if drawn is None or drawn.think_s is None or not begun:
        return float("nan")
    served = np.nan_to_num(visits.last_token_s[first:] - visits.arrival_s[first:])
    think = drawn.think_s[visits.drawn[first:]]
    return float((served + think).sum()) / begun
