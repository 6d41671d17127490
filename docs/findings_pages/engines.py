"""Policy stacks after real engines on one package, and what explains their gaps."""

from __future__ import annotations

from collections.abc import Iterator

from findings_pages.run import Run, Study, span, stored_rows

RUNS = {
    "engine-policies": Run(
        "engine-policies.csv",
        "hydra-dse compare engine-policies",
        "Nemotron-H-4B under chat and arXiv summaries, all 525 settings of a policy estimated, 400 requests a run",
        False,
        "chunked",
    ),
    "engine-causes": Run(
        "engine-causes.csv",
        "hydra-dse explain runs/engine-policies:4ca260711873 runs/engine-policies:c378c3cee9e1 --normalise "
        "--requests 100",
        "chunked prefill against each other policy at its best, and two pools at their default",
        False,
        "chunked",
    ),
}
STACKS = ("static", "prefill first", "chunked", "disaggregated", "elastic")


def gaps() -> Iterator[str]:
    """Highest rate and saturation at the best settings and at the defaults, relative to chunked prefill at its best."""
    rows = {(row["workload"], row["contender"]): row for row in stored_rows("engine-policies.csv")}
    heads = ("workload", "policy", "highest rate, best", "highest rate, default", "saturation, best", "default")
    yield "| " + " | ".join([*heads, "best settings"]) + " |"
    yield "|---|---|---|---|---|---|---|"
    for workload in dict.fromkeys(workload for workload, _ in rows):
        for name in STACKS:
            best, default = rows[workload, name], rows[workload, f"{name}, default"]
            cells = [span(row, f"ratio:{ratio}") for ratio in ("max_rate", "saturation") for row in (best, default)]
            point = best["parameters"].strip("{}").replace('"', "")
            yield "| " + " | ".join([workload, name, *cells, point]) + " |"


def causes() -> Iterator[str]:
    """Segments of the iterations that differ most, in microseconds a step."""
    heads = ("workload", "policy", "phase", "segment", "per", "chunked, µs", "the policy, µs", "waits for (chunked)")
    yield "| " + " | ".join([*heads, "(the policy)"]) + " |"
    yield "|" + "---|" * 9
    for row in stored_rows("engine-causes.csv"):
        times = [f"{float(row[key]):,.0f}" if row[key] else "" for key in ("a_us", "b_us")]
        cells = [row["workload"], row["policy"], row["phase"], row["segment"], row["per"], *times]
        cells += [row["waits_a"], row["waits_b"]]
        yield "| " + " | ".join(cells) + " |"


STUDIES = (
    Study(
        "engine-policies",
        "What an engine's policy is worth on one package",
        "Policy stacks after real engines on 18 equal dies and 6 stacks at the same places, each at the best of its "
        "settings and at its defaults; ratios to chunked prefill at its best, 95 % intervals over replications. "
        "Chunked prefill is near its best at its defaults; two pools are best or worst by how the dies are divided; "
        "prefill first costs 6 to 7 %, static batches most. The elastic map gives nothing here that dividing the dies "
        "well does not. The batch limit of 256 is the largest that was searched.",
        gaps,
    ),
    Study(
        "engine-causes",
        "Why engines differ",
        "Two designs under the load of the comparison, at 0.8 of the highest rate of chunked prefill; the segments "
        "that differ most, per token processed where the two did different work. Under chat a decode step waits for "
        "weights on the busiest link, so that 14 dies take as long as 18, and four dies are free to prefill beside "
        "them; nine dies take two thirds longer. Prefill first has the same decode step: it loses what prompts cost in "
        "iterations of their own. Static batches lose by the queue before a batch starts.",
        causes,
    ),
)
