"""The HTTP server of the tests that need one on loopback."""

import sys
from http.server import ThreadingHTTPServer


class LocalServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up. A kept-alive connection often ends after its test has: what its thread
    prints then would stand in what another test reads from stderr."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
