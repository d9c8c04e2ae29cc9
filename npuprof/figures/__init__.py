"""Figures: functions from the tables of a run to plotly figures; plotly is imported when one is made."""
