# SPDX-License-Identifier: MIT
"""What every test waits with: a row, a topic or a listener that is not there yet is waited for."""

import http.client
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402


class NotYet(suite.Case):
    """Each of them comes a moment after the first look."""

    any_database = True

    def wait(self, probe, act):
        """Acts once, after the first look. Not in a thread: a role is killed with the thread that
        started it."""
        acts = [act]

        def look():
            try:
                return probe()
            finally:
                if acts:
                    acts.pop()()
        return suite.wait_for("what is not there yet", look)

    def test_a_row_is_waited_for(self):
        found = self.wait(
            lambda: self.stack.number("SELECT owner FROM relay_lease WHERE lane = 'later'"),
            lambda: self.stack.sql("INSERT INTO relay_lease (lane, owner, epoch, lease_until) VALUES "
                                   "('later', 'me', 1, UTC_TIMESTAMP(3))"))
        self.assertEqual(found, "me")

    def test_a_topic_is_waited_for(self):
        topic = f"later-{self.stack.name}"
        bootstrap = suite.kafka().bootstrap

        def make():
            wire.create_topic(bootstrap, topic, 1)
            wire.produce(bootstrap, topic, b"there")
        record, = self.wait(lambda: self.stack.records(topic), make)
        self.assertEqual(record.value, b"there")

    def test_a_listener_is_waited_for(self):
        role = self.start("relay")
        port = role.admin_port
        role.terminate()
        found = self.wait(lambda: suite.http_call(port, "GET", "/healthz").status, role.start)
        self.assertEqual(found, 200)

    def test_a_file_is_waited_for(self):
        path = self.stack.folder / "later"
        self.assertEqual(self.wait(path.read_text, lambda: path.write_text("there")), "there")

    def test_what_never_comes_is_named_at_the_end(self):
        with self.assertRaises(AssertionError) as caught:
            suite.wait_for("nothing", lambda: self.stack.number("SELECT 1 FROM outbox"), 0.2)
        self.assertIn("no row: SELECT 1 FROM outbox", str(caught.exception))

    def test_any_other_failure_ends_the_wait(self):
        for kind in (ValueError, http.client.BadStatusLine, AssertionError):
            def look(kind=kind):
                raise kind("at once")
            with self.subTest(kind=kind), self.assertRaises(kind):
                suite.wait_for("nothing", look, 60)


if __name__ == "__main__":
    unittest.main()
