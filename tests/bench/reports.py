"""Files in vendors' formats, written from the description of each format, for tests to read."""

# ruff: noqa: E501 - lines of reports are as long as they are

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

KERNEL_COLUMNS = (
    "Kernel Name", "Samples/s", "Compute Samples/s", "Transmission Samples/s", "Active PEs", "Compute Utilization",
)  # fmt: skip

Kernel = tuple[str, float | None, int, int]
"""Name, rate (None is printed as two dashes), PEs, utilisation in per cent."""


def header(samples: float, compute: float, transmission: float, active: int, busy: int) -> str:
    return (
        "Estimated Overall Performance\n-----------------------------\n"
        f"Samples/s:              {samples}\nCompute Samples/s:      {compute}\n"
        f"Transmission Samples/s: {transmission}\nActive PEs:             {active}%\nCompute Utilization:    {busy}%\n\n"
    )


def kernel_line(kernel: Kernel) -> str:
    name, rate, count, busy = kernel
    shown = "--" if rate is None else f"{rate:.1f}"
    sent = "--" if rate is None else f"{2 * rate:.1f}"
    return f"| {name} | {shown} | {shown} | {sent} | {count} | {busy}% |\n"


def compile_report(path: Path, kernels: Iterable[Kernel], head: str | None = None) -> Path:
    """A compile report, written line by line."""
    with path.open("w", encoding="utf-8") as file:
        file.write(header(860.3, 860.3, 861.1, 92, 85) if head is None else head)
        file.write("+" + "-" * 60 + "+\n| " + " | ".join(KERNEL_COLUMNS) + " |\n+" + "-" * 60 + "+\n")
        for kernel in kernels:
            file.write(kernel_line(kernel))
        file.write("+" + "-" * 60 + "+\n")
    return path


RUN_LOG = """\
2024-05-01 10:00:00 INFO:   Effective batch size is 112.
2024-05-01 10:00:01 INFO:   Preparing to execute using 2 CSX
2024-05-01 10:01:00 INFO:   | Train Device=CSX, Step=50, Loss=9.1, Rate=510.00 samples/sec, GlobalRate=480.00 samples/sec
2024-05-01 10:02:00 INFO:   | Train Device=CSX, Step=100, Loss=8.0, Rate=520.00 samples/sec, GlobalRate=516.44 samples/sec
"""

SECTIONS = """\
section_id,chip_id,partition_id,section type,"measured throughput, samples/s",measured latency (cycles),measured latency (sec),"measured DDR read BW, GB/s","measured DDR write BW, GB/s","measured DDR total BW, GB/s",measured PMU count,measured PMU utilization,measured PCU count,measured PCU utilization,extra
0,0,"(0, 0)",FWD,100,1000000,0.001,60,40,100,320,50,480,75,x
1,0,"(1, 0)",BWD,50,3000000,0.003,90,60,150,640,100,160,25,y
"""

STAGES = """\
section id,stage depth,stage id,related stage ids,non-buffer template names,stage latency (cycles)
0,0,7,,linear,100
0,1,-1,7,,50
0,2,8,,linear,400
"""

SUMMARY = """\
layers,hidden,throughput,step latency,host ms,RDU ms,total sections,highest PCU %
12,1600,6.11,2.6,1532,1088,66,75
96,1600,OOM,,,,,
"""

SWEEP = """\
throughput,run_id,layers_per_ipu,n_layer,ipus_per_replica,replication_factor,total_ipus,batch_size,gradient_accumulation
250.5,run1,"[0, 4, 4, 4]",12,4,2,8,1,64
,run2,"[0, 10]",10,2,1,2,1,64
OOM,run3,"[0, 12]",12,2,1,2,1,64
"""

POPVISION = """\
file_path,num_ipus,tiles_per_ipu,bytes_per_ipu,ipu_0_memory_used,ipu_0_memory_percent,ipu_1_memory_used,ipu_1_memory_percent
reports/small/profile.pop,2,1472,918552576,400000000,43.5,800000000,87.1
reports/large/profile.pop,2,1472,918552576,400000000,43.5,990000000,107.8
"""

TRAIN_LOG = """\
Layer 0 --> IPU 1
Layer 1 --> IPU 1
Layer 2 --> IPU 2
step 0 of epoch 0, loss: 10.9, acc: 0.0, lr: 1e-4, throughput: 600.0 samples/sec
step 1 of epoch 0, loss: 10.1, acc: 0.1, lr: 1e-4, throughput: 1058.0 samples/sec
step 2 of epoch 0, loss: 9.9, acc: 0.1, lr: 1e-4, throughput: 1060.0 samples/sec
"""

SERVING = """\
Hardware,Num of Hardware,Framework,Model,Input Output Length,Batch Size,Latency,Throughput
SN40L,8,Native,Llama-3-8B,128,16,0.5,8192
SN40L,8,Native,Llama-3-8B,128,32,,
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


PARTS = "layer_of_the_block.inner_product_over_the_tile.partial_sums_of_a_column.forward_and_backward_of_part"
"""Names of children are long in reports: they say where a part lies."""


def with_children(kernels: Sequence[Kernel], children: int) -> Iterable[Kernel]:
    """Kernels, each followed by children that overlap it and by link buffers; then the region."""
    for kernel in kernels:
        yield kernel
        for child in range(children):
            yield f"{kernel[0]}.{PARTS}{child}", kernel[1], kernel[2] // 2, kernel[3]
        yield f"buf.{kernel[0]}", None, 999, 0
    yield "patio", None, 307840, 0
