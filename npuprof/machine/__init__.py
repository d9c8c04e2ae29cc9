"""The machine: CANN and its versions, the front ends, and ``npuprof doctor``, which reports them."""
