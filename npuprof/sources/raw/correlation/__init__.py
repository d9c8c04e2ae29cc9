"""Both sides joined: launches, marks, collectives, and the tables of calls, tasks and kernels."""
