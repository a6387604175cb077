"""The profiler in the places where people work: notebooks, tests, web servers."""
