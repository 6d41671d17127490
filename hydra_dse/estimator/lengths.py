"""Moments and size bins of the length distribution: all that the chain needs to know of prompts and outputs.

A request of `p` prompt and `o` output tokens emits `d = o − 1` tokens in `s` decode iterations after its first one,
which prefill emits; `s = d` where an iteration emits one token.  In decode iteration `j` it attends to
`p + 1 + (j − 1)d/s` tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.estimator.bins import Bins, bins_of, means_between
from hydra_dse.estimator.meeting import parts_of
from hydra_dse.estimator.steps import Pace, one_step_a_token, pace_of, with_short_outputs, with_steps
from hydra_dse.policy import ONE_TOKEN, Emission
from hydra_dse.workload.nouns import LengthPoints

__all__ = ["Bins", "LengthMoments", "bins_of", "moments_of"]

FloatArray = NDArray[np.float64]

PROMPT_EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
DECODE_EDGES = (0.0, 0.04, 0.12, 0.22, 0.34, 0.46, 0.54, 0.66, 0.78, 0.86, 0.92, 0.96, 0.98, 0.99, 0.996, 1.0)
_UPTO = (0.0, 0.02, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.935, 0.96, 0.976, 0.986)
FINE_EDGES = (*_UPTO, 0.992, 0.9955, 0.9975, 0.999, 0.9996, 1.0)


@dataclass(frozen=True)
class LengthMoments:
    """Attributes (tokens, tokens², …; expectations over requests unless stated).

    prompt, prompt2, prompt3: moments of the prompt, of which a prefix cache has found nothing: what is computed.
    stored, stored2: moments of the whole prompt, the cached part included: what memory holds and decode attends to.
    stored_by_inverse: `E[p/d]/E[1/d]`, the whole prompt as a delay counts that is spread over the tokens of a request.
    ahead: mean cached tokens of a prompt; ahead_of_token: the same seen by a random computed token.
    ahead_bins: mean cached tokens in each slice of `prompt_bins`.
    output: mean output tokens.
    decoding_share: share of requests with more than one output token.
    positions: that a decode iteration computes of each sequence.
    decode, decode2: moments of the decode iterations `s` over requests that decode.
    decode_tokens: mean of `d` over them; inverse_decode: mean of 1/d; steps_per_token: mean of s/d.
    context: mean context of a decode iteration, iterations weighted equally: `E[s(p + 1) + d(s − 1)/2]/E[s]`.
    held2: the second moment of the same.
    overlap: `E[min(s, s')]/E[s]` of two independent requests: peakedness weight of a bursty stream.
    work_scv: squared coefficient of variation of memory × time, `(p + d/2)·s`.
    prompt_bins, decode_bins: slices for percentiles; fine_bins: of decode iterations, for the longest of many.
    decode_parts: mean decode iterations of each slice of `decode_bins` beside each slice of TTFT, (slices, bins).
    pace: groups of requests by decode iterations and by iterations per token, for percentiles of TPOT.
    """

    prompt: float
    prompt2: float
    prompt3: float
    output: float
    positions: float
    decoding_share: float
    decode: float
    decode2: float
    decode_tokens: float
    inverse_decode: float
    steps_per_token: float
    context: float
    held2: float
    overlap: float
    work_scv: float
    prompt_bins: Bins
    decode_bins: Bins
    decode_parts: FloatArray
    fine_bins: Bins
    pace: Pace
    stored: float
    stored2: float
    stored_by_inverse: float
    ahead: float
    ahead_of_token: float
    ahead_bins: FloatArray

    @property
    def decode_scv(self) -> float:
        """Squared coefficient of variation of the decode iterations."""
        return self.decode2 / self.decode**2 - 1.0

    @property
    def residual_prompt(self) -> float:
        """Mean position of a random token's prompt cut: `E[p²]/2E[p]`."""
        return self.prompt2 / (2.0 * self.prompt)

    @property
    def prefilling_tokens(self) -> float:
        """Tokens that a prompt under way holds: prompts are under way for a time that grows with what is computed."""
        return 2.0 * self.residual_prompt + self.ahead_of_token


def moments_of(lengths: LengthPoints, emission: Emission = ONE_TOKEN) -> LengthMoments:
    """Reduce weighted points to moments and bins; `emission` says how many tokens a decode iteration emits.

    The last few distributions are remembered: design after design is estimated under the same.

    Raises:
        InputError: no points, weights that do not sum to a positive number, or a length below one token.
    """
    cached = None if lengths.cached_tokens is None else _bytes(lengths.cached_tokens)
    points = (_bytes(x) for x in (lengths.prompt_tokens, lengths.output_tokens, lengths.weight))
    return _moments_of(*points, cached, emission)


def _bytes(values: FloatArray) -> bytes:
    return np.asarray(values, dtype=np.float64).tobytes()


