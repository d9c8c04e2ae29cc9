"""The tables of communication, of what the host launched and of what AI CPUs issued."""
