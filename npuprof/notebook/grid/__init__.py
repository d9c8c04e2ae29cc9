"""A table in the notebook that asks the kernel for each page: the plain page, and its widget."""
