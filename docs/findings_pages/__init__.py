"""Parts of the page of findings, one module a study."""
