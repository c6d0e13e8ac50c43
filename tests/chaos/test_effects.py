# SPDX-License-Identifier: MIT
"""What the handlers http and exec change, without a tallybox."""

import http.client
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import effects  # noqa: E402
import ledger  # noqa: E402
import task_operator  # noqa: E402


class Effects(unittest.TestCase):
    """Each effect is in the ledger under its idempotency key, whatever was answered."""

    any_database = True

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def recorded(self):
        return [(entry["handler"], entry["event"], entry["key"], entry["n"])
                for entry in ledger.read(self.folder)]

    def server(self):
        server = effects.Url(self.folder, 1)
        self.addCleanup(server.close)
        return server

    def post(self, server, event, body):
        """The status, or None for an answer that was lost."""
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        try:
            connection.request("POST", "/effect", body, {"Idempotency-Key": event})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def test_a_healthy_server_records_what_it_accepts_and_nothing_else(self):
        server = self.server()
        server.healthy = True
        self.assertEqual(self.post(server, "e1", "key 7\n"), 200)
        self.assertEqual(self.post(server, "e2", "key 0 refused\n"), 422)
        self.assertEqual(self.recorded(), [("http", "e1", "key", 7)])

    def test_a_server_fails_before_and_behind_the_effect_and_loses_answers(self):
        server = self.server()
        fates = iter([(503, 0, None), ("reset", 0, None), (None, 0, 500), (None, 0, "reset")])
        server.fate = lambda: next(fates)
        answers = [self.post(server, f"e{n}", f"key {n}\n") for n in range(4)]
        self.assertEqual(answers, [503, None, 500, None])
        self.assertEqual([event for _, event, *_ in self.recorded()], ["e2", "e3"])

    def test_every_fate_comes(self):
        server = self.server()
        server.is_down = lambda: False
        fates = [server.fate() for _ in range(2000)]
        for place, wanted in ((0, {None, 503, 429, "reset"}), (2, {None, 500, "reset"})):
            self.assertEqual({fate[place] for fate in fates}, wanted)
        self.assertIn(effects.LATE_S, {fate[1] for fate in fates})

    def test_a_program_records_before_it_says_that_it_is_done(self):
        program = effects.write_program(self.folder, self.folder)
        codes = set()
        for n in range(40):
            before = len(self.recorded())
            done = subprocess.run([program], input=f"key {n}\n".encode(), timeout=30, check=False,
                                  env={**os.environ, "TALLYBOX_IDEMPOTENCY_KEY": f"e{n}"})
            codes.add(done.returncode)
            if done.returncode == 0:
                self.assertEqual(self.recorded()[before:], [("exec", f"e{n}", "key", n)])
        self.assertIn(0, codes)
        self.assertGreater(len(codes), 1)
        before = len(self.recorded())
        done = subprocess.run([program], input=b"key 0 refused\n", timeout=30, check=False,
                              stderr=subprocess.DEVNULL)
        self.assertEqual((done.returncode, len(self.recorded())), (100, before))

    def test_the_operator_decides_the_same_at_every_look(self):
        actions = [task_operator.action_for(f"event-{n}") for n in range(300)]
        self.assertEqual(actions, [task_operator.action_for(f"event-{n}") for n in range(300)])
        self.assertGreater(actions.count("skip"), 50)
        self.assertGreater(actions.count("correct"), 100)


if __name__ == "__main__":
    unittest.main()
