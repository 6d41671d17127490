"""Components to slots."""
