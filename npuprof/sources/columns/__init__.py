"""Columns of tables, shared by all sources: nullable numbers, name columns, decimals, stacked frames, steps."""
