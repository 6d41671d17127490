"""Peak memory of a long simulation whose records are written to Parquet, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

# Peak of this process alone: `ru_maxrss` would count what its parent held when it was forked.
MEASURED = """
import re, sys, time
from pathlib import Path
from hydra_dse.cli import main
try:
    main()
except SystemExit as ended:
    if ended.code:
        raise
print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1], time.process_time(), file=sys.stderr)
"""


def simulated(requests: int, folder: Path, prompt: int, output: int, rate_per_s: float) -> tuple[float, float]:
    """Simulate equal requests on one accelerator with records on; return peak MB and CPU seconds."""
    workload = folder / "load.yaml"
    content = {
        "name": "long run",
        "model": "nemotron-h-8b",
        "arrivals": {"process": "poisson", "rate": f"{rate_per_s}/s"},
        "lengths": {"prompt": prompt, "output": output},
    }
    workload.write_text(yaml.safe_dump(content))
    arguments = ["simulate", "h100", "--workload", str(workload), "--json"]
    arguments += ["--requests", str(requests), "--replications", "1", "--records", str(folder / "records")]
    found = subprocess.run([sys.executable, "-c", MEASURED, *arguments], check=True, capture_output=True, text=True)
    kib, seconds = found.stderr.split()[-2:]
    return float(kib) * 1024 / 1e6, float(seconds)


def peak(requests: int, prompt: int = 1024, output: int = 256, rate_per_s: float = 4.0) -> tuple[float, float]:
    """The same in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        return simulated(requests, Path(folder), prompt, output, rate_per_s)
