"""Measures what issue 3 promises: `python3 -m bench --help`. docs/benchmarks.md says what each figure means."""
