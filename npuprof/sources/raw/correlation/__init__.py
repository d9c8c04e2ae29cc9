"""Host and device records joined: launches, marks, collectives, and the tables of calls, tasks and kernels."""
