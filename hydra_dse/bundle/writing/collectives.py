"""What the event of a collective says of it, in the words of the tools that read traces of NCCL."""

from __future__ import annotations

from hydra_dse.bundle.writing import names
from hydra_dse.records import TransferSpan


def collective_args(span: TransferSpan, rank: int, element_bytes: float, number: int) -> dict[str, object]:
    """Arguments of the event on one rank.

    Args:
        span: the collective.
        rank: whose event it is.
        element_bytes: of an activation.
        number: of the collective, the same on all its ranks.
    """
    _, collective = names.COLLECTIVES[span.what]
    whole, ranks = max(1, round(span.bytes / element_bytes)), len(span.dies)
    part = max(1, -(-whole // ranks))
    moved = {"gather": (part, whole), "reduce": (whole, part)}.get(span.what, (part, part))
    return {
        "Collective name": collective, "In msg nelems": moved[0], "Out msg nelems": moved[1],
        "dtype": names.DTYPES.get(element_bytes, "BFloat16"), "Group size": ranks,
        "Process Group Ranks": str(list(span.dies)), "External id": number, "bytes": round(span.bytes / ranks),
        "kind": span.what, "operator": span.operator, "iteration": span.iteration, "position": span.position,
        **_peers(span, rank),
    }  # fmt: skip


def _peers(span: TransferSpan, rank: int) -> dict[str, dict[str, int]]:
    """Bytes to and from other dies, of what goes from die to die."""
    sent = {str(target): round(amount) for source, target, amount in span.moves if source == rank}
    got = {str(source): round(amount) for source, target, amount in span.moves if target == rank}
    return {name: moved for name, moved in (("to", sent), ("from", got)) if moved}
