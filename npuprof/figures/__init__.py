"""Figures: functions from the tables of a run to plotly figures; plotly is imported with the first figure."""
