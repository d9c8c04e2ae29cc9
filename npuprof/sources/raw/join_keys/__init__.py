"""Joins of records of different streams by ids and times."""
