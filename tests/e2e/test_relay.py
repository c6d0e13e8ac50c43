# SPDX-License-Identifier: MIT
"""The relay on a real broker, read back with kcat: what other applications put into the outbox is
what readers of the topics get."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import unittest
import uuid

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402


def row(kind="vote", key="k", payload=b"{}", **more):
    """An event as another application would append it."""
    return {"id": str(uuid.uuid4()), "aggregatetype": kind, "aggregateid": key, "type": "Happened",
            "payload": payload, **more}




class Published(suite.Case):
    """One relay, rows by plain INSERT."""

    seconds = 40
    settings = suite.PATIENT
    roles = ("relay",)

    def publish(self, *rows):
        """Appends rows and returns their records by event id, once the outbox is empty."""
        self.stack.append(rows)
        self.stack.wait_drained()
        records = []
        for kind in {one["aggregatetype"] for one in rows}:
            records += self.stack.records(self.topic(kind))
        return {record.headers["id"]: record for record in records}

    def topic(self, kind):
        return self.stack.topic if kind == "vote" else f"event.{self.stack.name}.{kind}"

    def test_a_row_becomes_a_record_with_its_key_headers_and_time(self):
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        # Not older than half of what the topic keeps: that is test_topic_limits.
        created = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=89000)
        created -= datetime.timedelta(hours=1)
        event = row(key="content-42", payload=b'{"n":1}', created_at=f"{created:%F %T}.089",
                    headers=json.dumps({"traceparent": trace, "tenant": "north"}))
        record = self.publish(event)[event["id"]]
        self.assertEqual(record.key, b"content-42")
        self.assertEqual(record.value, b'{"n":1}')
        self.assertEqual(record.timestamp, round(created.timestamp() * 1000))
        seq = record.headers.pop("seq")
        self.assertGreater(int(seq), 0)
        time = record.headers.pop("ce_time")
        self.assertRegex(time, rf"^{created:%FT%T}\.089(Z|\+00:00)$")
        self.assertEqual(record.headers, {
            "id": event["id"], "ce_specversion": "1.0", "ce_id": event["id"],
            "ce_type": "Happened", "ce_source": "tallybox", "lane": "outbox",
            "traceparent": trace, "tenant": "north"})

    def test_payload_bytes_are_untouched(self):
        payloads = {
            "every byte": bytes(range(256)).replace(b"\x1e", b""),
            "empty": b"",
            "null": None,
            "unicode": "Grüße, 世界 🗳".encode(),
            "not json": b'{"half":',
            "quotes": b"'\"\\\0\n\r\x1a`%s",
            "900 kB": bytes(byte % 251 for byte in range(1000)) * 900,
        }
        rows = {name: row(key=name, payload=payload) for name, payload in payloads.items()}
        records = self.publish(*rows.values())
        for name, payload in payloads.items():
            with self.subTest(name):
                record = records[rows[name]["id"]]
                self.assertEqual(record.value, payload)
                self.assertEqual(record.key, name.encode())

    def test_the_type_chooses_the_topic_which_is_made_as_configured(self):
        mapped, prefixed = row(), row(kind="invoice")
        records = self.publish(mapped, prefixed)
        self.assertLessEqual({mapped["id"], prefixed["id"]}, set(records))
        self.assertEqual(wire.partitions(suite.kafka().bootstrap, self.stack.topic), 4)
        self.assertEqual(wire.partitions(suite.kafka().bootstrap, self.topic("invoice")), 4)
        self.assertEqual(wire.partitions(suite.kafka().bootstrap, self.topic("vote")), 4)

    def test_rows_of_a_key_keep_their_order_and_one_partition(self):
        rows = [row(kind="steps", key=f"key-{n % 7}", payload=str(n).encode()) for n in range(500)]
        self.publish(*rows)
        by_key = {}
        for record in self.stack.records(self.topic("steps")):
            by_key.setdefault(record.key, []).append(record)
        self.assertEqual(len(by_key), 7)
        for records in by_key.values():
            self.assertEqual(len({record.partition for record in records}), 1)
            numbers = [int(record.value) for record in records]
            self.assertEqual(numbers, sorted(numbers))

    def test_a_rolled_back_row_is_never_published(self):
        gone, kept = row(kind="rolled"), row(kind="rolled")
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        self.stack.append([gone], connection=connection)
        records = self.publish(kept)
        connection.rollback()
        last = row(kind="rolled")
        records = self.publish(last)
        self.assertEqual(set(records), {kept["id"], last["id"]})

    def test_a_row_that_commits_late_is_published_late(self):
        late, soon = row(kind="late"), row(kind="late")
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        self.stack.append([late], connection=connection)
        self.assertEqual(set(self.publish(soon)), {soon["id"]})
        connection.commit()
        self.stack.wait_drained()
        ids = {record.headers["id"] for record in self.stack.records(self.topic("late"))}
        self.assertEqual(ids, {soon["id"], late["id"]})

    def test_a_writer_that_stays_open_does_not_keep_published_rows(self):
        rows = [row(kind="beside", key=str(n)) for n in range(300)]
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        self.stack.append(rows[:250])
        self.stack.append([row(kind="beside", key="open")], connection=connection)
        records = self.publish(*rows[250:])
        connection.rollback()
        self.assertEqual(set(records), {one["id"] for one in rows})

    def test_a_relay_that_does_not_reach_kafka_is_not_ready(self):
        """Although its outbox is empty, and although another relay holds the lane."""
        self.assertIn("relay kafka: ok", self.relay.admin("/readyz").body.decode())
        lost = self.start("relay", sets={"kafka.bootstrap.servers": "127.0.0.1:1"}, ready=False)
        suite.wait_for("the reason", lambda: "relay kafka: no answer from kafka.bootstrap.servers "
                       "= 127.0.0.1:1" in lost.why_not_ready())
        self.assertIn("event=dependency_down dep=kafka role=relay reason=no_answer", lost.log_text())
        lost.end()

    def test_published_rows_are_counted(self):
        before = self.relay.metric("tallybox_relay_published_total")
        self.publish(*[row(kind="count", key=str(n)) for n in range(100)])
        self.assertEqual(self.relay.metric("tallybox_relay_published_total"), before + 100)


class WithoutCloudEvents(suite.Case):
    """relay.ce_source is empty: the headers are Debezium's, where the row came from, and the row's own."""

    settings = {"relay.ce_source": "", "relay.row_bytes_max": 20000}

    def test_a_record_and_a_refused_row_are_without_them(self):
        sent, refused = (row(headers='{"tenant": "north"}', payload=payload)
                         for payload in (b"small", b"x" * 30000))
        self.stack.append([sent, refused])
        self.start("relay")
        self.stack.wait_drained()
        record, = self.stack.records()
        options = json.loads(self.stack.number("SELECT options FROM retry_task"))
        for headers, event in ((record.headers, sent), (dict(options["headers"]), refused)):
            self.assertGreater(int(headers.pop("seq")), 0)
            self.assertEqual(headers, {"id": event["id"], "lane": "outbox", "tenant": "north"})


class OtherTables(suite.Case):
    """A lane may be another application's table with other column types."""

    def test_a_table_made_for_debezium_is_published_as_it_stands(self):
        self.stack.sql("""
            CREATE TABLE shop_events (
                seq BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
                id VARBINARY(36) NOT NULL, aggregatetype VARCHAR(255) NOT NULL,
                aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL,
                payload JSON NOT NULL, headers JSON NULL,
                created_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
                note VARCHAR(20) NULL)""")
        relay = self.start("relay", sets={"relay.lanes": "outbox,shop_events"})
        event = row(kind="order", key="o-1", payload='{"total": 3}', headers='{"a": "b"}')
        self.stack.append([event], table="shop_events")
        self.stack.wait_drained(table="shop_events")
        record, = self.stack.records(f"event.{self.stack.name}.order")
        self.assertEqual(json.loads(record.value), {"total": 3})
        self.assertEqual(record.headers["id"], event["id"])
        self.assertEqual(record.headers["lane"], "shop_events")
        self.assertEqual(record.headers["a"], "b")
        relay.wait_ready()

    def test_debeziums_stock_table_is_refused_and_changed_over(self):
        """The table of Debezium's documentation, which has no order of its own."""
        self.stack.sql("""
            CREATE TABLE stock (
                id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL,
                aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL,
                payload JSON NULL)""")
        event = row(kind="stock", key="o-1", payload='{"total": 3}')
        self.stack.sql("INSERT INTO stock VALUES (%s, 'stock', 'o-1', %s, '{\"total\": 3}')",
                       (event["id"], event["type"]))
        lanes = {"relay.lanes": "outbox,stock"}
        relay = self.start("relay", sets=lanes, ready=False)
        suite.wait_for("the reason in the log", lambda:
                       "not a tallybox outbox table: stock (" in relay.log_text())
        self.assertIn("CREATE TABLE stock LIKE outbox", relay.log_text())
        self.stack.sql("RENAME TABLE stock TO stock_old")
        self.stack.sql("CREATE TABLE stock LIKE outbox")
        self.stack.sql("INSERT INTO stock (id, aggregatetype, aggregateid, type, payload) "
                       "SELECT id, aggregatetype, aggregateid, type, payload FROM stock_old")
        self.stack.wait_drained(table="stock")
        record, = self.stack.records(f"event.{self.stack.name}.stock")
        self.assertEqual(json.loads(record.value), {"total": 3})
        self.assertEqual(record.headers["id"], event["id"])
        relay.wait_ready()

    def test_an_id_is_printable_text_or_a_uuid_in_16_bytes(self):
        """Binary ids are common: UNHEX(REPLACE(UUID(), '-', '')), uuid.bytes."""
        self.stack.sql("CREATE TABLE raw_events LIKE outbox")
        self.stack.sql("ALTER TABLE raw_events MODIFY id VARBINARY(36) NOT NULL, ADD UNIQUE KEY uk_id (id)")
        lane = {"relay.lanes": "outbox,raw_events"}
        self.start("relay", sets=lane)
        binary, text = uuid.uuid4(), str(uuid.uuid4())
        rows = [row(kind="raw", key="a", id=binary.bytes), row(kind="raw", key="b", id=text),
                row(kind="raw", key="c", id=b"one\0two")]
        self.stack.append(rows, table="raw_events")
        with self.assertRaises(pymysql.IntegrityError):
            self.stack.sql("INSERT INTO raw_events (id, aggregatetype, aggregateid, type) VALUES "
                           "('twice', 'raw', 'd', 'T'), ('twice', 'raw', 'd', 'T')")
        self.stack.wait_drained(table="raw_events")
        records = self.stack.records(f"event.{self.stack.name}.raw")
        self.assertEqual({(one.headers["id"], one.headers["ce_id"]) for one in records},
                         {(str(binary), str(binary)), (text, text)})
        (options, reason), = self.stack.sql("SELECT options, reason FROM retry_task WHERE task_group = "
                                            "'raw_events'")
        self.assertIn("id is neither printable text nor a UUID of 16 bytes", reason)
        options = json.loads(options)
        self.assertEqual(options["rowId"], f"hex:{rows[2]['id'].hex()}")
        self.assertEqual(set(dict(options["headers"])), {"ce_specversion", "ce_type", "ce_source",
                                                         "ce_time", "seq", "lane"})
        # MariaDB also stores such bytes in the ASCII column of the outbox table; MySQL refuses them.
        blank = uuid.UUID(bytes=binary.bytes[:15] + b" ")
        stored = []
        for one in (binary, blank):
            try:
                self.stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                               f"VALUES (UNHEX('{one.hex}'), 'ascii', 'a', 'Happened', '{{}}')")
                stored.append(str(one))
            except pymysql.MySQLError as refusal:
                self.assertEqual(refusal.args[0], 1366)
        self.stack.wait_drained()
        if stored:
            records = self.stack.records(f"event.{self.stack.name}.ascii")
            self.assertEqual([one.headers["id"] for one in records], stored)
        # The unique key is the writer's choice: the tables are as the migrations made them.
        self.stack.sql("ALTER TABLE outbox ADD UNIQUE KEY uk_outbox_id (id)")
        self.addCleanup(self.stack.sql, "ALTER TABLE outbox DROP KEY uk_outbox_id")
        self.stack.tallybox("migrate", "verify")


    def test_a_lane_reads_a_table_with_another_name_and_has_its_own_topics(self):
        """Everything stored has the table's name, so a renamed lane continues where it was."""
        self.stack.sql("CREATE TABLE shop_orders LIKE outbox")
        topic = f"event.{self.stack.name}.of_the_shop"
        lane = {"relay.lanes": "outbox,shop", "lane.shop.table": "shop_orders",
                "lane.shop.topics": f"sale={topic}", "relay.row_bytes_max": 20000,
                "relay.full_scan_ms": 1000}
        relay = self.start("relay", sets=lane)
        sent, refused = (row(kind="sale", key=key, payload=payload)
                         for key, payload in (("o-1", b"small"), ("o-2", b"x" * 30000)))
        elsewhere = row(kind="sale", key="o-1", payload=b"small")
        self.stack.append([sent, refused], table="shop_orders")
        self.stack.append([elsewhere])
        for table in ("shop_orders", "outbox"):
            self.stack.wait_drained(table=table)
        record, = self.stack.records(topic)
        self.assertEqual(record.headers["id"], sent["id"])
        self.assertEqual(record.headers["lane"], "shop_orders")
        record, = [one for one in self.stack.records(f"event.{self.stack.name}.sale")
                   if one.headers["lane"] == "outbox"]
        self.assertEqual(record.headers["id"], elsewhere["id"])
        self.assertEqual(self.stack.sql("SELECT task_group FROM retry_task"), [("shop_orders",)])
        self.assertEqual(relay.metric('tallybox_relay_published_total{lane="shop"}'), 1)
        self.assertEqual(sorted(self.stack.sql("SELECT lane FROM relay_lease")),
                         [("outbox",), ("shop_orders",)])
        self.assertIn("shop (shop_orders)", self.stack.tallybox("status", sets=lane).stdout)
        relay.end()
        renamed = {key.replace("lane.shop", "lane.bazaar"): value for key, value in lane.items()}
        self.start("relay", sets={**renamed, "relay.lanes": "bazaar"})
        follower = row(kind="sale", key="o-2", payload=b"small")
        self.stack.append([follower], table="shop_orders")
        self.stack.wait_drained(table="shop_orders")
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE task_group = "
                                           "'shop_orders'"), 2)

    def test_a_lane_without_headers_and_created_at_is_published_shown_and_verified(self):
        """The rights that `grants --role` prints are given by a client, as an operator gives them:
        only those on columns that are there."""
        self.stack.sql("CREATE TABLE bare_events LIKE outbox")
        self.addCleanup(self.stack.sql, "DROP TABLE bare_events")
        self.stack.sql("ALTER TABLE bare_events DROP COLUMN headers, DROP COLUMN created_at")
        lane = {"relay.lanes": "outbox,bare_events"}
        for role in ("status", "verify"):
            self.stack.sql(f"DROP USER IF EXISTS tallybox_{role}@'%'", database=None)
            printed = self.stack.tallybox(
                "migrate", "grants", "--role", role, "--create-user", sets={
                    **lane, "mysql.user": f"tallybox_{role}",
                    "mysql.password_file": self.stack.accounts.password_file})
            self.client(printed.stdout)
            shown = " ".join(one[0] for one in self.stack.sql(f"SHOW GRANTS FOR tallybox_{role}@'%'"))
            self.assertRegex(shown, r"SELECT \(`?seq`?, `?created_at`?\)|SELECT \(`?created_at`?, `?seq")
            self.assertRegex(shown, r"SELECT \(`?seq`?\) ON \S*bare_events")
        mine = row(kind="bare", key="b-1")
        self.stack.append([{key: mine[key] for key in mine if key != "headers"}], table="bare_events")
        status = self.stack.tallybox("status", sets=lane, expect=None).stdout
        self.assertRegex(status, r"\n  bare_events +1 +- ")
        self.assertIn("bare_events: the age of its oldest row is not known: the table has no column "
                      "created_at, or the account may not read it", " ".join(status.split()))
        self.assertNotIn("outbox: the age", " ".join(status.split()))
        found = json.loads(self.stack.tallybox("status", "--json", sets=lane, expect=None).stdout)
        lanes = {one["lane"]: one for one in found["outbox"]["lanes"]}
        self.assertEqual((lanes["bare_events"]["rows"], lanes["bare_events"]["oldest_age_ms"]),
                         (1, None))
        verified = self.stack.tallybox("verify", "--wait", "1", sets=lane, expect=suite.FAILED)
        self.assertRegex(verified.stdout, r"lane bare_events: 1 rows wait\n")
        doctor = self.stack.tallybox("doctor", "--role", "status", expect=None, sets={
            **lane, "mysql.user": "tallybox_status",
            "mysql.password_file": self.stack.accounts.password_file})
        self.assertEqual(doctor.returncode, suite.DONE, doctor.stdout)
        self.assertRegex(doctor.stdout, r"warning +mysql +the account may not read created_at of "
                                        r"\S*bare_events, or the table has none")
        self.start("relay", sets=lane)
        self.stack.wait_drained(table="bare_events")
        record, = self.stack.records(f"event.{self.stack.name}.bare")
        self.assertEqual(record.headers["id"], mine["id"])
        self.stack.tallybox("verify", sets=lane)

    def client(self, text):
        """What the client of the server does with a script: it ends at the first error."""
        subprocess.run(["mariadb", "--no-defaults", f"--host={suite.database().host}",
                        f"--port={suite.database().port}", "--user=root"], input=text, text=True,
                       capture_output=True, timeout=60, check=True)


