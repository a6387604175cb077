"""What `argparse` makes of words in which nothing is wrong, for `run`, whose program waits, and `attach`, whose user does:
argparse takes 15 to 20 ms to be imported and given all options."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple


class Namespace:
    """The options, as attributes."""

    def __init__(self, values: Dict[str, Any]) -> None:
        self.__dict__ = values


class _Options:
    """Takes the calls that declare options, as a parser or a group of one does. Of a `group` one option may be given."""

    hidden = ""  # argparse's word for an option that --help leaves out

    def __init__(self, values: Dict[str, Any], known: Dict[str, Tuple[str, Dict[str, Any]]], group: Any = None) -> None:
        self.values, self.known, self.group = values, known, group

    def add_argument(self, *names: str, dest: str = "", default: Any = None, **how: Any) -> None:
        dest = dest or names[-1].lstrip("-").replace("-", "_")
        if how.get("action") == "store_true":
            how["const"], default = True, False
        self.values.setdefault(dest, default)
        self.known.update((name, (dest, {**how, "group": self.group})) for name in names)

    def add_mutually_exclusive_group(self) -> _Options:
        return _Options(self.values, self.known, object())

    def add_argument_group(self, *words: str) -> _Options:
        return self


def parsed(verb: Any, argv: List[str]) -> Optional[Namespace]:
    """The options; None if argparse has to look: for help, for a mistake, and for what is written in a rare way."""
    options = _Options({"verb": argv[0]}, {})
    verb.add_arguments(options)
    (own,) = [name for name in options.known if not name.startswith("-")]  # what is no option
    words = argv[:0:-1]  # the last first
    groups: Dict[Any, Dict[str, Any]] = {}
    while words:
        name, equals, value = words[-1].partition("=")
        if words[-1] in options.known:
            name, equals = words[-1], ""
        if name == "-" or not name.startswith("-"):
            name = own
        else:
            words.pop()
        dest, how = options.known.get(name, ("", {}))
        if name == own and options.values[dest] is not None:
            return None
        group = how.get("group")
        if group is not None and groups.setdefault(group, how) is not how:
            return None
        if equals and ("nargs" in how or "const" in how):
            return None
        if how.get("nargs") == "...":
            options.values[dest] = words[::-1]
            return Namespace(options.values)
        if "const" in how:
            options.values[dest] = how["const"]
        elif not dest or not (equals or words) or (not equals and words[-1].startswith("-") and words[-1] != "-"):
            return None
        else:
            try:
                value = how.get("type", str)(value if equals else words.pop())
            except Exception:
                return None
            options.values[dest] = [*options.values[dest], value] if how.get("action") == "append" else value
            if value not in how.get("choices", (value,)):
                return None
    if options.values[own] is None and "nargs" not in options.known[own][1]:
        return None
    return Namespace(options.values)
