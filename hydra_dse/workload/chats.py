"""Recorded requests as turns of chats, and the prefix blocks that they leave behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import IntArray, Requests


def with_full_blocks(requests: Requests) -> Requests:
    """Keep ids of whole blocks only; of a turn that another follows also those of its output, which the other names.

    A trace names the last, partial block of a prompt too, which no other prompt can share.
    """
    if requests.blocks is None or requests.block_tokens <= 0:
        return requests
    size = requests.block_tokens
    whole = (requests.prompt_tokens // size).tolist()
    blocks = [tuple(ids[:count]) for ids, count in zip(requests.blocks, whole, strict=True)]
    if requests.parent is not None:
        most = ((requests.prompt_tokens + requests.output_tokens) // size).tolist()
        own = list(blocks)
        for child, before in enumerate(requests.parent.tolist()):
            if before >= 0 and len(own[child]) > len(blocks[before]) and own[child][: whole[before]] == own[before]:
                blocks[before] = own[child][: most[before]]
    return replace(requests, blocks=tuple(blocks))


def in_sessions(requests: Requests, answer_s_per_token: float) -> Requests:
    """Turns that wait for the one before: the think time is the gap between their arrivals less the answer's time.

    Raises:
        InputError: no request names the turn before it.
    """
    parent = requests.parent
    if parent is None or not len(parent) or parent.max() < 0:
        raise InputError("the trace names no turns of a chat (chat_id, parent_chat_id); leave sessions out")
    before = np.maximum(parent, 0)
    gap = requests.arrival_s - requests.arrival_s[before]
    think = np.maximum(gap - requests.output_tokens[before] * answer_s_per_token, 0.0)
    return replace(requests, think_s=np.where(parent >= 0, think, 0.0), turn=_depth(parent))


def _depth(parent: IntArray) -> IntArray:
    turn = np.zeros(len(parent), dtype=np.int64)
    for index, before in enumerate(parent.tolist()):
        if before >= 0:
            turn[index] = turn[before] + 1
    return turn
