"""The label `route` of the middlewares, by real frameworks."""

from __future__ import annotations

import sys

import pytest

from spprof.integrations.routes import of_asgi, of_wsgi


def scope(path, app=None, method="GET"):
    return {"type": "http", "method": method, "path": path, "root_path": "", "headers": [], **({"app": app} if app else {})}


def environ(path):
    about = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "SCRIPT_NAME": "", "SERVER_NAME": "x", "SERVER_PORT": "80"}
    return {**about, "wsgi.url_scheme": "http"}


def test_fastapi():
    fastapi = pytest.importorskip("fastapi")
    app, inner = fastapi.FastAPI(), fastapi.FastAPI()
    app.get("/item/{id}")(lambda id: id)
    inner.get("/user/{name}")(lambda name: name)
    app.mount("/api", inner)
    for asked in (of_asgi(app, scope("/item/7")), of_asgi(None, scope("/item/7", app))):
        assert asked == "/item/{id}"
    assert of_asgi(app, scope("/api/user/x")) == "/api/user/{name}"
    assert of_asgi(app, scope("/nothing")) == "" == of_asgi(app, scope("/item/7", method="POST"))


def test_flask():
    flask = pytest.importorskip("flask")
    app = flask.Flask("shop")
    app.route("/item/<int:id>")(lambda id: str(id))
    assert of_wsgi(app, environ("/item/7")) == of_wsgi(app.wsgi_app, environ("/item/7")) == "/item/<int:id>"
    assert of_wsgi(app, environ("/nothing")) == ""


def test_django(monkeypatch):
    django = pytest.importorskip("django")
    from django.conf import settings

    if not settings.configured:
        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
        django.setup()
    from django.core.handlers.wsgi import WSGIHandler
    from django.urls import path, set_urlconf

    monkeypatch.setattr(sys.modules[__name__], "urlpatterns", [path("item/<int:id>/", lambda request, id: None)], raising=False)
    set_urlconf(__name__)
    try:
        handler = WSGIHandler()
        assert of_wsgi(handler, environ("/item/7/")) == "/item/<int:id>/"
        assert of_wsgi(handler, environ("/nothing")) == ""
    finally:
        set_urlconf(None)


def test_of_others_nobody_knows_it():
    assert of_wsgi(lambda environ, start: [], environ("/x")) == ""
    assert of_asgi(lambda scope, receive, send: None, scope("/x")) == ""
