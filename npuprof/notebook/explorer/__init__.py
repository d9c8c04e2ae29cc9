"""The explorer as widgets: thin views of the plain objects of the rooms ``timeline``, ``flame`` and ``analysis``."""
