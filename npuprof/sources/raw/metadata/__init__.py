"""What a recording tells of itself: control files, clocks, the family of its chips, dictionaries of names."""
