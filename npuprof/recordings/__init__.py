"""A recording's own files: what is known of it, its journal, the folder of a job, and what the disk did not take."""
