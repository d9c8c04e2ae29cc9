"""The flame graph: the merged call tree of a run, folded into frames; state, search and figure."""
