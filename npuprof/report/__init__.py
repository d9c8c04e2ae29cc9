"""Reports on a run, a set or a comparison: their data, and two renderings, HTML and text.

``run.py`` says it of a run. ``model.py`` is what is said, ``html.py`` (with ``templates/``) and ``text.py`` render it.
"""
