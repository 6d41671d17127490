"""Number formats and what an element of each costs in bytes."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_ELEMENT: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    # 4-bit formats carry one 8-bit scale per 32 elements (OCP Microscaling specification v1.0).
    "fp4": 0.5 + 1 / 32,
    "int4": 0.5 + 1 / 32,
}


@dataclass(frozen=True)
class Precision:
    """The format of each operand; SSM state is fp32 unless stated, as serving kernels keep it."""

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    state: str = "fp32"
    conv_state: str = "bf16"

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return BYTES_PER_ELEMENT[self.weights]

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return BYTES_PER_ELEMENT[self.activations]

    @property
    def kv_bytes(self) -> float:
        """Bytes of one KV-cache element."""
        return BYTES_PER_ELEMENT[self.kv]

    @property
    def state_bytes(self) -> float:
        """Bytes of one recurrent-state element."""
        return BYTES_PER_ELEMENT[self.state]

    @property
    def conv_state_bytes(self) -> float:
        """Bytes of one convolution-state element."""
        return BYTES_PER_ELEMENT[self.conv_state]
