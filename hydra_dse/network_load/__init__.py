"""Link loads and contention in closed form."""
