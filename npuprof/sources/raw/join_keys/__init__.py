"""Keys: by which ids and times records of different streams belong together."""
