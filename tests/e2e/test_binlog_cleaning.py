# SPDX-License-Identifier: MIT
"""A lane with source = binlog deletes the rows that it has published, after keep_ms, and no others."""

import pathlib
import re
import sys
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import ACCOUNT, LaneCase, event  # noqa: E402

UNPUBLISHED = 'tallybox_relay_unpublished_rows{lane="outbox"}'
DELETED = 'tallybox_relay_deleted_total{lane="outbox"}'


class Cleaning(LaneCase):
    """Rows are kept for a second."""

    seconds = 240
    settings = {**LaneCase.settings, "lane.outbox.keep_ms": 1000}

    def rows(self):
        return self.stack.number("SELECT COUNT(*) FROM outbox")

    def entries(self):
        return self.stack.number("SELECT COUNT(*) FROM relay_published")

    def wait_clean(self, left=0, seconds=60):
        suite.wait_for(f"{left} rows to be left", lambda: self.rows() == left and not self.entries(),
                       seconds)

    def test_published_rows_are_deleted_after_they_were_kept(self):
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(3000)]
        began = time.monotonic()
        self.stack.append(events)
        self.wait_records(3000)
        self.wait_clean()
        self.assertGreater(time.monotonic() - began, 1)
        self.assertEqual(relay.metrics()[DELETED], 3000)
        self.assertTrue(relay.ready())
        self.check_order(events)

    def test_under_load_and_kills_all_that_is_deleted_is_published(self):
        relay = self.check_removals_under_kills(8)
        self.wait_clean()
        self.assertEqual(relay.metrics()[UNPUBLISHED], 0)

    def test_rows_that_are_kept_for_long_stay(self):
        for keep_ms in (3600000, -1):
            relay = self.relay(sets={"lane.outbox.keep_ms": keep_ms})
            before = self.rows()
            self.stack.append([event(self.kind, "key", n) for n in range(100)])
            self.wait_records(before + 100)
            if keep_ms > 0:
                suite.wait_for("the rows to be recorded", lambda: self.entries() > 0)
            time.sleep(3)
            self.assertEqual(self.rows(), before + 100)
            self.assertEqual(self.entries() > 0, True)
            relay.terminate()

    def rows_read(self):
        """By all sessions of the server since its start, also of its own tables: SHOW reads those."""
        return sum(int(value) for _, value in self.stack.sql(
            "SHOW GLOBAL STATUS LIKE 'Handler_read%'"))

    def test_the_rows_of_months_are_not_read_again(self):
        many = 100000
        sets = {"lane.outbox.keep_ms": 90 * 86400000, **suite.PATIENT}
        relay = self.relay(sets=sets)
        # One row each minute: 69 days.
        self.stack.sql(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, created_at) "
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) "
            "SELECT CONCAT(a.i, '-', b.i), %s, a.i, 'liked', '{}', "
            "NOW() - INTERVAL 100000 - 1000 * a.i - b.i MINUTE FROM n a JOIN n b WHERE a.i < 100 "
            "ORDER BY a.i, b.i", [self.kind])
        suite.wait_for("the rows to be published", lambda: self.published(relay) == many, 120)
        suite.wait_for("the rows to be recorded", lambda: self.entries() > 0)
        relay.terminate()
        before = self.rows_read()
        relay = self.relay(sets=sets)
        self.stack.append([event(self.kind, "key", n) for n in range(10)])
        suite.wait_for("the next rows", lambda: self.published(relay) == 10)
        suite.wait_for("the relay to be ready", relay.ready)
        time.sleep(5)
        self.assertLess(self.rows_read() - before, many / 2)
        self.assertEqual(self.rows(), many + 10)

    def test_rows_that_are_not_in_the_log_stay_and_are_named(self):
        relay = self.relay()
        events = [event(self.kind, "key", n) for n in range(6)]
        self.stack.append(events[:2])
        connection = suite.connect(self.stack.name)
        with connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
        # In the past, so that they need not become old here.
        old = [{**one, "created_at": "2020-01-01 00:00:00"} for one in events[2:4]]
        self.stack.append(old, connection=connection)
        connection.close()
        self.stack.append(events[4:])
        self.wait_records(4)
        self.wait_clean(left=2)
        suite.wait_for("both to be counted", lambda: relay.metrics()[UNPUBLISHED] == 2, 150)
        self.assertTrue(relay.ready())
        text = relay.why_not_ready()
        for word in ("outbox unpublished rows: warning: 2 rows of table outbox, from seq ", "sql_log_bin = 0",
                     "`tallybox relay publish-missing outbox`"):
            self.assertIn(word, text)
        self.assertIn("check_failed check=unpublished_rows", relay.log_text())
        self.assertEqual({one[0] for one in self.stack.sql("SELECT id FROM outbox")},
                         {one["id"] for one in old})
        self.stack.sql("DELETE FROM outbox")
        suite.wait_for("none to be counted", lambda: relay.metrics()[UNPUBLISHED] == 0, 90)
        self.assertNotIn("unpublished", relay.why_not_ready())

    def test_rows_that_are_declared_published_are_deleted_too(self):
        self.stack.append([event(self.kind, "key", n) for n in range(10)])
        self.stack.tallybox("lanes", "begin", "outbox")
        self.assertEqual(self.entries(), 1)
        relay = self.relay()
        self.stack.append([event(self.kind, "key", 10)])
        self.wait_records(1)
        self.wait_clean()
        self.assertEqual(len(self.records()), 1)
        self.assertTrue(relay.ready())

    def test_a_row_that_another_session_locks_is_deleted_later(self):
        relay = self.relay()
        self.stack.append([event(self.kind, "key", n) for n in range(10)])
        self.wait_records(10)
        connection = suite.connect(self.stack.name, autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("SELECT seq FROM outbox ORDER BY seq LIMIT 1 FOR UPDATE")
            suite.wait_for("it to be told", lambda: "cannot_remove_rows" in relay.log_text())
        connection.rollback()
        connection.close()
        self.wait_clean()
        suite.wait_for("it to be ready", relay.ready)

    def test_a_table_lane_does_not_publish_kept_rows_again(self):
        sets = {"lane.outbox.keep_ms": 3600000}
        relay = self.relay(sets=sets)
        self.stack.append([event(self.kind, "key", n) for n in range(10)])
        self.wait_records(10)
        relay.terminate()
        table = self.start("relay", sets={"lane.outbox.source": "table"}, ready=False)
        suite.wait_for("it to say why it is not ready",
                       lambda: "set source = binlog again" in table.why_not_ready())
        self.assertEqual(self.rows(), 10)
        table.terminate()
        # As the text says.
        relay = self.relay(sets={"lane.outbox.keep_ms": 0})
        suite.wait_for("the table to be empty", lambda: self.rows() == 10 and not self.entries() or
                       self.rows() == 0)
        self.assertEqual(self.rows(), 0)
        relay.terminate()
        for name in "relay_position", "relay_published":
            self.stack.sql(f"DELETE FROM {name}")
        self.start("relay", sets={"lane.outbox.source": "table"})
        self.stack.append([event(self.kind, "key", 10)])
        self.wait_records(11)
        self.stack.wait_drained()
        self.assertEqual(len(self.records()), 11)

    def test_a_table_without_seq_keeps_its_rows(self):
        self.stack.sql("CREATE TABLE plain (id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(64) "
                       "NOT NULL, aggregateid VARCHAR(64) NOT NULL, type VARCHAR(64) NOT NULL, payload "
                       "LONGBLOB)")
        self.addCleanup(self.stack.sql, "DROP TABLE plain")
        self.stack.sql(f"GRANT SELECT, DELETE ON {self.stack.name}.plain TO '{ACCOUNT}'@'%'")
        relay = self.relay(sets={"lane.outbox.table": "plain", "lane.outbox.keep_ms": 0})
        self.stack.append([event(self.kind, "key", n) for n in range(10)], table="plain")
        self.wait_records(10)
        suite.wait_for("it to be told", lambda: "rows_not_removed" in relay.log_text())
        time.sleep(2)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM plain"), 10)
        self.assertEqual(self.entries(), 0)
        self.assertTrue(relay.ready())


def seqs_in(data):
    """The seqs of one entry; the form is that of seq_ranges.h."""
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7f) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(number)
            number, shift = 0, 0
    seqs, end = [], 0
    for distance, more in zip(numbers[::2], numbers[1::2]):
        seqs += range(end + distance, end + distance + more + 1)
        end += distance + more
    return seqs


