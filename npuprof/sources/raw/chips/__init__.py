"""Device records of the other chip families, and the reader of each family.

Frozen: no recording of these chips was at hand, so they follow documentation (raw/FORMAT.md sections 5.7 and 7). What
is wrong is corrected; nothing is added or polished before a recording shows it.
"""
