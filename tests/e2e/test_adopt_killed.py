# SPDX-License-Identifier: MIT
"""`tallybox adopt` inside one transaction: a real Debezium connector is killed there and a lane takes
its place, the relay is killed there and the connector goes on, it is killed again, and the lane reads
the rest. Each of them begins with the row behind what was saved last: no row is lost, and repeats are
the rows that were published behind that one."""

import collections
import json
import shutil
import unittest
import uuid

import suite
import wire
from connect import Connect
from test_adopt import DebeziumCase

KEYS = 500
# The numbers of the rows: the transaction has those from FIRST to LAST - 1, in two large parts, with
# changes of other kinds between them. Before and behind it are transactions of one row each.
FIRST, SINGLES, SECOND, LAST, ALL = 10, 110, 15000, 50000, 50010
EVENTS_OF_SINGLES = 201  # BEGIN, and two for each of the rows that are inserted alone

# Few records at a time: the transaction takes long enough to be cut off.
SLOW_CONNECTOR = {"max.batch.size": 100, "max.queue.size": 200,
                  "producer.override.batch.size": 0, "producer.override.buffer.memory": 65536,
                  "producer.override.max.in.flight.requests.per.connection": 1}
SLOW_RELAY = {"relay.read_rows_max": 50, "relay.window_rows_max": 50,
              "kafka.producer.batch.num.messages": 1,
              "kafka.producer.max.in.flight.requests.per.connection": 1}


