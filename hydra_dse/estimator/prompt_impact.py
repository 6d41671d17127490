"""What prompts do to sequences that decode in the same engine: the delay by one, and the pace under a rate of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.clumps import clump_of, lines_of
from hydra_dse.estimator.colocated_tables import Tables
from hydra_dse.estimator.company import packing_of
from hydra_dse.estimator.lengths import LengthMoments

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Impact:
    """What prompts do to `batch` decoders, everything that does not depend on the rate, each of shape (n, m).

    Attributes:
        step_s: decode-only iteration.
        light, heavy: mean delay of decoders by a prompt alone in its iterations, and by one in full iterations;
            light_square, heavy_square: second moments.
        saved: delay saved where two prompts share an iteration.
        full_s: a full iteration; token_s: of it, per prompt token.
        room: prompts of a full iteration; alone_s: a prompt alone; budget: prompt tokens of a full iteration.
        delay_s: as in `Tables`, at the batches.
    """

    step_s: FloatArray
    light: FloatArray
    heavy: FloatArray
    light_square: FloatArray
    heavy_square: FloatArray
    saved: FloatArray
    full_s: FloatArray
    token_s: FloatArray
    room: FloatArray
    alone_s: FloatArray
    budget: FloatArray
    delay_s: FloatArray | None


def impact_of(tables: Tables, batch: FloatArray, lengths: LengthMoments) -> Impact:
    """Interpolate the tables at batches of shape (n, m)."""
    weight, times = lengths.prompt_bins.weight, tables.prompts
    # Chunked: the decode iteration that would have run anyway is no delay.
    hidden = np.zeros_like(tables.beside) if tables.prefill_first else tables.step_beside
    light = np.maximum(times.alone_s - times.iterations * hidden[:, :, None], 0.0)
    token = (times.full_s - hidden) / times.budget
    saved = np.maximum(times.shared_s - hidden, 0.0)
    between = tables.beside_of(batch)
    light_s, token_s, square, saved_s, full_s, plain_token_s, alone_s, budget = between.of_each(
        light @ weight,
        token,
        light**2 @ weight,
        saved,
        times.full_s,
        times.token_s,
        times.alone_s @ weight,
        times.budget,
    )
    return Impact(
        step_s=tables.nodes.at(tables.step_s, np.maximum(batch, 1.0)),
        light=light_s,
        heavy=token_s * lengths.prompt,
        light_square=square,
        heavy_square=token_s**2 * lengths.prompt2,
        saved=saved_s,
        full_s=full_s,
        token_s=plain_token_s,
        room=np.maximum(budget / lengths.prompt, 1.0),
        alone_s=alone_s,
        budget=budget,
        delay_s=None if tables.delay_s is None else between.of_tables(tables.delay_s),
    )


@dataclass(frozen=True)
class Delays:
    """What prompts at some rate do to decoders, shape (n, m).

    Attributes:
        each_s: mean delay per prompt; square: its second moment.
        step_s: mean time in which every decoder advances once.
        full_share: share of prompts served in full iterations.
    """

    each_s: FloatArray
    square: FloatArray
    step_s: FloatArray
    full_share: FloatArray


def delays(
    impact: Impact,
    rate: FloatArray,
    lengths: LengthMoments,
    stalls: bool,
    arrival_scv: float = 1.0,
    per_gap: FloatArray | None = None,
) -> Delays:
    """Solve `τ(b)` at prompt rates.

    Args:
        impact: of prompts on decoders.
        rate: prompts per second, shape (n, m).
        lengths: of the requests.
        stalls: decoders stand while prompts run, so that nothing bounds τ.
        arrival_scv: squared coefficient of variation of the gaps.
        per_gap: prompts that come between two decode iterations, where they come as slots fall free (saturation);
            None = as they arrive.
    """
    if impact.delay_s is not None:
        return _shared_delays(impact, impact.delay_s, rate, lengths, arrival_scv, per_gap)
    least = np.minimum(impact.light, impact.heavy)
    bound = np.inf if stalls else np.maximum(impact.full_s, impact.step_s)
    step, each = impact.step_s, impact.light
    for _ in range(4 if per_gap is None else 1):
        alone = _alone_share(impact, rate, step, each, stalls, arrival_scv) if per_gap is None else None
        if alone is None:
            alone = 1.0 / packing_of(np.asarray(per_gap), impact.room, arrival_scv)
        filled = bounded(1.0 / (alone * impact.room), 0.0, 1.0)
        if stalls and per_gap is not None:
            # No slot falls free while prompts run: none come then to fill their iterations.
            filled = np.zeros_like(filled)
        full = bounded(rate * impact.token_s * lengths.prompt, 0.0, 1.0) * filled
        light = np.maximum(impact.light - impact.saved * (1.0 - alone), least)
        each = (1.0 - full) * light + full * impact.heavy
        step = np.minimum(impact.step_s / np.maximum(1.0 - rate * each, 1e-6), bound)
    square = (1.0 - full) * impact.light_square + full * impact.heavy_square
    return Delays(each, square, step, full)


def _shared_delays(
    impact: Impact,
    delay_s: FloatArray,
    rate: FloatArray,
    lengths: LengthMoments,
    arrival_scv: float,
    per_gap: FloatArray | None,
) -> Delays:
    """Delays where prompts share the decoders' iterations."""
    bound, most = np.maximum(impact.full_s, impact.step_s), 4.0 * impact.room
    step, lines = impact.step_s, lines_of(delay_s)
    for _ in range(5 if per_gap is None else 1):
        u = np.minimum(rate * step, most) if per_gap is None else per_gap
        found = clump_of(np.maximum(u, 1e-9), lines, impact.budget, lengths, arrival_scv)
        step = np.minimum(impact.step_s / np.maximum(1.0 - rate * found.each_s, 1e-6), bound)
    filled = bounded(found.size / impact.room, 0.0, 1.0)
    full = bounded(rate * impact.token_s * lengths.prompt, 0.0, 1.0) * filled
    return Delays(found.each_s, found.square, step, full)


def _alone_share(
    impact: Impact, rate: FloatArray, step: FloatArray, each: FloatArray, stalls: bool, arrival_scv: float
) -> FloatArray:
    """Prompt iterations per prompt.

    Chunked: prompts that come in one iteration share the next.  Prefill first: those that come during a decode
    iteration share one, those that come while prompts run (a share `λe` of them) the one after.
    """
    running = np.minimum(impact.alone_s, impact.full_s)
    if not stalls:
        return 1.0 / packing_of(rate * np.minimum(np.maximum(step, running), impact.full_s), impact.room, arrival_scv)
    during_prompts = bounded(rate * each, 0.0, 1.0)
    after_decode = 1.0 / packing_of(rate * impact.step_s, impact.room, arrival_scv)
    after_prompts = 1.0 / packing_of(rate * running, impact.room, arrival_scv)
    return np.asarray((1.0 - during_prompts) * after_decode + during_prompts * after_prompts)
