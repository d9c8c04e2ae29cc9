"""npuprof: the profiler that lives in the notebook, for Huawei Ascend NPUs."""
