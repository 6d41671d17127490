"""Overrides of a workload: what the command line puts in place of the file's arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra_dse.config.document import Document
from hydra_dse.config.overrides import Override, apply_overrides


def override_workload(document: Document, overrides: Sequence[Override]) -> Document:
    """Apply overrides; a trace takes the place of the named process, a rate that of an interval.

    A workload whose arrivals are replaced by a trace has the name of the trace, and no longer the file's source.
    """
    stated = {override.path[1]: override.value for override in overrides if override.path[:-1] == ("arrivals",)}
    data, arrivals = dict(document.data), document.data.get("arrivals")
    if isinstance(arrivals, dict):
        if "trace" in stated and "trace" not in arrivals:
            data = {key: value for key, value in data.items() if key != "source"}
            data |= {"arrivals": {}, "name": Path(str(stated["trace"])).name.split(".")[0] or data.get("name")}
        else:
            others = {"rate": "interval", "interval": "rate"}
            gone = {others[key] for key in stated if key in others} - set(stated)
            data["arrivals"] = {key: value for key, value in arrivals.items() if key not in gone}
    return apply_overrides(replace(document, data=data), overrides)
