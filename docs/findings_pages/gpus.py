"""Fixed GPUs beside the co-designed package, at native size and node."""

from __future__ import annotations

from collections.abc import Iterator

from findings_pages.run import Row, Run, Study, span, stored_rows

RUNS = {
    "gpus": Run(
        "gpus.csv",
        "hydra-dse compare gpus",
        "all 4 cases",
        False,
    )
}


def table() -> Iterator[str]:
    """Figures and ratios of every contender."""
    heads = [
        "model",
        "workload",
        "contender",
        "node, nm",
        "highest rate, req/s",
        "power, W",
        "rate",
        "per W",
        "per USD of making",
    ]
    yield "| " + " | ".join([*heads, "per mm²", "per mm² at equal transistors", "at squared feature size"]) + " |"
    yield "|" + "---|" * 13
    rows = stored_rows("gpus.csv")
    for row in rows:
        case = ("co-design", row["model"], row["workload"])
        reference = next(one for one in rows if (one["contender"], one["model"], one["workload"]) == case)
        cells = [row["model"], row["workload"], row["contender"], f"{float(row['node_nm']):g}"]
        cells += [f"{float(row['max_rate_requests_per_s']):,.3g}", f"{float(row['power_w']):,.0f}"]
        cells += [span(row, f"ratio:{name}") for name in ("max_rate", "max_rate_per_w", "max_rate_per_usd")]
        cells.append(f"{_recurring(row, reference):.2f}")
        cells += [span(row, f"ratio:{name}") for name in ("max_rate_per_mm2", "max_rate_per_iso_mm2")]
        yield "| " + " | ".join([*cells, f"{_squared(row, reference):.2f}"]) + " |"


def _recurring(row: Row, reference: Row) -> float:
    """Ratio per dollar of what is made again for every package."""
    return float(row["ratio:max_rate"]) * float(reference["recurring_usd"]) / float(row["recurring_usd"])


def _squared(row: Row, reference: Row) -> float:
    """Ratio per mm² where area counts as the square of the feature size."""
    mine, others = float(row["node_nm"]), float(reference["node_nm"])
    return float(row["ratio:max_rate_per_mm2"]) * (mine / others) ** 2


STUDIES = (
    Study(
        "gpus",
        "Beside GPUs",
        "Products at their native size and node beside the co-designed package of 22-nm dies, which has 24 tiles and "
        "batch limits up to 64 (GPUs: 512); highest rate under one SLO as ratios to the package's. Per watt H100 and "
        "H200 give 0.85 to 0.99 of the package's rate, B200 1.00 to 1.23, at 4 against 22 nm. Per mm² of native "
        "silicon GPUs are 1.9 to 5.5 times ahead; the last two columns divide by area as if all were of one node, by "
        "transistors of products (22 to 4 nm: a factor of 5.6) and by the square of the feature size (30): between "
        "them lies what a package of the GPUs' node would be compared with, and in both the package is ahead, under "
        "summaries by transistors only just (0.65 to 0.98). Energy is that of each node. Cost is that of making by "
        "the cost model, not a price: at 100,000 packages design and masks of a 4-nm die are eight to nine tenths of "
        "a GPU, and without them the sign turns (1.2 to 2.2), so that cost decides nothing here.",
        table,
    ),
)
