"""Files and folders: archives, compressed and converted files, memory limits, directory walks."""
