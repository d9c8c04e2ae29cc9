"""The timeline: which slices are drawn on which lanes, at what level of detail; its state, figure and SVG."""
