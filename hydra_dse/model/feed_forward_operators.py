"""Operators of feed-forward parts: dense MLPs, mixtures of experts, low-rank adapters."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import FeedForward, Mlp, MoE
from hydra_dse.model.operators import Operator, OperatorClass

SILU_FLOPS = 5.0
"""Exponential, addition, division and two products of a gated activation, per inner element."""

SQUARED_RELU_FLOPS = 2.0


def projection(name: str, kind: OperatorClass, inputs: int, outputs: int, extra: int = 0) -> Operator:
    """A GEMM whose weights each act once per token; `extra` are weights beside the matrix (biases, norms)."""
    return Operator(
        name=name,
        kind=kind,
        weight_elements=inputs * outputs + extra,
        matmul_flops_per_token=2.0 * inputs * outputs,
        vector_flops_per_token=float(extra),
        reduce_width=inputs,
        output_width=outputs,
        activation_elements_per_token=inputs + outputs,
    )


def feed_forward_operators(part: FeedForward, hidden: int) -> list[Operator]:
    """Operators of a feed-forward part, in order of execution."""
    return _mlp(part, hidden) if isinstance(part, Mlp) else _mixture(part, hidden)


def mlp_adapters(part: Mlp, hidden: int) -> list[Operator]:
    """Low-rank adapters on the input matrices of an MLP; each use of the shared MLP owns its own."""
    rank, outputs = part.adapter_rank, _inputs(part.inner, part.gated)
    down = projection("down", OperatorClass.MLP, hidden, rank)
    up = projection("up", OperatorClass.MLP, rank, outputs)
    return [
        replace(down, gather_elements_per_token=hidden),
        replace(up, gather_elements_per_token=rank),
    ]


def _inputs(inner: int, gated: bool) -> int:
    return 2 * inner if gated else inner


def _activation(inner: int, gated: bool) -> float:
    return inner * (SILU_FLOPS if gated else SQUARED_RELU_FLOPS)


def _mlp(part: Mlp, hidden: int) -> list[Operator]:
    width = hidden if part.input_width is None else part.input_width
    return _pair(OperatorClass.MLP, width, part.inner, part.gated, part.bias)


def _pair(
    kind: OperatorClass, width: int, inner: int, gated: bool, bias: bool, names: tuple[str, str] = ("up", "down")
) -> list[Operator]:
    """The matrices into the inner width (column-parallel) and out of it (row-parallel)."""
    outputs = _inputs(inner, gated)
    up = projection(names[0], kind, width, outputs, extra=outputs if bias else 0)
    down = projection(names[1], kind, inner, width, extra=width if bias else 0)
    return [
        replace(
            up,
            vector_flops_per_token=up.vector_flops_per_token + _activation(inner, gated),
            gather_elements_per_token=width,
        ),
        replace(down, reduce_elements_per_token=width),
    ]


def _mixture(part: MoE, hidden: int) -> list[Operator]:
    operators = [_router(part, hidden)]
    width = hidden
    if part.latent_width is not None:
        width = part.latent_width
        down = projection("latent_down", OperatorClass.MLP, hidden, width)
        operators.append(replace(down, gather_elements_per_token=hidden))
    operators += [_of_all_experts(operator, part) for operator in _expert_pair(part, width)]
    if part.latent_width is not None:
        up = projection("latent_up", OperatorClass.MLP, width, hidden)
        operators.append(replace(up, gather_elements_per_token=width))
    if part.shared_inner:
        names = ("shared_up", "shared_down")
        operators += _pair(OperatorClass.MLP, hidden, part.shared_inner, part.gated, bias=False, names=names)
    return operators


def _expert_pair(part: MoE, width: int) -> list[Operator]:
    return _pair(
        OperatorClass.EXPERTS, width, part.inner, part.gated, part.expert_bias, names=("experts_up", "experts_down")
    )


def _of_all_experts(operator: Operator, part: MoE) -> Operator:
    """Turn the operator of one expert into that of the mixture: weights of all, work of `top_k`."""
    experts, top_k = part.routing.experts, part.routing.top_k
    return replace(
        operator,
        weight_elements=operator.weight_elements * experts,
        matmul_flops_per_token=operator.matmul_flops_per_token * top_k,
        vector_flops_per_token=operator.vector_flops_per_token * top_k,
        activation_elements_per_token=operator.activation_elements_per_token * top_k,
        routing=part.routing,
    )


def _router(part: MoE, hidden: int) -> Operator:
    """Scores of all experts, and the gate of the shared expert."""
    experts = part.routing.experts
    outputs = experts + (1 if part.shared_gate else 0)
    extra = (experts if part.router_bias else 0) + part.extra_parameters
    router = projection("router", OperatorClass.ROUTER, hidden, outputs, extra)
    return replace(
        router,
        vector_flops_per_token=router.vector_flops_per_token + SILU_FLOPS * experts,
        gather_elements_per_token=hidden,
    )
