"""The page of YAML keys: types and defaults from the schemas, meanings from `docs/meanings.yaml`."""

from __future__ import annotations

from hydra_dse import units
from hydra_dse.config.fields import Section
from reference_pages.table import NOTE, table
from reference_pages.yaml_names import anchor, documented, keys_of, meanings, title
from reference_pages.yaml_sections import FILES
from reference_pages.yaml_types import default_text, type_text


def yaml_page() -> str:
    """The tables of all YAML keys."""
    texts = meanings()
    parts = [NOTE, YAML_INTRODUCTION, _units_table()]
    for heading, sections in FILES.items():
        parts.append(f"\n## {heading}\n")
        for section in sections:
            parts.append(f"\n({anchor(section)})=\n### {title(section)}\n\n{_sentence(section)}\n\n")
            rows = [
                (f"`{key}`", type_text(field), default_text(field), documented(section, key, texts))
                for key, field in keys_of(section).items()
            ]
            parts.append(table(("key", "value", "default", "meaning"), rows))
    return "".join(parts)


YAML_INTRODUCTION = """# YAML keys

Every key of every input file.  An unknown key, a value without its unit, or a value out of range is a fault with file,
line and column; `hydra-dse check FILE` prints all faults of a file.  Keys without a default must be given.

Files are found by path or by bundled name (`hydra-dse list`).  A path inside a file is relative to that file and stays
below its folder.  `--set a.b=c` replaces a value before the file is checked; a path given there may lie anywhere.

YAML is read as data: `1e9` is a number, `on` and `no` are text, and a key that is written twice is a fault.

"""


def _units_table() -> str:
    rows = [
        (dimension.meaning, ", ".join(f"`{unit}`" for unit in dimension.shown))
        for dimension in units.DIMENSIONS.values()
        if dimension.shown and dimension.name not in ("usd", "joules")
    ]
    text = "Quantities are text with a unit.  GB is 10⁹ bytes, GiB 2³⁰ bytes; `bit` is accepted for a bandwidth.\n\n"
    return text + table(("quantity", "units (among others)"), rows)


def _sentence(section: type[Section]) -> str:
    return " ".join((section.__doc__ or "").split())
