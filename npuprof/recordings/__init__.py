"""A recording's own files: facts, journal, the folder of a job, and records that the disk did not take."""
