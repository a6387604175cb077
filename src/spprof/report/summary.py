"""The summary of a profile as text: the tree of the user's own code, a table with error bars, waiting, the tick stats."""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence

from ..model.data import ProfileData
from .idle import busy_parts, left_out
from .import_times import in_a_sentence
from .native_calls import native_calls
from .owners import Owners
from .owntree import OwnTree
from .sources import lines_of
from .tables import Row, Table, heading, table
from .text import ESTIMATED, LEAST, amount, beside, calls_of, fit, per_call, readable, share_of
from .tick_stats import tick_stats, used_by_others, warnings
from .timed import table_of_times
from .whose import owners_of
from .words import in_words


def summary(
    profiles: Sequence[ProfileData],
    limit: Optional[int] = None,
    thread: Optional[str] = None,
    sort: str = "self",
    shown: Optional[str] = None,
    by: str = "function",
    width: int = 160,
    verbose: bool = False,
    mine: Sequence[str] = (),
    idle: bool = False,
) -> str:
    """The text that `spprof run` and `spprof report` print, of one profile or of several processes' together.

    `shown`: 'python' or 'native' as in `Profile.functions(only=)`, or 'calls' for `Profile.native_calls()`. `by`: what a row is,
    one of `tables.BY` or the key of a label. `limit`: rows, whatever they say (None: at most 15, as long as they say something).
    `width`: columns of a line of the table. `verbose`: what became of each tick, even if none was lost. `mine`: see `Owners`.
    `idle`: with the time in which threads have nothing to do, which is left out where there is any other.
    Raises BadOption if no thread matches the pattern, or if native functions are asked for and there are none."""
    profiles = list(map(readable, profiles))
    most = _ROWS if limit is None else limit
    if shown == "calls":
        lines = native_calls(profiles, most, thread, width, mine)
    else:
        busy = profiles if idle else busy_parts(profiles, thread)
        rows = table(busy, by, thread, sort, shown)
        owners = owners_of(profiles, mine)
        own = _own(rows, owners, width)
        lines = [*left_out(profiles, busy, thread), *own]
        rows_shown = rows.rows[:most] if limit is not None or rows.alone or sort == "calls" else _with_a_meaning(rows, owners)
        lines += _flat(rows, rows_shown, width, bool(own))
        if by == "function" and thread is None:
            lines += table_of_times(profiles, most, width)
            lines += in_words(profiles, width)
            lines += in_a_sentence(profiles)
    return "\n".join([*warnings(profiles), *used_by_others(profiles), *lines, "", *tick_stats(profiles, verbose)]) + "\n"


_ROWS = 15  # of a table, unless more are asked for
_OWN_ROWS = 5  # of these those of the user's functions of the largest totals


def own_code(shown: Table, owners: Owners, width: int) -> List[str]:
    """The lines of the tree of the user's own code, where a table is of functions and there is such code."""
    if shown.by != "function" or shown.sort != "self" or shown.only == "native":
        return []
    tree = OwnTree(shown.profiles, owners, shown.thread, shown.only == "python")
    return list(tree.text(shown.unit, width)) if tree else []


def _own(shown: Table, owners: Owners, width: int) -> List[str]:
    """The same with the heading of all."""
    lines = own_code(shown, owners, width)
    if not lines:
        return []
    title = f"{heading(shown.profiles, shown.thread, shown.whole)} {owners.title}, and what it calls:"
    return [title, "", *lines, *_hint(shown, owners), ""]


def _hint(shown: Table, owners: Owners) -> Iterator[str]:
    """Where most of the user's time is in one installed package, whose functions the tree does not show."""
    library = "" if owners.package else OwnTree(shown.profiles, owners, shown.thread, shown.only == "python").most_called()
    if library in owners.installed:
        yield ""
        yield f"Most of it is in {library}: --mine {library} shows its functions like yours."


def _with_a_meaning(shown: Table, owners: Owners) -> List[Row]:
    """The rows whose own time is more than nothing, and those of the user's functions whose total time is largest."""
    which = 1 if shown.sort == "total" else 0

    def is_known(row: Row, which: int) -> bool:
        time, squares = row.times(False)[which]
        return not shown.whole.is_known or shown.whole.share(time, squares=squares).is_more_than_nothing

    mine = [row for row in shown.rows if shown.by != "function" or owners.is_mine(row.what["file"], not row.what["line"])]
    mine = sorted((row for row in mine if is_known(row, 1)), key=lambda row: -row.total_weight)[:_OWN_ROWS]
    first = [row for row in shown.rows[:_ROWS] if is_known(row, which)]
    first = first[: max(0, _ROWS - sum(row not in first for row in mine))]
    return [row for row in shown.rows if row in first or row in mine] or shown.rows[:1]


def _flat(shown: Table, rows: Sequence[Row], width: int, headed: bool) -> Iterator[str]:
    """The table, with these of its rows. `headed`: whether all that shares are shares of has been said."""
    if not shown.rows:
        yield "No samples were taken." if shown.only is None else f"No samples of {shown.only} functions were taken."
        return
    yield f"By {shown.order}:" if headed else shown.heading()
    yield ""
    alone = shown.alone
    which = "total" if shown.sort == "total" else " self"
    counts = "" if not shown.has_calls else f"     calls {which} a call     "
    yield (
        f"      {shown.weight_word:<19}{shown.by}"
        if alone
        else f"      self                   total               {counts}{shown.by}"
    )
    places = [(row.what["file"], row.what["line"]) for row in rows] if shown.by == "line" else []
    text = lines_of(shown.profiles, places)
    for row in rows:
        whole = shown.whole
        cells = " ".join(f"{amount(each[0], shown.unit, whole.weight):>10} {share_of(whole, *each)}" for each in row.times(alone))
        if shown.has_calls:
            cells += f" {calls_of(row)} {per_call(shown.per_call(row))}"
        named = beside(cells, row.text, width - len(row.few)) + row.few
        source = text.get((row.what.get("file", ""), row.what.get("line", 0)), "")
        if source and len(named) + 2 + min(len(source), LEAST) <= width:
            named += "  " + fit(source, width - len(named) - 2)
        elif source:
            named += "\n" + beside(" " * len(cells), source, width)
        yield named
    if len(shown.rows) > len(rows):
        yield f"{'':{25 if alone else 49 + (len(counts) if counts else 0)}}... {len(shown.rows) - len(rows)} more (--limit)"
    if shown.hot is not None:
        yield ESTIMATED
    if shown.counted is not None and shown.counted.missing:
        yield f"Not counted: {shown.counted.missing}."
