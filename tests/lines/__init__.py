"""Tests of :mod:`npuprof.lines`."""
