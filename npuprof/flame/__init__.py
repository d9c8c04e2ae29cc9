"""The flame graph: the call tree of a run, merged and folded; its state, search and figure."""
