"""The tables of a run in the notebook: what is shown of each, as a plain object, and the tab that shows it."""
