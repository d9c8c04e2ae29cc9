"""The long attack on what SECURITY.md promises: ``python -m tests.campaign``, an hour and a half on two cores.

Not collected by pytest. Each part prints what was tried, and every crash, hang and silent loss that it found:

damage      recordings that lose, repeat or misplace rows: no figure is wrong without a note
types       values of wrong types at every key, cell and column that is read
fuzz        damaged and hostile results of every format, from small ones that the tests write
kills       a recording whose process is killed at every phase
interrupts  Ctrl-C between any two statements of loading, saving and profiling
disk        a disk that is full, or without inodes
bombs       sparse files of 4 GB and packed ones of 3 GB, read within 500 MB
cells       ten thousand profiled cells in one kernel
browser     hostile names in a real browser, whose requests are watched
"""
