"""Timelines: files of Chrome events, as torch_npu, MindSpore, msprof and Kineto write them.

:mod:`.events` reads a file in chunks, :mod:`.layouts` describes the arguments of each kind of event, :mod:`.columns`
gathers all events, :mod:`.conversion` makes tables of them and :mod:`.links` joins the rows.
"""
