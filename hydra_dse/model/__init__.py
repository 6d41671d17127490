"""LLMs as blocks of operators: parameters, caches, FLOPs and bytes."""

from hydra_dse.model.blocks import Block, Model
from hydra_dse.model.counts import (
    active_parameters,
    kv_bytes,
    kv_bytes_per_token,
    state_bytes_per_sequence,
    total_parameters,
    weight_bytes,
)
from hydra_dse.model.huggingface import read_model
from hydra_dse.model.lowering import operators_of
from hydra_dse.model.operators import Batch, Operator
from hydra_dse.model.order import block_operators
from hydra_dse.model.precision import Precision

__all__ = [
    "Batch",
    "Block",
    "Model",
    "Operator",
    "Precision",
    "active_parameters",
    "block_operators",
    "kv_bytes",
    "kv_bytes_per_token",
    "operators_of",
    "read_model",
    "state_bytes_per_sequence",
    "total_parameters",
    "weight_bytes",
]
