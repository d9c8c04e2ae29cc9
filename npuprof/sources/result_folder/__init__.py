"""The folder that the profiler of torch_npu or MindSpore writes: its layout, and its metadata."""
