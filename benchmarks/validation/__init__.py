"""Accuracy of the estimator against simulation, on configurations that no tuning has seen.

Two comparisons.  *Queueing*: both sides are given the same iteration times in closed form, so that only batching,
queueing and memory can differ.  *Headline*: placed designs, each side with its own cost model.  Simulated results are
stored by configuration; estimates are made anew each time, so that a change of the estimator is judged in seconds.

`python -m benchmarks.validation --help`
"""
