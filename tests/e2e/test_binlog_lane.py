# SPDX-License-Identifier: MIT
"""Lanes with source = binlog: what they publish, from where they go on, and what they leave alone.
Order is judged on the topic, by the first record of each id."""

import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import ACCOUNT, REVOKE, LaneCase, event  # noqa: E402

# A kill repeats what was published since the last position was saved: 10,000 rows or a second, and
# what is in flight.
REPEATS_MAX = 25000


class Lane(LaneCase):
    """On the table outbox of the installation."""

    seconds = 90

    def test_rows_are_published_and_stay(self):
        relay = self.relay(sets=suite.PATIENT)
        trace = json.dumps({"traceparent": "00-11-22-01", "tenant": "nörth"})
        events = [event(self.kind, f"key-{n % 5}", n, headers=trace) for n in range(300)]
        self.stack.append(events[:100])
        self.stack.append(events[100:])
        self.wait_records(300)
        self.assertEqual(self.check_order(events), 0)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 300)
        self.assertTrue(relay.ready())
        self.assertEqual(relay.metric("tallybox_outbox_rows"), 0)

    def test_a_record_is_the_same_as_that_of_a_table_lane(self):
        trace = json.dumps({"traceparent": "00-11-22-01", "tenant": "nörth"})
        hour_ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
        rows = [{"headers": trace}, {"headers": None}, {"payload": None},
                {"created_at": f"{hour_ago:%F %T}.089"}, {"payload": os.urandom(3000)}]
        events = [event(self.kind, "key", n, **row) for n, row in enumerate(rows)]
        relay = self.relay()
        self.stack.append(events)
        self.wait_records(len(events))
        relay.terminate()
        # A table lane refuses to publish rows again that a binlog lane keeps.
        for table in "relay_position", "relay_published":
            self.stack.sql(f"DELETE FROM {table}")
        relay = self.start("relay", sets={"lane.outbox.source": "table"})
        self.stack.wait_drained()
        relay.terminate()
        found = [(one.key, one.value, one.timestamp, list(one.headers.items()))
                 for one in self.records()]
        self.assertEqual(len(found), 2 * len(events))
        self.assertEqual(found[:len(events)], found[len(events):])

    def test_it_goes_on_after_a_clean_stop_without_a_repeat(self):
        events = []
        for run in range(4):
            relay = self.relay(sets=suite.PATIENT)
            more = [event(self.kind, f"key-{n % 7}", 1000 * run + n) for n in range(500)]
            self.stack.append(more)
            events += more
            self.wait_records(len(events))
            relay.terminate()
            # While no relay runs.
            more = [event(self.kind, f"key-{n % 7}", 1000 * run + 500 + n) for n in range(50)]
            self.stack.append(more)
            events += more
        self.relay(sets=suite.PATIENT)
        self.wait_records(len(events))
        self.assertEqual(self.check_order(events), 0)

    def test_nothing_is_lost_or_reordered_while_relays_are_killed(self):
        events = self.write_while_relays_are_killed(6)
        self.start("relay")
        self.wait_records(len(events))
        self.assertLessEqual(self.check_order(events), 6 * REPEATS_MAX)

    def test_two_relays_take_over_from_each_other(self):
        first = self.relay()
        second = self.start("relay", ready=False)
        events, stop = [], threading.Event()
        threads = self.write(events, stop)
        try:
            for _ in range(2):
                time.sleep(2)
                first.kill()
                suite.wait_for("the other one to publish", lambda: self.published(second) > 0)
                first, second = second, self.start("relay", ready=False)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.wait_records(len(events))
        self.check_order(events)

    def test_a_lost_stream_is_opened_again(self):
        relay = self.relay()
        events = []
        for run in range(3):
            more = [event(self.kind, "key", 100 * run + n) for n in range(100)]
            self.stack.append(more)
            events += more
            # The time to notice it is bounded.
            self.wait_records(len(events), 20)
            threads = self.dump_threads()
            self.assertEqual(len(threads), 1)
            self.stack.sql(f"KILL {threads[0]}")
        self.stack.append([event(self.kind, "key", 1000)])
        self.wait_records(301, 20)
        self.assertTrue(relay.ready())

    def test_a_row_may_be_deleted_in_its_transaction(self):
        self.relay()
        events = [event(self.kind, "key", n) for n in range(10)]
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        for one in events:
            self.stack.append([one], connection=connection)
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM outbox WHERE id = %s", [one["id"]])
            connection.commit()
        self.wait_records(10)
        self.check_order(events)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 0)

    def test_a_log_that_was_purged_stops_the_lane_and_says_so(self):
        self.relay().terminate()
        position = self.stack.row("SELECT gtids, file, file_offset FROM relay_position")
        self.stack.append([event(self.kind, "key", 0)])
        self.purge_log()
        # Its account lacks LOCK TABLES.
        relay = self.start("relay", ready=False)
        suite.wait_for("it to say why it is not ready", lambda: "does not go on from its table: go on with" in
                       relay.why_not_ready())
        self.assertIn("locking table outbox", relay.why_not_ready())
        self.assertEqual(self.stack.row("SELECT gtids, file, file_offset FROM relay_position"),
                         position)
        self.assertEqual(self.published(relay), 0)

    def test_a_server_that_is_killed_is_read_from_the_position_that_it_has(self):
        """It may have lost its last transactions: what was sent before is not taken for done."""
        # The lease outlasts the restart: else the lane holds no rows that could deceive it.
        relay = self.relay(sets={"relay.lease_ms": 60000})
        events = []
        for run in range(2):
            more = [event(self.kind, f"key-{n % 5}", 100 * run + n) for n in range(100)]
            self.stack.append(more)
            events += more
            self.wait_records(len(events))
            # A server is known by when it was started, in seconds.
            suite.wait_for("the server to have run for a while", lambda: int(self.stack.row(
                "SHOW GLOBAL STATUS LIKE 'Uptime'")[1]) > 6)
            suite.database().kill()
            suite.database().restart()
        more = [event(self.kind, f"key-{n % 5}", 1000 + n) for n in range(100)]
        self.stack.append(more)
        self.wait_records(300)
        self.check_order(events + more)
        self.assertGreaterEqual(
            relay.metrics()['tallybox_relay_database_changes_total{lane="outbox"}'], 2)
        relay.wait_ready()

    def test_another_reader_with_its_server_id_is_named(self):
        relay = self.relay(sets={"relay.server_id": 7000})
        program, environment = suite.program_beside("tallybox-binlog-batches")
        server = suite.database()
        given = {"host": server.host, "port": server.port, "user": "root",
                 "schema": self.stack.name, "table": "outbox", "serverId": 7001, "batchRows": 10,
                 "batchBytes": 100_000, "rowsEnough": 10,
                 "columns": {name: name for name in ("id", "aggregatetype", "aggregateid", "type",
                                                     "payload")},
                 "position": {"byGtid": True, "before": self.stack.row(
                     "SELECT gtids FROM relay_position")[0]}}
        subprocess.run([str(program), json.dumps(given)], capture_output=True, env=environment,
                       timeout=60, check=False)
        suite.wait_for("it to be named", lambda: "has the server id 7001 of this lane (relay.server_id)" in
                       relay.log_text(), 20)
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)

    def test_a_server_that_hangs_is_noticed(self):
        relay = self.relay(sets={"relay.lease_ms": 60000})
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)
        server = suite.database()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            suite.wait_for("the silence to be told",
                           lambda: "reason=cannot_read" in relay.log_text(), 20)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        self.stack.append([event(self.kind, "key", 1)])
        self.wait_records(2)
        suite.wait_for("the relay to be ready", relay.ready)

    def test_a_table_with_rows_and_without_a_position_is_refused(self):
        self.stack.append([event(self.kind, "key", 0)])
        relay = self.start("relay", ready=False)
        suite.wait_for("it to say why it is not ready",
                       lambda: "may not be published yet" in relay.why_not_ready())
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)
        # While the relay runs it holds the lane.
        refused = self.begin(expect=suite.FAILED)
        self.assertIn("holds the lane", refused.stderr)
        relay.terminate()
        self.assertIn("table outbox has so far count as published", self.begin().stdout)
        relay = self.relay()
        after = event(self.kind, "key", 1)
        self.stack.append([after])
        self.wait_records(1)
        self.assertEqual([one.headers["id"] for one in self.records()], [after["id"]])

    def begin(self, *words, **options):
        return self.stack.tallybox("lanes", "begin", "outbox", *words, **{
            "sets": {"lane.outbox.source": "binlog"}, **options})

    def test_an_operator_replaces_a_position_only_by_saying_so(self):
        # Of a relay that another test has killed.
        self.stack.sql("REPLACE INTO relay_lease (lane, owner, epoch, lease_until) VALUES "
                       "('outbox', '', 7, UTC_TIMESTAMP(3))")
        begun = json.loads(self.begin("--json").stdout)
        self.assertEqual({**begun, "gtids": ""}, {
            "lane": "outbox", "table": "outbox", "replaced": False, "gtids": "", "file": None,
            "offset": None})
        self.assertTrue(begun["gtids"])
        self.stack.append([event(self.kind, "key", 0)])
        self.assertIn("--replace-position", self.begin(expect=suite.FAILED).stderr)
        self.assertEqual(self.stack.sql("SELECT gtids FROM relay_position")[0][0], begun["gtids"])
        again = json.loads(self.begin("--replace-position", "--json").stdout)
        self.assertTrue(again["replaced"])
        self.assertNotEqual(again["gtids"], begun["gtids"])
        # A relay that was frozen when its lease ended is fenced.
        self.assertEqual(self.stack.number("SELECT epoch FROM relay_lease WHERE lane = 'outbox'"), 9)
        self.relay()
        after = event(self.kind, "key", 1)
        self.stack.append([after])
        self.wait_records(1)
        self.assertEqual([one.headers["id"] for one in self.records()], [after["id"]])

    def test_only_a_lane_that_reads_the_log_can_begin(self):
        refused = self.begin(sets={"lane.outbox.source": "table"}, expect=suite.FAILED)
        self.assertIn("set lane.outbox.source = binlog", refused.stderr)
        refused = self.stack.tallybox("lanes", "begin", "other", expect=suite.FAILED)
        self.assertIn("other is not in relay.lanes", refused.stderr)
        self.stack.tallybox("lanes", "show", "--json", expect=suite.USAGE)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)

    def position(self, **options):
        sets = {"lane.outbox.source": "binlog", **options}
        shown = json.loads(self.stack.tallybox("status", "--json", sets=sets).stdout)
        lane, = shown["outbox"]["lanes"]
        return lane["position"], " ".join(shown["problems"])

    def test_status_shows_the_position_of_the_lane(self):
        self.stack.append([event(self.kind, "key", 0)])
        position, problems = self.position()
        self.assertIsNone(position["saved_age_ms"])
        self.assertIn("`tallybox lanes begin outbox`", problems)
        self.stack.sql("DELETE FROM outbox")
        relay = self.relay()
        self.stack.append([event(self.kind, "key", 1)])
        self.wait_records(1)
        suite.wait_for("a file", lambda: self.position()[0]["file"])
        position, problems = self.position()
        self.assertIsNone(position["error"])
        self.assertRegex(position["gtids"], r"\d+-\d+|:\d+")
        self.assertLess(position["saved_age_ms"], 30000)
        self.assertLess(position["behind_ms"], 30000)
        self.assertFalse(position["purged"])
        # The account of status has no privilege for this.
        self.assertIsNone(position["behind_bytes"])
        self.assertIsNone(position["kept_bytes"])
        self.assertRegex(position["log_error"], "denied")
        self.assertNotIn("lane outbox", problems)
        text = " ".join(self.stack.tallybox("status", sets={"lane.outbox.source": "binlog"})
                        .stdout.split())
        self.assertIn("outbox: reads the binary log; position behind the transactions", text)
        self.assertIn("needs REPLICATION CLIENT", text)
        self.stack.sql("GRANT REPLICATION CLIENT ON *.* TO 'tallybox_status'@'%'")
        self.addCleanup(self.stack.sql, "REVOKE REPLICATION CLIENT ON *.* FROM 'tallybox_status'@'%'")
        suite.wait_for("less than a megabyte behind",
                       lambda: 0 <= self.position()[0]["behind_bytes"] < 1e6)
        before = self.position()[0]
        self.assertGreater(before["kept_bytes"], 0)
        self.assertIsNone(before["log_error"])
        self.assertGreater(before["log_expire_ms"] + 1, 0)
        # Without a relay the position stays, and the log grows.
        relay.terminate()
        before = self.position()[0]
        self.stack.append([event(self.kind, "key", 2, b"x" * 100000)])
        after = self.position()[0]
        self.assertGreaterEqual(after["behind_bytes"] - before["behind_bytes"], 100000)
        self.assertEqual(after["kept_bytes"], before["kept_bytes"])
        time.sleep(1.1)
        self.assertGreater(self.position()[0]["behind_ms"], 1000)
        position, problems = self.position(**{"admin.stale_ms": 1000})
        self.assertIn("lane outbox: its position in the binary log is", problems)

    def tasks(self):
        return [one[0] for one in self.stack.sql(
            "SELECT idempotency_key FROM retry_task ORDER BY id")]

    def test_a_refused_row_delays_only_its_key(self):
        sets = {"kafka.producer.message.max.bytes": 20000, "relay.row_bytes_max": 100000}
        relay = self.relay(sets=sets)
        bad = [event(self.kind, "bad", n, b"%d " % n + os.urandom(30000) if n == 1 else None)
               for n in range(3)]
        good = [event(self.kind, f"good-{n % 5}", n) for n in range(200)]
        self.stack.append(good[:100] + bad + good[100:])
        self.wait_records(201)
        suite.wait_for("two tasks", lambda: self.tasks() == [bad[1]["id"], bad[2]["id"]])

        # The next holder of the lane knows the key before it sends anything, and repeats no task. The
        # first row of the key, which was published, may come again and becomes a task then.
        relay.kill()
        bad.append(event(self.kind, "bad", 3))
        self.stack.append(bad[3:])
        relay = self.relay(sets=sets)
        suite.wait_for("three tasks", lambda: [one for one in self.tasks() if one != bad[0]["id"]]
                       == [one["id"] for one in bad[1:]])

        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy) VALUES ('outbox', "
                       "'publish', %s)",
                       [json.dumps({"stop": [], "wait": "fixed 1s", "attempts": 0})])
        self.start("retry", sets={"relay.row_bytes_max": 100000})
        suite.wait_for("the retry queue to be empty", lambda: not self.tasks())
        suite.wait_for("no diverted key",
                       lambda: relay.metric("tallybox_relay_diverted_keys") == 0, 20)
        bad.append(event(self.kind, "bad", 4))
        self.stack.append(bad[4:])
        self.wait_records(205)
        self.assertEqual(self.tasks(), [])
        self.check_order(good + bad)

    def test_rows_that_make_no_record_are_kept_whole_in_the_retry_queue(self):
        """Above the limit of a record, above that of a batch, and with headers that are no object."""
        self.relay(sets={"relay.row_bytes_max": 100000, "relay.read_bytes_max": 500000})
        bad = [event(self.kind, "large", 0, os.urandom(300000)),
               event(self.kind, "larger", 0, os.urandom(900000)),
               event(self.kind, "headers", 0, headers="[1]")]
        good = [event(self.kind, f"good-{n}", n) for n in range(100)]
        self.stack.append(good[:50] + bad + good[50:])
        self.wait_records(100)
        suite.wait_for("three tasks", lambda: self.tasks() == [one["id"] for one in bad])
        self.assertEqual([row[0] for row in self.stack.sql(
            "SELECT params FROM retry_task ORDER BY id")], [one["payload"] for one in bad])


