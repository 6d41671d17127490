"""How long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """Least CPU time of a few repetitions."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)
