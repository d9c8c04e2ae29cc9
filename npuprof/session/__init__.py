"""The runs of this process: the one that collects, those that have ended, their schedules, and who else starts them."""
