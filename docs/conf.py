"""Sphinx configuration: MyST Markdown, furo."""

project = "hydra-dse"
author = "The hydra-dse developers"
project_copyright = "2026, the hydra-dse developers"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "deflist"]
html_theme = "furo"
html_title = "hydra-dse"
exclude_patterns = ["_build"]
