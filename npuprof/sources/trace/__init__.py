"""Timelines: files of Chrome events, as torch_npu, MindSpore, msprof and Kineto write them.

:mod:`.events` reads a file in pieces, :mod:`.layouts` knows what each kind of event carries, :mod:`.columns` gathers
all of them; :mod:`.tables` makes tables of these, with the help of the other modules, and :mod:`.links` joins the rows.
"""
