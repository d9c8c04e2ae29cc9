"""Records: slices of a ``data`` folder joined, the layout of each record, and the names of its enumerations."""
