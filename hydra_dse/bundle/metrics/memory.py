"""Copies, and the bytes of memories and links."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.metrics.intervals import union
from hydra_dse.bundle.metrics.measured import Measured, RankTimes, mean, share
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.reading.meaning import number
from hydra_dse.bundle.reading.nouns import Carried


def copy_bandwidth(bundle: Measured, kind: str) -> float:
    """Bytes of all copies over their summed time, in GB/s: how fast copies are, not how busy the memory is."""
    amount = time = 0.0
    for rank in bundle.ranks(kind):
        size, span = rank.trace.copy_bytes, rank.trace.copies.duration
        said = (size > 0) & (span > 0)
        amount += float(np.sum(size[said]))
        time += float(np.sum(span[said]))
    return share(amount, time, "no copy says its bytes (gpu_memcpy with args.bytes)") / 1e3


def copy_overhead(bundle: Measured) -> float:
    """Mean over ranks of the time in which bytes are copied and nothing is computed, over the rank's span."""
    shares = []
    for rank in bundle.ranks("json"):
        start, end = rank.span_us
        if end > start:
            copying = rank.copying
            exposed = copying.length - copying.intersect(rank.working).length
            shares.append(100.0 * exposed / (end - start))
    return mean(shares, "no rank has kernels or copies")


def nsys_copy_overhead(bundle: Measured) -> float:
    """The same of an export; copies whose device is not said count as one engine beside all devices."""
    ranks = bundle.ranks("nsys")
    placed = [rank for rank in ranks if len(rank.trace.kernels)]
    adrift = [rank for rank in ranks if not len(rank.trace.kernels) and len(rank.trace.copies)]
    if not placed or not any(len(rank.trace.copies) for rank in ranks):
        raise Unavailable("the export has no kernels, or no copies (CUPTI_ACTIVITY_KIND_MEMCPY)")
    if not adrift:
        return mean([_exposed(rank) for rank in placed if rank.span_us[1] > rank.span_us[0]], "no device has a span")
    copying = union(*_edges([rank.copying.start for rank in ranks], [rank.copying.end for rank in ranks]))
    working = union(*_edges([rank.working.start for rank in placed], [rank.working.end for rank in placed]))
    spans = [rank.span_us for rank in ranks]
    span = max(end for _, end in spans) - min(start for start, _ in spans)
    return 100.0 * share(copying.length - copying.intersect(working).length, span, "no device has a span")


def _exposed(rank: RankTimes) -> float:
    start, end = rank.span_us
    return 100.0 * (rank.copying.length - rank.copying.intersect(rank.working).length) / (end - start)


def _edges(starts: list[np.ndarray], ends: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(starts), np.concatenate(ends)


def carried(bundle: Measured, category: str) -> dict[str, tuple[float, float, float]]:
    """Per link or memory over all ranks: bytes, seconds of the run, and its peak in bytes/s (NaN where not said).

    Where the card says when every engine left its spans (`x_chiplet.window.whole_s`) only that time counts, and of an
    event that reaches beyond it the bytes in proportion: all else would take engines for idle that are not shown.

    Raises:
        Unavailable: the trace has no events of the category.
    """
    amounts: dict[str, float] = {}
    peaks: dict[str, float] = {}
    first, last = _whole(bundle) or _span(bundle, category)
    for table, texts in _tables(bundle, category):
        spans = table.spans
        inside = np.minimum(spans.end, last) - np.maximum(spans.start, first)
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(spans.duration > 0, np.clip(inside / spans.duration, 0.0, 1.0), inside >= 0)
        sums = np.bincount(spans.name, weights=table.amount_bytes * part)
        for code in np.unique(spans.name).tolist():
            name = texts[code]
            amounts[name] = amounts.get(name, 0.0) + float(sums[code])
            said = table.peak_bytes_per_s[spans.name == code]
            peaks[name] = float(np.fmax(peaks.get(name, float("nan")), np.fmax.reduce(said)))
    if not amounts or last <= first:
        raise Unavailable(f"no events of category {category!r} with bytes: only bundles of a chiplet package have them")
    return {name: (amounts[name], (last - first) / 1e6, peaks[name]) for name in sorted(amounts)}


def _tables(bundle: Measured, category: str) -> Iterator[tuple[Carried, list[str]]]:
    for rank in bundle.ranks("json"):
        table = rank.trace.links if category == words.LINK else rank.trace.memories
        if table is not None:
            yield table, rank.trace.names.texts


def _whole(bundle: Measured) -> tuple[float, float] | None:
    """When every engine left its spans, in µs, by the card; None where that does not say."""
    card = bundle.folder.card
    said = card.get(words.BLOCK, "window", "whole_s") if card is not None else None
    if not isinstance(said, list) or len(said) != 2:
        return None
    start, end = (number(value) for value in said)
    return (start * 1e6, end * 1e6) if start is not None and end is not None and end > start else None


def _span(bundle: Measured, category: str) -> tuple[float, float]:
    """First start and last end of kernels, copies and the events of a category."""
    first, last = np.inf, -np.inf
    for rank in bundle.ranks("json"):
        start, end = rank.span_us
        if end > start:
            first, last = min(first, start), max(last, end)
    for table, _ in _tables(bundle, category):
        first, last = min(first, float(table.spans.start.min())), max(last, float(table.spans.end.max()))
    return first, last


def bandwidth(bundle: Measured, category: str) -> dict[str, float]:
    """Bytes of each link or memory per second, in GB/s."""
    return {name: amount / seconds / 1e9 for name, (amount, seconds, _) in carried(bundle, category).items()}


def utilization_max(bundle: Measured, category: str) -> float:
    """Bytes over what the peak would have carried in the span, of the busiest link or memory."""
    rows = carried(bundle, category).values()
    shares = [amount / seconds / peak for amount, seconds, peak in rows if peak > 0]
    if not shares:
        raise Unavailable(f"no event of category {category!r} says its peak_bytes_per_s")
    return max(shares)
