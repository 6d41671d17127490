"""Published figures of devices and models that a card can be held against.

Dense bf16 peaks and interconnect per device in one direction: NVIDIA A100 and H100 data sheets (NVLink 600 and 900 GB/s
both directions together), Google Cloud TPU v6e page (3,200 Gbit/s between chips; 6,400 both directions together).
Peaks are those of CCL-Bench's own MFU table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hydra_dse.config import bundled, load_model
from hydra_dse.errors import InputError

PEAK_TFLOPS = {"nvidia_a100": 312.0, "nvidia_h100": 989.0, "tpu_v6e": 918.0}

SCALE_UP_GBPS = {
    "nvidia_a100": (2400.0, 4800.0),
    "nvidia_a100_40gb": (2400.0, 4800.0),
    "nvidia_h100": (3600.0, 7200.0),
    "tpu_v6e": (3200.0, 6400.0),
}
"""One direction, both directions."""

# Families of the published cards that the bundled models do not hold: vocabulary × hidden size, tied or not, from the
# `config.json` on their Hugging Face pages.
_OTHERS = {
    "qwen34b": (151936, 2560, True),
    "qwen332b": (151936, 5120, False),
    "deepseekmoe16b": (102400, 2048, False),
    "deepseekv2lite": (102400, 2048, False),
    "mistral7b": (32000, 4096, False),
}


@dataclass(frozen=True)
class Embedding:
    """Size of the embedding of a model: one table of `vocabulary` × `hidden`, or two where the head is not tied."""

    model: str
    vocabulary: int
    hidden: int
    tied: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """What may be called the parameters of the embedding: the table, or the table and the head."""
        table = self.vocabulary * self.hidden
        return (table,) if self.tied else (table, 2 * table)


def embedding_of(family: str) -> Embedding | None:
    """The embedding of a model family by any of its spellings, None where it is not known."""
    wanted = _plain(family)
    for name in bundled("models"):
        if _plain(name) == wanted:
            try:
                model = load_model(name)
            except InputError:
                return None
            return Embedding(name, model.vocabulary, model.hidden_size, model.tied_embeddings)
    found = _OTHERS.get(wanted)
    return None if found is None else Embedding(family, *found)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
