"""Two-tier benchmarking of accelerators, measured or modelled, after DABench-LLM (arXiv 2601.19904)."""
