# SPDX-License-Identifier: MIT
"""A binlog lane while its log, its table, its way to the server and its broker are in trouble: no row is
lost or reordered, and what cannot be read is named."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mysql_edge  # noqa: E402
import suite  # noqa: E402
from binlog_lane import ACCOUNT, REVOKE, LaneCase, OwnLaneCase, event  # noqa: E402
from ports import free_port  # noqa: E402

PROXY = suite.ROOT / "tests/chaos/proxy.py"
COMPRESSION = {"mariadb": "log_bin_compress", "mysql": "binlog_transaction_compression"}[suite.DATABASE]
# The lane notices a silent server within six seconds; a busy machine takes longer.
NOTICED_S = 20
NET_WRITE_TIMEOUT_S = 1
UPDATES = "tallybox_relay_log_updates_total"
STATEMENTS = "tallybox_relay_log_statements_total"


class Way:
    """A port that leads to the server, and on which nothing moves when a test says so."""

    def __init__(self, port):
        self.port = free_port(keep=True)
        self.process = subprocess.Popen(
            [sys.executable, str(PROXY), json.dumps({"server": [self.port, port]})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def order(self, what, seconds=0):
        print(json.dumps({"link": "server", "do": what, "seconds": seconds}), file=self.process.stdin,
              flush=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Trouble(LaneCase):
    """With the log, the way and the broker."""

    seconds = 90
    settings = {**LaneCase.settings, **suite.PATIENT}

    def log_files(self):
        return [row[0] for row in self.stack.sql("SHOW BINARY LOGS")]

    def test_small_files_that_are_deleted_under_load(self):
        self.set_global("max_binlog_size", 4096)
        relay = self.relay()
        first = self.log_files()[0]
        with self.writing() as events:
            for _ in range(15):
                time.sleep(0.1)
                self.stack.sql("FLUSH BINARY LOGS")
                # The server keeps the files that a reader is in.
                self.stack.sql("PURGE BINARY LOGS TO %s", [self.log_files()[-1]])
        self.assertNotIn(first, self.log_files())
        self.wait_records(len(events))
        self.assertEqual(self.check_order(events), 0)
        self.assertTrue(relay.ready())

    def test_checksums_and_compression_change_under_load(self):
        self.set_global("binlog_checksum", "CRC32")
        self.set_global(COMPRESSION, 0)
        relay = self.relay()
        own = []
        with self.writing() as events:
            for number in range(12):
                self.stack.sql("SET GLOBAL binlog_checksum = %s", [("NONE", "CRC32")[number % 2]])
                self.stack.sql(f"SET GLOBAL {COMPRESSION} = {number // 2 % 2}")
                # Its variables are those that the server has now, or its own.
                connection = suite.connect(self.stack.name, autocommit=False)
                if suite.DATABASE == "mysql" and number % 4 == 1:
                    with connection.cursor() as cursor:
                        cursor.execute(f"SET SESSION {COMPRESSION} = ON")
                rows = [event(self.kind, f"own-{n % 3}", len(own) + n,
                              b"%d " % (len(own) + n) + b"x" * 3000) for n in range(20)]
                self.stack.append(rows, connection=connection)
                connection.commit()
                connection.close()
                own += rows
        self.wait_records(len(events) + len(own))
        self.assertEqual(self.check_order(events + own), 0)
        self.assertTrue(relay.ready())

    def test_a_broker_that_is_away_for_longer_than_net_write_timeout(self):
        """The server cannot send what is behind the rows that the relay holds."""
        self.set_global("net_write_timeout", NET_WRITE_TIMEOUT_S)
        self.relay()
        events = [event(self.kind, f"key-{n % 5}", n, b"%d " % n + os.urandom(500000))
                  for n in range(80)]
        self.stack.append(events[:1])
        self.wait_records(1)
        broker = suite.kafka().pid
        os.kill(broker, signal.SIGSTOP)
        try:
            self.stack.append(events[1:])
            time.sleep(5 * NET_WRITE_TIMEOUT_S)
            # As the server does when its time is up.
            for thread in self.dump_threads():
                self.stack.sql(f"KILL {thread}")
        finally:
            os.kill(broker, signal.SIGCONT)
        self.wait_records(len(events), 120)
        self.check_order(events)

    def test_a_way_on_which_nothing_moves_is_noticed(self):
        way = Way(suite.database().port)
        self.addCleanup(way.close)
        relay = self.relay(sets={"mysql.port": way.port})
        events = [event(self.kind, "key", n) for n in range(3)]
        self.stack.append(events[:1])
        self.wait_records(1)
        way.order("stall", 300)
        self.stack.append(events[1:2])
        suite.wait_for("the silence to be told", lambda: "reason=cannot_read" in relay.log_text(),
                       NOTICED_S)
        self.assertRegex(relay.why_not_ready(), "outbox reading: .*the server was silent for 6 s")
        # The connection is open on one side only: its end does not arrive.
        for thread in self.dump_threads():
            self.stack.sql(f"KILL {thread}")
        way.order("heal")
        self.stack.append(events[2:])
        self.wait_records(3)
        self.check_order(events)
        suite.wait_for("the relay to be ready", relay.ready)

    def test_a_lane_that_is_faster_than_the_server_and_far_behind_is_said_to_be_behind(self):
        """Nothing waits to be read most of the time, although the log has more."""
        def age():
            return relay.metrics()['tallybox_outbox_oldest_age_seconds{lane="outbox"}']

        self.relay().terminate()
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(1000)]
        for one in events:
            self.stack.append([one])
        server = suite.database()
        edge = mysql_edge.Edge(server.host, server.port)
        self.addCleanup(edge.close)
        edge.event_s = 0.01
        relay = self.start("relay", ready=False, sets={"mysql.host": edge.host, "mysql.port": edge.port,
                                                       "admin.stale_ms": 5000})
        suite.wait_for("the lane to count as behind",
                       lambda: self.published(relay) > 20 and age() > 6)
        self.assertIn("outbox age: ", relay.why_not_ready())
        self.assertLess(self.published(relay), len(events))
        edge.event_s = 0
        self.wait_records(len(events))
        suite.wait_for("the end of the log", lambda: age() < 3)

    def test_a_log_that_expires_before_it_is_read_is_a_warning(self):
        """The lane has received the rows, but it reads them again if it is stopped now."""
        def expires():
            return relay.metrics()['tallybox_relay_log_expires{lane="outbox"}']

        relay = self.relay()
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)
        relay.wait_ready()
        broker = suite.kafka().pid
        os.kill(broker, signal.SIGSTOP)
        try:
            self.stack.append([event(self.kind, "key", 1)])
            self.purge_log()
            suite.wait_for("the metric", lambda: expires() == 1)
            self.assertRegex(relay.why_not_ready(), "outbox log: .*has deleted .* of the binary log")
        finally:
            os.kill(broker, signal.SIGCONT)
        self.wait_records(2)
        suite.wait_for("the next look", lambda: expires() == 0)

    def test_a_privilege_that_is_missing_is_named(self):
        self.stack.sql(REVOKE)
        try:
            relay = self.start("relay", ready=False)
            suite.wait_for("it to be named", lambda: "REPLICATION SLAVE" in relay.why_not_ready())
        finally:
            self.stack.add_privileges("relay_wakeup", ACCOUNT)
        suite.wait_for("the relay to be ready", relay.ready, NOTICED_S)

    def begin_anew(self):
        self.stack.sql("RESET MASTER" if suite.DATABASE == "mariadb" else "RESET BINARY LOGS AND GTIDS")

    def name_a_log_that_begins_anew(self):
        relay = self.relay()
        self.stack.append([event(self.kind, "key", n) for n in range(20)])
        self.wait_records(20)
        suite.wait_for("a saved position", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_published") == 1)
        self.begin_anew()
        self.stack.append([event(self.kind, "key", 20)])
        # Servers go on to send heartbeats of the old log.
        suite.wait_for("it to name the command", lambda:
                       "`tallybox relay source outbox binlog" in relay.why_not_ready(), 3 * NOTICED_S)
        relay.terminate()
        relay = self.start("relay", ready=False)
        suite.wait_for("it to name the command again", lambda:
                       "`tallybox relay source outbox binlog" in relay.why_not_ready(), NOTICED_S)

    def test_a_log_that_begins_anew_is_named(self):
        self.stack.sql("FLUSH BINARY LOGS")
        self.name_a_log_that_begins_anew()

    def test_a_first_file_that_begins_anew_is_named(self):
        """The new file has the name of the one that the server has sent, and is shorter."""
        self.begin_anew()
        self.name_a_log_that_begins_anew()


class Domains(OwnLaneCase):
    database = "mariadb"
    seconds = 50
    settings = {**LaneCase.settings, **suite.PATIENT}

    def test_a_domain_that_the_server_forgets_is_not_missed(self):
        """A position that the server has written keeps it."""
        relay = self.relay()
        connection = suite.connect(self.stack.name)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION gtid_domain_id = 7")
        events = [event(self.kind, "key", n) for n in range(2)]
        self.stack.append(events[:1], connection=connection)
        self.wait_records(1)
        suite.wait_for("the position to be saved", lambda: self.stack.number(
            "SELECT gtids LIKE '%%7-%%' FROM relay_position"))
        self.purge_log()
        self.stack.sql("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)")
        # The lane asks twice meanwhile, as long as nothing comes.
        time.sleep(30)
        self.stack.append(events[1:])
        self.wait_records(2)
        self.assertEqual(self.check_order(events), 0)
        self.assertNotIn("dependency_down", relay.log_text())


class Statements(LaneCase):
    """Rows in the log by whatever statement, and statements that leave rows out of it."""

    seconds = 40
    settings = {**LaneCase.settings, **suite.PATIENT}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        before = cls.stack.sql("SELECT @@GLOBAL.local_infile")[0][0]
        cls.addClassCleanup(cls.stack.sql, f"SET GLOBAL local_infile = {before}")
        cls.stack.sql("SET GLOBAL local_infile = 1")

    def insert(self, one):
        names = ", ".join(one)
        values = ", ".join("'" + (value.decode() if isinstance(value, bytes) else value) + "'"
                           for value in one.values())
        return f"INSERT INTO outbox ({names}) VALUES ({values})"

    def load(self, rows):
        """LOAD DATA of a file of the client."""
        path = self.stack.folder / "rows.txt"
        path.write_text("".join("\t".join(value.decode() if isinstance(value, bytes) else value
                                          for value in one.values()) + "\n" for one in rows))
        return f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE outbox ({', '.join(rows[0])})"

    def run_all(self, *statements):
        connection = suite.connect(self.stack.name, local_infile=True)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def test_rows_of_all_kinds_of_statements_are_published(self):
        self.relay()
        events = [event(self.kind, f"key-{n}", n) for n in range(8)]
        self.run_all("CREATE TABLE other LIKE outbox",
                     self.insert(events[0]).replace("INTO outbox", "INTO other"),
                     self.insert(events[1]).replace("INTO outbox", "INTO other"))
        self.addCleanup(self.stack.sql, "DROP TABLE other")
        columns = ", ".join(events[0])
        self.run_all(f"INSERT INTO outbox ({columns}) SELECT {columns} FROM other", self.load(events[2:4]),
                     self.insert(events[4]).replace("INSERT", "REPLACE", 1),
                     f"{self.insert(events[5])} ON DUPLICATE KEY UPDATE payload = 'twice'",
                     "CREATE TRIGGER hand_on AFTER INSERT ON other FOR EACH ROW "
                     f"{self.insert(events[6])}",
                     f"INSERT INTO other ({columns}) SELECT {columns} FROM other LIMIT 1",
                     "DROP TRIGGER hand_on", f"CREATE PROCEDURE add_one() {self.insert(events[7])}",
                     "CALL add_one()", "DROP PROCEDURE add_one")
        self.wait_records(len(events))
        self.assertEqual(self.check_order(events), 0)

    def named(self, text, *statements):
        """The lane stops with this text, and goes on when an operator says so."""
        relay = self.start("relay", ready=False)
        with self.subTest(statement=statements[-1]):
            self.run_all(*statements)
            suite.wait_for(f"it to say {text!r}", lambda: text in relay.why_not_ready(), 30)
        relay.terminate()
        self.stack.tallybox("lanes", "begin", "outbox", "--replace-position",
                            sets={"lane.outbox.source": "binlog"})

    def test_what_leaves_rows_out_of_the_log_is_named(self):
        self.relay().terminate()
        one = event(self.kind, "unseen", 0)
        statement = "SET SESSION binlog_format = STATEMENT"
        self.named("a statement may change table outbox", statement, self.insert(one))
        self.named("a statement may change table outbox", statement, self.load([one]))
        self.named("a statement may change table outbox", statement,
                   "UPDATE outbox SET type = 'Changed' WHERE seq = 1")
        self.named("binlog_row_image = FULL", "SET SESSION binlog_row_image = MINIMAL", self.insert(one))
        self.named("prepared by XA", "XA START 'two'", self.insert(one), "XA END 'two'",
                   "XA PREPARE 'two'", "XA COMMIT 'two'")
        self.relay()
        events = [event(self.kind, "key", n) for n in range(3)]
        self.stack.append(events)
        suite.wait_for("the rows that are in the log", lambda: [
            record.headers["id"] for record in self.records()] == [one["id"] for one in events])

    def test_a_table_without_transactions_is_refused(self):
        self.addCleanup(self.stack.sql, "ALTER TABLE outbox ENGINE = InnoDB")
        self.stack.sql("ALTER TABLE outbox ENGINE = MyISAM")
        relay = self.start("relay", ready=False)
        suite.wait_for("it to say why", lambda: "table outbox: its engine is MyISAM" in relay.why_not_ready())
        self.stack.sql("ALTER TABLE outbox ENGINE = InnoDB")
        suite.wait_for("the relay to be ready", relay.ready, 30)
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)

    def test_changes_that_make_no_record_are_told(self):
        """What a trigger writes for a statement that is in the log as text, and a row that is changed."""
        relay = self.relay()
        unseen, seen = event(self.kind, "key", 0), event(self.kind, "key", 1)
        self.run_all("CREATE TABLE orders (id INT PRIMARY KEY)",
                     f"CREATE TRIGGER hand_on AFTER INSERT ON orders FOR EACH ROW {self.insert(unseen)}")
        self.addCleanup(self.stack.sql, "DROP TABLE orders")
        self.run_all("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                     "SET SESSION binlog_format = STATEMENT", "INSERT INTO orders VALUES (1)")
        suite.wait_for("the statement to be told", lambda: relay.metric(STATEMENTS) == 1)
        self.assertIn("statements_in_log lane=outbox count=1", relay.log_text())
        self.stack.append([seen])
        self.wait_records(1)
        self.assertEqual(relay.metric(UPDATES), 0)
        self.stack.sql("UPDATE outbox SET type = 'Changed' WHERE id = %s", [seen["id"]])
        suite.wait_for("the change to be told", lambda: relay.metric(UPDATES) == 1)
        self.assertIn("rows_updated lane=outbox count=1", relay.log_text())
        self.assertEqual([record.headers["id"] for record in self.records()], [seen["id"]])

    def test_a_statement_on_a_table_of_the_same_name_elsewhere_does_not_stop_a_lane(self):
        relay = self.relay()
        other = f"{self.stack.name}_other"
        self.addCleanup(self.stack.sql, f"DROP DATABASE {other}")
        self.run_all(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.outbox (id INT PRIMARY KEY)",
                     "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                     "SET SESSION binlog_format = STATEMENT", f"USE {other}", "INSERT INTO outbox VALUES (1)")
        suite.wait_for("the statement to be told", lambda: relay.metric(STATEMENTS) == 1)
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)
        self.assertTrue(relay.ready(), relay.why_not_ready())

    def test_a_table_that_is_dropped_is_named_until_it_is_there_again(self):
        definition = self.stack.sql("SHOW CREATE TABLE outbox")[0][1]
        relay = self.relay()
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)
        self.stack.sql("DROP TABLE outbox")
        try:
            suite.wait_for("it to be named", lambda: "there is no table" in relay.why_not_ready(), 30)
        finally:
            self.stack.sql(definition)
        suite.wait_for("the relay to be ready", relay.ready, 30)
        self.stack.append([event(self.kind, "key", 1)])
        self.wait_records(2)


class DefinitionsOfSlowCommits(OwnLaneCase):
    """A change is in the log, and waits for a replica before it is committed."""

    database = "mysql"
    seconds = 20
    # The lease is not renewed during the test: the first commit is the one that waits.
    settings = {**LaneCase.settings, **suite.PATIENT}

    def columns(self):
        return [row[0] for row in self.stack.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND "
            "table_name = 'outbox' ORDER BY ordinal_position", [self.stack.name])]

    def is_in_log(self, statement):
        name = self.stack.sql("SHOW BINARY LOGS")[-1][0]
        return any(statement in row[5] for row in self.stack.sql(f"SHOW BINLOG EVENTS IN '{name}'"))

    def test_the_rows_behind_a_change_are_read_by_it(self):
        self.stack.sql("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        self.set_global("binlog_row_metadata", "MINIMAL")
        self.relay()
        events = [event(self.kind, f"key-{n}", n) for n in range(2)]
        self.stack.append(events[:1])
        self.wait_records(1)
        suite.wait_for("the position to be saved", lambda: self.stack.number(
            "SELECT rows_done = 0 AND saved_at < UTC_TIMESTAMP(3) - INTERVAL 2 SECOND FROM relay_position"))
        before = self.columns()
        # Without an answer of a replica it goes on after this time, and waits no more.
        self.set_global("rpl_semi_sync_source_timeout", 6000)
        self.set_global("rpl_semi_sync_source_enabled", 1)
        # They have equal types, and change their places.
        change = threading.Thread(target=self.stack.sql, args=(
            f"ALTER TABLE outbox MODIFY aggregateid {Definitions.text} AFTER type",))
        change.start()
        suite.wait_for("the change to be in the log", lambda: self.is_in_log("ALTER TABLE outbox"))
        self.assertEqual(self.columns(), before)
        change.join()
        self.assertNotEqual(self.columns(), before)
        self.stack.append(events[1:])
        self.wait_records(2)
        self.assertEqual({record.headers["id"]: record.key for record in self.records()},
                         {one["id"]: one["aggregateid"].encode() for one in events})


class Definitions(LaneCase):
    """The table is changed while the lane reads it."""

    seconds = 40
    settings = {**LaneCase.settings, **suite.PATIENT}
    text = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
    # Columns with equal types change their places.
    changes = (f"ADD COLUMN more {text} DEFAULT 'more' FIRST", f"CHANGE more other {text} DEFAULT 'other'",
               f"MODIFY other {text} DEFAULT 'other' AFTER id", f"MODIFY aggregateid {text} AFTER type",
               f"MODIFY aggregateid {text} AFTER aggregatetype", "DROP COLUMN other")

    def alter(self, change):
        self.stack.sql(f"ALTER TABLE outbox {change}")

    def check_keys(self, events):
        self.assertEqual(self.check_order(events), 0)
        keys = {one["id"]: one["aggregateid"].encode() for one in events}
        for record in self.records():
            self.assertEqual(record.key, keys[record.headers["id"]])

    def change_under_load(self, waits):
        relay = self.relay()
        own = []
        with self.writing() as events:
            for change in self.changes:
                time.sleep(0.1)
                self.alter(change)
                own.append(event(self.kind, "own", len(own)))
                self.stack.append(own[-1:])
                if waits:
                    suite.wait_for("the row behind the change", lambda: own[-1]["id"] in {
                        record.headers["id"] for record in self.records()}, 30)
        self.wait_records(len(events) + len(own))
        self.check_keys(events + own)
        self.assertTrue(relay.ready())

    def test_names_in_the_log_follow_any_change(self):
        self.set_global("binlog_row_metadata", "FULL")
        self.change_under_load(waits=False)

    def test_without_names_the_lane_follows_one_change_after_the_other(self):
        self.set_global("binlog_row_metadata", "MINIMAL")
        self.change_under_load(waits=True)

    if suite.DATABASE == "mariadb":

        def test_without_any_metadata_the_lane_follows_one_change_after_the_other(self):
            self.set_global("binlog_row_metadata", "NO_LOG")
            self.change_under_load(waits=True)

    def test_changes_during_transactions(self):
        self.stack.sql("CREATE TABLE other (n INT)")
        self.addCleanup(self.stack.sql, "DROP TABLE other")
        events = [event(self.kind, "key", n) for n in range(6)]
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        self.relay()
        # The change waits until the transaction has ended.
        self.stack.append(events[:1], connection=connection)
        change = threading.Thread(target=self.alter, args=(self.changes[0],))
        change.start()
        suite.wait_for("the change to wait", lambda: self.stack.number(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%%'"))
        self.stack.append(events[1:3], connection=connection)
        connection.commit()
        change.join()
        self.stack.append(events[3:4])
        self.wait_records(4)
        # It comes before the first row of the table in the transaction.
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO other VALUES (1)")
        self.alter("DROP COLUMN more")
        self.stack.append(events[4:], connection=connection)
        connection.commit()
        self.wait_records(6)
        self.check_keys(events)

    def test_a_column_of_the_lane_that_is_renamed_is_named(self):
        relay = self.relay()
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)
        self.alter("CHANGE payload body LONGBLOB NULL")
        try:
            suite.wait_for("a reader", self.dump_threads)
            self.stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type) "
                           "VALUES (UUID(), %s, 'key', 'Happened')", [self.kind])
            suite.wait_for("it to be named", lambda: "no column payload" in relay.why_not_ready(), 30)
        finally:
            self.alter("CHANGE body payload LONGBLOB NULL")


if __name__ == "__main__":
    unittest.main()
