# SPDX-License-Identifier: MIT
"""The singleton lease of the roll-up. Two processes run. The one that works is killed or frozen, the
other one takes over, and a frozen one that continues writes nothing."""

import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

CONTENTS = 10000
LEASE_S = 10  # ROLLUP_LEASE_MS
# For the process that takes over, so that the test is short.
QUICK = {"rollup.batch_rows_max": 1000}


class RollupSingleton(suite.Case):
    """A window that takes a while, because every content is a transaction of its own."""

    seconds = 50

    # A day, so that no other window comes while a test runs.
    settings = {"rollup.interval_ms": 86400000, "rollup.batch_rows_max": 1}

    def setUp(self):
        for table in ("remark", "vote_tally", "rollup_state"):
            self.stack.sql(f"DELETE FROM {table}")
        connection = suite.connect(self.stack.name, autocommit=False)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO remark (id) VALUES (%s)",
                               [(content,) for content in range(1, CONTENTS + 1)])
            cursor.execute("INSERT INTO vote_tally (content_id, votes, seq, changed_at) "
                           "SELECT id, id %% 7, id %% 7 + 1, "
                           "UTC_TIMESTAMP(3) - INTERVAL 1 HOUR + INTERVAL id * 1000 MICROSECOND "
                           "FROM remark", ())
        connection.commit()
        connection.close()

    def done(self):
        return self.stack.number("SELECT COUNT(*) FROM remark WHERE votes_seq > 0")

    def two(self):
        """The one at work, frozen in the middle of the window, and the one that waits."""
        first = self.start("rollup", ready=False)
        self.addCleanup(lambda: first.alive() and os.kill(first.pid, signal.SIGCONT))
        suite.wait_for("some remarks", lambda: self.done() > 20, every=0.01)
        os.kill(first.pid, signal.SIGSTOP)
        self.assertLess(self.done(), CONTENTS)
        return first, self.start("rollup", sets=QUICK)

    def wait_rolled_up(self):
        """How long it took the other one to take over and end the window."""
        began = time.monotonic()
        suite.wait_for("the window to end", lambda: self.stack.number(
            "SELECT COUNT(*) FROM rollup_state WHERE finished_at IS NOT NULL"), 120)
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM remark r JOIN vote_tally t ON t.content_id = r.id "
            "WHERE r.votes <> t.votes OR r.votes_seq <> t.seq"), 0)
        return time.monotonic() - began

    def wait_taken_over(self, by):
        began = time.monotonic()
        suite.wait_for("the other one to take over", lambda: f"-{by.pid}-" in self.stack.number(
            "SELECT owner FROM rollup_state"), LEASE_S + 60)
        print(f"    taken over after {time.monotonic() - began:.1f} s", file=sys.stderr)

    def test_a_killed_one_is_followed_within_the_lease(self):
        first, second = self.two()
        first.kill()
        reached = self.done()
        self.wait_taken_over(second)
        self.wait_rolled_up()
        self.assertGreater(reached, 0)
        self.assertNotIn("rollup_finished", first.log_text())
        suite.wait_for("it to be said", lambda: "rollup_finished" in second.log_text())

    def test_a_stopped_one_hands_over_at_once(self):
        first, second = self.two()
        first.process.send_signal(signal.SIGTERM)
        os.kill(first.pid, signal.SIGCONT)
        self.assertEqual(first.wait_end(), 0)
        began = time.monotonic()
        suite.wait_for("the other one to take over", lambda: f"-{second.pid}-" in
                       self.stack.number("SELECT owner FROM rollup_state"))
        self.assertLess(time.monotonic() - began, LEASE_S - 2)
        self.wait_rolled_up()

    def test_a_frozen_one_writes_nothing_when_it_wakes(self):
        first, second = self.two()
        self.wait_taken_over(second)
        self.wait_rolled_up()
        # Whatever it would write now could be seen.
        self.stack.sql("UPDATE remark SET votes = -1, votes_seq = 0")
        os.kill(first.pid, signal.SIGCONT)
        suite.wait_for("the frozen one to see it",
                       lambda: "event=lease_lost" in first.log_text())
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM remark WHERE votes <> -1 OR "
                                           "votes_seq <> 0"), 0)
        self.assertNotIn("rollup_finished", first.log_text())

    def test_an_epoch_that_was_given_out_twice_has_one_holder(self):
        """A fail-over that lost commits gives the same epoch to another one."""
        first = self.start("rollup", ready=False)
        self.addCleanup(lambda: first.alive() and os.kill(first.pid, signal.SIGCONT))
        suite.wait_for("some remarks", lambda: self.done() > 20, every=0.01)
        os.kill(first.pid, signal.SIGSTOP)
        self.assertLess(self.done(), CONTENTS)
        # Its transaction may be open until the server ends the session.
        self.stack.sql("UPDATE rollup_state SET owner = 'another'")
        self.stack.sql("UPDATE remark SET votes = -1, votes_seq = 0")
        self.stack.sql("UPDATE rollup_state SET lease_until = UTC_TIMESTAMP(3) + INTERVAL "
                       f"{LEASE_S + 5} SECOND")
        os.kill(first.pid, signal.SIGCONT)
        suite.wait_for("the first one to see it",
                       lambda: "event=lease_lost" in first.log_text(), LEASE_S)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM remark WHERE votes <> -1 OR "
                                           "votes_seq <> 0"), 0)
        self.assertEqual(self.stack.number("SELECT owner FROM rollup_state"), "another")

    def test_windows_missed_while_all_were_down_are_made_up_for_by_one(self):
        self.stack.tallybox("rollup", "--once", sets=QUICK)
        self.stack.sql("UPDATE rollup_state SET rolled_until = UTC_TIMESTAMP(3) - INTERVAL 3 DAY, "
                       "finished_at = UTC_TIMESTAMP(3) - INTERVAL 3 DAY")
        self.stack.sql("UPDATE vote_tally SET votes = votes + 1, seq = seq + 1, changed_at = "
                       "UTC_TIMESTAMP(3) - INTERVAL 2 DAY WHERE content_id <= 10")
        role = self.start("rollup", sets=QUICK)
        suite.wait_for("the window", lambda: "event=rollup_finished" in role.log_text())
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM remark r JOIN vote_tally t ON t.content_id = r.id "
            "WHERE r.votes_seq <> t.seq"), 0)
        self.assertEqual(role.log_text().count("event=rollup_finished"), 1)


if __name__ == "__main__":
    unittest.main()
