"""Text results: the vendors' CSV and JSON files, each read into its table or frames."""
