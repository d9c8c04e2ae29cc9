"""Findings: why a step is slow, its cost, the gain of a fix, and the next action.

A rule is a file of :mod:`npuprof.advice.rules`: it reads :class:`~npuprof.advice.facts.Facts` of a run and returns
one :class:`~npuprof.advice.finding.Finding`, which fires, is clean, or cannot tell and says what to record.
:func:`~npuprof.advice.findings.advise` runs all of them and ranks what fires by its gain.
"""
