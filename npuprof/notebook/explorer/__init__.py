"""The explorer as widgets: thin views of the plain objects in :mod:`npuprof.explorer`."""
