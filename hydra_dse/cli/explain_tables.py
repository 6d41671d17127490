"""Tables and JSON of `estimate --explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from hydra_dse.cli.package_tables import print_package
from hydra_dse.cli.tables import console, print_table
from hydra_dse.estimator.explain import Explanation, StackMemory, TypicalIteration
from hydra_dse.estimator.explain_handoff import HandoffRow
from hydra_dse.estimator.explain_reuse import PrefixPoint
from hydra_dse.profile.composition import ClassTime, Composition, LinkBytes, MappedClass, ResourceTime
from hydra_dse.results.text import number, percent

LINKS = 5  # most loaded links that a table shows; JSON has all
LABELS = {"kv read": "KV read", "kv write": "KV write"}
CARRIED = {"weights": "weights", "kv": "KV", "state": "state", "activations": "activations"}


def explanation_json(explanation: Explanation) -> dict[str, object]:
    """The JSON shape of an explanation: its fields by name."""
    return asdict(explanation)


def print_explanation(explanation: Explanation) -> None:
    """Print memory, the decode batch, then each typical iteration."""
    for note in explanation.notes:
        console().print(f"note: {note}")
    if explanation.memory:
        _print_memory(explanation.memory)
    batch = explanation.decode_batch
    if batch is not None:
        quantiles = ", ".join(f"{name} {number(getattr(batch, name), 3)}" for name in ("p10", "p50", "p90", "p99"))
        console().print(f"decode batch: mean {number(batch.mean)} sequences ({quantiles})")
    _print_roles(explanation)
    if explanation.prefix is not None:
        _print_prefix(explanation.prefix)
    if explanation.handoff is not None:
        _print_handoff(explanation.handoff)
    if explanation.package is not None:
        print_package(explanation.package)
    for iteration in explanation.iterations:
        _print_iteration(iteration)


def _print_prefix(prefix: PrefixPoint) -> None:
    stay = "" if prefix.stay_s is None else f"; an entry stays {number(prefix.stay_s)} s after its last use"
    room, all_of_it = number(prefix.capacity_bytes / 1e9), number(prefix.cache_bytes / 1e9)
    found = _share(prefix.hit_share)
    console().print(f"prefix cache: finds {found} of the prompt tokens in {room} of {all_of_it} GB{stay}")
    if prefix.device_share < prefix.hit_share:
        console().print(f"of these {_share(prefix.hit_share - prefix.device_share)} come from the host")
    rows = [(number(point.capacity_bytes / 1e9), _share(point.hit_share)) for point in prefix.curve]
    print_table("Prefix hits by capacity, load as it is", ("for cached entries [GB]", "prompt tokens found"), rows)


def _print_handoff(row: HandoffRow) -> None:
    caches = number((row.kv_bytes + row.state_bytes) / 1e6)
    across = f", {number(row.fabric_bytes / 1e6)} MB over links between packages" if row.fabric_bytes else ""
    console().print(
        f"hand-off: {number(row.requests_per_s)} requests/s of {caches} MB ({number(row.kv_bytes / 1e6)} KV, "
        f"{number(row.state_bytes / 1e6)} state{across}) take {number(1e3 * row.moved_s, 3)} ms, "
        f"{number(1e3 * row.alone_s, 3)} ms alone and {number(1e6 * row.latency_s, 3)} µs of latency; at most "
        f"{number(row.most_per_s)} requests/s"
    )
    rows = [
        (link.link, link.source, link.target, number(link.bytes_per_request / 1e6), _share(link.busy_share))
        for link in row.links[:LINKS]
    ]
    title = f"Busiest {len(rows)} of {len(row.links)} links of the hand-off"
    print_table(title, ("link", "from", "to", "a request [MB]", "busy"), rows, left=3)


def _print_roles(explanation: Explanation) -> None:
    if not explanation.roles:
        return
    columns = ("units of decode dies in prefill", "time", "prompt tokens/s", "decode iteration [ms]")
    rows = [
        (
            f"{row.units:+d}",
            _share(row.time_share),
            number(row.prefill_tokens_per_s),
            number(1e3 * row.decode_iteration_s),
        )
        for row in explanation.roles
    ]
    print_table("Role states", columns, rows)
    changes = [
        (
            f"{row.before:+d} → {row.after:+d}",
            number(1e3 * row.drain_s, 3),
            number(row.moved_bytes / 1e6, 3),
            number(1e3 * row.moved_s, 3),
            number(1e3 * row.delay_s, 3),
        )
        for row in explanation.role_changes
    ]
    change_columns = ("change", "drain [ms]", "moved [MB]", "takes [ms]", "delay [ms]")
    print_table("Changes of roles", change_columns, changes)


def _print_memory(memory: Sequence[StackMemory]) -> None:
    rows = [
        (row.site, [row.capacity_bytes, row.weight_bytes, row.kv_bytes, row.state_bytes, row.left_bytes])
        for row in memory
    ]
    columns = ("memory site", "capacity", "weights", "KV", "state", "left")
    print_table("Memory at the mean occupancy [GB]", columns, _merged(rows, 1e9))


def _merged(rows: Sequence[tuple[str, Sequence[float]]], unit: float) -> list[tuple[str, ...]]:
    """Rows of cells; sites in a row that hold the same (but for rounding) become one row."""
    merged: list[tuple[list[str], Sequence[float]]] = []
    for name, values in rows:
        if merged and all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(values, merged[-1][1], strict=True)):
            merged[-1][0].append(name)
        else:
            merged.append(([name], values))
    return [(_span(names), *(number(value / unit) for value in values)) for names, values in merged]


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {names[0]} … {names[-1]}"


def _print_iteration(iteration: TypicalIteration) -> None:
    made = iteration.composition
    out = console()
    out.print()
    out.print(f"Mean {iteration.phase} iteration of pool {made.pool}: {_batch(made)}")
    flight = f"; {made.batches_in_flight} batches in flight" if made.batches_in_flight > 1 else ""
    binding = made.binding if made.binding != "queue" else f"the queue for {made.resources[-1].most_loaded}"
    rate = number(iteration.iterations_per_s)
    out.print(f"takes {number(1e3 * made.time_s)} ms alone, runs {rate} times a second{flight}; bound by {binding}")
    columns = ("operators", "on", "dies", "split", "imbalance", "resident")
    print_table("Where operators run", columns, [_mapped(row) for row in made.operator_map], left=2)
    _print_bytes(made)
    link_columns = ("link", "from", "to", *CARRIED.values(), "total", "busy")
    title = f"Most loaded {min(LINKS, len(made.links))} of {len(made.links)} links that carry anything [MB]"
    if made.links:
        print_table(title, link_columns, [_link(row) for row in made.links[:LINKS]], left=3)
    _print_times(made)
    resource_columns = ("resource", "binds for [ms]", "share", "if twice as fast [ms]", "saved", "most loaded")
    print_table("What binds", resource_columns, [_resource(row) for row in made.resources])


def _batch(made: Composition) -> str:
    batch, parts = made.batch, []
    if made.batch.prefill_tokens > 0:
        prompts, tokens = number(float(batch.prefill_sequences)), number(float(batch.prefill_tokens))
        parts.append(f"{tokens} prompt tokens of {prompts} prompts")
    sequences = float(batch.decode_sequences)
    if sequences > 0:
        context = number(float(batch.decode_context_tokens) / sequences)
        parts.append(f"{number(sequences)} decoding sequences at a mean context of {context} tokens")
    return " and ".join(parts)


def _mapped(row: MappedClass) -> tuple[str, ...]:
    return (
        f"{row.operator_class} × {row.instances}",
        " + ".join(row.die_groups),
        f"{row.dies}",
        row.split,
        number(row.imbalance),
        _share(row.resident_share),
    )


def _print_bytes(made: Composition) -> None:
    sites = list(made.bytes[0].site_bytes)
    at = [(site, [row.site_bytes.get(site, 0.0) for row in made.bytes]) for site in sites]
    rows = [(*cells[:-1], "") for cells in _merged(at, 1e6)]  # activations have no site
    rows.append(("total", *(number(row.total_bytes / 1e6) for row in made.bytes)))
    rows.append(("per token", *(number(row.bytes_per_token / 1e6) for row in made.bytes)))
    columns = ("memory site", *(LABELS.get(row.operand, row.operand) for row in made.bytes))
    print_table("Bytes that move [MB]", columns, rows)


def _link(row: LinkBytes) -> tuple[str, ...]:
    amounts = (number(row.operand_bytes[name] / 1e6) for name in CARRIED)
    return row.link, row.source, row.target, *amounts, number(row.total_bytes / 1e6), _share(row.busy_share)


def _print_times(made: Composition) -> None:
    columns = ("operators", "compute", "memory", "network", "overhead", "hops", "time", "share", "bound by")
    rows = [_timed(row) for row in made.times]
    extra = [("iteration overhead", made.iteration_overhead_s), ("queue for the busiest", made.queue_s)]
    rows += [_plain(name, seconds, made.time_s) for name, seconds in extra if seconds > 0]
    rows.append(("all", "", "", "", "", "", number(1e3 * made.time_s), _share(1.0), ""))
    print_table("Time by operator class [ms]; compute, memory and network overlap", columns, rows)


def _timed(row: ClassTime) -> tuple[str, ...]:
    seconds = (row.compute_s, row.memory_s, row.network_s, row.overhead_s, row.hops_s, row.time_s)
    return row.operator_class, *(number(1e3 * value, 3) for value in seconds), _share(row.share), row.binding


def _plain(name: str, seconds: float, whole: float) -> tuple[str, ...]:
    return name, "", "", "", "", "", number(1e3 * seconds, 3), _share(seconds / whole), ""


def _resource(row: ResourceTime) -> tuple[str, ...]:
    twice, saved = row.twice_as_fast_s, row.saved_share
    return (
        row.resource,
        number(1e3 * row.bound_s, 3),
        _share(row.share),
        "" if twice is None else number(1e3 * twice),
        "" if saved is None else _share(saved),
        row.most_loaded,
    )


def _share(share: float) -> str:
    return percent(share).lstrip("+")
