"""Timelines: files of Chrome events, as torch_npu, MindSpore, msprof and Kineto write them.

:mod:`.events` reads a file in pieces, :mod:`.layouts` knows what each kind of event carries, :mod:`.columns` gathers
all of them; :mod:`.conversion` turns these into tables, and :mod:`.links` joins their rows.
"""
