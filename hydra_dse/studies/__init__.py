"""Jobs: sweep, validate; run directories; simulator lookup."""
