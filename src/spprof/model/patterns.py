"""Patterns that people write for names of threads, functions, files and labels."""

from __future__ import annotations

from fnmatch import fnmatchcase


def is_like(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern, in which `*` stands for any text and `?` for a letter. All else is itself, brackets too:
    names have them (`worker[3]`, `list[int]`)."""
    return text == pattern or fnmatchcase(text, pattern.replace("[", "[[]"))
