"""Records: joined slices of a ``data`` folder, record layouts, and names of enumerations."""
