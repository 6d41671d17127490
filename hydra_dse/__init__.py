"""Design-space exploration of chiplet packages that serve hybrid Transformer-Mamba LLMs."""

__version__ = "0.1.0"
