"""Records of the host: calls, operators, launched tasks, communication, memory of operators."""
