"""Moments and size bins of the length distribution: all that the chain needs to know of prompts and outputs.

A request of `p` prompt and `o` output tokens runs `d = o − 1` decode iterations after its first token, which
prefill emits.  In decode iteration `j` it attends to `p + j` tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import LengthPoints

FloatArray = NDArray[np.float64]

PROMPT_EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
DECODE_EDGES = (0.0, 0.04, 0.12, 0.22, 0.34, 0.46, 0.54, 0.66, 0.78, 0.86, 0.92, 0.96, 0.98, 0.99, 0.996, 1.0)
_UPTO = (0.0, 0.02, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.935, 0.96, 0.976, 0.986)
FINE_EDGES = (*_UPTO, 0.992, 0.9955, 0.9975, 0.999, 0.9996, 1.0)


@dataclass(frozen=True)
class Bins:
    """Slices of the distribution of a size.

    Attributes:
        size: conditional mean of each slice.
        weight: its probability.
        half_gap: the means of its lower and its upper half are this far from its mean.
    """

    size: FloatArray
    weight: FloatArray
    half_gap: FloatArray

    def spread_of(self, values: FloatArray) -> FloatArray:
        """How far values at the halves of each slice are from those at its mean, (..., bins) → the same shape."""
        if len(self.size) == 1:
            return np.zeros_like(values)
        return np.asarray(np.gradient(values, self.size, axis=-1) * self.half_gap)


@dataclass(frozen=True)
class LengthMoments:
    """Attributes (tokens, tokens², …; expectations over requests unless stated).

    prompt, prompt2, prompt3: moments of the prompt, of which a prefix cache has found nothing: what is computed.
    stored, stored2: moments of the whole prompt, the cached part included: what memory holds and decode attends to.
    ahead: mean cached tokens of a prompt; ahead_of_token: the same seen by a random computed token.
    ahead_bins: mean cached tokens in each slice of `prompt_bins`.
    output: mean output tokens.
    decoding_share: share of requests with more than one output token.
    decode, decode2: moments of `d` over requests that decode.
    inverse_decode: mean of 1/d over requests that decode.
    context: mean context of a decode iteration, iterations weighted equally: `E[pd + d(d+1)/2]/E[d]`.
    held2: the second moment of the same.
    overlap: `E[min(d, d')]/E[d]` of two independent requests: peakedness weight of a bursty stream.
    work_scv: squared coefficient of variation of memory × time, `(p + d/2)·d`.
    prompt_bins, decode_bins: slices for percentiles; fine_bins: of decode iterations, for the longest of many.
    """

    prompt: float
    prompt2: float
    prompt3: float
    output: float
    decoding_share: float
    decode: float
    decode2: float
    inverse_decode: float
    context: float
    held2: float
    overlap: float
    work_scv: float
    prompt_bins: Bins
    decode_bins: Bins
    fine_bins: Bins
    stored: float
    stored2: float
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


def moments_of(lengths: LengthPoints) -> LengthMoments:
    """Reduce weighted points to moments and bins.

    Raises:
        InputError: no points, weights that do not sum to a positive number, or a length below one token.
    """
    p, o, w = _checked(lengths)
    d = o - 1.0
    busy = d > 0
    share = float(w[busy].sum())
    if share > 0:
        dp, dd, dw = p[busy], d[busy], w[busy] / share
    else:
        dp, dd, dw = p, np.ones_like(p), w
    mean_d = float(dw @ dd)
    held = dp * dd + dd * (dd + 1) / 2
    held2 = dd * (dp**2 + dp * dd + dd**2 / 3)
    work = (dp + dd / 2) * dd
    ahead = np.zeros_like(p) if lengths.cached_tokens is None else np.asarray(lengths.cached_tokens, dtype=float)
    new = p - ahead
    prompt_bins = bins_of(new, w, PROMPT_EDGES)
    return LengthMoments(
        prompt=float(w @ new),
        prompt2=float(w @ new**2),
        prompt3=float(w @ new**3),
        output=float(w @ o),
        decoding_share=share,
        decode=mean_d,
        decode2=float(dw @ dd**2),
        inverse_decode=float(dw @ (1.0 / dd)),
        context=float(dw @ held) / mean_d,
        held2=float(dw @ held2) / mean_d,
        overlap=_overlap(dd, dw, mean_d),
        work_scv=max(0.0, float(dw @ work**2) / float(dw @ work) ** 2 - 1.0),
        prompt_bins=prompt_bins,
        decode_bins=bins_of(dd, dw, DECODE_EDGES),
        fine_bins=bins_of(dd, dw, FINE_EDGES),
        stored=float(w @ p),
        stored2=float(w @ p**2),
        ahead=float(w @ ahead),
        ahead_of_token=float(w @ (ahead * new)) / float(w @ new),
        ahead_bins=_carried(new, w, ahead, prompt_bins),
    )


def _carried(size: FloatArray, weight: FloatArray, value: FloatArray, bins: Bins) -> FloatArray:
    """Mean of another quantity in each slice of a size."""
    if not value.any():
        return np.zeros_like(bins.size)
    order = np.argsort(size, kind="stable")
    cumulative = np.concatenate(([0.0], np.cumsum(weight[order])))
    mass = np.concatenate(([0.0], np.cumsum(weight[order] * value[order])))
    cuts = np.concatenate(([0.0], np.cumsum(bins.weight)))
    return np.asarray(np.diff(np.interp(cuts * cumulative[-1] / cuts[-1], cumulative, mass)) / bins.weight)


def _checked(lengths: LengthPoints) -> tuple[FloatArray, FloatArray, FloatArray]:
    p, o, w = (np.asarray(x, dtype=float) for x in (lengths.prompt_tokens, lengths.output_tokens, lengths.weight))
    if not len(p) or not len(p) == len(o) == len(w):
        raise InputError("a length distribution needs points, with one weight each")
    if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise InputError("weights of a length distribution must be non-negative and sum to more than 0")
    if not ((p >= 1).all() and (o >= 1).all()):
        raise InputError("prompts and outputs have at least one token")
    return p, o, w / w.sum()


def bins_of(size: FloatArray, weight: FloatArray, edges: tuple[float, ...]) -> Bins:
    """Cut a weighted distribution at probabilities `edges`; a point that straddles an edge is divided."""
    order = np.argsort(size, kind="stable")
    cumulative = np.concatenate(([0.0], np.cumsum(weight[order])))
    mass = np.concatenate(([0.0], np.cumsum(weight[order] * size[order])))
    cuts = np.asarray(edges)
    halves = np.insert(cuts, np.arange(1, len(cuts)), (cuts[1:] + cuts[:-1]) / 2.0)
    at = np.interp(halves * cumulative[-1], cumulative, mass)
    means = (np.diff(at) / (np.diff(halves) * cumulative[-1])).reshape(-1, 2)
    mean, gap = means.mean(axis=1), (means[:, 1] - means[:, 0]) / 2.0
    probability = np.diff(cuts)
    # Slices with the same mean (fixed lengths) are one slice.
    keep = np.concatenate(([True], np.diff(mean) > 1e-9 * mean[-1]))
    index = np.cumsum(keep) - 1
    merged = np.bincount(index, weights=probability)

    def joined(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(index, weights=probability * values) / merged)

    return Bins(joined(mean), np.asarray(merged, dtype=float), np.maximum(joined(gap), 0.0))


def _overlap(size: FloatArray, weight: FloatArray, mean: float) -> float:
    """`E[min(X, X')]/E[X] = ∫ P(X > x)² dx / E[X]`."""
    order = np.argsort(size, kind="stable")
    above = 1.0 - np.concatenate(([0.0], np.cumsum(weight[order])))[:-1]
    steps = np.diff(np.concatenate(([0.0], size[order])))
    return float(np.dot(np.clip(above, 0.0, 1.0) ** 2, steps) / mean)
