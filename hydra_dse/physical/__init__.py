"""Area and power of a package."""
