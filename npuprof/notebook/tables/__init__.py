"""The tables of a run in the notebook: the state of each grid as a plain object, and its tab."""
