"""Serving measurements: the CSV of LLM-Inference-Bench and tables made from it, model readmes, published figures."""

from __future__ import annotations

import re
from dataclasses import replace

from hydra_dse.bench.readers.nouns import Layout
from hydra_dse.bench.readers.table import Row
from hydra_dse.bench.record import Profile

_DEGREE = re.compile(r"(TP|DP|PP)\s*=\s*(\d+)", re.IGNORECASE)
_WORDS = {"TP": "tensor", "DP": "data", "PP": "pipeline"}
_MACHINES = {"quietbox": 8, "galaxy": 32, "n300": 2}
"""Chips of a machine that the tables name (board and system descriptions of Tenstorrent)."""
_BOARDS = re.compile(r"^\d+x\s+|QuietBox|Galaxy|n150|n300")
"""What is left is the chip: machines and boards with the same one are one platform."""


def _bench(profile: Profile, row: Row) -> Profile:
    """Input and output have one length; throughput counts both."""
    length, batch = profile.sequence, profile.batch
    latency = row.number("latency")
    stated = profile.tokens_per_s
    counted = 2.0 * length * batch / latency if length and batch and latency else None
    return replace(
        profile,
        name=f"{profile.model.name} {profile.configuration}, {length} in and out, batch {batch or 0:g}",
        platform=profile.platform.lower().replace(" ", "-"),
        output_tokens=length,
        step_s=latency,
        tokens_per_s=stated if stated is not None else counted,
        samples_per_s=batch / latency if batch and latency else None,
        parallelism="tensor" if profile.chips > 1 else "",
    )


def _rdu(profile: Profile, row: Row) -> Profile:
    latency, batch = row.number("end_to_end_latency_s"), profile.batch
    tokens = f"{profile.sequence} in, {profile.output_tokens} out"
    return replace(
        profile,
        name=f"{profile.model.name}, {tokens}, batch {batch or 0:g}",
        step_s=latency,
        samples_per_s=batch / latency if batch and latency else None,
        parallelism="tensor" if profile.chips > 1 else "",
    )


def _readme(profile: Profile, row: Row) -> Profile:
    hardware, degree = row.text("hardware"), _DEGREE.search(row.text("parallelism"))
    machine = next((count for word, count in _MACHINES.items() if word in hardware.lower()), 1)
    ttft = row.number("ttft_ms")
    return replace(
        profile,
        name=f"{profile.model.name} on {hardware}",
        platform=_BOARDS.sub("", hardware).strip().lower(),
        chips=int(degree[2]) if degree else machine,
        parallelism=_WORDS[degree[1].upper()] if degree else "",
        ttft_s=None if ttft is None else ttft / 1e3,
    )


def _claim(profile: Profile, row: Row) -> Profile | None:
    """Published figures: only rates of tokens are profiles; ranges and blanks are not."""
    metric, value = row.text("metric_with_unit"), row.text("value")
    if "tokens_per_s" not in metric or not re.fullmatch(r"[\d.]+", value):
        return None
    how = row.text("how").lower()
    users = re.fullmatch(r"\d+", row.text("batch_or_users"))
    alone = "per_user" in metric or "per_request" in metric
    return replace(
        profile,
        name=f"{profile.model.name} on {row.text('platform')}",
        platform=row.text("platform").lower().replace(" ", "-"),
        chips=row.whole("chip_or_system_count") or 1,
        kind="measured" if "measure" in how else "vendor-claim",
        tokens_per_s=float(value),
        rate_unit="token of one user" if alone else "token",
        batch=float(users[0]) if users else None,
    )


_SERVING = Profile("", "", phase="serving")

READERS = (
    Layout("serving table", frozenset({"hardware", "num_of_hardware", "framework", "input_output_length"}), _SERVING,
           numbers={"batch": "batch_size", "tokens_per_s": "throughput"},
           wholes={"chips": "num_of_hardware", "sequence": "input_output_length"},
           texts={"platform": "hardware", "configuration": "framework"}, shape={"name": "model"},
           rates=("latency",), finish=_bench).reader(),
    Layout("serving on RDUs", frozenset({"rdu_count", "end_to_end_latency_s"}),
           replace(_SERVING, platform="sn40l", mode="sections"),
           numbers={"batch": "batch_size", "tokens_per_s": "throughput_total_tokens_per_s", "ttft_s": "ttft_s"},
           wholes={"chips": "rdu_count", "sequence": "input_tokens", "output_tokens": "output_tokens"},
           shape={"name": "model"}, rates=("throughput_total_tokens_per_s",), finish=_rdu).reader(),
    Layout("serving figures of model readmes", frozenset({"hardware", "parallelism", "output_tokens_per_s_per_user"}),
           replace(_SERVING, phase="decode", kind="vendor-claim"),
           numbers={"batch": "batch_size", "tokens_per_s": "output_tokens_per_s"}, wholes={"sequence": "input_tokens"},
           shape={"name": "model"}, rates=("output_tokens_per_s",), finish=_readme).reader(),
    Layout("published inference figures", frozenset({"platform", "chip_or_system_count", "metric_with_unit"}),
           replace(_SERVING, phase="decode"), texts={"precision": "precision"}, shape={"name": "model"},
           finish=_claim).reader(),
)  # fmt: skip
