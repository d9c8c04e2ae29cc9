"""Sessions: the run that collects, finished runs, schedules, and sessions started from the environment."""
