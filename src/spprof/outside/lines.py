"""The line of an instruction, by the table of its code object: csrc/core/resolve/resolve_lines.c in Python."""

from __future__ import annotations


def line_of(rules: int, table: bytes, first_line: int, offset: int) -> int:
    """0: it has none. `rules`: SPP_L_LINES of the layout; `offset`: in bytes, -1 before the first instruction."""
    if offset < 0:
        return first_line
    if rules == 1:
        return _lnotab(table, first_line, offset)
    return _pep626(table, first_line, offset) if rules == 2 else _locations(table, first_line, offset)


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _lnotab(table: bytes, line: int, offset: int) -> int:
    at = 0
    for i in range(0, len(table) - 1, 2):
        at += table[i]
        if offset < at:
            break
        line += _signed(table[i + 1])
    return line


def _pep626(table: bytes, line: int, offset: int) -> int:
    at = 0
    for i in range(0, len(table) - 1, 2):
        at += table[i]
        if table[i + 1] != 128:
            line += _signed(table[i + 1])
        if offset < at:
            return 0 if table[i + 1] == 128 else line
    return 0


def _locations(table: bytes, line: int, offset: int) -> int:
    at = i = 0
    while i < len(table):
        first = table[i]
        i += 1
        kind = first >> 3 & 15
        if kind in (13, 14):
            value, i = _varint(table, i)
            line += -(value >> 1) if value & 1 else value >> 1
        elif 10 <= kind <= 12:
            line += kind - 10
        while i < len(table) and not table[i] & 128:  # each entry's first byte has the high bit
            i += 1
        at += 2 * ((first & 7) + 1)
        if offset < at:
            return 0 if kind == 15 else line
    return 0


def _varint(table: bytes, i: int) -> tuple[int, int]:
    """Six bits a byte, low first; bit 6 is set if more follow. And where it ends."""
    value = shift = 0
    while i < len(table):
        byte = table[i]
        i += 1
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64 or shift > 36:
            break
    return value, i
