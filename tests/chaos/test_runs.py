# SPDX-License-Identifier: MIT
"""The instrument on real servers: a minute of faults must pass, and a run whose data is tampered
with must not. TALLYBOX_CHAOS_SECONDS and TALLYBOX_CHAOS_SEED change the minute."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import chaos  # noqa: E402
import suite  # noqa: E402
import ledger  # noqa: E402
import plan  # noqa: E402

SECONDS = os.environ.get("TALLYBOX_CHAOS_SECONDS") or "60"
SEED = os.environ.get("TALLYBOX_CHAOS_SEED") or "1"
GOOD = re.compile(r"chaos: seconds=\d+ kills=(\d+) stops=(\d+) cuts=(\d+) votes=(\d+) "
                  r"lost=0 twice=0 reordered=0 totals=ok reads=ok")


class Ledger(unittest.TestCase):
    """What is in the file is what counts."""

    any_database = True

    def test_entries_come_back_in_order_and_a_torn_line_does_not(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            book = ledger.Ledger(folder / "a.ledger")
            book.write({"n": 1}, {"n": 2})
            book.write({"n": 3})
            book.close()
            with open(folder / "a.ledger", "ab") as file:
                file.write(b'{"n": 4')
            self.assertEqual([entry["n"] for entry in ledger.read(folder)], [1, 2, 3])


class Minute(unittest.TestCase):
    """The whole instrument as a person runs it."""

    def test_every_promise_holds_through_the_faults(self):
        words = [sys.executable, "-B", str(HERE / "chaos.py"), "--seconds", SECONDS, "--seed", SEED]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout, file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)
        match = GOOD.fullmatch(done.stdout.splitlines()[-1])
        self.assertTrue(match)
        for count in match.groups():
            self.assertGreater(int(count), 0)


class Tampered(unittest.TestCase):
    """Real servers and writers, no faults, and data that the test damages."""

    def setUp(self):
        self.chaos = chaos.Chaos(seed=1, seconds=2, rate=100, faults=[])
        self.addCleanup(self.chaos.close)
        self.stack = self.chaos.world.stack
        self.chaos.start()
        self.chaos.run_faults()

    def freeze_relays(self):
        """Until rows wait that no relay has read; their writers are done."""
        for name in plan.RELAYS:
            self.chaos.boss.freeze(name, self.chaos.world.roles[name].pid, 999)
        seen = self.stack.number("SELECT COALESCE(MAX(seq), 0) FROM orders")
        suite.wait_for("rows of the same keys", lambda: len(self.pairs(seen)) >= 2, 60)
        self.chaos.stop.set()
        for writer in self.chaos.writers:
            writer.join(60)
        return self.pairs(seen)

    def pairs(self, seen):
        """{key: [(seq, id, payload)...]} of the keys that have several unread rows."""
        rows = {}
        for seq, event, key, payload in self.stack.sql(
                "SELECT seq, id, aggregateid, payload FROM orders WHERE seq > %s ORDER BY seq",
                [seen]):
            rows.setdefault(key, []).append((seq, event, payload))
        return {key: several for key, several in rows.items() if len(several) > 1}

    def test_a_lost_a_doubled_and_a_reordered_event_are_all_seen(self):
        (gone, *_), (one, two, *_) = list(self.freeze_relays().values())[:2]
        self.stack.sql("DELETE FROM orders WHERE seq = %s", [gone[0]])
        for seq, (_, event, payload) in ((one[0], two), (two[0], one)):
            self.stack.sql("UPDATE orders SET id = %s, payload = %s WHERE seq = %s",
                           [event, payload, seq])
        self.chaos.heal()
        self.chaos.settle()
        doubled = self.stack.sql("SELECT content_id, content_seq FROM vote_document LIMIT 1")[0]
        self.stack.sql(
            "INSERT INTO vote_document (gmt_create, voter_id, content_id, voting, votes, "
            "create_date, event_id, content_seq) SELECT gmt_create, voter_id, content_id, voting, "
            "votes, create_date + INTERVAL 1 DAY, event_id, content_seq FROM vote_document "
            "WHERE content_id = %s AND content_seq = %s", doubled)
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            good = self.chaos.report(self.chaos.judge())
        self.assertFalse(good)
        lines = text.getvalue().splitlines()
        self.assertRegex(lines[-1], r"lost=1 twice=1 reordered=1 totals=wrong reads=ok$")
        self.assertIn(f"lost: {gone[1]}", text.getvalue())
        self.assertIn(str(self.chaos.world.folder), text.getvalue())


if __name__ == "__main__":
    unittest.main()
