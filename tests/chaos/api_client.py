# SPDX-License-Identifier: MIT
"""Requests to the serve processes, on connections that are kept, with the one token of the run."""

import collections
import http.client
import json

TOKEN = "chaos-" + "0123456789" * 3
GROUP = "clients"  # of tasks
TOKEN_LINE = f"{TOKEN} votes read remarks tasks:{GROUP}\n"

Answer = collections.namedtuple("Answer", "status body")


class ApiClient:
    """Of one thread."""

    def __init__(self, ports):
        self.ports = ports
        self.connections = {}

    def ask(self, port, method, path, body=None, seconds=10):
        """The Answer, or None when none came: then the request may have worked or not. An answer
        that asks to try later says when."""
        connection = self.connections.pop(port, None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        try:
            if connection.sock:
                connection.sock.settimeout(seconds)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            later = answer.getheader("Retry-After")
            result = Answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        self.connections[port] = connection
        if result.status in (429, 503) and not (later or "").isdigit():
            raise AssertionError(f"{method} {path} was answered {result.status} with Retry-After "
                                 f"{later!r}: {result.body[:300]}")
        return result

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()
