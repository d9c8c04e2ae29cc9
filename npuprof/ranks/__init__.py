"""Several ranks: which exist, their clocks, and reading them in parallel processes."""
