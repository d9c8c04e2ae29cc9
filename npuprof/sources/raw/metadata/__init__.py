"""Facts of the recording: control files, clocks, chip families, dictionaries of names."""
