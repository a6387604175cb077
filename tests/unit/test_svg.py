"""The picture, read by an XML parser: its boxes lie in each other as calls do, and are as wide as the samples say."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from xml.etree import ElementTree

import pytest
from browser import CHROMIUM, environment, needs_browser
from conftest import any_name, named, render
from spprof_file import Writer
from test_viewer import Browser

from spprof import BadOption, Profile
from spprof.formats.svg import NARROWEST, ROW, WIDTH
from spprof.model.records import native_name

SVG = "{http://www.w3.org/2000/svg}"


def boxes(picture):
    """Path of names from the root -> (left edge, width, tooltip's second line), by where boxes lie."""
    found = {}
    above = []  # of the rows so far: (left, right, path)
    groups = ElementTree.fromstring(picture).findall(f"{SVG}g")
    places = [
        (float(box.get("y")), float(box.get("x")), float(box.get("width")), group)
        for group in groups
        for box in [group.find(f"{SVG}rect")]
    ]
    for top, left, width, group in sorted(places, key=lambda place: place[:2]):
        name, figures = group.find(f"{SVG}title").text.split("\n")
        within = [
            path for row, low, high, path in above if row == top - ROW and low - 0.02 <= left and left + width <= high + 0.4
        ]
        (path,) = within or [()]
        path = (*path, re.sub(r" \([^()]*:\d+\)$", "", name))
        assert path not in found, "callees of one name are one box"
        found[path] = left, width, figures
        above.append((top, left, left + width, path))
    return found


def totals(profile, measure):
    """Path of names -> what its samples and those of its callees measure: from the samples, one by one."""
    sums = defaultdict(int)
    for sample in profile.samples():
        names = [native_name(frame.qualname, frame.file) if frame.native else frame.qualname for frame in sample.frames]
        for depth in range(1, len(names) + 1):
            sums[tuple(name.replace("\n", "\ufffd") for name in names[:depth])] += measure(sample)
    return sums


@pytest.mark.parametrize("weight", ["value", "samples"])
@pytest.mark.parametrize("name", ["path", "native"])
def test_boxes_are_calls(request, name, weight):
    profile = request.getfixturevalue(name)
    profile = profile if isinstance(profile, Profile) else Profile(profile)
    sums = totals(profile, (lambda sample: sample.weight) if weight == "value" else (lambda sample: sample.count))
    whole = sum(value for path, value in sums.items() if len(path) == 1)
    shown = {path: value for path, value in sums.items() if value * WIDTH / whole >= NARROWEST}
    found = boxes(render(profile, "svg", weight=weight))
    assert found.keys() == shown.keys() and len(found) >= 4
    for path, (_, width, figures) in found.items():
        assert width == pytest.approx(max(shown[path] * WIDTH / whole - 0.3, 0.3), abs=0.011)
        amount = f"{shown[path] / 1e9:.3f} s" if weight == "value" else f"{shown[path]:,} samples"
        assert figures == f"{amount}, {shown[path] / whole:.2%}"


def test_what_cannot_be_asked_for(path):
    for option in {"lines": False}, {"merge_threads": True}, {"sources": False}:
        with pytest.raises(BadOption):
            render(Profile(path), "svg", **option)
    only = boxes(render(Profile(path), "svg", thread="Main"))
    assert ("b",) not in only and ("[truncated]", "A.a", "b") in only


def test_a_profile_without_samples():
    picture = ElementTree.fromstring(render(Profile(Writer().data), "svg"))
    assert not picture.findall(f"{SVG}g") and "0.000 s" in picture.find(f"{SVG}text").text


def test_names_that_xml_cannot_hold():
    writer = Writer(argv=["a<b>&.py", "\x00\x1b]0;x\x07"])
    writer.sample([("f", "<script>alert(1)</script>\x00\ud800&\"'", "/a&b.py", 1, 1)], 6000, 1000)
    writer.flush()
    picture = render(Profile(writer.data), "svg")
    assert picture.count(b"<script") == 1 and b"<script>alert" not in picture  # the picture's own
    assert all(byte >= 32 or byte == 10 for byte in picture)
    ((name,),) = boxes(picture)
    assert name == "<script>alert(1)</script>\ufffd\\ud800&\"'"


@any_name
def test_any_name_is_xml(name):
    assert len(ElementTree.fromstring(render(named(name), "svg")).findall(f"{SVG}g")) == 3


def texts(picture):
    return [group.find(f"{SVG}text").text for group in ElementTree.fromstring(picture).findall(f"{SVG}g")]


def test_boxes_have_line_and_share_if_they_fit():
    writer = Writer(argv=["x.py"])
    for i in range(100):
        leaf = [("wide", "wide", "/a/json/__init__.py", 7, 8), ("narrow_one", "narrow_one", "/b/c.py", 3, 4)][i >= 86]
        writer.sample([("main", "main", "/app/main.py", 1, 2), leaf], 6000 + 1000 * i, 1000)
    writer.flush()
    picture = render(Profile(writer.data), "svg")
    assert texts(picture) == ["main (main.py:1) 100.00%", "wide (json/__init__.py:7) 86.00%", "narrow_one 14.00%"]
    style = ElementTree.fromstring(picture).find(f"{SVG}style").text
    assert "prefers-color-scheme: dark" in style


@needs_browser
def test_zoom_search_and_dark_in_the_browser(tmp_path):
    """A click zooms to a box, its callers stay; what is typed is found with its share; Escape undoes both."""
    writer = Writer(argv=["x.py"])
    main, a, b = (("main", "main", "/m.py", 1, 2), ("a", "a", "/a.py", 7, 8), ("b", "b", "/b.py", 3, 4))
    for i in range(100):
        writer.sample([main, [a, b][i >= 75], *([b] if i < 25 else [])], 6000 + 1000 * i, 1000)
    writer.flush()
    (tmp_path / "p.svg").write_bytes(render(Profile(writer.data), "svg"))
    browser = Browser()
    try:
        browser.open(path=str(tmp_path / "p.svg"), until="input")
        shown = """[...document.querySelectorAll('g.box')].filter((g) => g.style.display !== 'none').map((g) =>
          [g.querySelector('title').textContent.split(' ')[0], Math.round(g.querySelector('rect').getAttribute('width'))])"""
        whole = [["main", 1200], ["a", 900], ["b", 300], ["b", 300]]
        assert sorted(browser.evaluate(script=shown)) == sorted(whole)
        browser.click(selector='g.box rect[y="46"][x="0.00"]')
        assert sorted(browser.evaluate(script=shown)) == [["a", 1200], ["b", 400], ["main", 1200]]
        said = "[...document.querySelectorAll('g.box text')].map((text) => text.textContent)"
        assert "a (a.py:7) 75.00%" in browser.evaluate(script=said)
        browser.press(key="Escape")
        assert sorted(browser.evaluate(script=shown)) == sorted(whole)
        browser.press(key="/")
        for key in "B.py":
            browser.press(key=key)
        found = (
            "[...document.querySelectorAll('text.head')].map((text) => text.textContent).find((text) => text.endsWith('found'))"
        )
        assert browser.evaluate(script=found) == "50.0 % found"
        assert browser.evaluate(script="document.querySelectorAll('.match').length") == 2
        browser.press(key="Escape")
        assert browser.evaluate(script="document.querySelectorAll('.match').length") == 0
        back = "getComputedStyle(document.querySelector('.back')).fill"
        assert browser.evaluate(script=back) == "rgb(255, 255, 255)"
        browser.open(path=str(tmp_path / "p.svg"), until="input", scheme="dark")
        assert browser.evaluate(script=back) == "rgb(24, 26, 31)"
        assert browser.troubles() == []
    finally:
        browser.close()


@needs_browser
def test_a_browser_draws_it(path, tmp_path):
    (tmp_path / "p.svg").write_bytes(render(Profile(path), "svg"))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", (tmp_path / "p.svg").as_uri()]
    reported = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=True).stdout
    assert reported.count("<rect") == 1 + len(boxes(render(Profile(path), "svg"))) and "parsererror" not in reported
