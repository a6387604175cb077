"""The middleware with no option: each sample has the route of its request."""

from site_flask import app

from spprof.integrations.wsgi import SpprofMiddleware

app.wsgi_app = SpprofMiddleware(app.wsgi_app)
