"""LLMs as blocks of operators: parameters, caches, FLOPs and bytes."""
