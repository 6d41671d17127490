"""Time of an engine iteration as the sum of its measured layers."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from hydra_dse.errors import Fault, InputError
from hydra_dse.model import Model
from hydra_dse.model.blocks import Attention, LatentAttention, MoE
from hydra_dse.model.routing import Routing
from simulators.iteration import Composition
from simulators.profiled.profile import LayerProfile

ONCE = ("embedding", "final_layernorm")
"""Token-parallel layers that run once per iteration; all others run in every block."""
TWICE = ("layernorm",)
"""Layers that a block has two of (before the mixer and before the MLP)."""


MLP = ("gate_up_proj", "act_fn", "down_proj")
"""Token-parallel layers that a block with experts does not have."""


@dataclass(frozen=True)
class Stack:
    """How often the layers of a profile run.

    Attributes:
        blocks: of the model (the profile holds one of each kind).
        mixtures: blocks whose feed-forward part is a mixture of experts.
        routing: which experts tokens choose there.
    """

    blocks: int
    mixtures: int = 0
    routing: Routing | None = None

    @staticmethod
    def of(model: Model) -> Stack:
        """The blocks of a model.

        Raises:
            InputError: blocks of which a profile of one attention layer says nothing.
        """
        windows = set()
        for block in model.blocks:
            if len(block.mixers) != 1 or not isinstance(block.mixers[0], (Attention, LatentAttention)):
                raise InputError(Fault(f"{model.name} has blocks without attention ({block.label}), a profile none"))
            windows.add(getattr(block.mixers[0], "window", None))
        if len(windows) > 1:
            raise InputError(Fault(f"{model.name} has attention of several windows, a profile one"))
        mixtures = [block.feed_forward.routing for block in model.blocks if isinstance(block.feed_forward, MoE)]
        return Stack(len(model.blocks), len(mixtures), mixtures[0] if mixtures else None)


@dataclass(frozen=True)
class EngineSteps:
    """What the engine adds to its layers.

    Attributes:
        graph_sizes: token counts for which launches were captured, ascending: a smaller iteration is padded to the
            next of them; empty where nothing is captured.
        host_s: time of the host per step that does not overlap with the card.
    """

    graph_sizes: tuple[int, ...] = ()
    host_s: float = 0.0

    def padded(self, tokens: int) -> int:
        """Tokens that the card computes for an iteration of `tokens`."""
        place = bisect_left(self.graph_sizes, tokens)
        return self.graph_sizes[place] if place < len(self.graph_sizes) else tokens


class ProfiledSteps:
    """Callable for `simulators.iteration.FixedCost`: composition → seconds.

    Args:
        profile: measured layers.
        blocks: of the model, a number where all are alike.
        engine: padding and host time.

    Raises:
        InputError: experts in the model and none in the profile, or the other way round.
    """

    def __init__(self, profile: LayerProfile, blocks: int | Stack, engine: EngineSteps | None = None) -> None:
        stack = Stack(blocks) if isinstance(blocks, int) else blocks
        if (profile.experts is None) != (stack.routing is None):
            has, lacks = ("model", "profile (moe.csv)") if profile.experts is None else ("profile", "model")
            raise InputError(Fault(f"the {has} has a mixture of experts, the {lacks} none"))
        self.profile = profile
        self.stack, self.blocks = stack, stack.blocks
        self.engine = engine or EngineSteps()
        self._tokens: dict[int, float] = {}
        self._launch_us = min(profile.prefill.at(1.0, 0.0), profile.decode.at(1.0, 1.0))

    def __call__(self, batch: Composition) -> float:
        """Seconds of one iteration."""
        tokens = self.engine.padded(batch.rows)
        emitted = max(1, batch.emitted_tokens)
        per_sequence = sum(table.at(emitted) for table in self.profile.per_sequence.values())
        us = self._dense_us(tokens) + per_sequence + self.blocks * self.attention_us(batch)
        us += self.stack.mixtures * self._experts_us(tokens, batch.rows)
        return 1e-6 * us + self.engine.host_s

    def _dense_us(self, tokens: int) -> float:
        if tokens not in self._tokens:
            total = 0.0
            for layer, table in self.profile.dense.items():
                times = 1 if layer in ONCE else 2 * self.blocks if layer in TWICE else self.blocks
                if layer in MLP:
                    times -= self.stack.mixtures
                total += times * table.at(tokens)
            self._tokens[tokens] = total
        return self._tokens[tokens]

    def _experts_us(self, tokens: int, rows: int) -> float:
        """One mixture of experts: `tokens` computed, of which `rows` choose experts independently of each other."""
        experts, routing = self.profile.experts, self.stack.routing
        if experts is None or routing is None:
            return 0.0
        return experts.at(tokens, float(routing.distinct(rows)))

    def attention_us(self, batch: Composition) -> float:
        """Attention of one block.

        The profile has one prompt chunk beside decoding sequences of one context.  Several chunks count as equal
        ones with the same number of query-key pairs, the first together with the decoders, each further one by what
        it adds to a launch; contexts of decoders enter by their mean (their time is linear in the sum).
        """
        profile, attended = self.profile, batch.attended
        decoders = batch.decode_sequences
        context = attended.decode_tokens / decoders if decoders else 0.0
        if not batch.prefill_tokens:
            return profile.decode.at(decoders, context)
        chunks = max(1, batch.prefill_sequences)
        chunk = batch.prefill_tokens / chunks
        before = max(0.0, attended.prefill_pairs / batch.prefill_tokens - chunk / 2)
        alone = profile.prefill.at(chunk, before)
        further = (chunks - 1) * max(0.0, alone - self._launch_us)
        if not decoders:
            return further + alone
        if profile.mixed is None:
            return further + alone + max(0.0, profile.decode.at(decoders, context) - self._launch_us)
        return further + profile.mixed.at(chunk, before, decoders, context)
