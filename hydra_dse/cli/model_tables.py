"""Tables of `model show`."""

from __future__ import annotations

from hydra_dse.cli.tables import console, print_table
from hydra_dse.model.summary import ModelSummary, StepCost


def print_summary(summary: ModelSummary) -> None:
    """Print a model: totals, blocks, and the cost of a prefill and of a decode step."""
    print_table(
        f"{summary.name} ({summary.family})", ("quantity", "value", "unit"), _totals(summary), left=1
    )  # fmt: skip
    blocks = [
        (
            row.label,
            row.description,
            f"{row.count}",
            f"{row.parameters / 1e6:,.1f}",
            f"{row.kv_bytes_per_token / 1e3:,.2f}",
            f"{row.state_bytes_per_sequence / 1e6:,.2f}",
        )
        for row in summary.blocks
    ]
    columns = ("block", "made of", "count", "parameters [M]", "KV [kB/token]", "state [MB/sequence]")
    print_table("Blocks (all of a kind together; shared weights counted once)", columns, blocks, left=2)
    steps = [_step("prefill", summary.prefill), _step("decode", summary.decode)]
    step_columns = ("step", "tokens", "context", "TFLOP", "weights [GB]", "KV [GB]", "state [GB]", "all bytes [GB]")
    print_table("One sequence, each weight read once", step_columns, steps)
    if summary.source:
        console().print(f"source: {summary.source}")


def _totals(summary: ModelSummary) -> list[tuple[str, str, str]]:
    formats = [
        (f"weights in {name}", f"{size / 1e9:,.3f}", "GB") for name, size in summary.weight_bytes_by_format.items()
    ]
    limit = summary.max_position_embeddings
    return [
        ("total parameters", f"{summary.total_parameters / 1e9:,.4f}", "billion"),
        ("active parameters per token", f"{summary.active_parameters / 1e9:,.4f}", "billion"),
        *formats,
        (f"KV cache per token ({summary.precision.kv})", f"{summary.kv_bytes_per_token / 1e3:,.3f}", "kB"),
        (
            f"state per sequence ({summary.precision.state} SSM, {summary.precision.conv_state} conv)",
            f"{summary.state_bytes_per_sequence / 1e6:,.3f}",
            "MB",
        ),
        ("layers", f"{summary.layers}", ""),
        ("hidden size", f"{summary.hidden_size}", ""),
        ("vocabulary", f"{summary.vocabulary}", ""),
        ("max_position_embeddings", "not stated" if limit is None else f"{limit}", "tokens"),
    ]


def _step(name: str, cost: StepCost) -> tuple[str, ...]:
    sizes = (cost.weight_bytes, cost.kv_bytes, cost.state_bytes, cost.bytes)
    return (
        name,
        f"{cost.tokens}",
        f"{cost.context_tokens}",
        f"{cost.flops / 1e12:,.4g}",
        *(f"{size / 1e9:,.4g}" for size in sizes),
    )
