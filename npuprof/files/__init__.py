"""Files: written atomically and privately, cached, and small untrusted ones, which are checked."""
