"""Headings and anchors of sections, and what their keys mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml
from pydantic.fields import FieldInfo

from hydra_dse.config.fields import Section
from reference_pages.table import DOCS
from reference_pages.yaml_sections import TITLES


def title(section: type[Section]) -> str:
    """Heading of a section."""
    name = section.__name__
    return TITLES.get(name, name.removesuffix("Section").lower())


def anchor(section: type[Section]) -> str:
    """Link target of a section."""
    return "yaml-" + re.sub(r"[^a-z0-9]+", "-", title(section))


def meanings() -> dict[str, dict[str, str]]:
    """What each key means, by section class and key."""
    found: dict[str, dict[str, str]] = yaml.safe_load((DOCS / "meanings.yaml").read_text(encoding="utf-8"))
    return found


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """Fields of a section by the key that a file writes."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def documented(section: type[Section], key: str, texts: Mapping[str, Mapping[str, str]]) -> str:
    """Meaning of a key: of the section itself, or of a section it inherits the key from."""
    for base in section.__mro__:
        if key in texts.get(base.__name__, {}):
            return texts[base.__name__][key]
    return ""
