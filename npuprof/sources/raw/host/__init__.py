"""Records of the host: calls, operators, tasks as they were launched, communication, memory of operators."""
