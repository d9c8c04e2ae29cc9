"""Exports: one module a format, each from the tables of a run to text; they show nothing by themselves."""
