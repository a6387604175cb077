"""imports.py: imports some 200 modules of the standard library."""

import says

with says.work():
    import asyncio  # noqa: F401
    import concurrent.futures  # noqa: F401
    import email.mime.multipart  # noqa: F401
    import http.server  # noqa: F401
    import logging.handlers  # noqa: F401
    import multiprocessing.pool  # noqa: F401
    import pydoc  # noqa: F401
    import sqlite3  # noqa: F401
    import unittest.mock  # noqa: F401
    import xml.etree.ElementTree  # noqa: F401
    import xmlrpc.client  # noqa: F401
