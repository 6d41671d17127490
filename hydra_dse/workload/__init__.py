"""Requests: arrivals, lengths, classes and service levels."""
