"""The difference of two runs: matched rows that add up exactly, tested for noise."""
