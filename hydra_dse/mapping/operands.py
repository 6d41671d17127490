"""What a model brings to a mapping: its operators and the sizes of its weights and caches."""

from __future__ import annotations

from dataclasses import dataclass

from hydra_dse.design.nouns import Design
from hydra_dse.model import kv_bytes_per_token, operators_of, state_bytes_per_sequence, weight_bytes
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Operator
from hydra_dse.model.precision import Precision


@dataclass(frozen=True, eq=False)
class Operands:
    """A model at a precision, as the mapping sees it.  Compared by identity: one exists per model and precision."""

    operators: tuple[Operator, ...]
    precision: Precision
    weight_bytes: float
    kv_bytes_per_token: float
    state_bytes_per_sequence: float
    model: Model | None = None


# Keyed by identity because hashing a model of a hundred blocks costs more than a mapping; the value keeps the
# model alive, so that an id is never reused while its entry stands.
_KNOWN: dict[tuple[int, Precision], tuple[Model, Operands]] = {}
_LIMIT = 256


def operands_of(model: Model, precision: Precision | None = None) -> Operands:
    """Return the operands of a model at a precision (its own by default); cached."""
    precision = precision or model.precision
    key = (id(model), precision)
    if key not in _KNOWN:
        if len(_KNOWN) >= _LIMIT:
            _KNOWN.clear()
        _KNOWN[key] = (
            model,
            Operands(
                operators=operators_of(model),
                precision=precision,
                weight_bytes=weight_bytes(model, precision),
                kv_bytes_per_token=kv_bytes_per_token(model, precision),
                state_bytes_per_sequence=state_bytes_per_sequence(model, precision),
                model=model,
            ),
        )
    return _KNOWN[key][1]


def precision_of(design: Design, model: Model) -> Precision:
    """The precision a design serves a model at."""
    return design.precision or model.precision
