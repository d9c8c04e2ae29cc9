"""The explorer as a browser shows it, live or saved: its scripts, and the data of a run that a saved page holds."""
