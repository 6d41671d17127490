"""What a reader must know of estimates under the loads of an experiment."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.workload.nouns import Workload
from hydra_dse.workload.pieces import pieces


def estimate_notes(loads: Sequence[Workload]) -> tuple[str, ...]:
    """Notes of the estimator on the arrivals of these workloads, each once."""
    from hydra_dse.estimator.estimate import notes_of

    notes = (note for load in loads for piece in pieces(load) for note in notes_of(piece.arrivals))
    return tuple(f"estimates: {note}" for note in dict.fromkeys(notes))
