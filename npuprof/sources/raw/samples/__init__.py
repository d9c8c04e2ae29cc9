"""Streams sampled by time, of devices and of the host: memory in use, and counters."""
