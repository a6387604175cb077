"""Requests of a program: when each began and how long it took (docs/requests.md)."""

from __future__ import annotations

import json
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

LABEL = "request"  # samples of a request have its id by this label


class Request(NamedTuple):
    """A request that began and ended while the profile was taken. `labels` are those of its samples,
    `time_ns`, when it began, is on their clock."""

    time_ns: int
    duration_ns: int
    labels: Dict[str, str]

    @property
    def id(self) -> str:
        """What its samples have as label `request`."""
        return self.labels.get(LABEL, "")


def made(rows: Iterable[Tuple[int, ...]], strings: Sequence[str]) -> List[Request]:
    """Of a file's rows: beginning, duration, the id of the string that its labels are. Damaged ones are left out."""
    found: List[Request] = []
    known: Dict[int, Dict[str, str]] = {}
    for time_ns, duration_ns, text in rows:
        if text not in known:
            known[text] = _labels(strings[text]) if 0 <= text < len(strings) else {}
        if known[text]:
            found.append(Request(time_ns, duration_ns, known[text]))
    return sorted(found, key=lambda request: request.time_ns)


def _labels(text: str) -> Dict[str, str]:
    try:
        labels = json.loads(text)
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in labels.items()} if isinstance(labels, dict) else {}
