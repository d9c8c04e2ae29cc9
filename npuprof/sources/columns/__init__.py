"""Columns: what all sources make tables of. Numbers and names that may be absent, decimals, stacked frames, steps."""