class EmptiedTables(LaneCase):
    """The table is emptied, and its seqs begin again, while rows are kept."""

    seconds = 75
    exact = "no"

    def setUp(self):
        super().setUp()
        self.stack.sql("TRUNCATE TABLE outbox")
        self.sets = {"lane.outbox.keep_ms": 3600000, "lane.outbox.exactly_once": self.exact,
                     "lane.outbox.transactional_id": f"{self.stack.name}-{self.kind}"}
        self.count = 0

    def append(self, count):
        self.stack.append([event(self.kind, f"key-{n % 5}", self.count + n) for n in range(count)])
        self.count += count

    def recorded(self):
        return sorted(seq for entry in self.stack.sql("SELECT seqs FROM relay_published") for seq in seqs_in(entry[0]))

    def wait_recorded(self, count):
        suite.wait_for(f"the seqs up to {count} to be recorded, and no others",
                       lambda: self.recorded() == list(range(1, count + 1)))

    def test_seqs_of_before_are_forgotten(self):
        relay = self.relay(sets=self.sets)
        statements = ["TRUNCATE TABLE outbox", f"TRUNCATE {self.stack.name}.outbox"]
        if suite.DATABASE == "mariadb":
            statements.append("SET STATEMENT max_statement_time = 60 FOR TRUNCATE `outbox`")
        for statement in statements:
            with self.subTest(statement=statement):
                self.append(100)
                self.wait_records(self.count)
                self.wait_recorded(100)
                self.stack.sql(statement)
                suite.wait_for("all to be forgotten", lambda: not self.recorded())
                self.append(40)
                self.wait_records(self.count)
                self.wait_recorded(40)
                # So that the next one begins with an empty table.
                self.stack.sql("TRUNCATE TABLE outbox")
                suite.wait_for("all to be forgotten", lambda: not self.recorded())
        self.assertIn("table_emptied", relay.log_text())
        self.assertEqual(len(self.records()), self.count)

    def test_a_table_of_another_name_is_not_meant(self):
        relay = self.relay(sets=self.sets)
        self.append(10)
        self.wait_recorded(10)
        self.stack.sql("CREATE TABLE outbox_copy LIKE outbox")
        self.stack.sql("TRUNCATE TABLE outbox_copy")
        self.stack.sql("DROP TABLE outbox_copy")
        self.stack.sql("ALTER TABLE outbox COMMENT = 'TRUNCATE TABLE outbox'")
        self.append(10)
        self.wait_recorded(20)
        self.assertNotIn("table_emptied", relay.log_text())

    def test_rows_that_were_not_read_yet_are_published(self):
        relay = self.relay(sets=self.sets)
        self.append(30)
        self.wait_recorded(30)
        relay.terminate()
        self.append(20)
        self.stack.sql("TRUNCATE TABLE outbox")
        self.append(10)
        self.stack.sql("TRUNCATE TABLE outbox")
        self.append(5)
        self.start("relay", sets=self.sets)
        self.wait_records(65)
        self.wait_recorded(5)
        self.assertEqual(len(self.records()), 65)

    def test_new_rows_are_kept_as_long_as_any(self):
        # The entry of the old rows is due at once in the next process.
        relay = self.relay(sets=self.sets)
        self.append(30)
        self.wait_recorded(30)
        self.stack.sql("TRUNCATE TABLE outbox")
        suite.wait_for("all to be forgotten", lambda: not self.recorded())
        self.append(30)
        self.wait_recorded(30)
        relay.terminate()
        self.stack.sql("UPDATE relay_published SET published_at = published_at - INTERVAL 1 HOUR")
        self.start("relay", sets=self.sets)
        suite.wait_for("the rows to be deleted", lambda: not self.stack.number("SELECT COUNT(*) FROM outbox"))
        suite.wait_for("the entry to end", lambda: not self.recorded())

    def test_under_kills_the_entries_are_those_of_the_table(self):
        self.relay(sets=self.sets).terminate()
        for _ in range(3):
            relay = self.start("relay", ready=False, sets=self.sets)
            self.append(200)
            self.stack.sql("TRUNCATE TABLE outbox")
            self.append(50)
            self.wait_records(self.count - 100)
            relay.kill()
        self.start("relay", sets=self.sets)
        self.wait_records(self.count)
        self.wait_recorded(50)


