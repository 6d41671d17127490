"""Write the pages of `docs/reference/` that repeat what the code says: `python docs/generate_reference.py`.

Keys, types and defaults come from the pydantic schemas, options from click, metrics from the registry, assumptions
from the hardware library.  What a key means is in `docs/meanings.yaml`; a test holds the two together.  Each kind of
page has a module in `docs/reference_pages/`.
"""

from __future__ import annotations

from collections.abc import Callable

from reference_pages.cli_page import cli_page
from reference_pages.explain_page import EXPLAINED, attributes_of, explain_page
from reference_pages.registry_pages import assumptions_page, error_page, metrics_page, trace_metrics_page
from reference_pages.table import DOCS
from reference_pages.yaml_names import documented, keys_of, meanings
from reference_pages.yaml_page import yaml_page
from reference_pages.yaml_sections import FILES

__all__ = ["EXPLAINED", "FILES", "PAGES", "attributes_of", "documented", "keys_of", "meanings"]

PAGES: dict[str, Callable[[], str]] = {
    "reference/yaml.md": yaml_page,
    "reference/cli.md": cli_page,
    "reference/metrics.md": metrics_page,
    "reference/trace-metrics.md": trace_metrics_page,
    "reference/assumptions.md": assumptions_page,
    "reference/error-model.md": error_page,
    "reference/explain.md": explain_page,
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
