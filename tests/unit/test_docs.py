"""What the Markdown files point to is there: tests, files of the tree, pages and headings; and csrc/README.md maps csrc/."""

from __future__ import annotations

import ast
import os
import re
import shlex
from fnmatch import fnmatchcase
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

import spprof

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "docs").is_dir():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)
OUTSIDE = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "csrc/README.md",
    "examples/README.md",
    "viewer/README.md",
)
PAGES = [*(ROOT / name for name in OUTSIDE), *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = "tests|src|csrc|bench|examples|tools|viewer|docs|fuzz"
MADE = {"examples/out/"}  # by a command
FOREIGN = {"pyconfig.h"}  # not ours
COLUMNS = 100

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def prose(text):
    """The text without blocks of code and what is generated."""
    text = re.sub(r"^<!-- results: begin.*?^<!-- results: end -->$", "", text, flags=re.M | re.S)
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)


def names_of_tests(file):
    return {node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def anchors(page):
    """Of the headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@each_page
def test_each_test_that_is_named_exists(page):
    for file, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", page.read_text(encoding="utf-8")):
        assert name in names_of_tests(ROOT / file), f"{file}::{name}"


@each_page
def test_each_file_that_is_named_exists(page):
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)`", page.read_text(encoding="utf-8")):
        found = (list(folder.glob(name.replace("3XX", "3*"))) for folder in (ROOT, page.parent))
        assert any(found) or name in MADE, name


@each_page
def test_each_c_file_that_is_named_exists(page):
    """Also those that are named from csrc/ on, or by their own name alone."""
    names = {path.relative_to(ROOT / "csrc").as_posix() for path in (ROOT / "csrc").rglob("*.[ch]")}
    names |= {
        path.relative_to(ROOT).as_posix() for folder in ("tests", "bench", "fuzz") for path in (ROOT / folder).rglob("*.[ch]")
    }
    for name in set(re.findall(r"`([\w/]+\.[ch])`", prose(page.read_text(encoding="utf-8")))) - FOREIGN:
        name = name[len("csrc/") :] if name.startswith("csrc/") else name
        pattern = re.compile("(.*/)?" + re.escape(name).replace("3XX", r"3\w*"))
        assert any(pattern.fullmatch(known) for known in names), name


@each_page
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S))
    for link in links:
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@each_page
def test_prose_is_wrapped(page):
    """Tables, headings, pictures and words that cannot be broken (a link, a name) may be longer."""
    for line in prose(page.read_text(encoding="utf-8")).splitlines():
        free = line.startswith(("|", "#", "!")) or " " not in line.strip().lstrip("-*0123456789. ")
        assert len(line) <= COLUMNS or free, line


@each_page
def test_words_are_plain(page):
    """CONTRIBUTING, "Words": what a native maintainer would not write, outside code."""
    text = re.sub(r"`[^`]*`", "", prose(page.read_text(encoding="utf-8")))
    assert re.findall(r"\b(?:t(?:ells?|old)|stoo[d]|meets?|me[t]|ane[w]|dear)\b", text, re.I) == []


def test_no_two_pages_say_the_same():
    """Sentences are compared, without the addresses of links: what two pages need is on one, and the other has a link."""
    said = {}
    for page in PAGES:
        text = re.sub(r"^(\||#).*$", "", re.sub(r"\]\([^)]*\)", "]", prose(page.read_text(encoding="utf-8"))), flags=re.M)
        for sentence in set(re.split(r"[.:;]\s", " ".join(text.split()))):
            if len(sentence.split()) >= 10:
                assert said.setdefault(sentence, page) == page, f"{page.name} and {said[sentence].name}: {sentence}"


def test_figures_that_are_cited_are_those_of_the_results():
    """`82 of 91` and the like, in paragraphs that link to rows of results.md."""
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    cited = 0
    for page in PAGES:
        for paragraph in re.split(r"\n\s*\n", prose(page.read_text(encoding="utf-8"))):
            if "](results.md#" in paragraph:
                for figure in re.findall(r"\b\d+\s+of\s+\d+\b", paragraph):
                    assert f"({' '.join(figure.split())})" in results, f"{page.name}: {figure}"
                    cited += 1
    assert cited


def test_the_source_map_names_each_file():
    rows = "".join(re.findall(r"^\| (`.*?) \|", (ROOT / "csrc" / "README.md").read_text(encoding="utf-8"), re.M))
    named = re.findall(r"`([\w/]+)`", rows)
    assert len(named) == len(set(named)), sorted({name for name in named if named.count(name) > 1})
    there = {path.relative_to(ROOT / "csrc").with_suffix("").as_posix() for path in (ROOT / "csrc").rglob("*.[ch]")}
    there = {re.sub(r"^py/layout_3\w+$", "py/layout_3XX", name) for name in there}
    there = {re.sub(r"^os/linux/clock_\w+$", "os/linux/clock_NAME", name) for name in there}
    assert set(named) == there


def test_layers_of_c_include_what_contributing_allows():
    """A wing of `core/` is a layer of its own."""
    root = ROOT / "csrc"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `csrc/([\w/]+)/` \| (.*?) ?\|", text, re.M)
    allowed = {layer: re.findall("`([^`]+)`", cell) for layer, cell in rows}
    folders = [path for path in [*root.iterdir(), *(root / "core").iterdir()] if path.is_dir()]
    assert set(allowed) == {path.relative_to(root).as_posix() for path in folders}

    def layer_of(name):
        first, second, *_ = f"{name}/".split("/")
        return f"{first}/{second}" if f"{first}/{second}" in allowed else first

    for path in sorted(root.rglob("*.[ch]")):
        layer = layer_of(path.relative_to(root).as_posix())
        for name in re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), re.M):
            other = layer_of(name)
            patterns = [pattern for pattern in allowed[layer] if pattern.count("/") == name.count("/")]
            fits = other not in allowed or other == layer or any(fnmatchcase(name, pattern) for pattern in patterns)
            assert fits, f"{path.relative_to(ROOT)} includes {name}"


def test_every_output_names_a_test_or_says_that_it_is_missing():
    rows = re.findall(r"^\| (.*) \|$", (ROOT / "docs" / "outputs.md").read_text(encoding="utf-8"), re.M)
    rows = [row.split(" | ") for row in rows if not row.startswith(("output", "---"))]
    assert len(rows) > 20
    for row in rows:
        missing = any(cell.startswith("**no**") for cell in row)
        assert missing != ("::test_" in row[-1]), row


def test_pictures_are_small_and_all_are_shown():
    shown = set()
    for page in PAGES:
        for alternative, name in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert alternative, f"{page.name}: {name} has no words for readers who cannot see it"
            shown.add((page.parent / name).resolve())
    there = {path.resolve() for kind in ("png", "webp") for path in (ROOT / "docs").rglob(f"*.{kind}")}
    assert shown == there
    assert max(path.stat().st_size for path in there) < 100_000


def test_the_readme_leads_to_every_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name != "index.md":  # the README's twin on the site
            assert f"](docs/{page.name})" in readme, page.name


@pytest.fixture(scope="module")
def site():
    loader = SourceFileLoader("site_of_the_docs", str(ROOT / "tools" / "site"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_the_site_has_every_page(site):
    """`make docs` fails on a page without a place in the contents; this says so without Sphinx."""
    listed = {page for section in site.PAGES.values() for page in section}
    there = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert there | {Path(copy).stem for copy in site.COPIES.values()} | {"cli", "api"} == listed


@pytest.mark.parametrize(
    "folder, before, after",
    [
        ("docs", "[a](live.md#one-look) [b](../CONTRIBUTING.md)", "[a](live.md#one-look) [b](contributing.md)"),
        ("", "[a](docs/live.md) [b](https://example.org/x)", "[a](live.md) [b](https://example.org/x)"),
        ("csrc", "[a](../docs/live.md)", "[a](live.md)"),
        ("docs", "[a](../examples/demo.py) [b](../src/spprof/api.py)", "[a](examples/demo.py) `src/spprof/api.py`"),
        ("docs", "![picture](images/live.png)\n\n```\n[a](../x)\n```\n", "![picture](images/live.png)\n\n```\n[a](../x)\n```\n"),
    ],
)  # fmt: skip
def test_links_of_the_site(site, folder, before, after):
    assert site.with_links_of_the_site(before, folder) == after


def test_docstrings_and_signatures_of_the_site(site):
    text = "Does it.\n\nrate: how often,\n    or never\nmode: 'cpu'\n\n    code(1)"
    assert site.described(text) == "Does it.\n\n- `rate`: how often, or never\n- `mode`: 'cpu'\n\n```python\ncode(1)\n```"

    def function(self, first: int, *, second: str = "so long that it does not fit into one line") -> bool: ...

    text = "function(\n    first: int,\n    *,\n    second: str = 'so long that it does not fit into one line',\n) -> bool"
    assert site.signature_of("function", function) == text


def test_the_tutorial_shows_the_program_as_it_is():
    program = (ROOT / "examples" / "orders.py").read_text(encoding="utf-8")
    before, after = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), re.M | re.S)
    assert before in program
    results = []
    for text in (program, program.replace(before, after)):
        module = {"__name__": "orders"}
        exec(text, module)
        customers = module["make_customers"](20)
        results.append(module["total_by_country"](module["make_orders"](100, 20), customers))
    assert results[0] == results[1]


def test_commands_beside_those_of_other_profilers_are_commands():
    from spprof.cli._parser import parse

    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    commands = re.findall(r"`spprof ([^`]+)`", text)
    assert len(commands) > 20
    for command in commands:
        parse(shlex.split(command.replace("dump 4711", f"dump {os.getpid()}")))


def test_the_site_has_every_public_name(site):
    assert sorted(name for _, names in site.SECTIONS for name in names) == sorted(set(spprof.__all__) - {"__version__"})
