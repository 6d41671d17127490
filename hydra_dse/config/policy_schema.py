"""Pydantic model of the runtime policy of a design file, and what its values ask of each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import Bytes, BytesPerSecond, Count, Flag, PositiveCount, Seconds, Section, Share
from hydra_dse.policy.emission import positions_fault, probabilities_fault


class PolicySection(Section):
    """The runtime policy."""

    serving: Literal["colocated", "disaggregated"] = "disaggregated"
    batching: Literal["chunked", "prefill_first", "static"] = "chunked"
    max_batch: Annotated[PositiveCount, Field(le=1_000_000)] = 64
    token_budget: Annotated[PositiveCount, Field(le=1_000_000_000)] = 2048
    scheduling: Literal["fcfs", "sjf", "hrrn", "edf", "least_slack"] = "fcfs"
    batches_in_flight: PositiveCount = 1
    memory_watermark: Annotated[Share, Field(lt=1)] = 0.01
    block_tokens: Annotated[PositiveCount, Field(le=65_536)] = 16
    prefix_cache: Flag = False
    state_checkpoint_tokens: Count = 2048
    host_cache: Annotated[Bytes, Field(ge=0)] = 0.0
    host_bandwidth: Annotated[BytesPerSecond, Field(gt=0)] | None = None
    max_waiting: PositiveCount | None = None
    ageing: Annotated[Seconds, Field(gt=0)] | None = None
    class_preemption: Flag = False
    routing: Literal["shared", "jsq", "round_robin"] = "shared"
    task_map: Literal["static", "elastic", "stealing", "fcfs"] = "static"
    role_up_prompts: PositiveCount = 4
    role_down_prompts: Count = 0
    role_unit_dies: PositiveCount = 1
    role_units_to_prefill: Count = 1
    role_units_to_decode: Count = 0
    tokens_per_step: tuple[float, ...] = (1.0,)
    verified_positions: Annotated[PositiveCount, Field(le=256)] | None = None

    @model_validator(mode="after")
    def _tokens_are_drawn(self) -> PolicySection:
        fault = probabilities_fault(self.tokens_per_step)
        if fault is not None:
            raise at_key("tokens_per_step", fault)
        fault = positions_fault(self.tokens_per_step, self.verified_positions)
        if fault is not None:
            raise at_key("verified_positions", fault)
        return self

    @model_validator(mode="after")
    def _host_has_a_link(self) -> PolicySection:
        if self.host_cache > 0 and self.host_bandwidth is None:
            raise at_key("host_cache", "needs host_bandwidth, the link over which cached blocks come back")
        if self.host_cache > 0 and not self.prefix_cache:
            raise at_key("host_cache", "is where a prefix cache spills; set prefix_cache: true or leave it out")
        return self

    @model_validator(mode="after")
    def _closed_batches_stay_closed(self) -> PolicySection:
        if self.class_preemption and self.batching == "static":
            raise at_key(
                "class_preemption",
                "nobody joins a running static batch, so nobody can be preempted for it; drop class_preemption or set "
                "batching to chunked or prefill_first",
            )
        return self

    @model_validator(mode="after")
    def _budget_holds_a_batch(self) -> PolicySection:
        mixed = self.serving == "colocated" and self.batching == "chunked"
        positions = self.verified_positions or len(self.tokens_per_step)
        if mixed and self.token_budget < self.max_batch * positions:
            each = "one token" if positions == 1 else f"the {positions} positions of a step"
            raise at_key(
                "token_budget",
                f"{self.token_budget} tokens do not hold {each} of each of max_batch = {self.max_batch} sequences; "
                "raise token_budget or lower max_batch",
            )
        return self

    @model_validator(mode="after")
    def _a_sequence_in_every_batch(self) -> PolicySection:
        shared, key = (self.max_batch, "max_batch"), "batches_in_flight"
        if self.token_budget < shared[0]:
            shared = self.token_budget, "token_budget"
        if self.batches_in_flight > shared[0]:
            raise at_key(
                key, f"{self.batches_in_flight} batches cannot share {shared[1]} = {shared[0]}; use {shared[0]} at most"
            )
        return self

    @model_validator(mode="after")
    def _pools_to_cross(self) -> PolicySection:
        if self.task_map != "static" and self.serving != "disaggregated":
            raise at_key("task_map", f"{self.task_map!r} needs two pools; use serving: disaggregated, or static")
        if self.task_map in ("stealing", "fcfs") and self.batches_in_flight > 1:
            raise at_key("batches_in_flight", f"task_map {self.task_map!r} runs one batch per pool; use 1")
        if self.task_map != "static" and self.batching == "static":
            raise at_key("batching", f"task_map {self.task_map!r} needs batches that are open; use chunked")
        if self.role_down_prompts >= self.role_up_prompts:
            raise at_key(
                "role_down_prompts",
                f"{self.role_down_prompts} prompts must be fewer than role_up_prompts = {self.role_up_prompts}",
            )
        return self
