"""A program: moto's S3 server on a free port, which it prints.

It takes one request after the other. By itself moto looks whether an object exists, and creates it a moment
later, so that two who create it at once may both be told that they have.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class _OneAtATime:
    """moto's application, which many threads call."""

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()

    def __call__(self, environment: dict[str, Any], start_response: Any) -> Any:
        with self._lock:
            return self._application(environment, start_response)


if __name__ == "__main__":
    run_simple("127.0.0.1", 0, _OneAtATime(), threaded=True, request_handler=MotoRequestHandler)
