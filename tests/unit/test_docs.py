"""What the pages of docs/ point to is there: tests, files of the tree, pages and headings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "docs").is_dir():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def names_of_tests(file):
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def anchors(page):
    """Of the headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@each_page
def test_each_test_that_is_named_exists(page):
    for file, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", page.read_text()):
        assert name in names_of_tests(ROOT / file), f"{file}::{name}"


@each_page
def test_each_file_that_is_named_exists(page):
    for name in re.findall(r"`((?:tests|src|csrc|bench|examples|tools|viewer)/[\w./-]+)`", page.read_text()):
        assert list(ROOT.glob(name.replace("3XX", "3*"))), name


@each_page
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S))
    for link in links:
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_output_names_a_test_or_says_that_it_is_missing():
    rows = re.findall(r"^\| (.*) \|$", (ROOT / "docs" / "outputs.md").read_text(), re.M)
    rows = [row.split(" | ") for row in rows if not row.startswith(("output", "---"))]
    assert len(rows) > 20
    for row in rows:
        missing = any(cell.startswith("**no**") for cell in row)
        assert missing != ("::test_" in row[-1]), row


def test_pictures_are_small_and_all_are_shown():
    shown = set()
    for page in PAGES:
        for alternative, name in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", page.read_text()):
            assert alternative, f"{page.name}: {name} has no words for those who cannot see it"
            shown.add((page.parent / name).resolve())
    there = {path.resolve() for kind in ("png", "webp") for path in (ROOT / "docs").rglob(f"*.{kind}")}
    assert shown == there
    assert max(path.stat().st_size for path in there) < 100_000


def test_every_page_is_in_the_readmes_table():
    readme = (ROOT / "README.md").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert f"| [docs/{page.name}](docs/{page.name}) |" in readme, page.name
