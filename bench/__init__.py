"""Measures what docs/benchmarks.md promises, which says what each figure means: `python3 -m bench --help`."""
