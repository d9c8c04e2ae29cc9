"""Several simulated NPUs: ranks, links and collectives.

:class:`~.ranks.Ranks` runs a function for each rank and records each; :mod:`.communicator` has the collectives,
:mod:`.exchange` the meetings of ranks, :mod:`npuprof.simulator.plans` the stages of a collective and their cost.
"""
