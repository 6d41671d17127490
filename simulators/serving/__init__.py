"""Request-level simulation: iteration-level continuous batching in SimPy, one event per engine iteration.

The policy, as any other implementation of it must follow it:

- Waiting prompts are ordered by priority (0 first), then by the order of the policy (`simulators.serving.waiting`);
  preempted requests come before all others of their level.  At every tick of `ageing_s` all that wait rise by one
  priority.  The head of the queue waits for memory, those behind it wait for the head.
- An arrival that finds `max_waiting` requests waiting is refused, whatever its priority.
- With `class_preemption` the head takes the slot and the memory that it needs from sequences of lower priority, newest
  of the lowest first, at most one request an iteration; a sequence that has aged as far as the head is spared.
- The prefill of a request starts only when memory for its whole prompt is free: `⌈prompt/block⌉` KV blocks and its
  state slot, with the watermark still free afterwards.  The memory is taken at once.
- An iteration that ends the prefill of a prompt emits its first token.  Its KV is cached by the first decode step:
  step `j` caches token `j`, attends to `prompt + j` tokens and emits token `j + 1`.
- `chunked` (Sarathi, vLLM v1): every decoding sequence advances by one token, the rest of the token budget goes to
  prompts, first those under way, then new ones while fewer than `max_batch` sequences are in service.
- `prefill_first` (vLLM v0): while prompts can start, iterations of whole prompts up to the budget (a longer prompt
  runs alone), never mixed with decode; decode steps otherwise.  `max_batch` limits sequences in service.
- `static`: an idle engine admits waiting requests up to `max_batch` and memory, computes all their prompts in
  iterations up to the budget, and then decodes until the last of them ends.  It never waits to fill a batch.  Members
  that have ended are no longer computed and free their memory; nobody takes their slot.  Disaggregated, the decode
  pool forms such batches of requests that were handed over.
- `disaggregated`: the prefill pool takes chunks up to the token budget; requests that have finished prefill keep
  their memory and wait, in order, for one of `max_batch` decode slots; no prefill iteration starts while `max_batch`
  of them wait.  Between pools a request is a pointer, or moves by a timed transfer.
- A decode step that needs more KV blocks than are free preempts the newest sequence that is not in a running
  iteration: its memory is freed and its prompt and tokens so far are computed again.  No prompt is admitted in an
  iteration that preempted.
- With `m` batches in flight a pool has `m` engines with `max_batch/m` slots and `token_budget/m` tokens each; they
  share dies, memory and links (`simulators.noi.sharing`), as do prefill and decode iterations.
"""

from __future__ import annotations

from simulators.iteration import Attended, Composition, FixedCost, IterationCost, Stretch, Work
from simulators.serving.memory import CacheShape
from simulators.serving.run import Outcome, run
from simulators.serving.simulator import ServingSimulator
from simulators.serving.system import System

__all__ = [
    "Attended",
    "CacheShape",
    "Composition",
    "FixedCost",
    "IterationCost",
    "Outcome",
    "ServingSimulator",
    "Stretch",
    "System",
    "Work",
    "run",
]
