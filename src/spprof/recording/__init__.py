"""Takes profiles: starting, stopping, labels, names of threads and of C functions."""