class EmptiedTablesExactlyOnce(EmptiedTables):
    """The position is in Kafka, and with it what relay_published has to forget."""

    exact = "yes"
    test_a_table_of_another_name_is_not_meant = None
    test_new_rows_are_kept_as_long_as_any = None


class PartitionedTables(LaneCase):
    """A table that is partitioned by seq: partitions of 200 seqs are dropped and made."""

    seconds = 180
    sets = {"lane.outbox.table": "parts", "lane.outbox.keep_ms": 1000}
    long_sets = {**sets, "lane.outbox.keep_ms": 3600000}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.grants = [f"{what} ON {cls.stack.name}.{table} %s '{ACCOUNT}'@'%%'" for what, table in (
            ("LOCK TABLES", "*"), ("INSERT, CREATE, ALTER, DROP", "parts"))]

    def setUp(self):
        super().setUp()
        self.stack.sql("CREATE TABLE parts LIKE outbox")
        self.addCleanup(self.stack.sql, "DROP TABLE parts")
        self.divide(200, 400)
        self.stack.sql(f"GRANT SELECT, DELETE ON {self.stack.name}.parts TO '{ACCOUNT}'@'%'")
        for grant in self.grants:
            self.stack.sql("GRANT " + grant % "TO")
            self.addCleanup(self.stack.sql, "REVOKE " + grant % "FROM")
        self.events = []

    def divide(self, *limits):
        self.stack.sql("ALTER TABLE parts PARTITION BY RANGE (seq) (" + "".join(
            f"PARTITION p{limit} VALUES LESS THAN ({limit}), " for limit in limits) +
                       "PARTITION p_after VALUES LESS THAN (MAXVALUE))")

    def append(self, count, **more):
        events = [event(self.kind, f"key-{n % 5}", len(self.events) + n) for n in range(count)]
        self.stack.append(events, table="parts", **more)
        self.events += events

    def publish(self, count):
        """Rows, and five more in an entry of their own: only then the rows are not the last ones."""
        for some in count, 5:
            self.append(some)
            self.wait_records(len(self.events))
            suite.wait_for("the rows to be recorded or deleted", lambda: self.stack.number(
                "SELECT COUNT(*) FROM relay_published WHERE published_at > UTC_TIMESTAMP(3) - INTERVAL 1 SECOND") == 0)

    def names(self):
        return [one[0] for one in self.stack.sql(
            "SELECT partition_name FROM information_schema.partitions WHERE table_schema = DATABASE() AND "
            "table_name = 'parts' ORDER BY partition_ordinal_position")]

    def seqs(self):
        return [one[0] for one in self.stack.sql("SELECT seq FROM parts ORDER BY seq")]

    def wait_entry(self):
        """Rows that were published just now are saved as such."""
        suite.wait_for("an entry", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_published WHERE published_at > UTC_TIMESTAMP(3) - INTERVAL 500 SECOND") > 0)

    def wait_made(self, above):
        """The first limit of a partition from there on that the relay has made."""
        def limits():
            return [int(name[1:]) for name in self.names() if name != "p_after" and int(name[1:]) > above]
        suite.wait_for("a partition to be made", limits, 90)
        return limits()[0]

    def wait_gone(self, *names, seconds=90):
        suite.wait_for(f"{names} to be dropped", lambda: not set(names) & set(self.names()), seconds)

    def test_finished_partitions_are_dropped_and_others_are_made(self):
        relay = self.relay(sets=self.sets)
        self.publish(500)
        # p_after has rows, and is split.
        self.wait_gone("p200", "p400")
        limit = self.wait_made(400)
        # It is at most twice as large.
        self.assertLessEqual(limit, 800)
        self.publish(400)
        self.wait_gone(f"p{limit}")
        self.assertGreaterEqual(self.seqs()[0], limit)
        self.assertIn("outbox_partition_dropped", relay.log_text())
        self.assertNotIn("outbox_partition_kept", relay.log_text())
        self.assertNotIn("cannot_remove_rows", relay.log_text())
        suite.wait_for("their entries to end", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_published WHERE first_seq < 500") == 0)
        self.check_order(self.events)
        self.assertEqual(len(self.records()), 910)

    def test_partitions_of_a_slow_lane_become_smaller(self):
        self.divide(10000000, 20000000)
        self.relay(sets=self.long_sets)
        self.stack.sql("ALTER TABLE parts AUTO_INCREMENT = 5000000")
        self.append(10)
        self.wait_entry()
        self.stack.sql("UPDATE relay_published SET published_at = published_at - INTERVAL 1000 SECOND")
        self.append(5)
        self.wait_entry()
        # 5000 seqs a second, and ten minutes in a partition.
        self.stack.sql("ALTER TABLE parts AUTO_INCREMENT = 10000000")
        self.append(1)
        self.assertEqual(self.wait_made(20000000), 25000000)

    def test_partitions_are_made_behind_a_single_one_and_without_any(self):
        for limits, low, most in ((1000000100,), 1000000000, 1000001000), ((), 5000, 1010000):
            with self.subTest(limits=limits):
                self.divide(*limits)
                self.stack.sql(f"ALTER TABLE parts AUTO_INCREMENT = {low}")
                relay = self.relay(sets=self.long_sets)
                self.append(20)
                self.assertLess(self.wait_made(low + 100), most)
                relay.terminate()
                self.stack.sql("DELETE FROM relay_position")
                self.stack.sql("DELETE FROM relay_published")
                self.stack.sql("TRUNCATE TABLE parts")

    def test_a_table_whose_partitions_are_removed_meanwhile(self):
        relay = self.relay(sets=self.sets)
        self.publish(300)
        self.wait_gone("p200")
        self.stack.sql("ALTER TABLE parts REMOVE PARTITIONING")
        self.set_global("log_output", "TABLE")
        self.set_global("general_log", 1)
        self.publish(20)
        suite.wait_for("the rows to be deleted", lambda: not self.seqs(), 60)
        # They are read to make one, and to drop one.
        suite.wait_for("two looks", lambda: self.stack.number(
            "SELECT COUNT(*) FROM mysql.general_log WHERE user_host LIKE %s AND argument LIKE "
            "'SELECT partition_name, partition_description%%'", [f"{ACCOUNT}[%"]) >= 4, 60)
        self.assertTrue(relay.ready())
        self.assertNotIn("cannot_remove_rows", relay.log_text())
        self.assertNotIn("outbox_partitions_not_dropped", relay.log_text())

    def test_a_row_past_the_log_keeps_its_partition_and_no_other(self):
        relay = self.relay(sets=self.sets)
        self.append(50)
        with suite.connect(self.stack.name) as unlogged, unlogged.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            self.stack.append([event(self.kind, "unlogged", 0)], table="parts", connection=unlogged)
        self.publish(500)
        # The lane is current for a while, so that the row is not one that it has still to read.
        self.wait_gone("p400")
        suite.wait_for("the other rows to be deleted", lambda: self.stack.number(
            "SELECT COUNT(*) FROM parts PARTITION (p200)") == 1)
        self.assertIn("p200", self.names())
        self.assertIn("outbox_partition_kept lane=outbox table=parts partition=p200", relay.log_text())
        self.check_order(self.events)

    def test_an_open_transaction_delays_the_drop(self):
        self.relay(sets=self.sets)
        self.append(50)
        connection = suite.connect(self.stack.name, autocommit=False)
        late = event(self.kind, "late", 0)
        self.stack.append([late], table="parts", connection=connection)
        self.publish(300)
        time.sleep(5)
        self.assertIn("p200", self.names())
        connection.commit()
        connection.close()
        self.events.append(late)
        self.wait_records(len(self.events))
        self.wait_gone("p200", seconds=120)
        self.check_order(self.events)

    def test_without_the_privileges_rows_are_deleted_one_by_one(self):
        self.stack.sql("REVOKE " + self.grants[0] % "FROM")
        self.stack.sql("REVOKE " + self.grants[1] % "FROM")
        try:
            relay = self.relay(sets=self.sets)
            self.publish(500)
            suite.wait_for("the rows to be deleted", lambda: not self.seqs())
            self.assertEqual(relay.log_text().count("outbox_partitions_not_dropped"), 1)
            self.assertTrue(relay.ready())
            self.assertIn("p200", self.names())
        finally:
            for grant in self.grants:
                self.stack.sql("GRANT " + grant % "TO")

    def prepare(self, seq, name):
        """A row of a prepared XA transaction that loses its session, which stops the lane."""
        row = event(self.kind, "prepared", 0)
        self.stack.sql(f"ALTER TABLE parts AUTO_INCREMENT = {seq}")
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            session = cursor.fetchone()[0]
            cursor.execute(f"XA START '{name}'")
            self.stack.append([row], table="parts", connection=connection)
            cursor.execute(f"XA END '{name}'")
            cursor.execute(f"XA PREPARE '{name}'")
        suite.wait_for("the session to end", lambda: not self.stack.number(
            f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {session}"))
        self.addCleanup(self.end_prepared)
        return row["id"]

    def end_prepared(self):
        """What a test that has failed leaves behind would keep the table."""
        for one in self.stack.sql("XA RECOVER"):
            self.stack.sql("XA ROLLBACK %s", [one[3]])

    def check_prepared(self, row, name):
        """No partition is dropped or made, so that the row is there once it is committed."""
        partitions = self.names()
        # The relay looks each ten seconds.
        time.sleep(15)
        self.assertEqual(self.names(), partitions)
        self.stack.sql(f"XA COMMIT '{name}'")
        self.assertIn((row,), self.stack.sql("SELECT id FROM parts"))

    def test_prepared_rows_are_not_dropped(self):
        relay = self.relay(sets=self.sets)
        self.publish(50)
        name = f"drop-{self.kind}"
        row = self.prepare(199, name)
        self.append(5)
        if suite.DATABASE == "mariadb":
            suite.wait_for("it to be told", lambda: "outbox partitions: warning: " in relay.why_not_ready())
            self.assertIn("1 transactions without a session", relay.why_not_ready())
        self.check_prepared(row, name)

    def test_prepared_rows_are_not_left_behind_by_a_new_partition(self):
        # The last partition is split, with all rows behind the limit.
        self.relay(sets=self.long_sets)
        self.publish(50)
        name = f"make-{self.kind}"
        row = self.prepare(400, name)
        self.append(5)
        self.check_prepared(row, name)

    def test_its_session_has_its_waits_back(self):
        self.set_global("log_output", "TABLE")
        self.set_global("general_log", 1)
        relay = self.relay(sets=self.sets)
        self.publish(300)
        self.wait_gone("p200")
        relay.terminate()
        values = {}
        for thread, text in self.stack.sql(
                "SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE user_host LIKE %s AND "
                "argument LIKE %s ORDER BY event_time", [f"{ACCOUNT}[%", "SET %lock_wait_timeout%"]):
            values.setdefault(thread, []).extend(re.findall(r"(?<!innodb_)lock_wait_timeout = (\w+)", text))
        used = [found for found in values.values() if "1" in found]
        self.assertGreater(len(used), 0)
        for found in used:
            # As it was set up, and as it is while it waits for the table.
            self.assertEqual(set(found), {found[0], "1"})

    def test_under_load_and_kills_all_that_is_dropped_is_published(self):
        self.check_removals_under_kills(5, table="parts", longest=6, sets=self.sets)
        self.assertNotIn("p200", self.names())


class CleaningByIds(LaneCase):
    """Stock tables, without seq: rows are kept for a second and deleted by their ids."""

    seconds = 35

    def setUp(self):
        super().setUp()
        self.sets = {"lane.outbox.table": "stock", "lane.outbox.keep_ms": 1000, "lane.outbox.keep_ids_max": 1000000}

    def create(self, id_type="CHAR(36)", more="", text="VARCHAR(255)", key="PRIMARY KEY"):
        self.stack.sql(f"CREATE TABLE stock (id {id_type} NOT NULL {key}, aggregatetype {text} NOT NULL, aggregateid "
                       f"{text} NOT NULL, type {text} NOT NULL, payload LONGBLOB{more})")
        self.addCleanup(self.stack.sql, "DROP TABLE stock")
        self.stack.sql(f"GRANT SELECT, DELETE ON {self.stack.name}.stock TO '{ACCOUNT}'@'%'")

    def rows(self):
        return self.stack.number("SELECT COUNT(*) FROM stock")

    def entries(self):
        return self.stack.number("SELECT COUNT(*) FROM relay_published_id")

    def wait_clean(self, left=0, seconds=60):
        suite.wait_for(f"{left} rows to be left", lambda: self.rows() == left and not self.entries(), seconds)

    def append(self, numbers, make=None, **more):
        events = [event(self.kind, f"key-{n % 5}", n, **({"id": make(n)} if make else {})) for n in numbers]
        self.stack.append(events, table="stock", **more)
        return events

    def test_ids_of_any_usual_type_are_deleted(self):
        makes = (("CHAR(36)", None),
                 ("BINARY(16)", lambda n: bytes([0xff, n]) + uuid.uuid4().bytes[:12] + bytes([n % 2, 0])),
                 ("VARCHAR(100) CHARACTER SET latin1 COLLATE latin1_german1_ci", "Bestellung \u00fc-{}".format),
                 ("BIGINT UNSIGNED", lambda n: 2**64 - 1 - n))
        for id_type, make in makes:
            with self.subTest(type=id_type):
                self.create(id_type)
                relay = self.relay(sets=self.sets)
                self.append(range(200), make)
                self.wait_records(200)
                self.wait_clean()
                self.assertEqual(relay.metrics()[DELETED], 200)
                self.assertNotIn("rows_not_removed", relay.log_text())
                relay.terminate()
                self.doCleanups()
                self.setUp()

    def test_under_load_and_kills_all_that_is_deleted_is_published(self):
        self.create()
        self.check_removals_under_kills(4, table="stock", longest=3, sets=self.sets)
        self.wait_clean()

    def test_a_writer_may_delete_its_rows_and_other_rows_stay(self):
        self.create(more=", created_at DATETIME NOT NULL DEFAULT '2020-01-01'")
        relay = self.relay(sets={**self.sets, "lane.outbox.keep_ids_max": 100})
        # As Quarkus does it.
        connection = suite.connect(self.stack.name, autocommit=False)
        events = self.append(range(10), connection=connection)
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM stock")
        connection.commit()
        self.wait_records(10)
        # A writer that waits: its row is neither deleted nor waited for.
        waits = self.append([1000], connection=connection)
        with suite.connect(self.stack.name) as unlogged, unlogged.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            past = self.append([11, 12], connection=unlogged)
        events += self.append(range(13, 300))
        self.wait_records(297)
        self.wait_clean(left=2)
        self.assertNotIn("cannot_remove_rows", relay.log_text())
        connection.commit()
        connection.close()
        self.wait_records(298)
        self.wait_clean(left=2)
        self.assertEqual({one[0] for one in self.stack.sql("SELECT id FROM stock")}, {one["id"] for one in past})
        self.check_order(events + waits)

    def test_a_seq_that_is_not_the_primary_key_is_no_seq(self):
        self.create(more=", seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE, created_at DATETIME NOT NULL DEFAULT "
                         "'2020-01-01'")
        relay = self.relay(sets=self.sets)
        events = self.append(range(200))
        self.wait_records(200)
        self.wait_clean()
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_published"), 0)
        self.assertEqual(relay.metrics()[DELETED], 200)
        self.check_order(events)

    def test_rows_stay_without_keep_ids_max_or_a_unique_index(self):
        def saved_at():
            return self.stack.sql("SELECT saved_at FROM relay_position")

        for key, ids_max, word in (("PRIMARY KEY", 0, "keep_ids_max is 0"), (", KEY (id)", 9, "unique index"),
                                   (", UNIQUE `by-id` (id)", 9, "unique index")):
            with self.subTest(word=word):
                self.create(key=key)
                relay = self.relay(sets={**self.sets, "lane.outbox.keep_ms": 0, "lane.outbox.keep_ids_max": ids_max})
                before = saved_at()
                self.append(range(10))
                self.wait_records(10)
                suite.wait_for("it to be told", lambda: "rows_not_removed" in relay.log_text())
                self.assertIn(word, relay.log_text())
                self.assertEqual(self.rows(), 10)
                suite.wait_for("a position to be saved", lambda: saved_at() != before)
                self.assertEqual(self.entries(), 0)
                relay.terminate()
                self.doCleanups()
                self.setUp()


if __name__ == "__main__":
    unittest.main()
