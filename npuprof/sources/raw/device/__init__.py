"""Records of a device: tasks, steps, performance counters, caches, and what its AI CPUs wrote."""
