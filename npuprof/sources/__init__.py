"""Sources: one module or package for each format, each from a path to tables.

The modules of this folder, from a path on disk to the tables of a run::

    detect        the first source that recognises the path, or, with files.walk, what lies below it; where a directory
      |           holds raw data and the vendor's result of it, raw_or_parsed chooses
      +- raw/           PROF_* directories: the bytes that the collector wrote
      +- torch_npu/     its results, with framework/ the raw files of frameworks, and mindspore/ what MindSpore adds
      +- msprof/        its text results, in all layouts
      +- database/      SQLite results of either
      +- kineto/        traces of torch's own profiler
      +- cluster/       the vendor's analysis of many ranks
      +- recording/     recordings of npuprof: one of the above, and the sampled Python stacks; saved: its own tables
      +- single_file    one file of a result; folder_of_files: several of them
      |           they share text/ (CSV and JSON), trace/ (timelines), result_folder/, files/ and columns/
    base.Decoded  what each of them gives: tables, facts, notes
    slicing       keeps the selected part

A format is a module with a :class:`.base.Source`, which :mod:`.registry` lists; a neighbour shows how.
"""
