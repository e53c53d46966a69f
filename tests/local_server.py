"""The HTTP server of the tests that need one on loopback, and what their handlers share."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up. A kept-alive connection often ends after its test has: what its thread
    prints then would stand in what another test reads from stderr."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class LocalHandler(BaseHTTPRequestHandler):
    """Logs nothing; reads and writes whole bodies."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def reply(self, status: int, body: bytes | str, headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass
