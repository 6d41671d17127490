"""Optuna studies with vectorised inner batches."""
