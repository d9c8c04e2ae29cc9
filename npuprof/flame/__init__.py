"""The flame graph: the call tree of a run with equal paths merged, folded into frames; state, search and figure."""
