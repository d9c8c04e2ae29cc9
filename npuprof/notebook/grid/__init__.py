"""A table in the notebook that requests each page from the kernel: the page as plain values, and its widget."""
