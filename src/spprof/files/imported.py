"""A profile of exact times of imports: each import is a frame below the one within which it came (docs/slow-import.md)."""

from __future__ import annotations

from typing import List, Tuple

from ..errors import BadOption
from ..model.columns import finished
from ..readers._columns import Columns
from .profile import Profile


def imported(profile: Profile) -> Profile:
    """Weights are wall time of the import itself, counts are imports. Raises BadOption if the run timed none."""
    if profile.header.get("part") or profile.imports is None:
        raise BadOption("there are no times of imports; take a whole profile with `spprof run --imports`")
    names = {each.get("tid"): each.get("name", "") for each in profile._columns()["threads"].values()}
    about = {key: profile.header[key] for key in ("pid", "command", "python") if key in profile.header}
    made = Columns("imports", "nanoseconds", **about)
    stacks: List[Tuple[int, int]] = []
    for row in profile.imports:
        name = f"{row.name} [failed]" if row.failed else row.name
        stacks.append(made.called(stacks[row.parent] if row.parent >= 0 else (0, 0), made.frame(name, row.file)))
        made.sample(made.thread(names.get(row.tid, ""), row.tid), stacks[-1], row.self_ns, 1)
    return Profile.of_columns(finished(made.result()))
