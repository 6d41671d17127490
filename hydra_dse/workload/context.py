"""Requests that are longer than the model they go to was made for."""

from __future__ import annotations

import numpy as np

from hydra_dse.workload.nouns import LengthPoints, Workload
from hydra_dse.workload.sampling import length_points


def context_notes(workload: Workload) -> tuple[str, ...]:
    """One sentence for each class with requests beyond its model's `max_position_embeddings`.

    Such requests are served all the same: a result must say so.
    """
    notes = []
    for index, kind in enumerate(workload.classes):
        model = workload.models[kind.model_index]
        limit = model.max_position_embeddings
        points = kind.lengths.points() if workload.prefixes is None else length_points(workload, index)
        share = _share_beyond(workload, points, limit) if limit is not None else 0.0
        if share > 0:
            shown = "less than 0.01 %" if share < 1e-4 else f"{share * 100:.2f} %"
            notes.append(
                f"{shown} of the requests of class {kind.name!r} are longer (prompt and output) than the "
                f"{limit} positions of {model.name}"
            )
    return tuple(notes)


def _share_beyond(workload: Workload, points: LengthPoints, limit: int) -> float:
    """Share of requests whose prompt and output exceed `limit` positions."""
    if workload.replay is not None:
        return float(np.mean(workload.replay.prompt_tokens + workload.replay.output_tokens > limit))
    return float(points.weight[points.prompt_tokens + points.output_tokens > limit].sum())
