"""The Markov-chain estimator."""
