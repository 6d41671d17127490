"""Workload cards: typed schema, all dialects, every fault at its line, lossless round trip."""

from __future__ import annotations

from hydra_dse.bundle.cards.card import CardFile, check_card, new_card, parse_card, read_card, write_card
from hydra_dse.bundle.cards.schema import json_schema

__all__ = ["CardFile", "check_card", "json_schema", "new_card", "parse_card", "read_card", "write_card"]
