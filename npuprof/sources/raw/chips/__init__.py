"""Device records of other chip families, and the reader of each family."""
