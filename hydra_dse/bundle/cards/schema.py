"""The workload card as types: the schema that CCL-Bench's template implies, and our block `x_chiplet`.

Fields, units and who reads them: CCL-Bench 1.0 (arXiv 2605.06544), `workload_card_template.yaml` and 191 cards.  Keys
that are not named here are kept, as the original tools do.  Values are strict: those tools do arithmetic on what PyYAML
gives them, so that a number written as text fails there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(strict=True)]
Whole = Annotated[int, Field(strict=True, ge=1)]
WholeOrZero = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[float, Field(strict=True, gt=0)]
Label = Text | Annotated[float, Field(strict=True)] | None

PHASES = ("training", "inference", "serving")
TRACE_KINDS = ("json", "nsys", "json_tpu")


class Part(BaseModel):
    """A mapping of a card; keys that it does not name are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, protected_namespaces=())


class Architecture(Part):
    """What the MFU formula needs of a model."""

    num_params: Whole = Field(description="parameters in all")
    num_params_embedding: WholeOrZero | None = Field(None, description="parameters of embedding and output head")
    num_params_active: Whole | None = Field(None, description="parameters a token meets (mixtures of experts)")
    num_layers: Whole = Field(description="layers")
    num_heads: Whole = Field(description="query heads")
    head_dim: Whole = Field(description="elements of a head")
    hidden_size: Whole | None = Field(None, description="elements of the residual stream")
    vocab_size: Whole | None = Field(None, description="tokens of the vocabulary")


class Model(Part):
    """What ran."""

    phase: Literal["training", "inference", "serving"] = Field(description="TTFT and TPOT need exactly `inference`")
    moe: Annotated[bool, Field(strict=True)] | None = Field(None, description="mixture of experts")
    granularity: Text | None = Field(None, description="model_fwd, model_fwd_bwd_pass, layer, kernel or request")
    model_family: Text = Field(description="name of the model")
    precision: Text | None = Field(None, description="number format of weights and activations")
    epochs: Whole | None = Field(None, description="epochs")
    iteration: Whole | None = Field(None, description="profiled iterations")
    model_arch: Architecture | None = Field(None, description="needed by MFU")


class Data(Part):
    """The work of a step."""

    batch_size: Whole | None = Field(None, description="sequences over all devices")
    seq_len: Whole | None = Field(None, description="tokens of a sequence")
    input_len: Whole | None = Field(None, description="prompt tokens")
    output_len: Whole | None = Field(None, description="output tokens")
    dataset: Text | None = Field(None, description="where the tokens come from")


class NetworkTopology(Part):
    """How the devices are joined."""

    topology: Text | None = Field(None, description="name of the network")
    bandwidth_gbps: Annotated[list[Positive], Field(min_length=2, max_length=2)] = Field(
        description="[scale-out, scale-up] of a device, one direction, in Gbit/s"
    )


class Device(Part):
    """What it ran on."""

    type: Text = Field(description="GPU, TPU or chiplet")
    model: Text = Field(description="key of the peak-compute table, as nvidia_a100")
    total_count: Whole = Field(description="devices in all")
    count_per_node: Whole | None = Field(None, description="devices of a node")


class Hardware(Part):
    """Network and devices."""

    network_topo: NetworkTopology
    xpu_spec: Device
    driver_version: Label = Field(None, description="driver")


class Workload(Part):
    """Model, data and hardware."""

    model: Model
    data: Data
    hardware: Hardware


class Framework(Part):
    """What executed the model."""

    name: Text = Field(description="framework")
    version: Label = Field(None, description="its version")
    compiler_tool_selection: Label = Field(None, description="compiler")


class Parallelism(Part):
    """How the model was cut; dp_replicate·dp_shard·tp·pp·cp = total_count (ep lies within them)."""

    dp_replicate: Whole | None = Field(None, description="data-parallel replicas")
    dp_shard: Whole | None = Field(None, description="data-parallel shards")
    tp: Whole | None = Field(None, description="tensor-parallel ways")
    pp: Whole | None = Field(None, description="pipeline stages")
    cp: Whole | None = Field(None, description="context-parallel ways")
    ep: Whole | None = Field(None, description="expert-parallel ways")
    pp_mb: Whole | None = Field(None, description="sequences of a micro-batch")


