"""Plain data as YAML that our own loader reads back to the same data.

PyYAML writes the texts `08` and `1e9` bare, since it reads them as text; by YAML 1.2 they are numbers, so they are
quoted here.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from hydra_dse.config.composer import resolve


class _Dumper(yaml.SafeDumper):
    """Quotes every text that would read back as something else."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if isinstance(resolve(value), str) else "'"
    if not value.isprintable():
        style = '"'  # escapes them: a bare line separator would read back as a space
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(data: Mapping[str, object]) -> str:
    """Return the mapping as YAML text, keys in their order."""
    return yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
