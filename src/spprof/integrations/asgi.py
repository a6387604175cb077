"""`SpprofMiddleware` for ASGI applications (https://asgi.readthedocs.io): FastAPI, Starlette, Django and others."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict

from .. import _core
from .routes import of_asgi
from .web import ANSWER, HEADER, Recorder, Settings

Scope = Dict[str, Any]
Receive = Callable[[], Awaitable[Dict[str, Any]]]
Send = Callable[[Dict[str, Any]], Awaitable[None]]

_TOKEN = HEADER.lower().encode()


class SpprofMiddleware:
    """Profiles single requests of an ASGI application. Options are those of `spprof.integrations.wsgi.SpprofMiddleware`.

        app.add_middleware(SpprofMiddleware, slower_than=1.0, folder="/var/tmp/slow")      # FastAPI, Starlette
        application = SpprofMiddleware(application, token=os.environ["SPPROF_TOKEN"])      # any

    Requests that run at the same time take turns on one thread. Each has the samples that were taken in its own task, and in
    threads that work for it (`asyncio.to_thread`, FastAPI's plain functions). While it awaits something it has none:
    nothing of it is on a stack. It lasts until the last part of its response was sent. Only HTTP requests are profiled."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], **options: Any) -> None:
        self.app = app
        self.recorder = Recorder(Settings(**options))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        recorder = self.recorder
        header = next((value for name, value in scope["headers"] if name == _TOKEN), b"")
        wanted = recorder.asked(header.decode("latin-1"), scope.get("query_string", b"").decode("latin-1"))
        request = recorder.begin(scope["method"], scope["path"], wanted, lambda: of_asgi(self.app, scope))
        if request is None:
            return await self.app(scope, receive, send)
        id, stop_ns = request.id.encode(), 0

        async def pass_on(message: Dict[str, Any]) -> None:
            nonlocal stop_ns
            if message["type"] == "http.response.start" and wanted and request.take:
                message = {**message, "headers": [*message.get("headers", ()), (ANSWER.lower().encode(), id)]}
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                stop_ns = _core.now_ns()

        try:
            with request.label():
                await self.app(scope, receive, pass_on)
        finally:
            recorder.end(request, stop_ns or _core.now_ns())
