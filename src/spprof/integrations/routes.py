"""The route that a request takes, as its framework writes it: `/item/{id}`. It is asked before the application runs, for a label
is of what follows. No framework is imported: what an application is shows in what it has."""

from __future__ import annotations

import sys
from typing import Any, Dict

_FULL = 2  # starlette.routing.Match


def of_asgi(application: Any, scope: Dict[str, Any]) -> str:
    """'' if nobody knows: the application is of another framework, or has no such route."""
    try:
        routes = getattr(scope.get("app") or application, "routes", None)
        return _of_starlette(routes, scope) if routes else _of_django(application, scope["path"])
    except Exception:  # whatever a framework raises, the request is none of our business
        return ""


def of_wsgi(application: Any, environ: Dict[str, Any]) -> str:
    """The same. Flask is often given as its method `wsgi_app`."""
    try:
        routes = getattr(getattr(application, "__self__", application), "url_map", None)
        if routes is None:
            return _of_django(application, environ.get("PATH_INFO", ""))
        return str(routes.bind_to_environ(environ).match(return_rule=True)[0].rule)
    except Exception:  # as above
        return ""


def _of_starlette(routes: Any, scope: Dict[str, Any]) -> str:
    for route in routes:
        match, more = route.matches(scope)
        if match.value == _FULL:
            inner = getattr(route, "routes", None)  # of what is mounted there
            return str(route.path) + (_of_starlette(inner, {**scope, **more}) if inner else "")
    return ""


def _of_django(application: Any, path: str) -> str:
    urls = sys.modules.get("django.urls")
    if urls is None or not type(application).__module__.startswith("django."):
        return ""
    return "/" + str(urls.resolve(path).route)
