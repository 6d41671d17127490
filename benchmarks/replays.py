"""`python -m benchmarks.replays RUN --profile PROFILE --model MODEL`: a recorded engine run against its replay.

RUN holds `meta.json`, `requests.jsonl` and `timeseries.csv`; PROFILE (default RUN/profile) the layer times of the
card; MODEL is a bundled model or a `config.json` (default: the bundled model that the run names).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hydra_dse.config import load_model
from hydra_dse.errors import InputError
from simulators.profiled import Stack, read_profile, read_run
from simulators.serving.replay import Replay, replay


def table(found: Replay) -> list[str]:
    """Lines of the comparison."""
    lines = ["metric         replayed    recorded    error"]
    for name, error in found.errors().items():
        stem, statistic, unit = name.split("_")
        mine, theirs = found.latencies()[f"{stem}_{unit}"]
        values = [_statistic(values, statistic) for values in (mine, theirs)]
        lines.append(f"{name:12}  {values[0]:10.4f}  {values[1]:10.4f}  {100 * error:+6.1f} %")
    lines += [f"RMS difference of {name}: {value:.3g}" for name, value in found.timeline_rms().items()]
    lines.append(f"preemptions in the replay: {found.preemptions}")
    return lines


def _statistic(values: object, statistic: str) -> float:
    import numpy as np

    array = np.asarray(values)
    return float(array.mean() if statistic == "mean" else np.quantile(array, int(statistic[1:]) / 100))


def main(arguments: list[str]) -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks.replays", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--host-ms", type=float, default=0.0, help="host time per step that is not hidden (default 0)")
    chosen = parser.parse_args(arguments)
    try:
        recorded = read_run(chosen.run)
        model = load_model(chosen.model or recorded.model.rsplit("/", 1)[-1].lower())
        profile = read_profile(chosen.profile or chosen.run / "profile")
        found = replay(recorded, profile, Stack.of(model), 1e-3 * chosen.host_ms)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
