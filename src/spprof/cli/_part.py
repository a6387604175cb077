"""`--focus`, `--hide`, `--show`, `--label`, `--waiting`, `--from`, `--to`: options of the verbs that show a part of a profile."""

from __future__ import annotations

import argparse
import shlex
from typing import List, Optional, Sequence, Tuple

from ..errors import BadOption
from ..files.profile import Profile
from ..model.waits import REASONS
from ._arguments import seconds


def _label(text: str) -> Tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"{text!r}: give KEY=VALUE")
    return key, value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options themselves."""
    group = parser.add_argument_group("a part of the profile")
    group.add_argument("--type", metavar="NAME", help="samples of this type, such as page-faults (default: the first)")
    named = "(a name, file or package; * and ? allowed)"
    group.add_argument("--focus", metavar="PATTERN", action="append", default=[],
                       help=f"only stacks with this function {named}; again: or with that")  # fmt: skip
    group.add_argument("--hide", metavar="PATTERN", action="append", default=[],
                       help=f"without these functions {named}: their time is their callers'")  # fmt: skip
    group.add_argument("--show", metavar="PATTERN", action="append", default=[],
                       help=f"only these functions {named}: the time of others is their callers'")  # fmt: skip
    group.add_argument("--label", metavar="KEY=VALUE", type=_label, action="append", default=[],
                       help="only samples with this label (* and ? allowed); again: with all of them")  # fmt: skip
    group.add_argument("--waiting", metavar="REASON", choices=REASONS, action="append", default=[],
                       help=f"only time of this reason: {', '.join(REASONS)}; again: or of that")  # fmt: skip
    group.add_argument("--from", dest="first", type=seconds, metavar="S", help="only from S seconds after the profile's start")
    group.add_argument("--to", dest="last", type=seconds, metavar="S", help="only up to S seconds after the profile's start")


def of_all(profiles: Sequence[Profile], options: argparse.Namespace) -> List[Profile]:
    """Those parts. Raises BadOption if nothing of any profile is left."""
    first, last = options.first, options.last
    if first is not None and last is not None and first >= last:
        raise BadOption(f"--from {first:g} is not before --to {last:g}")
    if options.type is not None:
        profiles = [profile.of(options.type) for profile in profiles]
    _check_labels(profiles, options)
    parts = _of_stacks([_of(profile, options) for profile in profiles], options)
    if any(map(_samples, profiles)) and not any(map(_samples, parts)):
        times = [
            (time - int(profile.header["start_ns"])) / 1e9
            for profile in profiles
            for each in profile.each_type()
            if len(each)
            for time in (min(each.column("time_ns")), max(each.column("time_ns")))
        ]
        raise BadOption(
            f"no sample is {parts[0].header['part']}: those of the profile were taken "
            f"{min(times):.3g} to {max(times):.3g} s after its start"
        )
    return parts


def _samples(profile: Profile) -> int:
    return sum(map(len, profile.each_type()))


def _check_labels(profiles: Sequence[Profile], options: argparse.Namespace) -> None:
    """Raises BadOption for a label that no sample of them carries."""
    from ..model.filtering import has_labels
    from ..model.labelled import values

    types = [of for profile in profiles for of in profile.each_type()]
    for key, value in options.label:
        known = sorted({each for of in types for each in values(of._columns(), key)})
        if not any(has_labels({key: each}, {key: value}) for each in known):
            has = f"{key} is {', '.join(known)}" if known else f"there is no label {key!r}"
            raise BadOption(f"no sample carries the label {key}={value} ({has})")


def _of(profile: Profile, options: argparse.Namespace) -> Profile:
    """The part that was asked for; the profile itself if it is all."""
    if not (options.label or options.waiting or options.first is not None or options.last is not None):
        return profile
    from ..model.filtering import filtered  # here: `spprof run` shares its process with the program

    def clock(seconds: Optional[float]) -> Optional[int]:
        return None if seconds is None else int(profile.header["start_ns"]) + round(seconds * 1e9)

    first, last = clock(options.first), clock(options.last)
    return filtered(profile, labels=dict(options.label), start_ns=first, stop_ns=last, waiting=options.waiting)


def _of_stacks(profiles: List[Profile], options: argparse.Namespace) -> List[Profile]:
    """What --focus, --hide and --show leave of them."""
    if not (options.focus or options.hide or options.show):
        return profiles
    from ..model.filtering import filtered  # here: `spprof run` shares its process with the program
    from ..model.shaping import shaped
    from ..report.choosing import chosen

    if options.focus:
        said = f"stacks with {' or '.join(options.focus)}"
        found = zip(profiles, chosen(profiles, options.focus))
        profiles = [filtered(profile, frames=frames, words=said) for profile, frames in found]
    if options.hide:
        said = f"what is not {' or '.join(options.hide)}"
        profiles = [shaped(profile, frames, said) for profile, frames in zip(profiles, chosen(profiles, options.hide))]
    if options.show:
        shown = zip(profiles, chosen(profiles, options.show))
        said = f"what is {' or '.join(options.show)}"
        profiles = [shaped(profile, {*profile.tree.frames[1:]} - frames, said) for profile, frames in shown]
    return profiles


def words(options: argparse.Namespace) -> str:
    """These options as a command line has them, with a blank before each."""
    given = [("--type", options.type)] if options.type is not None else []
    given += [(f"--{name}", each) for name in ("focus", "hide", "show") for each in getattr(options, name)]
    given += [("--label", f"{key}={value}") for key, value in options.label]
    given += [("--waiting", reason) for reason in options.waiting]
    given += [(name, f"{at:.12g}") for name, at in (("--from", options.first), ("--to", options.last)) if at is not None]
    return "".join(f" {name} {shlex.quote(value)}" for name, value in given)


def together(profiles: Sequence[Profile], thread: Optional[str]) -> Profile:
    """Several processes as one profile, of the threads that match a pattern. Raises BadOption if they count different things, or
    no thread matches."""
    from ..model.joining import joined  # here: `spprof run` shares its process with the program
    from ..report.tables import check

    if len(profiles) == 1:
        return profiles[0]
    check(profiles, thread, native=False)
    return joined(profiles, thread)


def title(profiles: Sequence[Profile]) -> str:
    """Which parts of profiles these are, as a line above the figures; '' if they are whole."""
    from ..report.text import printable  # here: `spprof run` shares its process with the program

    parts = sorted({printable(profile.header["part"]) for profile in profiles if profile.header.get("part")})
    return f"Only {'; '.join(parts)}; the tick stats are the whole profile's.\n" if parts else ""
