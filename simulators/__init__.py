"""SimPy simulators that validate designs, independent of the analytical estimator."""
