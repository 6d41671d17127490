"""`engine.c`, compiled on first use with the C compiler of the machine and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation.cases import POLICIES, Case
from benchmarks.validation.serving import Dates
from hydra_dse.workload.nouns import Requests

SOURCE = Path(__file__).with_name("engine.c")
FLAGS = ("-O2", "-ffp-contract=off", "-shared", "-fPIC")
FAULTS = {1: "a single sequence does not fit into the memory", 2: "the engines stopped", 3: "too many preemptions"}
BLOCK_TOKENS = 16


@functools.cache
def _library() -> ctypes.CDLL:
    text = SOURCE.read_bytes()
    name = f"hydra-dse-validation-{hashlib.sha256(text).hexdigest()[:16]}.so"
    path = Path(tempfile.gettempdir()) / f"hydra-dse-{os.getuid()}" / name
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", *FLAGS, "-o", str(made), str(SOURCE), "-lm"], check=True)
        made.rename(path)
    return ctypes.CDLL(str(path))


def serve_compiled(case: Case, requests: Requests, scheduling: str) -> Dates:
    """Serve all requests to the last token.

    Raises:
        RuntimeError: what `FAULTS` says.
    """
    count = len(requests)
    found = Dates(np.full(count, np.nan), np.full(count, np.nan), np.zeros(count, dtype=np.int64))
    floats, longs = (
        (np.ascontiguousarray(requests.arrival_s, dtype=np.float64),),
        (
            np.ascontiguousarray(requests.prompt_tokens, dtype=np.int64),
            np.ascontiguousarray(requests.output_tokens, dtype=np.int64),
        ),
    )
    engines = [np.array(astuple(engine), dtype=np.float64) for engine in (case.serve, case.decode)]
    status = _library().serve(
        ctypes.c_int(POLICIES.index(case.policy)),
        ctypes.c_int(scheduling == "sjf"),
        ctypes.c_int(case.shared),
        ctypes.c_long(count),
        *(_pointer(array) for array in (*floats, *longs)),
        ctypes.c_long(case.max_batch),
        ctypes.c_long(case.token_budget),
        ctypes.c_double(case.memory_tokens),
        ctypes.c_double(case.state_tokens),
        ctypes.c_long(BLOCK_TOKENS),
        *(_pointer(array) for array in engines),
        *(_pointer(array) for array in (found.first_token_s, found.last_token_s, found.preemptions)),
    )
    if status:
        raise RuntimeError(f"{case.name}: {FAULTS[status]}")
    return found


def _pointer(array: NDArray[np.float64] | NDArray[np.int64]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