class Refused(suite.Case):
    """An event that cannot be published stops its own key and nothing else."""

    settings = {**suite.PATIENT, "relay.row_bytes_max": 20000, "relay.topic_partitions": 1,
                "relay.full_scan_ms": 1000, "relay.gap_wait_ms": 1000}

    def setUp(self):
        self.stack.sql("DELETE FROM outbox")
        self.stack.sql("DELETE FROM retry_task")
        self.kind = f"t{self.id().rsplit('.', 1)[1][-20:]}"
        self.topic = f"event.{self.stack.name}.{self.kind}"

    def wait_left(self, ids):
        """Until exactly these events are left in the outbox."""
        def look():
            left = {one[0] for one in self.stack.sql("SELECT id FROM outbox")}
            return left == set(ids)
        suite.wait_for(f"{len(ids)} rows left in the outbox", look)

    def values(self):
        return [(record.key.decode(), record.value[:10].decode())
                for record in self.stack.records(self.topic)]

    def rows(self, big):
        """big is refused; the key's next row follows it, other keys' rows do not."""
        # Random bytes follow the mark: a payload that can be compressed would fit any limit.
        return [row(self.kind, "bad", b"first"),
                row(self.kind, "bad", (b"x" * 10 + os.urandom(big))[:big]),
                row(self.kind, "bad", b"behind"), row(self.kind, "good", b"free")]

    def tasks(self):
        """Event ids of the lane's tasks, in their order."""
        return [one[0] for one in self.stack.sql(
            "SELECT idempotency_key FROM retry_task WHERE task_group = 'outbox' AND scene = "
            "'publish' AND handler = 'kafka' ORDER BY id")]

    def check_diverted(self, relay, rows):
        """bad goes into the retry queue, good flows, and people can see it."""
        self.wait_left([])
        more = row(self.kind, "good", b"flows")
        self.stack.append([more])
        self.wait_left([])
        self.assertEqual(self.tasks(), [rows[1]["id"], rows[2]["id"]])
        self.assertEqual(self.values(), [("bad", "first"), ("good", "free"), ("good", "flows")])
        suite.wait_for("the diverted key to be counted",
                       lambda: relay.metric("tallybox_relay_diverted_keys") == 1)
        suite.wait_for("its name in the log", lambda: "bad" in relay.log_text())
        suite.wait_for("status to show it", lambda: "diverted" in self.stack.tallybox(
            "status").stdout.lower(), every=0.5)

    def check_free(self, relay):
        """With its last task the key is back on the fast path."""
        suite.wait_for("no diverted key",
                       lambda: relay.metric("tallybox_relay_diverted_keys") == 0)
        after = row(self.kind, "bad", b"after")
        self.stack.append([after])
        self.wait_left([])
        self.assertEqual(self.tasks(), [])
        self.assertEqual(self.values()[-1], ("bad", "after"))

    def drop_tasks(self):
        """As an operator who skips them."""
        self.stack.sql("DELETE FROM retry_task")

    def test_a_row_above_row_bytes_max_goes_into_the_retry_queue(self):
        relay = self.start("relay")
        rows = self.rows(big=25000)
        self.stack.append(rows)
        self.check_diverted(relay, rows)
        task = self.stack.sql("SELECT ordering_key, reason_class, reason, params FROM retry_task "
                              "ORDER BY id")
        self.assertEqual([one[0] for one in task], [f"{self.topic}/bad"] * 2)
        self.assertEqual([one[1] for one in task], ["refused", ""])
        self.assertIn("relay.row_bytes_max", task[0][2])
        self.assertEqual([one[3] for one in task], [rows[1]["payload"], b"behind"])
        relay.end()
        relay = self.start("relay")
        more = row(self.kind, "bad", b"follows")
        self.stack.append([more])
        self.wait_left([])
        self.assertEqual(self.tasks(), [rows[1]["id"], rows[2]["id"], more["id"]])
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy) VALUES ('outbox', "
                       "'publish', %s)",
                       [json.dumps({"stop": [], "wait": "fixed 1s", "attempts": 0})])
        self.addCleanup(self.stack.sql, "DELETE FROM retry_scene WHERE scene = 'publish'")
        retry = self.start("retry")
        suite.wait_for("the queue to refuse the row, too", lambda: self.stack.number(
            "SELECT MAX(attempts) FROM retry_task") > 0)
        limited, = self.stack.sql("SELECT reason_class, reason FROM retry_task ORDER BY id LIMIT 1")
        self.assertEqual(limited, ("refused", task[0][2]))
        self.assertNotIn("xxxxxxxxxx", [value for key, value in self.values()])
        retry.end()
        self.start("retry", sets={"relay.row_bytes_max": 100000})
        suite.wait_for("the row to be published above the old limit", lambda: not self.tasks())
        self.assertEqual([value for key, value in self.values() if key == "bad"],
                         ["first", "xxxxxxxxxx", "behind", "follows"])
        self.check_free(relay)

    def test_the_retry_queue_gets_a_row_above_the_brokers_limit(self):
        wire.create_topic(suite.kafka().bootstrap, self.topic, 1, {"max.message.bytes": 5000})
        relay = self.start("relay")
        rows = self.rows(big=15000)
        self.stack.append(rows)
        self.check_diverted(relay, rows)
        self.check_foreseen()
        reason = self.stack.number("SELECT reason FROM retry_task ORDER BY id LIMIT 1")
        for limit in ("max.message.bytes of the topic is 5000", "relay.row_bytes_max is 20000"):
            self.assertIn(limit, reason)
        self.drop_tasks()
        self.check_free(relay)

    def check_foreseen(self):
        """After the first attempt people can see when the key will be blocked."""
        task = self.stack.number("SELECT MIN(id) FROM retry_task")
        retry = self.start("retry")
        suite.wait_for("the first attempt", lambda: self.stack.number(
            f"SELECT attempts FROM retry_task WHERE id = {task}") > 0)
        retry.end()
        said = self.stack.tallybox("status", expect=None).stdout
        self.assertRegex(" ".join(said.split()), rf"task {task}, key \S+: .*; it blocks its key at "
                                                 r"20\S+ \S+ UTC unless corrected")
        self.assertRegex(self.stack.tallybox("retry", "show", str(task)).stdout,
                         r"blocks at +20\S+ \S+ UTC, in 1 h")

    def test_bad_headers_stop_their_key_only(self):
        relay = self.start("relay")
        rows = self.rows(big=5)
        rows[1]["headers"] = "{not json"
        self.stack.append(rows)
        self.check_diverted(relay, rows)
        task, = self.stack.sql("SELECT id, options FROM retry_task ORDER BY id LIMIT 1")
        self.assertEqual(json.loads(task[1])["rowHeaders"], "{not json")
        self.correct(task[0], rows)
        self.check_free(relay)

    def correct(self, task, rows):
        """The operator gives the application's headers alone; the record has the relay's as well."""
        retry = self.start("retry")
        suite.wait_for("the handler to refuse the task", lambda: "retry edit ID --headers" in
                       self.stack.number("SELECT reason FROM retry_task ORDER BY id LIMIT 1"))
        good = self.stack.folder / "headers.json"
        good.write_text('{"tenant": "north"}')
        self.stack.tallybox("retry", "edit", task, "--headers", '{"id": "other"}',
                            expect=suite.USAGE)
        suite.wait_for("the edit of a task that does not run", lambda: self.stack.tallybox(
            "retry", "edit", task, "--headers", good, expect=None).returncode == suite.DONE)
        shown = json.loads(self.stack.tallybox("retry", "show", task, "--json").stdout)
        edit = [one for one in shown["attempts"] if one["outcome"] == "edited"]
        self.assertEqual([one["reason"] for one in edit], ["headers"])
        self.assertIn("@", edit[0]["owner"])
        # An attempt that had begun before the edit may still run.
        suite.wait_for("both tasks of the key to be published", lambda: self.tasks() == [] or (
            self.stack.tallybox("retry", "run-now", task, expect=None) is None), every=0.5)
        records = {one.headers["id"]: one for one in self.stack.records(self.topic)}
        corrected, behind = (records[one["id"]] for one in rows[1:3])
        own = {name: value for name, value in corrected.headers.items()
               if not name.startswith("tallybox-")}
        self.assertEqual(own.pop("tenant"), "north")
        self.assertEqual(set(own), {"id", "ce_specversion", "ce_id", "ce_type", "ce_source",
                                    "ce_time", "seq", "lane"})
        self.assertEqual(own["ce_id"], rows[1]["id"])
        self.assertLess(corrected.offset, behind.offset)
        retry.end()

    def test_two_rows_with_one_event_id_are_two_tasks(self):
        relay = self.start("relay")
        rows = self.rows(big=25000)
        rows[2]["id"] = rows[1]["id"]
        self.stack.append(rows)
        self.wait_left([])
        tasks = self.tasks()
        self.assertEqual(tasks[0], rows[1]["id"])
        self.assertRegex(tasks[1], r"^outbox/\d+/")
        self.drop_tasks()
        self.check_free(relay)


class Leases(suite.Case):
    """One reader at a time."""

    def test_a_second_relay_takes_over_when_the_first_is_killed(self):
        first = self.start("relay")
        self.stack.append([row(key="a")])
        self.stack.wait_drained()
        second = self.start("relay")
        owners = self.stack.sql("SELECT owner FROM relay_lease WHERE lane = 'outbox'")
        first.kill()
        self.stack.append([row(key="a")])
        # The lease, and a loaded machine.
        self.stack.wait_drained(seconds=14)
        self.assertNotEqual(self.stack.sql("SELECT owner FROM relay_lease WHERE lane = 'outbox'"),
                            owners)
        ids = {one.headers["id"] for one in self.stack.records() if one.key == b"a"}
        self.assertEqual(len(ids), 2)
        second.wait_ready()

    def test_a_clean_stop_hands_over_at_once(self):
        first = self.start("relay", sets={"relay.lease_ms": 60000})
        self.stack.append([row(key="b")])
        self.stack.wait_drained()
        self.start("relay", sets={"relay.lease_ms": 60000})
        self.assertEqual(first.terminate(), 0)
        self.stack.append([row(key="b")])
        self.stack.wait_drained()  # in half the lease


if __name__ == "__main__":
    unittest.main()
