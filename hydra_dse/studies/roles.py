"""The searches of a robustness study: what each of them sees of the scenarios.

| role | sees |
|---|---|
| `own:<scenario>` | one scenario: the specialist, whose best values are what others are measured by |
| `load:<workload>` | one workload with all models |
| `all` | every scenario: the generalist |
| `without:<model>` | all scenarios but those of one model, which it meets unseen |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hydra_dse.design.experiment import Scenario
from hydra_dse.errors import Fault, InputError

OWN, LOAD, ALL, WITHOUT = "own", "load", "all", "without"


@dataclass(frozen=True)
class Role:
    """One search: its name and kind, and the scenarios that it sees."""

    name: str
    kind: str
    seen: tuple[str, ...]


def roles_of(scenarios: Sequence[Scenario]) -> tuple[Role, ...]:
    """The searches over some scenarios, specialists first.

    Raises:
        InputError: fewer than two scenarios.
    """
    if len(scenarios) < 2:
        message = "robustness compares scenarios, and the experiment has fewer than two; name models or workloads"
        raise InputError(Fault(message, path="scenarios"))
    names = tuple(item.name for item in scenarios)
    models = list(dict.fromkeys(item.model for item in scenarios))
    loads = list(dict.fromkeys(item.load for item in scenarios))
    roles = [Role(f"{OWN}:{name}", OWN, (name,)) for name in names]
    if len(models) > 1 and len(loads) > 1:
        roles += [
            Role(f"{LOAD}:{load}", LOAD, tuple(item.name for item in scenarios if item.load == load)) for load in loads
        ]
    roles.append(Role(ALL, ALL, names))
    if len(models) > 2:
        roles += [
            Role(f"{WITHOUT}:{model}", WITHOUT, tuple(item.name for item in scenarios if item.model != model))
            for model in models
        ]
    return tuple(roles)
