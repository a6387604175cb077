"""What a report says to programs: one JSON object of a kind that docs/report.schema.json or docs/diff.schema.json describes."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, TypeVar

from .. import __version__
from ..model.intervals import Estimate
from ..model.unicode import cleaned

Row = TypeVar("Row")


def document(kind: str, fields: Dict[str, Any]) -> str:
    """The text. `kind` says which of the schema's objects it is."""
    return json.dumps(cleaned({"spprof": __version__, "kind": kind, **fields}), indent=1) + "\n"


def limited(name: str, rows: Sequence[Row], limit: Optional[int]) -> Dict[str, Any]:
    """The first rows (None: all), and how many more there are."""
    first: List[Row] = list(rows[:limit])
    return {name: first, "more": len(rows) - len(first)}


def estimate(value: Estimate, name: str) -> Dict[str, float]:
    """A figure with its interval."""
    return {name: value.value, "low": value.low, "high": value.high}
