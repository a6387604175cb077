"""`spprof push`: a profile sent to an OpenTelemetry collector while it is taken."""

from __future__ import annotations

import argparse
import os
import signal

from ..errors import TAKEN, BadOption
from ._arguments import positive

HELP = "send a profile to a collector while it is taken"
EXAMPLES = """\
Follows the file that a running program writes, and sends what was sampled every 10 s as a profile of its own, with an HTTP POST
in the OpenTelemetry protocol. The program does not notice. While the collector cannot be reached, profiles wait (--keep). It ends
when the profile does; Ctrl-C and SIGTERM end it too, after what is left was sent; at once if the collector does not answer, or if
they come again.
The service is named by OTEL_SERVICE_NAME, else after the program; headers can come from OTEL_EXPORTER_OTLP_HEADERS too.
Needs the package opentelemetry-proto: pip install 'spprof[otlp]'

examples:
  spprof run --rate 100 -o /var/tmp/server.spprof server.py &
  spprof push /var/tmp/server.spprof http://127.0.0.1:4318
  spprof push FILE https://collector.example/v1development/profiles --header 'Authorization=Bearer TOKEN'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `push`."""
    parser.add_argument("file", metavar="FILE", help="a .spprof file that is being written, or will be")
    parser.add_argument("url", metavar="URL", help="the collector: http://HOST:4318, or the whole address to send to")
    parser.add_argument("--every", type=positive, default=10.0, metavar="SECONDS", help="send this often (default: 10)")
    parser.add_argument("--header", action="append", metavar="NAME=VALUE", help="a header of each request; may be repeated")
    parser.add_argument(
        "--keep",
        type=positive,
        default=64.0,
        metavar="MB",
        help="of what cannot be sent now; the oldest goes first (default: 64)",
    )


def main(options: argparse.Namespace) -> int:
    """Sends until the profile has ended; 1 if something was not taken, or the profile has no end."""
    from .. import formats

    formats.check("otlp", formats.Options())  # before anything is waited for
    from ..live.follow import Windows
    from ..live.push import Collector, Pusher, headers_of
    from ..report.text import say as put_line

    def say(text: str) -> None:
        put_line(f"spprof: {text}")

    collector = Collector(options.url, headers_of(options.header))
    follower = Windows(options.file)
    pusher = Pusher(follower, collector, options.every, int(options.keep * 1e6), say)

    def stop(number: int, frame: object) -> None:
        pusher.stopped += 1

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    if not os.path.exists(options.file):
        if not os.path.isdir(os.path.dirname(os.path.abspath(options.file))):
            raise BadOption(f"{options.file}: there is no such directory")
        say(f"waits for {options.file}")
    pusher.run()
    counts = pusher.counts
    rows = [(what, amounts) for what, amounts in counts.items() if amounts[0] or what == "sent"]
    say(", ".join(f"{_many(samples, 'sample')} in {_many(profiles, 'profile')} {what}" for what, (profiles, samples) in rows))
    if counts["left out"][0]:
        say(f"{options.file} has them all: when the collector answers, `spprof push` sends the whole file")
    if pusher.taken:
        say(f"{pusher.taken}: it was overwritten or replaced meanwhile")
        return TAKEN
    if follower.warning:
        say(f"{options.file}: {follower.warning}")
    elif not follower.ended and not pusher.stopped:
        say(f"{options.file} has no end, and its program is gone: it was killed, it seems")
    whole = (follower.ended or pusher.stopped) and not follower.warning
    return 0 if whole and not counts["refused"][0] and not counts["left out"][0] else 1


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number != 1 else "")