class AdoptInTransaction(DebeziumCase):
    """Of Debezium's stock table."""

    long = True
    seconds = 150
    table = "stock"
    variables = {}  # of the session that writes the transaction

    def setUp(self):
        super().setUp()
        self.options = {**SLOW_CONNECTOR, "table.include.list": f"{self.stack.name}.stock",
                        "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
        self.sets = {"lane.outbox.table": "stock"}
        self.stack.sql("CREATE TABLE stock (id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype "
                       "VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, type "
                       "VARCHAR(255) NOT NULL, payload JSON)")
        self.addCleanup(self.stack.sql, "DROP TABLE stock")
        self.stack.sql("CREATE TABLE other (n INT PRIMARY KEY)")
        self.addCleanup(self.stack.sql, "DROP TABLE other")
        self.begins = 0   # number of the row with which the present reader begins
        self.seen = {}    # {partition: offset behind the records of the readers before}

    def adopt(self, peer, *arguments, expect=0):
        return self.stack.tallybox("adopt", "outbox", "--connector", peer.url, *arguments,
                                   sets=self.sets, expect=expect)

    def insert(self, cursor, numbers):
        """By statements of many rows, which share events of the log: PyMySQL joins rows of which every
        value is a parameter."""
        cursor.executemany(
            "INSERT INTO stock (id, aggregatetype, aggregateid, type, payload) VALUES "
            "(%s, %s, %s, %s, %s)",
            [(str(uuid.uuid4()), self.kind, str(n % KEYS), "Happened", str(n)) for n in numbers])

    def write_transaction(self, cursor):
        for name, value in self.variables.items():
            cursor.execute(f"SET SESSION {name} = {value}")
        cursor.execute("BEGIN")
        for number in range(FIRST, SINGLES):
            self.insert(cursor, [number])
        self.insert(cursor, range(SINGLES, SECOND))
        cursor.executemany("INSERT INTO other VALUES (%s)", [[n] for n in range(5000)])
        cursor.execute("SAVEPOINT of_rows_that_are_undone")
        self.insert(cursor, range(ALL, ALL + 50))
        cursor.execute("ROLLBACK TO SAVEPOINT of_rows_that_are_undone")
        cursor.execute("UPDATE stock SET type = 'Changed' WHERE aggregateid = '8'")
        cursor.execute("DELETE FROM stock WHERE aggregateid = '7'")
        self.insert(cursor, range(SECOND, LAST))
        cursor.execute("COMMIT")

    def write_all(self):
        connection = suite.connect(self.stack.name)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            for number in range(FIRST):
                self.insert(cursor, [number])
            self.write_transaction(cursor)
            for number in range(LAST, ALL):
                self.insert(cursor, [number])

    def kill_connector(self, peer, events):
        """When it has stored an offset behind so many events of the transaction."""
        peer.wait(f"an offset behind {events} events",
                  lambda: peer.stored_offset().get("event", 0) > events, 120)
        peer.kill()

    def next_row_of_connector(self, peer):
        """With which row it would go on: a copy of it does, into another topic."""
        topic = f"copy{next(suite.run().numbers)}.{self.stack.name}"
        wire.create_topic(suite.kafka().bootstrap, f"{topic}.{self.kind}", 1)
        history = self.stack.folder / f"history-{topic}"
        shutil.copy(peer.connector["schema.history.internal.file.filename"], history)
        copy = Connect(self.stack, {
            **peer.connector, "schema.history.internal.file.filename": history,
            "transforms.outbox.route.topic.replacement": f"{topic}.${{routedByValue}}"})
        shutil.copy(peer.folder / "offsets", copy.folder / "offsets")
        copy.start()
        self.addCleanup(copy.kill)
        records = copy.wait("a record of the copy",
                            lambda: self.stack.records(f"{topic}.{self.kind}"), 120)
        copy.kill()
        return int(records[0].value)

    def take_over(self, peer):
        """From a connector that was killed; the lane begins with the row with which that would."""
        number = self.next_row_of_connector(peer)
        peer.write_connector("STOPPED")
        peer.start()
        suite.wait_for("Connect", lambda: peer.connector_state() == "STOPPED", 120)
        # On MySQL a payload of type JSON is one.
        self.adopt(peer, "--begin", "--replace-position", "--accept-differences")
        self.assertEqual(FIRST + self.rows_done(), number)
        self.end_reader(number)

    def rows_done(self):
        """Rows of the transaction before the lane's position; 0: it is not inside of it."""
        return self.stack.number("SELECT rows_done FROM relay_position")

    def kill_relay(self, relay):
        """When its position is inside the second part and behind where it began."""
        wanted = max(SECOND, self.begins) - FIRST
        suite.wait_for("the lane to be in the second part", lambda: self.rows_done() > wanted, 180, 0.01)
        relay.kill()

    def give_back(self, peer):
        """After the lease of the relay that was killed. Returns how many events are done."""
        def give():
            done = self.adopt(peer, "--back", "--apply", "--json", expect=None)
            if done.returncode == 0:
                return json.loads(done.stdout)["offsets"][0]["offset"]
            self.assertIn("holds the lane", done.stderr)
            return None

        offset = suite.wait_for("the lane to be given back", give)
        self.end_reader(FIRST + self.rows_done())
        peer.resume()
        return offset["event"]

    def end_reader(self, next_begins):
        """A reader is gone, and the next one begins with this row: what it has published are its first
        row, all rows before the one of the next, and some behind, each once and in order."""
        numbers, keys = collections.Counter(), {}
        for record in self.records():
            if record.offset < self.seen.get(record.partition, 0):
                continue
            self.seen[record.partition] = record.offset + 1
            number = int(record.value)
            numbers[number] += 1
            self.assertLess(keys.get(record.key, -1), number, f"key {record.key}")
            keys[record.key] = number
        self.assertEqual(max(numbers.values()), 1)
        self.assertEqual(min(numbers), self.begins)
        self.assertEqual([n for n in range(self.begins, next_begins) if n not in numbers], [])
        self.assertLess(self.begins, next_begins)
        self.begins = next_begins

    def check_all(self):
        """By the first record of each row."""
        first, keys = {}, {}
        for record in self.records():
            if first.setdefault(int(record.value), record) is record:
                self.assertLess(keys.get(record.key, -1), int(record.value), f"key {record.key}")
                keys[record.key] = int(record.value)
        self.assertEqual(sorted(first), list(range(ALL)))

    def test_the_connector_and_the_relay_are_killed_inside_and_the_other_goes_on(self):
        peer = self.connector().start()
        self.wait_until_it_streams(peer)
        self.write_all()
        self.kill_connector(peer, EVENTS_OF_SINGLES)
        self.take_over(peer)
        self.assertGreater(self.begins, SINGLES)
        self.kill_relay(self.start("relay", sets={**self.sets, **SLOW_RELAY}))
        events = self.give_back(peer)
        self.assertLess(SECOND, self.begins)
        self.kill_connector(peer, events)
        self.take_over(peer)
        self.assertLess(self.begins, LAST)
        relay = self.start("relay", sets=self.sets)
        suite.wait_for("all rows", lambda: self.published(relay) >= ALL - self.begins, 120, 0.5)
        self.assertEqual(relay.terminate(), 0)
        self.assertEqual(self.rows_done(), 0)
        self.end_reader(ALL)
        self.check_all()


class AdoptInCompressedTransaction(AdoptInTransaction):
    """It is one event of the log, and the connector counts the events in it."""

    database = "mysql"
    variables = {"binlog_transaction_compression": "ON"}


class AdoptInTransactionByFile(AdoptInTransaction):
    """By file and position, without GTIDs."""

    database = "mysql"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.switch_gtids_off()


if __name__ == "__main__":
    unittest.main()
