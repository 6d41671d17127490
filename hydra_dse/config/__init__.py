"""YAML to nouns: schema, loader with line numbers, finder."""
