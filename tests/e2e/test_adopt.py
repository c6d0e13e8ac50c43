# SPDX-License-Identifier: MIT
"""`tallybox adopt` with a real Debezium connector: a lane takes its place and gives it back while the
application writes, and after the connector was killed."""

import http.server
import json
import os
import random
import threading
import time
import unittest

import suite
import wire
from binlog_lane import LaneCase, event
from connect import Connect, source_of

PARTITIONS = 4
CONVERTERS = {"key.converter": "org.apache.kafka.connect.storage.StringConverter",
              # The payload is a LONGBLOB.
              "value.converter": "io.debezium.converters.BinaryDataConverter"}
# That only one of the two writes: `tallybox adopt` has a note of them.
LANE_HEADERS = {"lane", "seq"}
CONNECTOR_HEADERS = {f"__debezium.context.{name}" for name in ("connectorLogicalName", "connectorName",
                                                           "taskId", "runId")}


class DebeziumCase(LaneCase):
    """A connector on the lane's table that publishes to the lane's topic."""

    needs = "debezium"
    settings = {**LaneCase.settings, "relay.ce_source": "", "relay.topics": ""}
    options = {}  # of the connector
    table = "outbox"

    @classmethod
    def switch_gtids_off(cls):
        """On MySQL, whose connector and lane then go on by file and position."""
        cls.set_gtid_mode("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
        cls.addClassCleanup(cls.set_gtid_mode, "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")

    @classmethod
    def set_gtid_mode(cls, *modes):
        for mode in modes:
            cls.stack.sql(f"SET GLOBAL gtid_mode = {mode}")

    def setUp(self):
        super().setUp()
        self.probes = f"probe{self.kind}"
        for topic in self.topic, f"event.{self.stack.name}.{self.probes}":
            wire.create_topic(suite.kafka().bootstrap, topic, PARTITIONS)
        self.events = []  # that are committed
        self.stop = threading.Event()
        self.threads = []

    def connector(self, state="RUNNING"):
        connector = source_of(self.stack, self.kind, f"event.{self.stack.name}.${{routedByValue}}",
                              **{**CONVERTERS, **self.options})
        peer = Connect(self.stack, connector, state=state)
        self.addCleanup(peer.stop)
        return peer

    def wait_until_it_streams(self, peer):
        """It does not say when its first start is over, and publishes what is written then."""
        peer.wait_state("RUNNING")

        def probe():
            self.stack.append([event(self.probes, "probe", 0, "0")], table=self.table)
            return self.stack.records(f"event.{self.stack.name}.{self.probes}")

        peer.wait("the connector to read the log", probe, 120)

    def write(self, events, stop):
        """As of LaneCase, with pauses: the records are read often."""
        def run(number):
            source = random.Random(number)
            connection = suite.connect(self.stack.name, autocommit=False)
            if number == 2 and suite.DATABASE == "mysql":
                with connection.cursor() as cursor:
                    cursor.execute("SET SESSION binlog_transaction_compression = ON")
            count = 0
            while not stop.is_set():
                rows = [event(self.kind, f"{number}-{source.randrange(9)}", count + n)
                        for n in range(source.choice((1, 1, 3, 60)))]
                count += len(rows)
                if source.randrange(2):
                    self.append_at_once(rows, connection)
                else:
                    self.stack.append(rows, connection=connection)
                if source.randrange(10) == 0:
                    connection.rollback()
                else:
                    connection.commit()
                    events.extend(rows)
                time.sleep(0.02)
            connection.close()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        return threads

    def append_at_once(self, rows, connection):
        """One statement, whose rows share events of the log."""
        names = ", ".join(rows[0])
        marks = ", ".join(["(" + ", ".join(["%s"] * len(rows[0])) + ")"] * len(rows))
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO outbox ({names}) VALUES {marks}",
                           [value for row in rows for value in row.values()])

    def begin_to_write(self):
        self.stop.clear()
        self.threads = self.write(self.events, self.stop)
        self.addCleanup(self.end_writing)

    def end_writing(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.threads = []

    def wait_more(self, count=300, seconds=90):
        """Until so many further records are there."""
        wanted = len(self.records()) + count
        suite.wait_for(f"{wanted} records", lambda: len(self.records()) >= wanted, seconds)

    def adopt(self, peer, *arguments, expect=0):
        return self.stack.tallybox("adopt", "outbox", "--connector", peer.url, *arguments,
                                   expect=expect)

    def publish_twins(self):
        """The same rows but for their ids; returns what is published of them, in their order."""
        payloads = ("0", "", None, b"\0\xff", '{"text": "n\u00f6rth"}', bytes(range(256)) * 12)
        rows = [event(self.probes, key, 0, type=kind) for key in ("key", "k\u00e4y", "") for kind in ("A", "B")
                for _ in payloads]
        rows = [dict(row, payload=payload) for row, payload in zip(rows, 6 * payloads)]
        self.stack.append(rows, table=self.table)

        def find():
            found = {one.headers["id"]: one for one in
                     self.stack.records(f"event.{self.stack.name}.{self.probes}")}
            return all(row["id"] in found for row in rows) and [found[row["id"]] for row in rows]
        found = suite.wait_for("the twins", find, 90)
        for one in found:
            self.assertIn(set(one.headers) - {"id"}, (LANE_HEADERS, CONNECTOR_HEADERS))
        return [(one.key, one.value) for one in found]

    def check_all_once(self):
        self.wait_records(len(self.events), 90)
        self.assertEqual(self.check_order(self.events), 0, "repeats")


class Adopt(DebeziumCase):
    seconds = 40

    def test_a_lane_takes_over_and_gives_back_while_rows_are_written(self):
        peer = self.connector().start()
        self.wait_until_it_streams(peer)
        of_connector = self.publish_twins()
        self.begin_to_write()
        self.wait_more()
        running = self.adopt(peer, "--begin", expect=1)
        self.assertIn("the connector is RUNNING: stop it", running.stderr)
        peer.stop_connector()
        seen = json.loads(self.adopt(peer, "--json").stdout)
        self.assertTrue(seen["equal"], seen)
        self.assertFalse(seen["begun"])
        self.assertIn("goes on from the table", [one["text"] for one in seen["notes"] if
                                                 one["option"] == "table outbox"][0])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)
        done = self.adopt(peer, "--begin")
        self.assertIn("lane outbox begins behind the transactions", done.stdout)
        self.assertIn("Delete the published rows before you use one of them", done.stderr)
        self.assertIn("has a position", self.adopt(peer, "--begin", expect=1).stderr)
        relay = self.start("relay")
        self.assertEqual(self.publish_twins(), of_connector)
        self.wait_more()
        self.assertIn("holds the lane", self.adopt(peer, "--back", expect=1).stderr)
        relay.terminate()
        shown = json.loads(self.adopt(peer, "--back", "--json").stdout)
        self.assertEqual(shown["offsets"][0]["partition"], {"server": "peer"})
        self.adopt(peer, "--back", "--apply")
        peer.resume()
        self.wait_more()
        self.end_writing()
        self.check_all_once()


    def test_columns_whose_values_have_another_form_are_named(self):
        self.stack.sql("CREATE TABLE stock (id BINARY(16) PRIMARY KEY, aggregatetype VARCHAR(64), "
                       "aggregateid VARCHAR(64), type VARCHAR(64), payload JSON)")
        self.addCleanup(self.stack.sql, "DROP TABLE stock")
        connector = {**source_of(self.stack, "stock", f"event.{self.stack.name}.${{routedByValue}}"),
                     **CONVERTERS, "table.include.list": f"{self.stack.name}.stock"}
        connector["transforms.outbox.table.fields.additional.placement"] = "happened:header"
        config = self.stack.folder / "stock.json"
        lanes = {"relay.lanes": "outbox,stock", "lane.stock.source": "binlog",
                 "lane.stock.header_columns": "happened", "lane.stock.topic":
                 f"event.{self.stack.name}.${{routedByValue}}"}
        config.write_text(json.dumps(connector, default=str))
        self.stack.sql("ALTER TABLE stock ADD COLUMN happened DATETIME")
        done = self.stack.command(["adopt", "--connector", config], lanes, expect=suite.FAILED)
        self.assertIn("differs: column id = binary: ", done.stdout)
        if suite.DATABASE == "mysql":
            self.assertIn("differs: column payload = json: ", done.stdout)
        self.assertIn("differs: column happened = datetime: ", done.stdout)
        self.assertIn("note: table stock: published rows stay in the table, because keep_ids_max is 0; "
                      "when the server has purged its log, the lane stops", done.stdout)
        self.assertIn("position: not found: there are no offsets", done.stdout)
        done = self.stack.command(["adopt", "--connector", config],
                                  {**lanes, "lane.stock.topic": "other"}, expect=suite.FAILED)
        self.assertIn("position: not found: lane.stock.topic is", done.stdout)
        self.stack.command(["adopt", "--connector", config], {**lanes, "mysql.port": 1,
                                                              "mysql.connect_timeout_ms": 1000},
                           expect=suite.UNAVAILABLE)
        done = self.stack.command(["adopt", "new", "--connector", config], {})
        self.assertIn("not looked for: the settings have no lane new", done.stdout)
        for lane, more, text in (("outbox", {}, "lane.outbox.table is outbox"),
                                 ("stock", {"lane.stock.exactly_once": "yes"}, "is in Kafka")):
            done = self.stack.command(["adopt", lane, "--connector", config, "--back"],
                                      {**lanes, **more}, expect=suite.FAILED)
            self.assertIn(text, done.stderr)
        done = self.stack.command(["adopt", "--connector", "HTTP://user:geheim@127.0.0.1:1/x"], lanes,
                                  expect=suite.FAILED)
        self.assertNotIn("geheim", done.stdout + done.stderr)
        for words in ["--begin"], ["--back"]:
            self.stack.command(["adopt", "nolane", "--connector", config, *words], {},
                               expect=suite.FAILED)
        for words in (["--begin", "--back"], ["--apply"], ["--back", "--apply"], ["--accept-differences"]):
            self.stack.command(["adopt", "--connector", config, *words], {}, expect=suite.USAGE)
        self.stack.command(["adopt"], {}, expect=suite.USAGE)

    def test_a_table_that_a_lane_cannot_read_is_refused_before_the_first_row(self):
        self.stack.sql("CREATE TABLE foreign_texts (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(64), "
                       "aggregateid VARCHAR(64) CHARACTER SET sjis, type VARCHAR(64), payload LONGTEXT)")
        self.addCleanup(self.stack.sql, "DROP TABLE foreign_texts")
        topic = f"event.{self.stack.name}.${{routedByValue}}"
        config = self.stack.folder / "foreign_texts.json"
        config.write_text(json.dumps({**source_of(self.stack, "foreign_texts", topic), **CONVERTERS,
                                      "table.include.list": f"{self.stack.name}.foreign_texts"}, default=str))
        lanes = {"relay.lanes": "outbox,foreign_texts", "lane.foreign_texts.source": "binlog",
                 "lane.foreign_texts.topic": topic}
        reason = "column aggregateid has the character set sjis"
        done = self.stack.command(["adopt", "--connector", config], lanes, expect=suite.FAILED)
        self.assertIn(f"differs: table foreign_texts: the lane would not start: {reason}", done.stdout)
        done = self.stack.command(["adopt", "--connector", config, "--begin", "--accept-differences"], lanes,
                                  expect=suite.FAILED)
        self.assertIn(f"the lane would not start: table foreign_texts: {reason}", done.stderr)
        done = self.stack.command(["doctor", "--role", "relay"], lanes, expect=suite.FAILED)
        self.assertIn(f"lane foreign_texts stops, because it has source = binlog: table foreign_texts: {reason}",
                      done.stdout)
        self.stack.sql("ALTER TABLE foreign_texts MODIFY aggregateid VARCHAR(64) CHARACTER SET latin1")
        done = self.stack.command(["doctor", "--role", "relay"], lanes, expect=None)
        self.assertNotIn("lane foreign_texts stops", done.stdout)

    def test_the_state_is_read_where_the_offsets_are_and_tasks_have_to_end(self):
        states = [["RUNNING", []], ["STOPPED", [{"id": 0, "state": "RUNNING"}]], ["STOPPED", []]]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer = {"offsets": []}
                if self.path == "/connectors/peer/status":
                    state, tasks = states.pop(0) if len(states) > 1 else states[0]
                    answer = {"connector": {"state": state}, "tasks": tasks}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        config = self.stack.folder / "peer.json"
        config.write_text(json.dumps(
            {**source_of(self.stack, self.kind, f"event.{self.stack.name}.${{routedByValue}}"),
             **CONVERTERS}, default=str))
        for text in "the connector is RUNNING: stop it", "has stored none":
            done = self.stack.tallybox(
                "adopt", "outbox", "--connector", config, "--begin", "--offsets",
                f"http://127.0.0.1:{server.server_port}/connectors/peer/offsets", expect=1)
            self.assertIn(text, done.stderr)
        self.assertEqual(len(states), 1)


