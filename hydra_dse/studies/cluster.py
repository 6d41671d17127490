"""Work on a cluster: the executor of a Dask scheduler, with what can go wrong there in words.

The tasks are the same as those of a pool of processes, and the parent takes their results in the same order, so a run
holds the same bytes.  A worker reads the experiment from the run directory: it must see the same files, and have the
same versions of what computes.  Both are checked in every worker before its first task.
"""

from __future__ import annotations

import importlib.metadata
import logging
import platform
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hydra_dse import __version__
from hydra_dse.errors import Fault, InputError, WorkersLost

if TYPE_CHECKING:
    from distributed import Client

Result = TypeVar("Result")
Versions = tuple[tuple[str, str], ...]
CONNECT_S = 10.0
"""How long to try to reach a scheduler."""
_COMPUTE = ("numpy", "scipy")

_log = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


class ClusterExecutor(Executor):
    """Sends tasks to a Dask cluster; one task at a time in each worker process, whatever its number of threads."""

    def __init__(self, client: Client) -> None:
        # pure=False: equal tasks are not merged, for names of results would have to be computed from arguments.
        self._inner = client.get_executor(pure=False)  # type: ignore[no-untyped-call]
        self._versions = versions()

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Run `fn` on a worker."""
        future: Future[Result] = self._inner.submit(run_checked, self._versions, fn, args, kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of all tasks."""
        self._inner.shutdown(wait=wait and not cancel_futures)


def run_checked(wanted: Versions, fn: Callable[..., Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """What runs on a worker.

    Raises:
        InputError: the worker has other versions of what computes.
    """
    faults = _differing(wanted)
    if faults:
        raise InputError(faults)
    with _one_at_a_time:
        return fn(*args, **kwargs)


def versions() -> Versions:
    """Versions that results depend on."""
    python = ".".join(platform.python_version_tuple()[:2])
    return (("hydra_dse", __version__), ("python", python), *((n, importlib.metadata.version(n)) for n in _COMPUTE))


@lru_cache(maxsize=2)
def _differing(wanted: Versions) -> list[Fault]:
    here, place = dict(versions()), f"worker on {platform.node()}"
    return [
        Fault(f"has {name} {here.get(name)}, this process has {version}; results could differ", file=place)
        for name, version in wanted
        if here.get(name) != version
    ]


@contextmanager
def on_cluster(address: str) -> Iterator[Executor]:
    """The executor of a cluster.

    Args:
        address: of the scheduler (`tcp://10.0.0.1:8786`), or the path of its scheduler file (`scheduler.json`).

    Raises:
        InputError: Dask is not installed, or no scheduler answers there.
        WorkersLost: the scheduler went away, or a task killed the workers it ran on.
    """
    client = _connected(address)
    from distributed import KilledWorker

    pool = ClusterExecutor(client)
    try:
        if not client.scheduler_info()["workers"]:
            _log.warning("the cluster at %s has no workers yet; tasks wait for them", address)
        yield pool
    except KilledWorker as error:
        message = f"workers at {address} died again and again at the same task (out of memory?)"
        raise WorkersLost(f"{message}, the last one at {error.last_worker.address}") from None
    except CancelledError:
        raise WorkersLost(f"the scheduler at {address} has gone") from None
    finally:
        pool.shutdown(wait=False)
        client.close(timeout=1)  # type: ignore[no-untyped-call]


def _connected(address: str) -> Client:
    option = f"--cluster {address}"
    try:
        from distributed import Client
    except ImportError:
        raise InputError(Fault("needs Dask: pip install 'hydra-dse[cluster]'", file=option)) from None
    is_file = address.endswith(".json")
    if is_file and not Path(address).is_file():
        raise InputError(Fault("no such scheduler file", file=option))
    where = {"scheduler_file": address} if is_file else {"address": address}
    try:
        return Client(**where, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"no Dask scheduler answers ({reason}); expected an address as tcp://HOST:8786, or a scheduler file"
        raise InputError(Fault(message, file=option)) from None
