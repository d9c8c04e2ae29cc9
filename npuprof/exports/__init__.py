"""Exports: functions from the tables of a run to text, a module for each format."""
