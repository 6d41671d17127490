"""What changed between two experiments, key by key."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from hydra_dse.errors import Fault, InputError

_MOST_SHOWN = 8
_ABSENT = "nothing"


def check_same_experiment(stored: bytes, file: str, current: str) -> None:
    """Compare a stored experiment with the one to be run.

    Raises:
        InputError: the stored one is corrupt, or they differ; the message lists what differs.
    """
    try:
        old = yaml.safe_load(stored)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(Fault(f"not readable YAML ({reason}); the run directory is corrupt", file=file)) from error
    changes = list(differences(old, yaml.safe_load(current)))
    if changes:
        shown = [Fault(f"the run has {was}, the experiment {now}", file=file, path=key) for key, was, now in changes]
        rest = [Fault(f"… and {len(changes) - _MOST_SHOWN} more", file=file)] if len(changes) > _MOST_SHOWN else []
        head = Fault("the directory holds a run of another experiment; name another --out", file=file)
        raise InputError([head, *shown[:_MOST_SHOWN], *rest])


def differences(old: object, new: object, key: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (key path, old value, new value) of every leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            path = f"{key}.{name}" if key else str(name)
            if name not in old or name not in new:
                yield path, _shown(old.get(name, _ABSENT)), _shown(new.get(name, _ABSENT))
            else:
                yield from differences(old[name], new[name], path)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from differences(was, now, f"{key}[{index}]")
    elif old != new:
        yield key, _shown(old), _shown(new)


def _shown(value: object) -> str:
    text = repr(value) if value is not _ABSENT else _ABSENT
    return text if len(text) <= 60 else text[:57] + "…"
