"""The tables of communication: collectives launched by the host, and collectives issued by AI CPUs."""
