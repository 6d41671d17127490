"""Files that decompose the variance over a space, as nouns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.compared_loads import StudyFile, check_command
from hydra_dse.config.finder import find
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.config.overrides import Override, apply_overrides, parsed, quick_overrides
from hydra_dse.config.spaces import load_space
from hydra_dse.design.space import SearchSpace
from hydra_dse.design.variance import Decomposition, Factor
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of

if TYPE_CHECKING:
    from hydra_dse.config.variance_schema import DecompositionSection


def load_variance(ref: str | Path, overrides: Sequence[str | Override] = (), *, quick: bool = False) -> Decomposition:
    """Return the decomposition of a file or bundled name.

    Args:
        ref: path of a YAML file, or a bundled name.
        overrides: `key=value` texts.
        quick: with the values of the file's section `quick` in place, before the overrides.

    Raises:
        InputError: with every fault found.
    """
    from hydra_dse.config.variance_schema import DecompositionSection

    path = find("experiments", ref)
    document = load_yaml(path)
    check_command(document, path, "variance")
    if quick:
        document = apply_overrides(document, quick_overrides(document))
    document = apply_overrides(document, parsed(overrides))
    section = validate(document, DecompositionSection)
    file = StudyFile(document, [path])
    loads = tuple(file.loads(section.models, section.workloads))
    space_file = file.found(("space",), "spaces")
    calibration = file.calibration()
    space = load_space(space_file) if space_file is not None else None
    if space is not None:
        file.faults.extend(_faults(file, section, space))
    if file.faults or space is None or calibration is None:
        raise InputError(list(dict.fromkeys(file.faults)))
    part = section.variance
    factors = tuple(Factor(name, tuple(names)) for name, names in part.factors.items())
    choices = {name: tuple(values) for name, values in part.choices.model_dump().items()}
    name = section.name or path.stem
    return Decomposition(name, loads, space, factors, choices, part.loads, part.rows, part.seed, calibration)


def _faults(file: StudyFile, section: DecompositionSection, space: SearchSpace) -> Iterator[Fault]:
    """Every parameter of the space is drawn by exactly one factor."""
    known = [parameter.name for parameter in space.parameters]
    beside = list(type(section.variance.choices).model_fields)
    seen: list[str] = []
    for factor, names in section.variance.factors.items():
        for place, name in enumerate(names):
            at = ("variance", "factors", factor, place)
            if name not in known and name not in beside:
                hint = did_you_mean(name, [*known, *beside])
                yield file.document.fault(at, f"no parameter {name!r}{hint}; expected {one_of([*known, *beside])}")
            if name in seen:
                yield file.document.fault(at, f"{name!r} belongs to two factors")
            seen.append(name)
    for name in known:
        if name not in seen:
            message = f"no factor has parameter {name!r} of space {space.name!r}; name it in one"
            yield file.document.fault(("variance", "factors"), message)
