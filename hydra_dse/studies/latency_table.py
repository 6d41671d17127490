"""`latencies.parquet`: quantiles of every simulated latency, one table a design, latency and replication.

Columns: `design`, `requests`, `seed`, `latency` (`ttft` …), `replication` from 0, `samples`, `share`, `seconds`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import islice

from hydra_dse.errors import Fault, InputError
from hydra_dse.results.parquet import read_table
from hydra_dse.results.quantiles import SHARES, Quantiles
from hydra_dse.studies.run_directory import RunDirectory

LATENCIES = "latencies.parquet"
Tables = Mapping[str, tuple[Quantiles, ...]]
"""By latency, one table a replication."""
Simulated = Mapping[str, Tables]
"""By design."""


def to_parquet(found: Simulated, requests: int, seed: int) -> bytes:
    """The tables as a Parquet file; the same tables give the same bytes."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    rows = [
        (design, kind, number, table)
        for design, tables in found.items()
        for kind, replications in tables.items()
        for number, table in enumerate(replications)
    ]
    each, whole = len(SHARES), len(SHARES) * len(rows)
    columns = {
        "design": pa.array([design for design, _, _, _ in rows for _ in range(each)], pa.string()),
        "requests": pa.array([requests] * whole, pa.int64()),
        "seed": pa.array([seed] * whole, pa.int64()),
        "latency": pa.array([kind for _, kind, _, _ in rows for _ in range(each)], pa.string()),
        "replication": pa.array([number for _, _, number, _ in rows for _ in range(each)], pa.int32()),
        "samples": pa.array([table.samples for _, _, _, table in rows for _ in range(each)], pa.int64()),
        "share": pa.array(SHARES * len(rows), pa.float64()),
        "seconds": pa.array([value for _, _, _, table in rows for value in table.seconds], pa.float64()),
    }
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def read_latencies(run: RunDirectory, requests: int | None = None, seed: int | None = None) -> dict[str, Tables]:
    """Tables by design, as far as they are of these requests and this seed; empty where the run has none.

    Raises:
        InputError: the file is truncated, corrupt or not one of ours.
    """
    run.refuse_links(LATENCIES)
    path = run.path / LATENCIES
    if not path.exists():
        return {}
    import pyarrow as pa

    try:
        columns = read_table(path.read_bytes()).to_pydict()
        heads = zip(
            *(columns[name] for name in ("design", "requests", "seed", "latency", "replication", "samples")),
            strict=True,
        )
        if tuple(columns["share"]) != SHARES * (len(columns["share"]) // len(SHARES)):
            raise ValueError("its shares are not ours")
        seconds = iter(columns["seconds"])
        found: dict[str, dict[str, list[Quantiles]]] = {}
        for design, of_requests, of_seed, kind, number, samples in islice(heads, 0, None, len(SHARES)):
            values = tuple(float(value) for value in islice(seconds, len(SHARES)))
            if requests not in (None, of_requests) or seed not in (None, of_seed):
                continue
            tables = found.setdefault(design, {}).setdefault(kind, [])
            if len(tables) != number:
                raise ValueError("a replication is missing")
            tables.append(Quantiles(int(samples), values))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"not a readable table of latencies ({words}); delete it: validate makes it anew"
        raise InputError(Fault(message, file=str(path))) from error
    return {design: {kind: tuple(tables) for kind, tables in kinds.items()} for design, kinds in found.items()}
