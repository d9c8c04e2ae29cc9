"""Text results: the vendors' CSV and JSON files, each read into the table or the frames that it holds."""
