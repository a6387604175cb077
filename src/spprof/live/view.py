"""The live view on the terminal, drawn by Textual (https://textual.textualize.io)."""

from __future__ import annotations

import shlex
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from ..errors import SpprofError
from ..files.profile import Profile
from .follow import Follower
from .picture import Picture, picture, text

PERIOD = 0.5  # seconds between two pictures
REST = 3.0  # times as long as a picture took there is none: one takes longer the more stacks there are
QUIET = 5.0  # a profile writes something every two seconds, even of a program that sleeps


def _labels(text: str) -> Optional[Dict[str, str]]:
    """`route=/orders "user=Jane Doe"` as a dict; None if it is none."""
    try:
        parts = [word.partition("=") for word in shlex.split(text)]
    except ValueError:  # a quote without its end
        return None
    return {key: value for key, _, value in parts} if all(key and sign for key, sign, _ in parts) else None


class LiveView(App[None]):
    """Follows a file. `status` says what became of the program ('' while it runs); `output` gives what it newly wrote."""

    CSS = """
    Screen { layout: vertical; }
    #title { height: 1; text-style: bold; }
    #status { height: 1; color: $text-muted; }
    #threads { height: auto; max-height: 8; }
    #functions { height: 1fr; }
    #output { height: 10; display: none; border-top: solid $primary; }
    #pattern, #labels { display: none; }
    """
    BINDINGS = [  # noqa: RUF012  # Textual's own shape
        Binding("s", "sort('self')", "self"),
        Binding("t", "sort('total')", "total"),
        Binding("l", "lines", "lines"),
        Binding("f", "filter('pattern')", "threads"),
        Binding("b", "filter('labels')", "labels"),
        Binding("p", "pause", "pause"),
        Binding("z", "zero", "from now on"),
        Binding("o", "output", "output"),
        Binding("q", "quit", "quit"),
        Binding("escape", "leave_filter", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        follower: Follower,
        status: Callable[[], str] = str,
        output: Optional[Callable[[], str]] = None,
        interrupt: Optional[Callable[[], None]] = None,
    ) -> None:
        super().__init__()
        self.follower, self.status, self.output, self.interrupt = follower, status, output, interrupt
        self.sort_by, self.rows_by = "self", "function"
        self.pattern: Optional[str] = None
        self.paused = self.zeroed = False
        self.labels: Dict[str, str] = {}
        self.shown: Optional[Profile] = None
        self.wake = threading.Event()
        self.stopping = False

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(id="status", markup=False)
        for name in ("threads", "functions"):
            yield DataTable(id=name, cursor_type="none")
        yield RichLog(id="output", wrap=True, max_lines=2000)
        yield Input(id="pattern", placeholder="thread name or id; * and ? allowed; empty: all")
        yield Input(id="labels", placeholder="labels, as in: route=/orders user=17; * and ? allowed in values; empty: all")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#threads", DataTable).add_columns("thread", "total", "share", "samples", "waited for")
        self.query_one("#functions", DataTable).add_columns("self", "", "total", "", "function")
        self.query_one("#title", Static).update(text(f"waiting for {self.follower.path}"))
        self.query_one("#functions").focus()
        self.run_worker(self._follow, thread=True)

    def on_unmount(self) -> None:
        self.stopping = True
        self.wake.set()

    def _follow(self) -> None:
        """In a thread of its own: reads, and hands a picture to the screen."""
        news, problem, behind = time.monotonic(), "", True
        drawn: Any = None
        while not self.stopping:
            self.wake.clear()
            begun, result = time.monotonic(), None
            try:
                if self.labels != self.follower.labels:
                    self.follower.only(self.labels)
                    behind = True
                while self.follower.read():
                    news, behind = time.monotonic(), True
                    if self.stopping:
                        return
                if self.zeroed:
                    self.zeroed, behind = False, True
                    self.follower.forget()
                if behind and not self.paused:
                    self.shown, behind = self.follower.profile(), False
                wanted = self.shown, self.pattern, self.sort_by, self.rows_by
                if self.shown is not None and wanted != drawn:
                    result, drawn = self._picture(self.shown), wanted
            except (SpprofError, OSError) as error:
                problem, result = str(error), None
            state = text(problem or self.follower.warning or self._state(time.monotonic() - news))
            if not self.stopping:
                self.call_from_thread(self._show, result, state)
            self.wake.wait(max(PERIOD, REST * (time.monotonic() - begun)))

    def _picture(self, shown: Profile) -> Picture:
        return picture(shown, self.pattern, self.sort_by, self.rows_by, self.follower.labels)

    def _state(self, quiet: float) -> str:
        words = [self.status() or self._ended() or self._news(quiet)]
        words += ["PAUSED"] if self.paused else []
        words += [f"threads: {self.pattern}"] if self.pattern else []
        words += [f"labels: {' '.join(map('='.join, self.labels.items()))}"] if self.labels else []
        return " · ".join([*words, f"by {self.rows_by}"])

    def _ended(self) -> str:
        """How the profile ended, and what is missing from it then; "" if it has no end."""
        if self.shown is None or self.shown.end is None:
            return ""
        return f"{self.shown.unfinished or 'the profile has ended'} · q leaves"

    def _news(self, quiet: float) -> str:
        if quiet <= QUIET:
            return "running"
        if self.follower.is_left():
            return "the program is gone without an end of the profile: it was killed, it seems · q leaves"
        return f"no news for {quiet:.0f} s"

    def _show(self, result: Optional[Picture], state: str) -> None:
        self.query_one("#status", Static).update(state)
        if result is not None:
            self.query_one("#title", Static).update(result.title)
            self._fill("#threads", result.threads)
            self._fill("#functions", result.functions)
        if self.output is not None:
            new = self.output()
            if new:
                self.query_one("#output", RichLog).write(Text.from_ansi(new.rstrip("\n")))

    def _fill(self, name: str, rows: Sequence[Tuple[str, ...]]) -> None:
        table: DataTable[Any] = self.query_one(name, DataTable)
        x, y = table.scroll_x, table.scroll_y
        table.clear()
        for row in rows:
            cells: List[Text] = [Text(cell, justify="right" if cell[:1].isdigit() else "left", no_wrap=True) for cell in row]
            table.add_row(*cells)
        table.scroll_to(x, y, animate=False)

    def action_sort(self, by: str) -> None:
        self.sort_by = by
        self.wake.set()

    def action_lines(self) -> None:
        self.rows_by = "line" if self.rows_by == "function" else "function"
        self.wake.set()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.wake.set()

    def action_zero(self) -> None:
        self.zeroed = True
        self.wake.set()

    def action_output(self) -> None:
        log = self.query_one("#output")
        log.display = self.output is not None and not log.display

    def action_filter(self, field: str) -> None:
        self.action_leave_filter()
        self.query_one(f"#{field}").display = True
        self.set_focus(self.query_one(f"#{field}"))  # at once: a user may type as soon as the field is visible

    def action_leave_filter(self) -> None:
        for field in ("#pattern", "#labels"):
            self.query_one(field).display = False
        self.set_focus(self.query_one("#functions"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "labels":
            labels = _labels(event.value)
            if labels is None:
                event.input.placeholder = f"{event.value!r} is none: give KEY=VALUE, several with spaces between; empty: all"
                event.input.value = ""
                return
            self.labels = labels
            self.paused = False  # the kept moment has no labels any more
        else:
            self.pattern = event.value.strip() or None
        self.action_leave_filter()
        self.wake.set()

    def action_help_quit(self) -> None:
        """Ctrl-C: is the program's, where there is one."""
        if self.interrupt is not None:
            self.interrupt()
        else:
            self.exit()