class DebeziumTables(suite.Case):
    """The table of Debezium's documentation is a lane as it is, and so are its usual variants."""

    seconds = 30
    COLUMNS = "aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, " \
              "type VARCHAR(255) NOT NULL, payload JSON NULL"
    VARIANTS = {
        "stock": f"id CHAR(36) NOT NULL PRIMARY KEY, {COLUMNS}",
        "binary_id": f"id BINARY(16) NOT NULL PRIMARY KEY, {COLUMNS}",
        "more": "note VARCHAR(20) NULL, type ENUM('Placed', 'Paid') NOT NULL, payload MEDIUMBLOB, "
                "aggregateid VARCHAR(255) CHARACTER SET latin1 NOT NULL, created BIGINT NULL, "
                "aggregatetype ENUM('order', 'more') NOT NULL, id CHAR(36) NOT NULL PRIMARY KEY",
        "renamed": "number BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL, root VARCHAR(50) "
                   "NOT NULL, root_id VARCHAR(50) NOT NULL, kind VARCHAR(50) NOT NULL, body TEXT, "
                   "payload VARCHAR(20) NOT NULL DEFAULT 'another', happened DATETIME(3) NOT NULL",
        "routed": "id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid "
                  "VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload MEDIUMTEXT, tenant "
                  "VARCHAR(20) CHARACTER SET latin1, version INT UNSIGNED, price DECIMAL(10,2), "
                  "due DATE, stamp TIMESTAMP(3) NULL, raw BINARY(3), missing VARCHAR(9) NULL",
    }
    COLUMNS_RENAMED = "id = event_id, aggregatetype = root, aggregateid = root_id, type = kind, " \
                      "payload = body, created_at = happened"
    HEADERS_ROUTED = "tenant, version : schema_version, price, due, stamp, raw, missing, type:event.type"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, columns in cls.VARIANTS.items():
            cls.stack.sql(f"CREATE TABLE {name} ({columns})")
            cls.stack.sql(f"GRANT SELECT ON {name} TO '{ACCOUNT}'@'%'")
        cls.stack.add_privileges("relay_wakeup", ACCOUNT)
        cls.addClassCleanup(cls.stack.sql, REVOKE)
        cls.relay = cls.stack.role("relay", sets={
            "relay.lanes": ",".join(cls.VARIANTS),
            "relay.row_bytes_max": 100000,
            "lane.renamed.columns": cls.COLUMNS_RENAMED,
            "lane.routed.header_columns": cls.HEADERS_ROUTED,
            "lane.routed.topic": f"event.{cls.stack.name}.$2.to.$1",
            "lane.routed.topic_regex": "([a-z]+)_([a-z]+)(_[0-9]+)?",
            "lane.routed.empty_payload": "tombstone",
            **{f"lane.{name}.source": "binlog" for name in cls.VARIANTS}})
        suite.wait_for("the positions", lambda: cls.stack.number(
            "SELECT COUNT(*) FROM relay_position") == len(cls.VARIANTS))

    def check(self, table, kind, number, key="o-1", column="payload"):
        """The payload is what a SELECT returns."""
        topic = f"event.{self.stack.name}.{kind}"
        suite.wait_for("the record", lambda: len(self.stack.records(topic)) == 1)
        record, = self.stack.records(topic)
        payload, = self.stack.row(f"SELECT CAST({column} AS CHAR) FROM {table}")
        self.assertEqual(record.value.decode(), payload)
        self.assertEqual(record.key.decode(), key)
        self.assertEqual(record.headers["id"], number)
        self.assertEqual(record.headers["lane"], table)
        self.assertNotIn("seq", record.headers)
        self.assertTrue(self.relay.ready(), self.relay.why_not_ready())

    def test_the_stock_table(self):
        number = str(uuid.uuid4())
        self.stack.sql("INSERT INTO stock VALUES (%s, 'stock', 'o-1', 'Placed', "
                       "'{\"total\": 3, \"a\": [1.5, null]}')", [number])
        self.check("stock", "stock", number)

    def test_an_id_of_16_bytes_also_with_zeros_at_its_end(self):
        number = uuid.UUID(bytes=os.urandom(14) + b"\0\0")
        self.stack.sql("INSERT INTO binary_id VALUES (%s, 'binary', 'o-1', 'Placed', '{}')",
                       [number.bytes])
        self.check("binary_id", "binary", str(number))

    def test_other_orders_and_types_of_columns(self):
        number = str(uuid.uuid4())
        self.stack.sql("INSERT INTO more (type, payload, aggregateid, aggregatetype, id) VALUES "
                       "('Paid', 'text', 'schön', 'more', %s)", [number])
        self.check("more", "more", number, "schön")

    def test_columns_with_other_names(self):
        number = str(uuid.uuid4())
        self.stack.sql("INSERT INTO renamed (event_id, root, root_id, kind, body, happened) VALUES "
                       "(%s, 'renamed', 'o-1', 'Placed', 'text', UTC_TIMESTAMP(3) - INTERVAL 1 HOUR)",
                       [number])
        self.check("renamed", "renamed", number, column="body")
        record, = self.stack.records(f"event.{self.stack.name}.renamed")
        self.assertEqual(record.headers["ce_type"], "Placed")
        self.assertLess(record.timestamp, 1000 * time.time() - 3000000)

    def route(self, kind, payload="text"):
        number = str(uuid.uuid4())
        self.stack.sql("INSERT INTO routed VALUES (%s, %s, 'o-1', 'Placed', %s, 'schön', 4000000000, "
                       "-1.5, '2026-02-03', '2026-02-03 04:05:06.789', x'6100', NULL)",
                       [number, kind, payload])
        return number

    def routed(self, name, count=1):
        topic = f"event.{self.stack.name}.{name}"
        suite.wait_for("the records", lambda: len(self.stack.records(topic)) == count)
        return self.stack.records(topic)

    def check_headers(self, record, number):
        headers = {name: value for name, value in record.headers.items()
                   if not name.startswith(("ce_", "tallybox-")) and name != "raw"}
        self.assertEqual(headers, {
            "id": number, "lane": "routed", "tenant": "schön", "schema_version": "4000000000",
            "price": "-1.50", "due": "2026-02-03", "stamp": "2026-02-03 04:05:06.789",
            "missing": "NULL", "event.type": "Placed"})
        self.assertIn("raw", record.headers)

    def test_further_columns_are_headers_and_types_make_topics(self):
        """Also of a row that goes through the retry queue, and of rows behind it."""
        numbers = [self.route("order_shop"), self.route("order_shop_7"), self.route("order_shop", " ")]
        records = self.routed("shop.to.order", 3)
        for record, number in zip(records, numbers):
            self.check_headers(record, number)
        self.assertEqual([record.value for record in records], [b"text", b"text", None])

        numbers = [self.route("bill_shop", "x" * 150000), self.route("bill_shop")]
        suite.wait_for("two tasks", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE ordering_key LIKE '%.shop.to.bill/o-1'") == 2)
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy) VALUES ('routed', "
                       "'publish', %s)",
                       [json.dumps({"stop": [], "wait": "fixed 1s", "attempts": 0})])
        self.start("retry", sets={"relay.row_bytes_max": 200000, "retry.poll_ms": 50})
        for record, number in zip(self.routed("shop.to.bill", 2), numbers):
            self.check_headers(record, number)

    def test_a_type_that_makes_no_topic_is_refused(self):
        """A type that the expression does not match is its own topic."""
        number = self.route("no topic")
        suite.wait_for("a task", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE idempotency_key = %s", [number]) == 1)
        reason, options = self.stack.row(
            "SELECT reason, options FROM retry_task WHERE idempotency_key = %s", [number])
        self.assertIn('aggregatetype "no topic" gives no valid topic name', reason)
        headers = json.loads(options)["headers"]
        self.assertIn(["tenant", "schön"], headers)
        self.assertIn(["raw", {"hex": "610000"}], headers)
        self.assertIn(["missing", None], headers)

    def test_a_column_that_is_not_there_stops_its_lane(self):
        self.stack.sql(f"CREATE TABLE lacking ({self.VARIANTS['stock']})")
        self.stack.sql(f"GRANT SELECT ON lacking TO '{ACCOUNT}'@'%'")
        relay = self.start("relay", ready=False, sets={
            "relay.lanes": "lacking", "lane.lacking.source": "binlog",
            "lane.lacking.header_columns": "type:kind, nothing:x"})
        suite.wait_for("the reason", lambda: "table lacking: there is no column nothing for the header x "
                       "(lane.NAME.header_columns)" in relay.why_not_ready())

    def test_settings_that_a_lane_cannot_follow_are_refused(self):
        for sets, reason in (
                ({"lane.outbox.columns": "payload=body"},
                 "lane.outbox.columns needs lane.outbox.source = binlog"),
                ({"lane.outbox.header_columns": "tenant"},
                 "lane.outbox.header_columns needs lane.outbox.source = binlog"),
                ({"lane.outbox.empty_payload": "tombstone"},
                 "lane.outbox.empty_payload needs lane.outbox.source = binlog"),
                ({"lane.outbox.topic_regex": "(a)"}, "lane.outbox: topic_regex needs topic"),
                ({"lane.outbox.topic_regex": "(a)", "lane.outbox.topic": "a.$2"},
                 "lane.outbox: topic has $2, and topic_regex has 1 groups")):
            done = self.stack.tallybox("relay", sets=sets, expect=suite.USAGE)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
