"""The tables of communication: launched by the host, and issued by AI CPUs."""
