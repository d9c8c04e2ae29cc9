"""Sources: one module a format, each from a path to tables; ``detect`` picks one by content."""
