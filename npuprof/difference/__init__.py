"""The difference of two runs: matched rows that add up exactly, with what is noise."""
