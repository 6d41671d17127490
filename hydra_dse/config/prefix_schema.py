"""Sections of what requests share: system prompts and sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import NonNegativeNumber, PositiveCount, PositiveNumber, Seconds, Section
from hydra_dse.config.lengths_schema import Tokens
from hydra_dse.workload.prefixes import MAX_TURNS, Prefixes, Think, geometric_turns, zipf

MAX_SYSTEM_PROMPTS = 100_000


class SystemPromptsSection(Section):
    """Prompts that many requests begin with: `count` of equal length, or a list of lengths, most popular first."""

    tokens: Tokens | Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=MAX_SYSTEM_PROMPTS)]
    count: Annotated[PositiveCount, Field(le=MAX_SYSTEM_PROMPTS)] | None = None
    zipf: Annotated[NonNegativeNumber, Field(le=10)] = 1.0

    @model_validator(mode="after")
    def _one_count(self) -> SystemPromptsSection:
        if isinstance(self.tokens, tuple) and self.count not in (None, len(self.tokens)):
            raise at_key("count", f"{self.count} prompts, but {len(self.tokens)} lengths; leave count out")
        return self

    @property
    def lengths(self) -> tuple[int, ...]:
        """Length of each prompt."""
        return self.tokens if isinstance(self.tokens, tuple) else (self.tokens,) * (self.count or 1)


class TurnsSection(Section):
    """Number of turns with falling probabilities: a geometric distribution cut at `maximum`."""

    mean: Annotated[PositiveNumber, Field(ge=1)]
    maximum: Annotated[PositiveCount, Field(le=MAX_TURNS)] = 50

    @model_validator(mode="after")
    def _possible(self) -> TurnsSection:
        if self.mean > (self.maximum + 1) / 2:
            raise at_key("mean", f"{self.mean:g} turns need a maximum of at least {2 * self.mean - 1:g}")
        return self


class ThinkSection(Section):
    """Gamma distributed time between the end of a turn and the next."""

    mean: Annotated[Seconds, Field(ge=0)]
    cv: Annotated[NonNegativeNumber, Field(le=100)] = 1.0


class SessionsSection(Section):
    """Requests as turns of sessions, each with all turns before it in its prompt."""

    turns: Annotated[PositiveCount, Field(le=MAX_TURNS)] | TurnsSection
    think: ThinkSection


class PrefixesSection(Section):
    """What sampled requests share."""

    block_tokens: PositiveCount = 16
    system_prompts: SystemPromptsSection | None = None
    sessions: SessionsSection | None = None


def prefixes_of(section: PrefixesSection) -> Prefixes:
    """The prefix structure of a section."""
    prompts, sessions = section.system_prompts, section.sessions
    lengths = prompts.lengths if prompts is not None else ()
    turns: tuple[float, ...] = (1.0,)
    if sessions is not None:
        known = sessions.turns
        turns = (0.0,) * (known - 1) + (1.0,) if isinstance(known, int) else geometric_turns(known.mean, known.maximum)
    return Prefixes(
        section.block_tokens,
        lengths,
        zipf(len(lengths), prompts.zipf) if prompts is not None else (),
        turns,
        Think(sessions.think.mean, sessions.think.cv) if sessions is not None else Think(),
    )
