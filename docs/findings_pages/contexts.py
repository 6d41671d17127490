"""The best die mix by length of the context, and what state has to do with it."""

from __future__ import annotations

from collections.abc import Iterator

from findings_pages.run import Row, Run, Study, stored_rows

RUNS = {
    "contexts": Run(
        "contexts.csv",
        "python -m benchmarks.context_mixes --out contexts.csv",
        "all 710 packages of hydra-24 with every batch limit, links of 512 GB/s, on the estimator",
        False,
        "the best package of 1k tokens",
    )
}
OUTPUT, REASONING_CONTEXT = 256, 1024 + 16384 // 2


def table() -> Iterator[str]:
    """The best package of every context, and what lies within 2 % of it."""
    heads = [
        "model",
        "prompt",
        "HBM",
        "Ap",
        "Ad",
        "Mp",
        "Md",
        "batch limit",
        "saturation, tokens/s",
        "mixes within 2 %",
    ]
    heads += ["their stacks", "their prefill dies", "their attention dies", "the best of 1k keeps"]
    yield "| " + " | ".join([*heads, "KV / state of a sequence"]) + " |"
    yield "|" + "---|" * (len(heads) + 1)
    for row in stored_rows("contexts.csv"):
        cells = [row["kind"], row["context"], *(row[name] for name in ("hbm", "Ap", "Ad", "Mp", "Md", "max_batch"))]
        cells += [f"{float(row['saturation_tokens_per_s']):,.4g}", row["mixes_near"], _range(row, "hbm", 1.0, "")]
        cells += [_range(row, "prefill_share", 100.0, " %"), _range(row, "attention_share", 100.0, " %")]
        yield "| " + " | ".join([*cells, f"{float(row['first_keeps']):.2f}", _balance(row)]) + " |"


def _range(row: Row, name: str, factor: float, unit: str) -> str:
    low, high = (f"{factor * float(row[f'{name}:{end}']):.0f}" for end in ("low", "high"))
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


def _balance(row: Row) -> str:
    """Bytes of KV over those of state, of a sequence in the middle of its answer."""
    tokens = REASONING_CONTEXT if row["context"] == "reasoning" else int(row["context"]) + OUTPUT // 2
    state = float(row["state_bytes"])
    return f"{float(row['kv_bytes_per_token']) * tokens / state:.2g}" if state else "no state"


STUDIES = (
    Study(
        "contexts",
        "How the best die mix moves with the context",
        "Highest estimated saturation over all packages. Mixes within 2 % of the best are not told apart. The last "
        "column is the KV cache of a sequence over its recurrent state. Every hybrid's best mix changes between 1k "
        "and 8k tokens, where decode dies leave (of Nemotron-Nano also two of four stacks), and again at 16k to 128k, "
        "where dies move to attention: from 27 to 45 % of them in Nemotron-Nano, from 50 to 75 % in Zamba2, from 25 "
        "to 62 % in Jamba. Falcon-H1 is the exception: from 32k on 15 and more mixes are alike. State decides only "
        "where the cache is smaller, in Nemotron-Nano up to 8.8k tokens: half the bytes of state bring 14 % and two "
        "stacks less at 1k, 16 % with chains of thought, and nothing from 4k on; in Zamba2 the cache is larger from "
        "the start. The transformer, with eight times the cache of a token, asks for more stacks as the context "
        "grows, and beyond 64k many mixes are alike. Zamba2's best package of 1k tokens holds no request of 256k at "
        "all.",
        table,
    ),
)
