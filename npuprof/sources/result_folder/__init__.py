"""The folder that the profiler of torch_npu or MindSpore writes: what lies where, and what its small files tell."""
