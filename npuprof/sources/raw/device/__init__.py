"""Records of a device: tasks, steps, performance counters, caches, and AI CPU records."""
