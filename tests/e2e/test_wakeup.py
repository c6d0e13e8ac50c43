# SPDX-License-Identifier: MIT
"""relay.wakeup = binlog: the binary log tells the lanes when to read, and nothing depends on it."""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

ACCOUNT = "tallybox_relay"
REVOKE = f"REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM '{ACCOUNT}'@'%'"
CONNECTED = "tallybox_relay_wakeup_connected"
# An idle table is read once a second. Five of nine rows are published as soon as this by chance once in
# a thousand times.
SOON_S, TRIES = 0.15, 9
LANES = ("outbox", "outbox_1")


class Wakeup(suite.Case):
    """A relay of two lanes whose idle polls are a second apart, as long as the log is followed."""

    seconds = 75
    settings = {"relay.wakeup": "binlog", "relay.poll_idle_ms": 60000, "relay.lanes": ",".join(LANES),
                "api.lane_count": len(LANES)}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.tallybox("lanes", "set", len(LANES))
        cls.stack.add_privileges("relay_wakeup", ACCOUNT)
        # They are for the whole server, which has other tests.
        cls.addClassCleanup(cls.stack.sql, REVOKE)
        cls.relay = cls.stack.role("relay")
        cls.wait_connected(cls.relay)

    @staticmethod
    def wait_connected(relay):
        suite.wait_for("the relay to follow the binary log", lambda: relay.metric(CONNECTED) == 1)

    def threads(self):
        return self.stack.sql("SELECT id FROM information_schema.processlist WHERE command LIKE "
                              "'Binlog Dump%%' AND user = %s", [ACCOUNT])

    def append(self, lane="outbox"):
        self.stack.sql(f"INSERT INTO {lane} (id, aggregatetype, aggregateid, type) "
                       "VALUES (UUID(), 'wakeup', '1', 'x')")

    def published(self, lane):
        return self.relay.metrics().get(f'tallybox_relay_published_total{{lane="{lane}"}}', 0)

    def publish(self, lane="outbox"):
        """Appends one row; how long it took until it was published, in seconds."""
        before, began = self.published(lane), time.monotonic()
        self.append(lane)
        suite.wait_for("the row to be published", lambda: self.published(lane) == before + 1, 70)
        return time.monotonic() - began

    def become_idle(self):
        """Longer than a lane polls as if more rows came."""
        time.sleep(1.5)

    def assert_soon(self, took):
        """Most of them: some may meet a pause of the machine."""
        self.assertLess(sorted(took)[len(took) // 2], SOON_S, took)

    def publish_when_idle(self, lane="outbox"):
        self.become_idle()
        return self.publish(lane)

    def test_a_row_is_published_soon_although_idle_lanes_are_seldom_read(self):
        for lane in LANES:
            self.publish(lane)  # makes the topic
            self.assert_soon([self.publish_when_idle(lane) for _ in range(TRIES)])

    def test_rows_of_a_transaction_that_took_long_are_published(self):
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type) "
                           "VALUES (UUID(), 'wakeup', '2', 'x')")
            self.become_idle()
            before = self.published("outbox")
            connection.commit()
        suite.wait_for("the row to be published", lambda: self.published("outbox") == before + 1, 5)

    def test_a_lost_stream_is_begun_again_and_told(self):
        self.assertEqual(len(self.threads()), 1)
        for (thread,) in self.threads():
            self.stack.sql(f"KILL {thread}")
        suite.wait_for("the loss to be told", lambda: "check=wakeup" in self.relay.log_text())
        self.assertTrue(self.relay.ready())
        self.wait_connected(self.relay)
        suite.wait_for("one reader", lambda: len(self.threads()) == 1)
        self.publish()
        self.assert_soon([self.publish_when_idle() for _ in range(TRIES)])

    def test_statements_wake_it_where_the_log_has_no_rows(self):
        """MariaDB's default is MIXED: an INSERT with constants is logged as it is."""
        self.publish()
        took = []
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.execute("SET binlog_format = STATEMENT")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for number in range(TRIES):
                self.become_idle()
                before, began = self.published("outbox"), time.monotonic()
                cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type) "
                               f"VALUES ('{number}', 'wakeup', '1', 'x')")
                suite.wait_for("the row to be published",
                               lambda before=before: self.published("outbox") == before + 1, 70)
                took.append(time.monotonic() - began)
        self.assert_soon(took)

    if suite.DATABASE == "mysql":
        def test_compressed_transactions_wake_it_too(self):
            self.publish()
            self.become_idle()
            before, began = self.published("outbox"), time.monotonic()
            with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
                cursor.execute("SET binlog_transaction_compression = ON")
                cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                               "VALUES (UUID(), 'wakeup', '1', 'x', REPEAT('x', 10000))")
            suite.wait_for("the row to be published", lambda: self.published("outbox") == before + 1)
            self.assertLess(time.monotonic() - began, 5)


class Idle(suite.Case):
    """What a relay with the settings of a new installation costs while nothing happens."""

    seconds = 30
    LOOK_S = 5

    @staticmethod
    def cpu_seconds(role):
        """utime and stime of /proc/PID/stat."""
        stat = pathlib.Path(f"/proc/{role.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def cost(self, wakeup):
        """Statements a second on the server, and CPU time of the relay in thousandths."""
        relay = self.start("relay", sets={"relay.wakeup": wakeup})
        if wakeup == "binlog":
            Wakeup.wait_connected(relay)
        time.sleep(2)
        before, cpu = self.statements(), self.cpu_seconds(relay)
        time.sleep(self.LOOK_S)
        done = ((self.statements() - before) / self.LOOK_S,
                1000 * (self.cpu_seconds(relay) - cpu) / self.LOOK_S)
        relay.end()
        return done

    def statements(self):
        return int(self.stack.sql("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])

    def test_an_idle_lane_is_read_once_a_second(self):
        self.stack.add_privileges("relay_wakeup", ACCOUNT)
        self.addCleanup(self.stack.sql, REVOKE)
        (polled, cpu), (told, cpu_told) = self.cost("off"), self.cost("binlog")
        print(f"idle: {polled:.0f} statements/s and {cpu:.1f} thousandths of a core, with the binary log "
              f"{told:.0f} and {cpu_told:.1f}")
        # 25 ms apart without, of which a busy machine loses some. Looks, leases and heartbeats are about
        # eight of the others.
        self.assertGreater(polled, told)
        self.assertLess(told, 15)


class WithoutPrivilege(suite.Case):
    """The account may not read the binary log."""

    seconds = 15
    settings = {"relay.wakeup": "binlog"}

    def test_rows_are_published_by_polling_and_readiness_says_why(self):
        relay = self.start("relay")
        self.stack.append([{"id": "x", "aggregatetype": "wakeup", "aggregateid": "1", "type": "x"}])
        self.stack.wait_drained()
        suite.wait_for("the reason", lambda: "REPLICATION SLAVE" in relay.why_not_ready())
        self.assertTrue(relay.ready())
        self.assertIn("wakeup: warning: no binary log comes, so the lanes are polled as without it",
                      relay.why_not_ready())
        self.assertEqual(relay.metric(CONNECTED), 0)


if __name__ == "__main__":
    unittest.main()
