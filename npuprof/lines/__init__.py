"""Which line of the user's code ran, and which called the device: one rewriting of a cell, and the stacks of calls.

:mod:`npuprof.lines.rewriting` puts stamps into a profiled cell, :mod:`npuprof.lines.stamps` is what they call,
:mod:`npuprof.lines.call_stacks` takes the Python stack where a call of the device passes through Python, and
:mod:`npuprof.lines.recorder` writes both into the recording: ``lines.jsonl`` while the run lasts, in batches of a tenth
of a second, ``lines.parquet`` at its end. :mod:`npuprof.sources.recording.lines` makes tables of them:

- ``statements``: a row each time that a statement of the cell ran: start, duration, file, line, the innermost loop
  around it and its iteration. A ``for`` or ``while`` has a row each time that it fetches the next item.
- ``iterations``: a row for each iteration of each loop of the cell.
- ``steps``: the iterations of the loop that is the step, with ``kind`` (``loop of line 3``) and ``outer_iteration``
  (the epoch), unless the run has marked steps.
- ``api``: an appended column ``stack`` (the innermost frame first) of the calls whose stack was taken.

What joins them with kernels is :mod:`npuprof.analysis.places`: a kernel has the line of its operator's stack, else that
of its call's stack, else that of the statement in which its operator was called, else that of the last sample.
"""
