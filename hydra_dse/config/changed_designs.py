"""A design of a stored space with values of its template replaced: `--set design.a.b=c` on a design of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra_dse.config.designs import design_of
from hydra_dse.config.document import Document
from hydra_dse.config.loader import load_yaml
from hydra_dse.config.overrides import Override, apply_overrides
from hydra_dse.config.parameters import SECTIONS, substituted
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Point


def changed_design(file: Path, point: Point, overrides: Sequence[Override], name: str) -> Design:
    """Return the design at a point of the space that a resolved experiment holds, with values replaced.

    Args:
        file: the experiment of a run directory, with its space written out.
        point: parameter → value, derived counts included.
        overrides: values of the design by their place in a design file.
        name: of the design.

    Raises:
        InputError: with every fault found, those of the new values at their `--set`.
    """
    return design_of(apply_overrides(_filled(load_yaml(file), point), overrides), name)


def _filled(experiment: Document, point: Point) -> Document:
    """The template of a stored experiment's space with a point in place, as the document of a design."""
    inputs = experiment.data.get("inputs")
    paths = [item["path"] for item in inputs if isinstance(item, dict)] if isinstance(inputs, list) else []
    space = replace(experiment, trusted=frozenset(str(path) for path in paths)).part(("space",))
    parameters = space.data.get("parameters")
    units = {
        key: str(part["unit"])
        for key, part in (parameters.items() if isinstance(parameters, dict) else ())
        if isinstance(part, dict) and part.get("unit")
    }
    filled = substituted(space, point, units)
    return replace(filled, data={key: filled.data[key] for key in SECTIONS if filled.data.get(key) is not None})
