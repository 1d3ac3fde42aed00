"""A port behind which a server is, or is not."""

from __future__ import annotations

import contextlib
import socket
from threading import Thread


class Forwarder:
    """Hands connections on to a server on this machine, until it is cut; then they are refused.

    Args:
        server: The server's port.

    Attributes:
        port: Where to connect.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._connections: list[socket.socket] = []
        self._listener = self._listen(0)
        self.port = int(self._listener.getsockname()[1])

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        Thread(target=self._accept, args=[listener], daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                self._connections += [client, server]
                for source, target in ((client, server), (server, client)):
                    Thread(target=_pump, args=[source, target], daemon=True).start()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        for each in [self._listener, *self._connections]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._connections.clear()

    def mend(self) -> None:
        """Take connections again, under the same port."""
        self._listener = self._listen(self.port)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
