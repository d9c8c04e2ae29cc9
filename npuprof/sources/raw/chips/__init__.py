"""Device records of the other chip families, and the reader of each family.

Frozen: no recording of these chips was available, so the readers follow documentation (raw/FORMAT.md sections 5.7 and
7). Errors are corrected; nothing is added before a recording shows it.
"""
