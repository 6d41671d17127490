"""Published simulator runs against their replay.

`python -m benchmarks.step_replays forms LOG STEPS`: a log of requests (columns arrival_s, prompt, output,
first_token_latency and tpot in ms; `output` decode steps follow the first token) whose step times STEPS states in
closed form (YAML; see `benchmarks/step_times/`).

`python -m benchmarks.step_replays durations ITERATIONS REQUESTS --max-batch N --token-budget N`: a log of iterations
(dur_ms, batch, num_tokens, n_prefill_chunks) and of requests (arrival_s, request_num_prefill_tokens,
request_num_decode_tokens, prefill_e2e_time, request_e2e_time in s).  Files may be gzipped.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from hydra_dse.errors import Fault, InputError
from hydra_dse.workload.nouns import Requests
from simulators.serving.replay import relative_errors
from simulators.serving.step_replay import Blocks, DecodeForm, LoggedReplay, StepForms, replay_durations, replay_forms

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """A latency of every request, replayed and published, in s."""

    mine: FloatArray
    theirs: FloatArray

    def errors(self) -> dict[str, float]:
        """Relative errors of the mean and three percentiles."""
        return relative_errors(self.mine, self.theirs)

    def share_within(self, tolerance: float) -> float:
        """Share of requests within a relative error."""
        return float((np.abs(self.mine - self.theirs) <= tolerance * self.theirs).mean())


def rows_of(file: Path) -> list[dict[str, str]]:
    """Rows of a CSV file, gzipped or not."""
    data = file.read_bytes()
    text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
    return list(csv.DictReader(text.splitlines()))


def column(rows: list[dict[str, str]], name: str, file: Path) -> FloatArray:
    """Numbers of a column."""
    try:
        return np.array([float(row[name]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(Fault(f"column {name!r} is not there or not numeric ({error})", file=str(file))) from error


def forms_of(file: Path) -> tuple[StepForms, Mapping[str, float]]:
    """Step times and limits of a YAML file; times there are in ms."""
    try:
        data = yaml.safe_load(file.read_text())
        prefill = data["prefill_ms"]
        decode = tuple(
            DecodeForm(
                int(each["from_batch"]),
                1e-3 * each["constant"],
                1e-3 * each["per_context_token"],
                1e-3 * each["per_sequence"],
            )
            for each in data["decode_ms"]
        )
        constants = (1e-3 * prefill["constant"], 1e-3 * prefill["per_token"], 1e-3 * prefill["per_squared_length"])
        limits = {name: float(data[name]) for name in ("cache_tokens", "max_batch", "grace_ms")}
        limits["prefill_tokens"] = float(data.get("prefill_tokens", limits["cache_tokens"]))
        return StepForms(constants, decode), limits
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise InputError(Fault(f"not a file of step times ({error!r})", file=str(file))) from error


def forms_replay(log: Path, steps: Path) -> dict[str, Pair]:
    """TTFT and TPOT of a run with closed-form step times."""
    forms, limits = forms_of(steps)
    rows = sorted(rows_of(log), key=lambda row: float(row["arrival_s"]))
    decoded = column(rows, "output", log)
    requests = _requests(column(rows, "arrival_s", log), column(rows, "prompt", log), decoded + 1)
    visits = replay_forms(
        requests,
        forms,
        int(limits["cache_tokens"]),
        int(limits["max_batch"]),
        1e-3 * limits["grace_ms"],
        prefill_tokens=int(limits["prefill_tokens"]),
    )
    decode, logged = visits.last_token_s - visits.first_token_s, 1e-3 * column(rows, "tpot", log)
    return {
        "ttft": Pair(visits.first_token_s - visits.arrival_s, 1e-3 * column(rows, "first_token_latency", log)),
        **_per_token(decode, logged * decoded, decoded),
    }


def durations_replay(
    iterations: Path, requests: Path, max_batch: int, token_budget: int, blocks: Blocks | None = None
) -> tuple[LoggedReplay, dict[str, float], dict[str, Pair]]:
    """A run with logged durations: the replay, shares of iterations alike by column, and latencies."""
    logged = rows_of(iterations)
    served = sorted(rows_of(requests), key=lambda row: float(row["arrival_s"]))
    decoded = column(served, "request_num_decode_tokens", requests)
    offered = _requests(
        column(served, "arrival_s", requests), column(served, "request_num_prefill_tokens", requests), decoded
    )
    found = replay_durations(offered, 1e-3 * column(logged, "dur_ms", iterations), max_batch, token_budget, blocks)
    alike = {
        name: _share_equal(mine, column(logged, name, iterations))
        for name, mine in (("num_tokens", found.tokens), ("batch", found.sequences), ("n_prefill_chunks", found.chunks))
    }
    visits = found.visits
    first, last = (column(served, name, requests) for name in ("prefill_e2e_time", "request_e2e_time"))
    pairs = {
        "ttft": Pair(visits.first_token_s - visits.arrival_s, first),
        **_per_token(visits.last_token_s - visits.first_token_s, last - first, decoded - 1),
    }
    return found, alike, pairs


def _per_token(mine: FloatArray, theirs: FloatArray, steps: FloatArray) -> dict[str, Pair]:
    """Time per output token of the requests that have any after the first; nothing where none has."""
    several = steps > 0
    if not several.any():
        return {}
    return {"tpot": Pair(mine[several] / steps[several], theirs[several] / steps[several])}


def _requests(arrival_s: FloatArray, prompt: FloatArray, output: FloatArray) -> Requests:
    none = np.zeros(len(arrival_s), dtype=np.int64)
    return Requests(arrival_s, prompt.astype(np.int64), output.astype(np.int64), none)


def _share_equal(mine: NDArray[np.int64], theirs: FloatArray) -> float:
    """Share of iterations alike, those that only one side has counted as different."""
    both = min(len(mine), len(theirs))
    return float((mine[:both] == theirs[:both]).sum() / max(len(mine), len(theirs)))


def main(arguments: list[str]) -> int:
    """Run a replay and print its errors."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.step_replays", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    forms = kinds.add_parser("forms")
    forms.add_argument("log", type=Path)
    forms.add_argument("steps", type=Path)
    durations = kinds.add_parser("durations")
    durations.add_argument("iterations", type=Path)
    durations.add_argument("requests", type=Path)
    durations.add_argument("--max-batch", type=int, required=True)
    durations.add_argument("--token-budget", type=int, required=True)
    durations.add_argument("--cache-blocks", type=int, help="KV blocks of the engine, where its memory ran out")
    durations.add_argument("--block-tokens", type=int, default=16, help="tokens of a block (16)")
    durations.add_argument("--watermark", type=float, default=0.01, help="share of the blocks kept free (0.01)")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.kind == "forms":
            pairs = forms_replay(chosen.log, chosen.steps)
        else:
            cache = chosen.cache_blocks
            found, alike, pairs = durations_replay(
                chosen.iterations,
                chosen.requests,
                chosen.max_batch,
                chosen.token_budget,
                None if cache is None else Blocks(cache, chosen.block_tokens, chosen.watermark),
            )
            for name, share in alike.items():
                print(f"{name}: {100 * share:.2f} % of iterations alike")
            print(f"preemptions in the replay: {int(found.visits.preemptions.sum())}")
    except (InputError, OSError, KeyError) as error:
        print(error, file=sys.stderr)
        return 2
    for name, pair in pairs.items():
        errors = ", ".join(f"{key} {100 * value:+.2f} %" for key, value in pair.errors().items())
        print(f"{name}: {errors}; {100 * pair.share_within(0.005):.1f} % of requests within 0.5 %")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