class AdoptLong(DebeziumCase):
    """Also after a crash of the connector, by each source of offsets, and several times there and
    back; on MySQL by file and position, without GTIDs."""

    long = True
    seconds = 200

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if suite.DATABASE == "mysql":
            cls.switch_gtids_off()

    def test_after_a_kill_only_what_came_after_the_last_commit_of_offsets_is_repeated(self):
        peer = self.connector().start()
        self.wait_until_it_streams(peer)
        self.begin_to_write()
        self.wait_more(1000)
        self.kill_behind_a_stored_offset(peer)
        published = {record.headers["id"] for record in self.records()}
        peer.write_connector("STOPPED")
        peer.start()
        suite.wait_for("Connect", lambda: peer.connector_state() == "STOPPED", 120)
        self.adopt(peer, "--begin")
        self.start("relay")
        self.wait_more()
        self.end_writing()
        self.wait_records(len(self.events))
        repeats = self.check_order(self.events)
        self.assertLess(repeats, len(published))
        self.check_repeats_are_the_last(published)

    def kill_behind_a_stored_offset(self, peer):
        """0.3 s later, when rows were published behind it. The connector stores an offset each second, so
        the file is not being written."""
        before = peer.stored_offset()
        peer.wait("an offset to be stored", lambda: peer.stored_offset() not in ({}, before), 60)
        time.sleep(0.3)
        peer.kill()

    def check_repeats_are_the_last(self, published):
        """What the connector has published falls, in each partition, into records that came once
        and, behind them, records that came again."""
        seen, again = {}, set()
        for record in self.records():
            key = record.headers["id"]
            if key in seen:
                again.add(key)
            seen.setdefault(key, record)
        self.assertLessEqual(again, published)
        for partition in range(PARTITIONS):
            repeated = [key in again for key, record in seen.items()
                        if record.partition == partition and key in published]
            self.assertEqual(repeated, sorted(repeated), f"partition {partition}")

    def test_there_and_back_three_times(self):
        peer = self.connector().start()
        self.wait_until_it_streams(peer)
        self.begin_to_write()
        for _ in range(3):
            self.wait_more(400)
            peer.stop_connector()
            self.adopt(peer, "--begin", "--replace-position")
            relay = self.start("relay")
            self.wait_more(400)
            relay.terminate()
            self.adopt(peer, "--back", "--apply")
            peer.resume()
        self.wait_more(400)
        self.end_writing()
        self.check_all_once()

    def test_offsets_come_from_a_file_and_from_a_topic(self):
        peer = self.connector().start()
        self.wait_until_it_streams(peer)
        self.begin_to_write()
        self.wait_more(400)
        peer.stop_connector()
        self.end_writing()
        answer = peer.call("GET", "/connectors/peer/offsets")
        offset = answer["offsets"][0]["offset"]
        config, offsets = self.stack.folder / "connector.json", self.stack.folder / "offsets.json"
        config.write_text(json.dumps(peer.call("GET", "/connectors/peer")))
        offsets.write_text(json.dumps(answer))
        topic = f"offsets-{self.kind}"
        wire.create_topic(suite.kafka().bootstrap, topic, 3, {"cleanup.policy": "compact"})
        key = json.dumps(["peer", {"server": "peer"}])
        for value in ({"file": "b.000001", "pos": 4}, offset):
            wire.produce(suite.kafka().bootstrap, topic, json.dumps(value).encode(), key, partition=1)
        wire.produce(suite.kafka().bootstrap, topic, b"{}", '["other",{"server":"peer"}]')
        positions = []
        for source in offsets, f"topic:{topic}", f"{peer.url}/offsets":
            done = self.stack.tallybox("adopt", "outbox", "--connector", config, "--offsets", source,
                                       "--json")
            positions.append(json.loads(done.stdout)["position"])
        self.assertIsNotNone(positions[0], done.stdout)
        self.assertEqual(positions[0], positions[1])
        self.assertEqual(positions[0], positions[2])

    def test_what_is_not_of_this_log_is_refused(self):
        config, offsets = self.stack.folder / "connector.json", self.stack.folder / "offsets.json"
        config.write_text(json.dumps(
            {**source_of(self.stack, self.kind, f"event.{self.stack.name}.${{routedByValue}}"),
             **CONVERTERS}, default=str))
        strange = ({"gtids": "7-77-7777777", "file": "b.000001", "pos": 4} if
                   suite.DATABASE == "mariadb" else
                   {"gtids": "00000000-0000-0000-0000-000000000007:1-5", "file": "x", "pos": 4})
        for offset, text in ((strange, "another server"),
                             ({"file": "none.000001", "pos": 4}, "has no file"),
                             ({"gtids": "rubbish", "file": "b.1", "pos": 4},
                              "not a set of GTIDs" if suite.DATABASE == "mariadb" else "has no file")):
            offsets.write_text(json.dumps({"offsets": [{"partition": {"server": "peer"},
                                                        "offset": offset}]}))
            done = self.stack.tallybox("adopt", "outbox", "--connector", config, "--offsets", offsets,
                                       "--begin", expect=1)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)


if __name__ == "__main__":
    os.chdir(suite.ROOT)
    unittest.main()
