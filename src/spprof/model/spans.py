"""Which span of OpenTelemetry was current when a sample was taken: the column `span` of samples (docs/traces.md)."""

from __future__ import annotations

from typing import Dict

from .layout import Columns

TRACE, SPAN = "trace_id", "span_id"  # what formats call the two ids


def names(columns: Columns) -> Dict[int, str]:
    """Each number of the column `span` -> both ids in hexadecimal digits, with a dash between; '': there was no span."""
    return {each: columns["strings"][each - 1] if each else "" for each in set(columns["span"])}


def ids(columns: Columns) -> Dict[int, Dict[str, str]]:
    """The same as a pair of `TRACE` and `SPAN`; {}: there was no span, or its name makes no sense."""
    found = {}
    for number, name in names(columns).items():
        trace, _, span = name.partition("-")
        right = len(trace) == 32 and len(span) == 16 and {*trace, *span} <= {*"0123456789abcdef"}
        found[number] = {TRACE: trace, SPAN: span} if right else {}
    return found
