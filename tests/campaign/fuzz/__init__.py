"""Damaged results of every format, made by Hypothesis from small ones that the tests write.

Every find is shrunk and stored in ``tests/campaign/corpus``, which ``tests/sources/test_corpus.py`` replays.
"""
