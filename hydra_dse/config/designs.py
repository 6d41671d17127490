"""Design files: `load_design`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra_dse.config.document import Document
from hydra_dse.config.finder import find
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.config.overrides import Override, apply_overrides, parsed
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean


def load_design(ref: str | Path, overrides: Sequence[str | Override] = ()) -> Design:
    """Return the design of a file or bundled name.

    Args:
        ref: path of a YAML file, or the name of a bundled design.
        overrides: `key=value` texts that change the file's values before they are checked.

    Raises:
        InputError: with every fault found.
    """
    path = find("designs", ref)
    return design_of(apply_overrides(load_yaml(path), parsed(overrides)), path.stem)


def design_of(document: Document, name: str = "design") -> Design:
    """Return the design that a document describes.

    Raises:
        InputError: with every fault found.
    """
    from hydra_dse.config.design_schema import DesignSection
    from hydra_dse.config.parameters import references
    from hydra_dse.config.template import Template

    marked = [document.fault(path, f"${ref} is a parameter; a design has none") for path, ref in references(document)]
    if marked:
        raise InputError(marked)
    section = validate(document, DesignSection)
    template = Template(document, section.name or name)
    faults = [*template.faults({}), *mapping_faults(document)]
    if faults:
        raise InputError(faults)
    design = template.design({}, name=section.name or name)
    faults = list(_placement_faults(document, design))
    if faults:
        raise InputError(faults)
    return design


def mapping_faults(document: Document) -> Iterator[Fault]:
    """Yield a fault for every group that the mapping names and the dies or memories do not have.

    And for every group that is in none of several packages.
    """
    yield from _package_faults(document)
    for key, section, what in (
        ("groups", "dies", "die"),
        ("models", "dies", "die"),
        ("memories", "memories", "memory"),
    ):
        groups = document.data.get(section)
        known = tuple(groups) if isinstance(groups, dict) else ()
        named = document.get(("mapping", key))
        for kind, names in named.items() if isinstance(named, dict) else ():
            for index, name in enumerate(names if isinstance(names, list) else ()):
                if name not in known and not str(name).startswith("$"):
                    hint = did_you_mean(str(name), known)
                    message = f"no {what} group called {name!r}{hint}; known: {', '.join(known)}"
                    yield document.fault(("mapping", key, kind, index), message)


def _package_faults(document: Document) -> Iterator[Fault]:
    packages = document.data.get("packages")
    known = tuple(packages) if isinstance(packages, dict) else ()
    for section in ("dies", "memories"):
        groups = document.data.get(section)
        for name, group in groups.items() if isinstance(groups, dict) else ():
            stated = group.get("package") if isinstance(group, dict) else None
            if not known and stated is not None:
                message = f"the design has one package; drop the key, or write packages: with {stated!r} among them"
                yield document.fault((section, name, "package"), message)
            elif known and stated is None:
                yield document.fault((section, name), f"is in no package; add package: with one of {', '.join(known)}")
            elif known and stated not in known and not str(stated).startswith("$"):
                message = f"no package called {stated!r}{did_you_mean(str(stated), known)}; known: {', '.join(known)}"
                yield document.fault((section, name, "package"), message)


def _placement_faults(document: Document, design: Design) -> Iterator[Fault]:
    package, placement = design.package, design.placement
    if package.die_count == 0:
        yield document.fault(("dies",), "the package has no dies; give at least one group a count above 0")
    if placement is None:
        return
    slots, path = placement.slots, ("placement", "slots")
    components, places = package.die_count + package.stack_count, len(package.topology.slots)
    if len(slots) != components:
        yield document.fault(path, f"needs one slot for each of {components} components, got {len(slots)}")
    if len(set(slots)) != len(slots):
        twice = sorted({slot for slot in slots if slots.count(slot) > 1})
        yield document.fault(path, f"slots {', '.join(map(str, twice))} are used more than once")
    if any(slot >= places for slot in slots):
        yield document.fault(path, f"slots are numbered 0..{places - 1}, got {max(slots)}")
