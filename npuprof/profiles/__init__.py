"""A run: :class:`npuprof.Profile` holds its tables, and answers from them; and what changed between two runs."""
