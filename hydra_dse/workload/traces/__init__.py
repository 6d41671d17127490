"""Readers of recorded request traces; `read.py` is the one door to all of them."""
