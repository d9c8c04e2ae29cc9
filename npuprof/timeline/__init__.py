"""The timeline: slices on lanes at a bounded level of detail; state, figure and SVG."""
