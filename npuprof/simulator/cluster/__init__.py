"""Several simulated NPUs that work together: ranks, the links between them, and what they say to each other.

:class:`~.ranks.Ranks` runs a function for each rank and writes a directory for each; :mod:`.communicator` has the
collectives, :mod:`.plans` what they do step by step, :mod:`.links` what that costs, :mod:`.exchange` where ranks meet.
"""
