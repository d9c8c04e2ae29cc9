"""Files and folders: what lies where, and in which form."""
