# SPDX-License-Identifier: MIT
"""The clients of the registry and their moods, without a tallybox."""

import http.client
import http.server
import json
import pathlib
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import clients  # noqa: E402
import ledger  # noqa: E402


class Beats(http.server.BaseHTTPRequestHandler):
    """The API: the second beat is not answered."""

    seen = []

    def do_POST(self):  # pylint: disable=invalid-name
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(body)
        if len(self.seen) == 2:
            self.close_connection = True
            return
        text = b'{"configVersion":"1","beatMs":30000,"expiresMs":90000}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        """Nothing."""


class Moods(unittest.TestCase):
    """Only a good client has effects, and one that is away refuses connections."""

    any_database = True

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.clients = clients.Clients(self.folder, 1)
        self.addCleanup(self.clients.close)

    def post(self, n, event, path="/", connection=None):
        """(status, body), or None for no whole answer."""
        connection = connection or http.client.HTTPConnection(
            "127.0.0.1", self.clients.ports[n], timeout=10)
        try:
            connection.request("POST", path, "key 1\n", {"Idempotency-Key": event})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return None

    def recorded(self):
        return [entry["event"] for entry in ledger.read(self.folder)]

    def test_a_good_one_has_the_effect_and_says_so(self):
        self.assertEqual(self.post(0, "e1"), (200, b'{"code": 0}'))
        self.assertEqual(self.post(1, "e2"), (200, b'{"code": 0}'))
        self.assertEqual(self.recorded(), ["e1", "e2"])

    def test_a_wrong_one_never_says_that_it_is_done_and_has_no_effect(self):
        self.clients.change(0, "wrong")
        for wrong in clients.WRONG:
            with mock.patch.object(clients, "WRONG", [wrong]):
                answer = self.post(0, "e1")
            self.assertNotEqual(answer, (200, b'{"code": 0}'))
        self.assertEqual(self.recorded(), [])

    def test_a_hanging_one_answers_nothing(self):
        self.clients.change(0, "hangs")
        with mock.patch.object(clients, "HANG_S", 0.1):
            self.assertIsNone(self.post(0, "e1"))
        self.assertEqual(self.recorded(), [])

    def test_one_that_is_away_drops_kept_connections_and_comes_back(self):
        kept = http.client.HTTPConnection("127.0.0.1", self.clients.ports[0], timeout=10)
        self.assertEqual(self.post(0, "e1", connection=kept)[0], 200)
        kept.auto_open = 0
        self.clients.change(0, "away")
        self.assertIsNone(self.post(0, "e2", connection=kept))
        self.assertIsNone(self.post(0, "e3"))
        self.clients.change(0, "good")
        self.assertEqual(self.post(0, "e4")[0], 200)
        self.assertEqual(self.recorded(), ["e1", "e4"])

    def test_pushed_configurations_are_counted(self):
        self.assertEqual(self.post(0, "e1", "/tallybox/config")[0], 200)
        self.clients.change(1, "wrong")
        self.assertEqual(self.post(1, "e2", "/tallybox/config")[0], 503)
        self.assertEqual((self.clients.pushed, self.recorded()), (1, []))

    def test_they_beat_and_change_until_they_are_healthy(self):
        Beats.seen.clear()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Beats)
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with mock.patch.multiple(clients, GOOD_S=(0, 0), BAD_S=(0, 0), BEAT_S=0.01):
            self.clients.begin([server.server_port])
            until = time.monotonic() + 60
            while (self.clients.moods < 10 or self.clients.beats < 10) and time.monotonic() < until:
                time.sleep(0.05)
            self.clients.healthy.set()
            while any(s is None or s.mood != "good" for s in self.clients.servers) and \
                    time.monotonic() < until:
                time.sleep(0.05)
        self.assertIsNone(self.clients.error)
        self.assertGreaterEqual(self.clients.moods, 10)
        self.assertEqual({body["address"] for body in Beats.seen},
                         {f"http://{host}" for host in self.clients.hosts})
        for n in range(clients.COUNT):
            self.assertEqual(self.post(n, f"h{n}")[0], 200)

    def test_each_route_and_a_rate_come(self):
        groups = [clients.group_of(seed) for seed in range(100)]
        self.assertEqual({route for route, _ in groups}, set(clients.ROUTES))
        self.assertEqual({"rate" in policy for _, policy in groups}, {False, True})


if __name__ == "__main__":
    unittest.main()