@lru_cache(maxsize=8)
def _moments_of(
    prompts: bytes, outputs: bytes, weights: bytes, cached: bytes | None, emission: Emission
) -> LengthMoments:
    lengths = LengthPoints(
        np.frombuffer(prompts),
        np.frombuffer(outputs),
        np.frombuffer(weights),
        None if cached is None else np.frombuffer(cached),
    )
    p, o, w = _checked(lengths)
    if not emission.single:
        lengths = with_short_outputs(lengths)
        p, o, w = _checked(lengths)
    d = o - 1.0
    busy = d > 0
    share = float(w[busy].sum())
    if share > 0:
        dp, dd, dw = p[busy], d[busy], w[busy] / share
    else:
        dp, dd, dw = p, np.ones_like(p), w
    steps = dd
    if not emission.single and share > 0:
        index, steps, dw = with_steps(dd, dw, emission)
        dp, dd = dp[index], dd[index]
    mean_steps = float(dw @ steps)
    held = dp * steps + _grown(steps, dd)
    held2 = steps * (dp**2 + dp * dd + dd**2 / 3)
    work = (dp + dd / 2) * steps
    ahead = np.zeros_like(p) if lengths.cached_tokens is None else np.asarray(lengths.cached_tokens, dtype=float)
    new = p - ahead
    prompt_bins, decode_bins = bins_of(new, w, PROMPT_EDGES), bins_of(steps, dw, DECODE_EDGES)
    return LengthMoments(
        prompt=float(w @ new),
        prompt2=float(w @ new**2),
        prompt3=float(w @ new**3),
        output=float(w @ o),
        positions=float(emission.positions),
        decoding_share=share,
        decode=mean_steps,
        decode2=float(dw @ steps**2),
        decode_tokens=float(dw @ dd),
        inverse_decode=float(dw @ (1.0 / dd)),
        steps_per_token=1.0 if emission.single else float(dw @ (steps / dd)),
        context=float(dw @ held) / mean_steps,
        held2=float(dw @ held2) / mean_steps,
        overlap=_overlap(steps, dw, mean_steps),
        work_scv=max(0.0, float(dw @ work**2) / float(dw @ work) ** 2 - 1.0),
        prompt_bins=prompt_bins,
        decode_bins=decode_bins,
        decode_parts=parts_of(decode_bins),
        fine_bins=bins_of(steps, dw, FINE_EDGES),
        pace=one_step_a_token(decode_bins) if emission.single else pace_of(steps, dd, dw, DECODE_EDGES),
        stored=float(w @ p),
        stored2=float(w @ p**2),
        stored_by_inverse=float(dw @ (dp / dd)) / float(dw @ (1.0 / dd)),
        ahead=float(w @ ahead),
        ahead_of_token=float(w @ (ahead * new)) / float(w @ new),
        ahead_bins=_carried(new, w, ahead, prompt_bins),
    )


def _grown(steps: FloatArray, tokens: FloatArray) -> FloatArray:
    """Σ over the steps of the tokens attended to beyond the prompt: `s + d(s − 1)/2`, `d(d + 1)/2` for s = d."""
    if steps is tokens:
        return np.asarray(tokens * (tokens + 1) / 2)
    return np.asarray(steps + tokens * (steps - 1) / 2)


def _carried(size: FloatArray, weight: FloatArray, value: FloatArray, bins: Bins) -> FloatArray:
    """Mean of another quantity in each slice of a size."""
    if not value.any():
        return np.zeros_like(bins.size)
    cuts = np.concatenate(([0.0], np.cumsum(bins.weight)))
    return means_between(cuts / cuts[-1], size, weight, value)


def _checked(lengths: LengthPoints) -> tuple[FloatArray, FloatArray, FloatArray]:
    p, o, w = (np.asarray(x, dtype=float) for x in (lengths.prompt_tokens, lengths.output_tokens, lengths.weight))
    if not len(p) or not len(p) == len(o) == len(w):
        raise InputError("a length distribution needs points, with one weight each")
    if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise InputError("weights of a length distribution must be non-negative and sum to more than 0")
    if not ((p >= 1).all() and (o >= 1).all()):
        raise InputError("prompts and outputs have at least one token")
    return p, o, w / w.sum()


def _overlap(size: FloatArray, weight: FloatArray, mean: float) -> float:
    """`E[min(X, X')]/E[X] = ∫ P(X > x)² dx / E[X]`."""
    order = np.argsort(size, kind="stable")
    above = 1.0 - np.concatenate(([0.0], np.cumsum(weight[order])))[:-1]
    steps = np.diff(np.concatenate(([0.0], size[order])))
    return float(np.dot(np.clip(above, 0.0, 1.0) ** 2, steps) / mean)