class CommunicationLibrary(Part):
    """What carried the collectives."""

    name: Label = Field(None, description="library")
    version: Label = Field(None, description="its version")
    env: dict[str, Any] | None = Field(None, description="environment variables")


class Executor(Part):
    """Framework, parallel plan and libraries."""

    framework: Framework | None = None
    model_plan_parallelization: Parallelism | None = None
    communication_library: CommunicationLibrary | None = None
    protocol_selection: list[Text | None] | None = Field(None, description="[scale-out, scale-up] protocols")


class MetricSource(Part):
    """Which traces lie beside the card."""

    traces: Annotated[list[Text], Field(min_length=1)] = Field(description="of json, nsys, json_tpu")
    metrics_specific_trace: list[Text | None] | Text | None = Field(None, description="traces of single metrics")


class Digest(Part):
    """A file and its content's digest."""

    file: Text = Field(description="path relative to the card, or absolute for an input")
    sha256: Annotated[str, Field(strict=True, pattern="^[0-9a-f]{64}$")] = Field(description="digest")


class Slo(Part):
    """What was promised to a request."""

    ttft_s: Positive | None = Field(None, description="bound of the time to first token")
    tpot_s: Positive | None = Field(None, description="bound of the time per output token")
    percentile: Annotated[float, Field(strict=True, gt=0, le=1)] | None = Field(None, description="share promised")


class UnitOfWork(Part):
    """What one step or run does, so that only equal work is compared."""

    kind: Text = Field(description="request, token or step")
    requests: WholeOrZero | None = Field(None, description="completed requests")
    prompt_tokens: WholeOrZero | None = Field(None, description="prompt tokens processed")
    output_tokens: WholeOrZero | None = Field(None, description="output tokens made")
    flops: Annotated[float, Field(strict=True, ge=0)] | None = Field(None, description="FLOPs done")
    workload_sha256: Text | None = Field(None, description="digest of the arrivals and lengths")


class ChipletBlock(Part):
    """All that a chiplet package adds to a card; the original tools skip it."""

    schema_version: Whole = Field(1, description="version of this block")
    simulator: Text | None = Field(None, description="simulator and version")
    seed: Annotated[int, Field(strict=True)] | None = Field(None, description="seed of the run")
    command: list[Text] | Text | None = Field(None, description="command that makes this bundle")
    run_script: Digest | None = Field(None, description="launch script, recorded before the run")
    inputs: list[Digest] = Field(default_factory=list, description="files the run read")
    traces: list[Digest] = Field(default_factory=list, description="traces the run wrote")
    unit_of_work: UnitOfWork | None = None
    slo: Slo | None = None
    peak_flops_per_s: Positive | None = Field(None, description="of all chiplets together, in the precision used")
    power_w: Positive | None = Field(None, description="mean power of the package")
    unit_cost_usd: Positive | None = Field(None, description="cost of the package")
    usd_per_hour: Positive | None = Field(None, description="cost of an hour of the system")


class Card(Part):
    """A workload card."""

    version: Whole = Field(description="of the card format: 1")
    description: Text | None = Field(None, description="free text")
    hf_url: Text | None = Field(None, description="model page")
    trace_url: Text | None = Field(None, description="where the trace lies")
    contributor: Text | None = Field(None, description="who made it")
    contact: Text | None = Field(None, description="e-mail")
    workload: Workload
    executor: Executor = Field(alias="Model-executor")
    metric_source: MetricSource
    x_chiplet: ChipletBlock | None = Field(None, description="what a chiplet package adds")


def json_schema() -> dict[str, object]:
    """JSON Schema (2020-12) of a card, for editors and validators; unknown keys are allowed."""
    schema = Card.model_json_schema(by_alias=True)
    kinds = {"enum": [*TRACE_KINDS], "type": "string"}
    schema["$defs"]["MetricSource"]["properties"]["traces"]["items"] = kinds
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "CCL-Bench workload card"}
