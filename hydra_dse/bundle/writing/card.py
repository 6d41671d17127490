"""The workload card of a simulated run: what the original tools read, and one block of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hydra_dse.bundle.conventions import BLOCK
from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import Package
from hydra_dse.model.blocks import Attention, Model
from hydra_dse.model.counts import active_parameters, total_parameters
from hydra_dse.operator_cost import die_rates
from hydra_dse.workload import served
from hydra_dse.workload.nouns import Workload

CARD_VERSION = 1
BLOCK_VERSION = 1


def card_of(
    design: Design, workload: Workload, calibration: CalibrationSet, block: Mapping[str, object]
) -> dict[str, object]:
    """The card of a run of a placed design, as plain data; lengths and batch are filled in after the run.

    Of several models the card names the first; the block names them all.
    """
    models = [kind.model for kind in served(workload)]
    model, package = models[0], design.package
    precision = design.precision or model.precision
    peak = sum(
        group.count * float(die_rates(group.chiplet, calibration, precision).matmul_flops_per_s)
        for group in package.dies
        if group.count
    )
    return {
        "version": CARD_VERSION,
        "description": f"{model.name} on {design.name or design.identity} under {workload.name}, simulated",
        "hf_url": None,
        "trace_url": None,
        "contributor": None,
        "contact": None,
        "workload": {
            "model": _model_section(model, precision.activations),
            "data": {"batch_size": design.policy.max_batch, "dataset": workload.name},
            "hardware": _hardware_section(package),
        },
        "Model-executor": _executor_section(design),
        "metric_source": {"traces": ["json"], "metrics_specific_trace": [None]},
        BLOCK: {
            "schema_version": BLOCK_VERSION,
            **block,
            "models": [each.name for each in models],
            "slo": _slo(workload),
            "peak_flops_per_s": peak,
            "package": _package_block(design),
        },
    }


def _model_section(model: Model, activations: str) -> dict[str, object]:
    attention = [mixer for block in model.blocks for mixer in block.mixers if isinstance(mixer, Attention)]
    embedding = model.vocabulary * model.hidden_size * (1 if model.tied_embeddings else 2)
    return {
        "phase": "inference",
        "moe": total_parameters(model) != active_parameters(model),
        "granularity": "model_fwd",
        "model_family": model.name,
        "precision": activations,
        "epochs": 1,
        "model_arch": {
            "num_params": round(total_parameters(model)),
            "num_params_embedding": embedding,
            "num_params_active": round(active_parameters(model)),
            "num_layers": len(model.blocks),
            "num_heads": attention[0].heads if attention else 1,
            "head_dim": attention[0].head_dim if attention else model.hidden_size,
            "hidden_size": model.hidden_size,
            "vocab_size": model.vocabulary,
        },
    }


def _hardware_section(package: Package) -> dict[str, object]:
    ports = [(group.chiplet.ports, group.count) for group in package.dies if group.count]
    mean_ports = sum(each * count for each, count in ports) / max(1, package.die_count)
    gbps = max(1.0, mean_ports * package.link_bandwidth_bytes_per_s * package.link.efficiency * 8 / 1e9)
    fabric = package.fabric
    # Nothing leaves a single package, so that scale-out is as fast as the links of a die.
    out = (
        gbps
        if fabric is None
        else max(1.0, fabric.links * fabric.bandwidth_bytes_per_s * fabric.link.efficiency * 8e-9)
    )
    return {
        "network_topo": {"topology": package.topology.kind, "bandwidth_gbps": [gbps, out]},
        "xpu_spec": {
            "type": "chiplet",
            "model": "+".join(dict.fromkeys(group.chiplet.name for group in package.dies if group.count)),
            "total_count": package.die_count,
            "count_per_node": package.die_count,
        },
        "driver_version": "simulated",
    }


def _executor_section(design: Design) -> dict[str, object]:
    count, stages = design.package.die_count, design.mapping.pipeline
    pp = stages if count % stages == 0 else 1
    return {
        "framework": {"name": "hydra_dse", "compiler_tool_selection": None},
        "model_plan_parallelization": {
            "dp_replicate": 1, "dp_shard": 1, "tp": count // pp, "pp": pp, "cp": 1,
            "ep": count // pp if design.mapping.parallelism == "expert" else 1, "pp_mb": 1,
        },
        "communication_library": {"name": "NoI", "version": None, "env": {}},
        "protocol_selection": ["noi", "noi"],
    }  # fmt: skip


def _slo(workload: Workload) -> dict[str, float] | None:
    bounds: dict[str, float] = {}
    for kind in workload.classes:
        for name in ("ttft_s", "tpot_s"):
            value = getattr(kind.slo, name)
            if value is not None:
                bounds[name] = min(value, bounds.get(name, value))
    return bounds or None


def _package_block(design: Design) -> dict[str, object]:
    """Chiplets, memories, links, placement and policy, in a form that people read and designs are compared by."""
    package, policy = design.package, design.policy
    groups: Sequence[dict[str, object]] = [
        {"name": group.name, "chiplet": group.chiplet.name, "count": group.count, "phase": group.phase}
        for group in package.dies
        if group.count
    ]
    return {
        "design": design.identity,
        "name": package.name,
        "dies": list(groups),
        "memories": [
            {"name": group.name, "stack": group.stack.name, "count": group.count} for group in package.memories
        ],
        "link_bandwidth_bytes_per_s": package.link_bandwidth_bytes_per_s,
        "placement": list(design.placement.slots) if design.placement is not None else None,
        "policy": {
            "serving": policy.serving, "batching": policy.batching, "scheduling": policy.scheduling,
            "max_batch": policy.max_batch, "token_budget": policy.token_budget, "task_map": policy.task_map,
        },
    }  # fmt: skip
