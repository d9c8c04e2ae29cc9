"""Timelines: files of Chrome trace events, as torch_npu, MindSpore, msprof and Kineto write them.

:mod:`.events` reads a file in chunks, :mod:`.layouts` describes the arguments of each kind of event, :mod:`.columns`
collects all events, :mod:`.conversion` builds tables from them and :mod:`.links` connects the rows.
"""
