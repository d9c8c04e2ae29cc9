"""What this machine has: CANN and its versions, the front ends, and what ``npuprof doctor`` tells of them."""
