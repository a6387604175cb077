"""Sources are written in plain words (CONTRIBUTING, "Words"): idioms of ours are counted, in comments, names and messages."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "csrc").is_dir():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)
FOLDERS = ("csrc", "src", "tests", "tools")
KINDS = {".c", ".h", ".cc", ".go", ".py", ".pyi", ".mjs", ".pml", ".sh", ""}
MOST = 40

# Letters alone bound a word, so a part of a name counts.
WORD = r"(?<![A-Za-z])(?:%s)(?![A-Za-z])"
# "Who" is for people: of a thread, a process or a file one says "that" or "which".
PEOPLE = ("people", "person", "user", "users", "reader", "readers", "developer", "somebody", "someone", "anybody", "nobody")
NO_PERSON = "".join(rf"(?<!\b{word} )" for word in PEOPLE)
IDIOMS: Dict[str, str] = {
    "reports, says, returns": WORD % r"t(?:ells?|old|elling)",
    "is, are, blocked, off-CPU": WORD % r"st(?:ands?|ood)" + r"(?![ _]for\b)",
    "space, capacity, buffer, layer": WORD % r"roo(?:m|ms)",
    "discovered, found, reached": WORD % r"m(?:et)",
    "again": WORD % r"a(?:new)",
    "that, which": NO_PERSON + WORD % r"[Ww]h(?:o|om|oever)" + r"(?! am i)",
    "a thread has its stack": r"\b(?:those|in|of|for|to|by|with|from) wh(?:ose)\b",
    "can be obtained": r"\b(?:be|was|were|is) ha(?:d)\b",
    "held, got, made": r"(?<!\w)ha(?:d)\b(?! (?:no|been|\w+ed|begun|gone|set|read|run|saved|just|never|not|a)\b)",
    "sees, gets, is called for": r"\bhear(?:s|d)? (?:of|it)\b",
    "if it were, otherwise": r"(?<![\w'] )\b(?:Were|Had) (?:it|they|the|there|this|that|a|one)\b",
    "makes sure, whether or not": r"\bse(?:es?|en|eing) to it\b|\bbe it\b",
    "what an X of Y is": r"\b[Ww]hat (?:is|was|are|were) (?!asked|measured|said)\w+ of (?:it|them|each|that|which|what)\b",
}  # fmt: skip


def texts() -> Iterator[Tuple[Path, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS and path.is_file() and not {"__pycache__", "node_modules"}.intersection(path.parts):
                yield path, path.read_text(encoding="utf-8")


def idioms() -> Iterator[Tuple[str, Path, int, str]]:
    """Which, and where: the file, the line's number and the line."""
    for path, text in texts():
        for better, pattern in IDIOMS.items():
            for found in re.finditer(pattern, text):
                number = text.count("\n", 0, found.start())
                yield better, path, number + 1, text.splitlines()[number]


def test_there_are_few_idioms() -> None:
    found = list(idioms())
    places = "\n".join(f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for _, path, number, line in found)
    assert len(found) <= MOST, f"{len(found)}, {Counter(better for better, *_ in found)}\n{places}"


if __name__ == "__main__":  # lists them: a path's beginning may be given
    for better, path, number, line in idioms():
        if str(path.relative_to(ROOT)).startswith(tuple(sys.argv[1:]) or ""):
            print(f"{path.relative_to(ROOT)}:{number}: {line.strip()} [{better}]")
