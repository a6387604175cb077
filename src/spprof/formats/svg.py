"""A flame graph as a picture: SVG 1.1, which shows in documents, on GitHub and in mail. In a browser, alone, its script
(viewers/picture.js) zooms and searches.

The root is above, callees are below their callers, and a box is as wide as its share of all time. Functions that are called by
the same stack are in the order of their names, so two pictures can be compared. Boxes too narrow to be seen are left out.
"""

from __future__ import annotations

import os
from colorsys import hls_to_rgb
from typing import TYPE_CHECKING, BinaryIO, Dict, Iterator, List, Optional, Sequence, Tuple
from zlib import crc32

from ..model.sums import moved
from ..model.tree import Tree
from ..model.types import measured
from ..model.unicode import markup
from ._frames import Frames, Look

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options

WIDTH = 1200.0
ROW = 18
HEAD = 28  # above the boxes: the title
NARROWEST = 0.3  # of a box that is drawn
_GAP = 0.3  # between two boxes
_LETTER = 6.7  # width of one, in the monospaced font of 11
_SCRIPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "viewers", "picture.js")
_STYLE = """<style>
.back { fill: #fff } .head { fill: #16181d } .box { cursor: pointer } .box:hover rect { stroke: #16181d } .above { opacity: .6 }
.match text { font-weight: bold }
@media (prefers-color-scheme: dark) {
  .back { fill: #181a1f } .head { fill: #eceef2 } .box rect { opacity: .8 } .box:hover rect { stroke: #fff }
}
</style>
"""


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the picture of all threads that match, as one. Weights are the profile's, or ticks with weight='samples'."""
    frames = Frames(profile, lines=False)
    sums = profile.stack_sums(options.thread)
    tree = Tree()
    nodes = tree.graft(profile.tree, sums[0], lambda frame: (frames.numbers[frame],))
    own = moved(sums, nodes)[options.weight != "samples"]
    weights = [0] * len(tree)
    for node, weight in own.items():
        weights[node] += weight
    for node in range(len(tree) - 1, 0, -1):  # a parent's number is less than its child's
        weights[tree.parents[node]] += weights[node]
    boxes = list(_boxes(tree, weights, frames.looks))
    rows = max((box[1] for box in boxes), default=0) + 1
    out.write(_head(profile, rows, weights[0], sum(sums[0].values()), options.weight).encode())
    for node, depth, left, width in boxes:
        look = frames.looks[tree.frames[node]]
        out.write(_box(look, depth, left, width, weights[node], weights[0], _amount(profile, options.weight)).encode())
    with open(_SCRIPT, "rb") as script:
        out.write(b"<script><![CDATA[\n" + script.read() + b"]]></script>\n</svg>\n")


def _boxes(tree: Tree, weights: Sequence[int], looks: Sequence[Look]) -> Iterator[Tuple[int, int, float, float]]:
    """Node, depth, left edge and width of each box that can be seen, callers first."""
    scale = WIDTH / (weights[0] or 1)
    callees: Dict[int, List[int]] = {}
    for node in range(1, len(tree)):
        if weights[node] * scale >= NARROWEST:
            callees.setdefault(tree.parents[node], []).append(node)
    waiting = [(0, -1, 0.0)]
    while waiting:
        node, depth, left = waiting.pop()
        if node:
            yield node, depth, left, weights[node] * scale
        for callee in sorted(callees.get(node, ()), key=lambda each: looks[tree.frames[each]]):
            waiting.append((callee, depth + 1, left))
            left += weights[callee] * scale


def _amount(profile: ProfileData, weight: Optional[str]) -> str:
    return "samples" if weight == "samples" else "s" if profile.unit == "nanoseconds" else profile.unit


def _number(weight: int, unit: str) -> str:
    return f"{weight / 1e9:.3f} s" if unit == "s" else f"{weight:,} {unit}"


def _head(profile: ProfileData, rows: int, weight: int, samples: int, counted: Optional[str]) -> str:
    unit = _amount(profile, counted)
    kind = f" of {measured(profile.header)}" if unit == "s" else ""
    what = " ".join(map(str, profile.header.get("argv") or ["spprof"]))
    title = f"{what}: {_number(weight, unit)}{kind}" + ("" if unit == "samples" else f", {samples:,} samples")
    title += f"; only {profile.header['part']}" if profile.header.get("part") else ""
    height = HEAD + ROW * rows + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height}" width="{WIDTH:.0f}" height="{height}" '
        'font-family="monospace" font-size="11">\n'
        f'{_STYLE}<rect class="back" width="{WIDTH:.0f}" height="{height}" fill="#fff"/>\n'
        f'<text class="head" x="4" y="18" font-size="13">{markup(title if len(title) < 100 else title[:99] + "…")}</text>\n'
    )


def _box(look: Look, depth: int, left: float, width: float, weight: int, whole: int, unit: str) -> str:
    where = "" if look.native or not look.file else f" ({look.file}:{look.first_line})"
    top = HEAD + ROW * depth
    letters = int((width - 6) / _LETTER)
    name = _text(look, f"{weight / whole:.2%}", letters)
    text = f'<text x="{left + 3:.1f}" y="{top + 12.5}">{markup(name)}</text>' if letters >= 3 else ""
    size = f'width="{max(width - _GAP, _GAP):.2f}" height="{ROW - 1}"'
    return (
        f'<g class="box"><title>{markup(look.title + where)}\n{markup(_number(weight, unit))}, {weight / whole:.2%}</title>'
        f'<rect x="{left:.2f}" y="{top}" {size} fill="{_colour(look)}"/>{text}</g>\n'
    )


def _text(look: Look, share: str, letters: int) -> str:
    """Name, line and share, or what of them fits."""
    parts = look.file.replace("\\", "/").split("/")
    file = "/".join(parts[-2:] if parts[-1].startswith("__") else parts[-1:])  # `json/__init__.py`
    place = "" if look.native or not look.file else f" ({file}:{look.first_line})"
    for text in (f"{look.title}{place} {share}", f"{look.title} {share}", look.title):
        if len(text) <= letters:
            return text
    return look.title[: max(letters - 1, 0)] + "…"


def _colour(look: Look) -> str:
    """Of the file, so that calls between files show; native functions are blue, what is no function is grey."""
    if not (look.native or look.file):
        return "#dddddd"
    number = crc32((look.library if look.native else look.file).encode("utf-8", "replace"))
    hue, light = (200 + number % 30, 0.8) if look.native else (12 + number % 40, 0.68 + look.first_line % 5 * 0.02)
    return "#" + "".join(f"{round(255 * part):02x}" for part in hls_to_rgb(hue / 360, light, 0.8))
