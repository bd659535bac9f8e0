"""Trace readers: PyTorch-profiler and Nsight Systems files to the tables kernels, launches, ranges, memops, graphs."""
