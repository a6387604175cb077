"""`SpprofMiddleware` for WSGI applications (PEP 3333): Django, Flask and others."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from .. import _core
from .routes import of_wsgi
from .web import ANSWER, HEADER, Recorder, Request, Settings

_TOKEN = "HTTP_" + HEADER.upper().replace("-", "_")


class SpprofMiddleware:
    """Profiles single requests of a WSGI application.

        application = SpprofMiddleware(application, slower_than=1.0, folder="/var/tmp/slow")

    Without options nothing is profiled; if somebody else profiles the process, samples have the labels request, method and path.

    token: requests with this secret (16 characters at least) in the header X-Spprof-Token are profiled; their responses have a
        header X-Spprof-Request with the id that ends the name of the file.
    slower_than: seconds. All requests are profiled, and the profiles of those that took longer are kept.
    folder: where they are written, after the response (default `spprof-requests`; made for its owner alone).
    events: what is sampled, as of `spprof.start` (default: time); a page has all, other formats what they can hold.
    mode: 'wall' (default with time) or 'cpu'; rate: samples a second of a thread (default: 100 with slower_than, else 1000).
    format: any but 'spprof' (default: 'html', or 'speedscope' where there is none).
    keep: files of a process; older ones are deleted (default 100).
    query: the name of a parameter of the query that may carry the token too. Off by default: queries end up in logs.

    Raises BadOption. What goes wrong later is logged (`spprof`) and harms no request."""

    def __init__(self, app: Callable[..., Iterable[bytes]], **options: Any) -> None:
        self.app = app
        self.recorder = Recorder(Settings(**options))

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        recorder = self.recorder
        wanted = recorder.asked(environ.get(_TOKEN), environ.get("QUERY_STRING", ""))
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        request = recorder.begin(environ.get("REQUEST_METHOD", ""), path, wanted, lambda: of_wsgi(self.app, environ))
        if request is None:
            return self.app(environ, start_response)
        id = request.id

        def start(status: str, headers: List[Any], *exc_info: Any) -> Any:
            return start_response(status, [*headers, (ANSWER, id)], *exc_info)

        try:
            with request.label():
                body = self.app(environ, start if wanted and request.take else start_response)
        except BaseException:
            recorder.end(request, _core.now_ns())
            raise
        # A list is ready, and a file is for the server to send: nothing of the application runs any more.
        if isinstance(body, (list, tuple)) or type(body) is environ.get("wsgi.file_wrapper"):
            recorder.end(request, _core.now_ns())
            return body
        return _Body(body, recorder, request)


class _Body:
    """A body that the application makes while it is sent: each part under the request's labels."""

    def __init__(self, body: Iterable[bytes], recorder: Recorder, request: Request) -> None:
        self.body = body
        self.parts: Iterator[bytes] = iter(body)
        self.recorder = recorder
        self.request: Optional[Request] = request
        self.label = request.label

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self.label():
            return next(self.parts)

    def close(self) -> None:
        """Called by the server at the end, whatever that was."""
        try:
            with self.label():
                getattr(self.body, "close", lambda: None)()
        finally:
            request, self.request = self.request, None
            if request is not None:
                self.recorder.end(request, _core.now_ns())
