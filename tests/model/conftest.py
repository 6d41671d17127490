from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hydra_dse.model import Model, read_model

Config = Mapping[str, Any]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration as a file the way Hugging Face does."""

    def write(config: Config | str, name: str = "model.json") -> Path:
        path = tmp_path / name
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=2))
        return path

    return write


@pytest.fixture
def read(write: Callable[..., Path]) -> Callable[[Config], Model]:
    """Read a configuration given as a dictionary."""
    return lambda config: read_model(write(config))
