"""Records of the devices of other families of chips, and which reader reads which family."""
