"""Profiles of one run from several files (a kernel table and the header of its report) as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from typing import Any

from hydra_dse.bench.record import ModelShape, Profile


def merged(profiles: Iterable[Profile]) -> list[Profile]:
    """Return the profiles with those that describe the same report joined; the first to state a field is believed.

    Two profiles are of the same report where name and platform agree and one has units and the other none.
    """
    found: list[Profile] = []
    for profile in profiles:
        place = next((index for index, other in enumerate(found) if _same(other, profile)), None)
        if place is None:
            found.append(profile)
        else:
            found[place] = _joined(found[place], profile)
    return found


def _same(first: Profile, second: Profile) -> bool:
    named = bool(first.name) and (first.name, first.platform, first.kind) == (second.name, second.platform, second.kind)
    return named and bool(first.units) != bool(second.units)


def _joined(first: Profile, second: Profile) -> Profile:
    changes: dict[str, Any] = {}
    for part in fields(Profile):
        default = part.default if part.default is not MISSING else None
        if part.name == "model":
            changes["model"] = _shape(first.model, second.model)
        elif getattr(first, part.name) in (None, default, "", (), {}) and getattr(second, part.name) is not None:
            changes[part.name] = getattr(second, part.name)
    return replace(first, **changes)


def _shape(first: ModelShape, second: ModelShape) -> ModelShape:
    return first if first != ModelShape() else second
