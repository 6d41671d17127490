"""What is wrong with a card beyond types: contradictions, units, copied counts, metrics that cannot be computed.

Each check looks at one thing and never raises: a value of the wrong type is the schema's fault, not theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from hydra_dse.bundle.cards.dialects import ARCHITECTURE, EXECUTOR
from hydra_dse.bundle.cards.known import PEAK_TFLOPS, SCALE_UP_GBPS, embedding_of
from hydra_dse.bundle.cards.schema import TRACE_KINDS
from hydra_dse.config.document import Document, KeyPath
from hydra_dse.errors import Fault, did_you_mean, one_of

DATA: KeyPath = ("workload", "data")
DEVICE: KeyPath = ("workload", "hardware", "xpu_spec")
BANDWIDTH: KeyPath = ("workload", "hardware", "network_topo", "bandwidth_gbps")
PLAN: KeyPath = (EXECUTOR, "model_plan_parallelization")
_FACTORS = ("dp_replicate", "dp_shard", "tp", "pp", "cp")
_PLACEHOLDERS = ("n/a", "na", "tbd", "none", "unknown", "", "-")

Check = Callable[[Document], Iterator[Fault]]


def whole(value: object) -> int | None:
    """A whole number of at least one, None for all else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def parallelism(card: Document) -> Iterator[Fault]:
    """dp_replicate · dp_shard · tp · pp · cp must be the number of devices."""
    total, plan = whole(card.get((*DEVICE, "total_count"))), card.get(PLAN)
    if total is None or not isinstance(plan, dict):
        return
    given = {name: whole(plan[name]) for name in _FACTORS if name in plan}
    if not given or None in given.values():
        return
    product = math.prod(factor for factor in given.values() if factor is not None)
    if product != total:
        factors = " · ".join(f"{name} {factor}" for name, factor in given.items())
        yield card.fault(PLAN, f"contradictory parallelism: {factors} = {product}, but total_count is {total}")
    experts = whole(plan.get("ep"))
    if experts is not None and total % experts:
        yield card.fault((*PLAN, "ep"), f"{experts} expert-parallel ways do not divide {total} devices")


def bandwidth(card: Document) -> Iterator[Fault]:
    """Two numbers in Gbit/s, scale-out before scale-up, near what the device can do."""
    values = card.get(BANDWIDTH)
    if not isinstance(values, list) or not values:
        return
    for index, value in enumerate(values):
        if isinstance(value, str):
            yield card.fault((*BANDWIDTH, index), _not_numeric(value))
    if len(values) == 1:
        yield card.fault(BANDWIDTH, "one bandwidth given; expected [scale-out, scale-up]")
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(values) == 2 and len(numbers) == 2 and numbers[0] > numbers[1]:
        yield card.fault(
            BANDWIDTH, f"scale-out {numbers[0]:g} is above scale-up {numbers[1]:g}: is the order reversed?"
        )
    known = SCALE_UP_GBPS.get(str(card.get((*DEVICE, "model"))))
    for number in numbers if known else ():
        match = next((real for real in known or () if number * 8 == real), None)
        if match is not None:
            where = (*BANDWIDTH, values.index(number))
            yield card.fault(where, f"wrong unit: {number:g} is the device's {match:g} Gbit/s in GB/s; write {match:g}")


def _not_numeric(value: str) -> str:
    if value.strip().lower() in _PLACEHOLDERS:
        return f"bandwidth {value!r} is not a number; write the Gbit/s of a device"
    return f"bandwidth {value!r} is not a number; write the number of Gbit/s alone"


def architecture(card: Document) -> Iterator[Fault]:
    """The MFU formula needs `model_arch`, and an embedding that belongs to the model."""
    model = card.get(ARCHITECTURE[:-1])
    if not isinstance(model, dict):
        return
    arch = card.get(ARCHITECTURE)
    if not isinstance(arch, dict):
        yield card.fault(ARCHITECTURE, "missing 'model_arch': MFU cannot be computed")
        return
    total, table, active = (whole(arch.get(key)) for key in ("num_params", "num_params_embedding", "num_params_active"))
    if total and table and table >= total:
        yield card.fault((*ARCHITECTURE, "num_params_embedding"), f"{table} is not less than num_params {total}")
    if total and active and active > total:
        yield card.fault((*ARCHITECTURE, "num_params_active"), f"{active} is more than num_params {total}")
    if model.get("moe") is True and active is None:
        yield card.fault(ARCHITECTURE, "a mixture of experts without 'num_params_active': MFU would count all experts")
    yield from _embedding(card, table)


def _embedding(card: Document, table: int | None) -> Iterator[Fault]:
    family, where = card.get((*ARCHITECTURE[:-1], "model_family")), (*ARCHITECTURE, "num_params_embedding")
    known = embedding_of(family) if isinstance(family, str) else None
    if table is None:
        return
    if known is not None and table not in known.counts:
        counts = one_of(map(str, known.counts)).replace("'", "")
        yield card.fault(
            where,
            f"embedding count {table} is not this model's, copied from another? {known.model} has "
            f"{known.vocabulary} × {known.hidden}: {counts}",
        )
    hidden = whole(card.get((*ARCHITECTURE, "hidden_size")))
    if known is None and hidden is not None and table % hidden:
        yield card.fault(where, f"embedding count {table} is no multiple of hidden_size {hidden}, copied from another?")


def work(card: Document) -> Iterator[Fault]:
    """The work of a step: batch and tokens, said without ambiguity."""
    data = card.get(DATA)
    if not isinstance(data, dict):
        return
    for key in ("batch_size", "seq_len"):
        if data.get(key) is None:
            yield card.fault((*DATA, key), f"missing {key!r}: MFU would assume 1")
    if isinstance(data.get("batch_size"), list):
        yield card.fault((*DATA, "batch_size"), "one card for several batch sizes; write a card for each run")
    length, prompt, output = (whole(data.get(key)) for key in ("seq_len", "input_len", "output_len"))
    inference = card.get(("workload", "model", "phase")) == "inference"
    if inference and length and prompt and length not in {prompt, prompt + (output or 0)}:
        yield card.fault((*DATA, "seq_len"), f"{length} is neither input_len {prompt} nor input_len + output_len")


def device(card: Document) -> Iterator[Fault]:
    """A device whose peak is known, and nodes that hold the devices."""
    model = card.get((*DEVICE, "model"))
    block = card.get(("x_chiplet", "peak_flops_per_s"))
    if isinstance(model, str) and model not in PEAK_TFLOPS and block is None:
        hint = did_you_mean(model, PEAK_TFLOPS)
        known = one_of(PEAK_TFLOPS)
        yield card.fault((*DEVICE, "model"), f"{model!r} has no peak in the MFU table{hint}; it knows {known}")
    total, node = (whole(card.get((*DEVICE, key))) for key in ("total_count", "count_per_node"))
    if total and node and total > node and total % node:
        yield card.fault((*DEVICE, "count_per_node"), f"{total} devices do not fill nodes of {node}")


def traces(card: Document) -> Iterator[Fault]:
    """Kinds of traces that some reader takes."""
    kinds = card.get(("metric_source", "traces"))
    for index, kind in enumerate(kinds if isinstance(kinds, list) else ()):
        if isinstance(kind, str) and kind not in TRACE_KINDS:
            where = ("metric_source", "traces", index)
            yield card.fault(where, f"no reader for traces of kind {kind!r}; expected {one_of(TRACE_KINDS)}")


CHECKS: tuple[Check, ...] = (parallelism, bandwidth, architecture, work, device, traces)
