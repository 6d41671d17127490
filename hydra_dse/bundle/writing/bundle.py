"""A bundle: workload card, traces, launch script and metrics of one run in a folder.

Card and launch script are written before the run; what the run alone can tell (lengths, work, digests of traces) is
added to the card when it has ended.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.bundle.conventions import BLOCK
from hydra_dse.bundle.writing.files import TIMELINE_FILE, digest_of, sha256
from hydra_dse.bundle.writing.sink import MOST_BYTES, TraceSink
from hydra_dse.config.dump import to_yaml
from hydra_dse.config.loader import load_yaml
from hydra_dse.errors import Fault, InputError
from hydra_dse.records import TraceWindow

SCRIPT, METRICS, ARRIVALS = "run.sh", "metrics.json", "arrivals.csv"
LATENCY = "logs/requests.latency.json"
"""In a folder of its own, so that nothing takes it for a trace of a rank."""
LEAST = 4
"""Iterations of an engine that a trace must have (the original tools drop the first and the last)."""


@dataclass(frozen=True)
class Recipe:
    """How a bundle is made again.

    Attributes:
        command: words of the command line, without `--bundle` and its value.
        inputs: absolute path → SHA-256 of the files that it reads.
        run: its settings by name, for readers that do not parse command lines.
    """

    command: tuple[str, ...]
    inputs: Mapping[str, str]
    run: Mapping[str, object]


class BundleWriter:
    """Writes one bundle.

    Args:
        folder: is made; its name is the bundle's id.
        card: as plain data (see `card_of`).
        recipe: how to make it again.
        window: which iterations leave spans.
        compress: write `.gz` files beside the plain ones.
        most_bytes: of the traces (see `TraceSink`).

    Raises:
        InputError: the folder cannot be made, or holds something that is no bundle.
    """

    def __init__(
        self,
        folder: Path,
        card: Mapping[str, object],
        recipe: Recipe,
        window: TraceWindow,
        compress: bool = False,
        most_bytes: float = MOST_BYTES,
    ) -> None:
        self.folder, self._compress = folder, compress
        self._name = folder.resolve().name
        self._card = json.loads(json.dumps(card))
        _make(folder, self._name)
        script = folder / SCRIPT
        script.write_text(_script(recipe.command, folder), encoding="utf-8", newline="\n")
        script.chmod(0o755)
        block = self._card[BLOCK]
        block["command"] = ["hydra-dse", *recipe.command]
        block["run_script"] = {"file": SCRIPT, "sha256": sha256(script)}
        block["inputs"] = [{"file": file, "sha256": digest} for file, digest in sorted(recipe.inputs.items())]
        block["run"] = dict(recipe.run)
        self._write_card()
        self.sink = TraceSink(folder, window, most_bytes)

    def _write_card(self) -> None:
        (self.folder / f"{self._name}.yaml").write_text(to_yaml(self._card), encoding="utf-8", newline="\n")

    def finish(self, metrics: Mapping[str, object], missing: str = "") -> str | None:
        """Close the traces, complete the card, write the metrics; return the digest of all traces, None without any.

        Args:
            metrics: as plain data.
            missing: why there are no traces, where there are none.
        """
        digests = self.sink.close(self._compress)
        work, block, data = self.sink.work, self._card[BLOCK], self._card["workload"]["data"]
        digest = digest_of(digests) if digests else None
        if work.iterations:
            prompt, output = self.sink.mean_lengths
            if work.decode_iterations:
                data["batch_size"] = max(1, round(work.decode_sequences / work.decode_iterations))
            data |= {
                "seq_len": max(1, round(prompt + output)), "input_len": max(1, round(prompt)),
                "output_len": max(1, round(output)),
            }  # fmt: skip
            self._card["workload"]["model"]["iteration"] = work.iterations
            block["window"] = {
                "iterations": work.iterations, "start_s": work.start_s, "end_s": work.end_s,
                "prompt_tokens": work.prompt_tokens, "output_tokens": work.output_tokens, "flops": work.flops,
                "cut": self.sink.full, "whole_s": work.whole_s,
            }  # fmt: skip
        hourly = _usd_per_hour(metrics.get("metrics"))
        if hourly is not None:
            block["usd_per_hour"] = hourly
        block["unit_of_work"] = self.sink.unit_of_work()
        block["traces"] = [{"file": file, "sha256": found} for file, found in digests.items()]
        block["trace_sha256"] = digest
        if not digests:
            block["traces_missing"] = missing
        (self.folder / ARRIVALS).write_text(self.sink.arrivals(), encoding="utf-8", newline="\n")
        self._write_latency(_mean_service_s(metrics.get("metrics")))
        self._write_card()
        text = json.dumps({**metrics, "trace_sha256": digest}, indent=2, allow_nan=False, default=str)
        (self.folder / METRICS).write_text(text + "\n", encoding="utf-8", newline="\n")
        return digest

    def _write_latency(self, seconds: float | None) -> None:
        """The side file of the original tools: latency of a batch, which is what a request spends in one."""
        file = self.folder / LATENCY
        file.unlink(missing_ok=True)
        if seconds is not None and seconds > 0.0:
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({"avg_latency": seconds}) + "\n", encoding="utf-8", newline="\n")


def _mean_service_s(metrics: object) -> float | None:
    """Mean time of a request from its scheduling to its last token, without the wait before it."""
    if not isinstance(metrics, Mapping):
        return None
    whole, first, scheduled = (metrics.get(f"{name}_mean_s") for name in ("e2e", "ttft", "ttft_scheduled"))
    if whole is None or first is None or scheduled is None:
        return None
    return float(whole) - float(first) + float(scheduled)


def _usd_per_hour(metrics: object) -> float | None:
    """What an hour of the run costs: its cost of a token times its tokens of an hour."""
    if not isinstance(metrics, Mapping):
        return None
    token, pace = metrics.get("cost_usd_per_million_tokens"), metrics.get("throughput_tokens_per_s")
    return None if token is None or pace is None else float(token) * float(pace) * 3600.0 / 1e6


def _make(folder: Path, name: str) -> None:
    if folder.exists():
        if not folder.is_dir():
            raise InputError(Fault("is a file; give the folder of a bundle", file=str(folder)))
        entries = {entry.name for entry in folder.iterdir()}
        if entries and f"{name}.yaml" not in entries:
            message = f"holds files but no card {name}.yaml; give a new or empty folder, or one of a bundle"
            raise InputError(Fault(message, file=str(folder)))
        if entries and not _is_ours(folder / f"{name}.yaml"):
            message = "holds a bundle that was not written by hydra-dse simulate; give a new or empty folder"
            raise InputError(Fault(message, file=str(folder)))
        for pattern in ("rank*_trace.json", TIMELINE_FILE):
            for stale in (*folder.glob(pattern), *folder.glob(f"{pattern}.gz")):
                stale.unlink()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(Fault(f"cannot be made: {error.strerror or error}", file=str(folder))) from None


def _is_ours(card: Path) -> bool:
    """Whether a card says how we made its bundle."""
    try:
        block = load_yaml(card).data.get(BLOCK)
    except InputError:
        return False
    return isinstance(block, Mapping) and "run" in block


def _script(command: tuple[str, ...], folder: Path) -> str:
    name = folder.resolve().name
    words = " ".join(_quoted(word, folder.resolve().parent.parent) for word in command)
    return (
        "#!/bin/sh\n"
        "# Makes this bundle again; the traces get the digest that the card states (x_chiplet.trace_sha256).\n"
        "# Usage: ./run.sh [FOLDER OF THE NEW BUNDLE]\n"
        "set -eu\n"
        'here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)\n'
        f'bundle="$here"/replayed/{shlex.quote(name)}\n'
        f'exec ${{HYDRA_DSE:-hydra-dse}} {words} --bundle "${{1:-$bundle}}"\n'
    )


def _quoted(word: str, above: Path) -> str:
    """A word of the script; a design of the run that the bundle lies in is found from there, wherever that is."""
    run, colon, identity = word.rpartition(":")
    return f'"$here"/../..:{shlex.quote(identity)}' if colon and run == str(above) else shlex.quote(word)


def parse_window(text: str) -> TraceWindow:
    """Read `N` (iterations of every engine, after the warm-up), `A:N`, `Xs` or `As:Xs` (start and length).

    Raises:
        InputError: something else, or fewer iterations than tools need.
    """
    parts = text.split(":")
    seconds = all(part.endswith("s") for part in parts)
    try:
        values = [float(part.removesuffix("s")) for part in parts] if seconds else [float(int(p)) for p in parts]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 2 or any(not 0 <= value < 1e12 for value in values):
        message = (
            f"{text!r} is no window; give iterations (16, or 200:16 from the 200th on) or seconds (0.5s, 10s:0.5s)"
        )
        raise InputError(Fault(message, file="--trace-window"))
    start, length = values if len(values) == 2 else (None, values[0])
    if length < LEAST and not seconds:
        raise InputError(Fault(f"{text!r}: a trace needs at least {LEAST} iterations", file="--trace-window"))
    if length <= 0.0:
        raise InputError(Fault(f"{text!r}: a window must last longer than 0 s", file="--trace-window"))
    return TraceWindow("seconds" if seconds else "iterations", start, length, LEAST)
