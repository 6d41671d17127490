"""`provenance.json`: what made a run, so that it can be made again, and whether it is complete."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hydra_dse
from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError

RUNNING, FINISHED = "running", "finished"
_SCHEMA = 1
_PACKAGES = ("numpy", "scipy", "networkx", "optuna", "simpy", "pyarrow")


@dataclass(frozen=True)
class Provenance:
    """Origin and state of a run.

    Attributes:
        state: `"running"` or `"finished"`.
        inputs: absolute path → SHA-256 of every file the experiment read.
        command: the words of the command line, empty for a call from Python.
    """

    name: str
    state: str
    seed: int
    versions: Mapping[str, str]
    git: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """The file's content."""
        data = {
            "schema_version": _SCHEMA,
            "name": self.name,
            "state": self.state,
            "seed": self.seed,
            "versions": dict(self.versions),
            "git": self.git,
            "inputs": [{"path": path, "sha256": digest} for path, digest in self.inputs.items()],
            "command": list(self.command),
        }
        return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, file: str) -> Provenance:
        """Read the file.

        Raises:
            InputError: truncated, corrupt, or not a run's provenance.
        """
        try:
            raw = json.loads(data)
            written = raw["schema_version"]
            if isinstance(written, int) and written > _SCHEMA:
                message = f"was written by a later version of hydra-dse (schema {written}; this one reads {_SCHEMA})"
                raise InputError(Fault(message, file=file))
            if written != _SCHEMA or raw["state"] not in (RUNNING, FINISHED):
                raise ValueError(f"schema_version {written!r}, state {raw['state']!r}")
            return cls(
                name=str(raw["name"]),
                state=raw["state"],
                seed=int(raw["seed"]),
                versions={str(name): str(number) for name, number in raw["versions"].items()},
                git=raw["git"],
                inputs={str(item["path"]): str(item["sha256"]) for item in raw["inputs"]},
                command=tuple(str(word) for word in raw["command"]),
            )
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"not a readable provenance of a run ({error}); the run directory is corrupt"
            raise InputError(Fault(message, file=file)) from error


def provenance_of(experiment: Experiment, command: Sequence[str]) -> Provenance:
    """The provenance of a run that starts now."""
    inputs = {item.path: item.sha256 for item in experiment.inputs}
    return provenance_for(experiment.name, experiment.search.seed, inputs, command)


def provenance_for(name: str, seed: int, inputs: Mapping[str, str], command: Sequence[str]) -> Provenance:
    """The provenance of any job that starts now."""
    return Provenance(
        name=name,
        state=RUNNING,
        seed=seed,
        versions=_versions(),
        git=git_id(),
        inputs=dict(inputs),
        command=tuple(command),
    )


def _versions() -> dict[str, str]:
    found = {"hydra_dse": hydra_dse.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_id() -> str | None:
    """Commit of the checkout that the code runs from, `+` where it has changes; None outside a checkout."""
    root = Path(hydra_dse.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
