"""Runs a program under the profiler, as `spprof run` does, and its child processes."""
