# SPDX-License-Identifier: MIT
"""The database fails over to a copy that has not heard of its last transactions: the copy is a data
folder taken earlier, started in the place of the killed server. What OPERATIONS.md tells the
operator to do is done here as it stands there."""

import pathlib
import re
import shutil
import sys
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_lane  # noqa: E402
import suite  # noqa: E402
import wire  # noqa: E402

CONTENTS = 10


def operator_sql():
    """The statements of the section "Fail-over"."""
    text = (suite.ROOT / "OPERATIONS.md").read_text()
    section = text.split("\n## Fail-over\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```sql\n(.*?)```", section, re.S)
    return [one.strip() for block in blocks for one in block.split(";\n") if one.strip()]


class CopyCase(suite.Case):
    """One host, two data folders."""

    # Published rows stay in the table: their deletion is still to come when the server dies. The
    # lease outlasts the fail-over: else the lane holds no rows that could deceive it.
    settings = {"relay.delete_wait_ms": 20000, "relay.lease_ms": 60000,
                "relay.send_timeout_ms": 2000}

    def take_copy(self):
        """A copy of the data as it is now; the server goes on afterwards."""
        server = suite.database()
        folder = server.folder.with_name(server.folder.name + "-copy")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir()
        server.stop()
        shutil.copytree(server.folder / "data", folder / "data")
        # A replica has a name of its own.
        (folder / "data" / "auto.cnf").unlink(missing_ok=True)
        server.restart()
        return suite.Server(server.kind, folder)

    def fail_over(self, copy):
        """The copy answers where the server did, which comes back for the other tests."""
        server = suite.database()
        server.kill()
        self.addCleanup(self.fail_back, server, copy)
        copy.start(server.port)

    def fail_back(self, server, copy):
        copy.kill()
        server.restart()


class Votes(CopyCase):
    """The votes of a copy that lost some, and how they come back."""

    seconds = 50

    def votes(self, voters):
        return [(voter, 1 + voter % CONTENTS, 1) for voter in voters]

    def seqs(self):
        """{event id: seq} of the records."""
        return {one.headers["id"]: int(one.headers["seq"]) for one in self.stack.records()}

    def test_a_copy_without_the_last_transactions_takes_over(self):
        serve, relay, consume = (self.start(name) for name in ("serve", "relay", "consume"))
        serve.vote(*self.votes(range(1, 101)))
        self.stack.wait_rows("vote_document", 100)
        copy = self.take_copy()
        for role in (serve, relay, consume):
            role.wait_ready(120)
        lost = serve.vote(*self.votes(range(101, 151)))
        self.stack.wait_rows("vote_document", 150)
        before = self.seqs()
        self.assertGreater(self.stack.number("SELECT COUNT(*) FROM outbox"), 0)

        self.fail_over(copy)
        for role in (serve, relay, consume):
            role.wait_ready(120)
        # What was published is applied again, though no new record has come.
        self.stack.wait_rows("vote_document", 150)
        fresh = serve.vote(*self.votes(range(151, 221)))
        self.stack.wait_rows("vote_document", 220)
        self.stack.wait_drained(120)
        self.check_said(relay, consume)
        after = self.seqs()
        reused = {after[one["eventId"]] for one in fresh} & {before[one["eventId"]] for one in lost}
        self.assertTrue(reused, "no seq was given out twice: the test has lost its point")

        # Votes that were answered, published and logged are not known to their writers any more.
        self.stack.verify(expect=suite.FAILED)
        serve.terminate()
        for statement in operator_sql():
            self.stack.sql(statement)
        self.stack.tallybox("verify")
        self.assertFalse(self.start("serve").vote(self.votes([101])[0])["changed"])

    def check_said(self, relay, consume):
        self.assertIn("event=database_changed", relay.log_text())
        self.assertGreater(relay.metric("tallybox_relay_database_changes_total"), 0)
        self.assertIn("event=progress_went_back", consume.log_text())
        self.assertGreater(consume.metric("tallybox_consumer_went_back_total"), 0)


class Rows(CopyCase):
    """The outbox of another service."""

    seconds = 45

    def test_rows_of_another_service_that_get_the_seqs_of_lost_ones_are_published(self):
        relay = self.start("relay")
        self.append(40)
        suite.wait_for("the rows to be published", lambda: len(self.published()) == 40)
        copy = self.take_copy()
        relay.wait_ready(120)
        self.append(40)
        suite.wait_for("the rows to be published", lambda: len(self.published()) == 80)
        self.fail_over(copy)
        fresh = self.append(60)
        self.stack.wait_drained(120)
        self.assertEqual(set(fresh) - self.published(), set(), "rows were deleted unpublished")

    def append(self, count):
        rows = [{"id": str(uuid.uuid4()), "aggregatetype": "other", "aggregateid": f"k{n % 5}",
                 "type": "Happened", "payload": str(n)} for n in range(count)]
        self.stack.append(rows)
        return [row["id"] for row in rows]

    def published(self):
        topic = f"event.{self.stack.name}.other"
        if not wire.partitions(suite.kafka().bootstrap, topic):
            return set()
        return {one.headers["id"] for one in self.stack.records(topic)}


class BinlogRows(Rows):
    """The same in a lane that reads the binary log. The log of the copy has other rows behind the
    position than that of the server that died."""

    settings = {**CopyCase.settings, "lane.outbox.source": "binlog", "lane.outbox.keep_ms": 0}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.add_privileges("relay_wakeup", binlog_lane.ACCOUNT)
        cls.addClassCleanup(cls.stack.sql, binlog_lane.REVOKE)

    def append(self, count):
        suite.wait_for("a position", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_position") == 1)
        return super().append(count)


if __name__ == "__main__":
    unittest.main()
