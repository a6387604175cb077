"""The middleware keeps profiles of slow requests."""

from site_flask import app

from spprof.integrations.wsgi import SpprofMiddleware

app.wsgi_app = SpprofMiddleware(app.wsgi_app, slower_than=0.001, folder="slow", format="collapsed")
