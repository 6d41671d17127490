"""Bundles: workload cards, traces, what is measured on them, and why one point beats another."""
