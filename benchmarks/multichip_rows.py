"""Published serving on one chip and on several that share every operator: the rows of `benchmarks.multichip`."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TENSTORRENT = {
    "Llama3.1-8B": "llama-3.1-8b", "Llama3.2-1B": "llama-3.2-1b", "Llama3.2-3B": "llama-3.2-3b",
    "Mistral-7B": "mistral-7b", "QwQ-32B": "qwq-32b", "Qwen2.5-72B": "qwen2.5-72b", "Qwen2.5-7B": "qwen2.5-7b",
    "Qwen3-32B": "qwen3-32b", "Mixtral-8x7B": "mixtral-8x7b",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A published measurement: one batch of requests on one machine.

    Attributes:
        seconds: end to end (`what` = `"end to end"`), of one decode step, or to the first token of one prompt.
    """

    machine: str
    design: str
    model: str
    what: str
    input: int
    output: int
    batch: int
    seconds: float


def cases(folder: Path) -> Iterator[Case]:
    """Rows of the published tables that run on one Wormhole chip or share operators between several chips."""
    models = {"Meta-Llama-3-8B": "llama-3.1-8b", "Llama-2-7b-hf": "llama-2-7b"}
    with (folder / "dabench" / "sn40l_inference.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            model = models.get(row["model"].rsplit("/", 1)[-1])
            if model is None:
                continue
            load = int(row["input_tokens"]), int(row["output_tokens"]), int(row["batch_size"])
            # One row states its rate alone, which counts tokens in and out.
            through = (load[0] + load[1]) * load[2] / float(row["throughput_total_tokens_per_s"])
            seconds = float(row["end_to_end_latency_s"] or through)
            yield Case("8 SN40L", "sn40l-8", model, "end to end", *load, seconds)
            if row["ttft_s"]:
                yield Case("8 SN40L", "sn40l-8", model, "first token", load[0], 1, load[2], float(row["ttft_s"]))
    chips = {"n150 Wormhole": 1, "n300 Wormhole": 2, "QuietBox Wormhole": 8}
    with (folder / "dabench" / "tenstorrent_inference.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            count, model = chips.get(row["hardware"], 0), TENSTORRENT.get(row["model"])
            if model is None or not count or row["parallelism"].startswith("DP"):
                continue
            machine = (f"{count} Wormhole", f"wormhole-{count}")
            tokens, batch = int(row["input_tokens"]), int(row["batch_size"])
            yield Case(*machine, model, "first token", tokens, 1, 1, float(row["ttft_ms"]) / 1e3)
            rate = float(row["output_tokens_per_s_per_user"])
            yield Case(*machine, model, "decode step", tokens, 2, batch, 1.0 / rate)


def published() -> Path:
    """Folder of published tables and configurations."""
    return Path(os.environ.get("HYDRA_DSE_REFERENCE", "../shared/reference"))
