# SPDX-License-Identifier: MIT
"""Names and values that would break out of SQL if they could, under a server whose quotes mean
something else; and a server that asks the client for its files."""

import base64
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

# Each ends a literal under some mode or character set.
HOSTILE = [
    "'", '"', "\\", "\\'", "'' OR 1=1 -- ", "'; DROP TABLE vote_tally; -- ", "`", "%s %n %d",
    "\\\\'; DELETE FROM vote_document; #", "\u00bf\u005c'", "\U0001f600'\\", "/* ' */", "${x}",
    "\x1a\x08'", "a\nb\r'\t",
]
GROUP = "g' OR ''='\\\" -- `; DROP TABLE remark"
MODE = "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT"


class Hostile(suite.Case):
    """Everything that is text is hostile, and so is the server's sql_mode."""

    settings = {"consumer.batch_wait_ms": 50}

    @classmethod
    def setUpClass(cls):
        mode = "SET GLOBAL sql_mode = %s"
        connection = suite.connect()
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.sql_mode")
            before = cursor.fetchone()[0]
            cursor.execute(mode, [MODE])
        connection.close()

        def restore():
            undo = suite.connect(sql_mode="")
            with undo.cursor() as cursor:
                cursor.execute(mode, [before])
            undo.close()
        cls.addClassCleanup(restore)
        super().setUpClass()

    def sound(self):
        """All tables are still there, as the migrations made them."""
        self.stack.tallybox("migrate", "verify")

    def test_rows_of_other_applications_arrive_as_they_are(self):
        rows = [{"id": str(i), "aggregatetype": "vote", "aggregateid": text[:60],
                 "type": text, "payload": text.encode() + b"\x00'\\\xff",
                 "headers": json.dumps({"h" + str(i): text})} for i, text in enumerate(HOSTILE)]
        # This session has the mode of the server: the values travel beside the statement's text.
        connection = suite.connect(self.stack.name, sql_mode="")
        self.stack.append(rows, connection=connection)
        connection.close()
        self.start("relay")
        self.stack.wait_drained()
        records = {one.headers["id"]: one for one in self.stack.records()}
        self.assertEqual(len(records), len(rows))
        for row in rows:
            record = records[row["id"]]
            self.assertEqual(record.value, row["payload"])
            self.assertEqual(record.key, row["aggregateid"].encode())
            self.assertEqual(record.headers["ce_type"], row["type"])
        self.sound()

    def test_a_refused_row_is_named_as_it_is(self):
        self.stack.append([{"id": "r", "aggregatetype": "no' topic\\", "aggregateid": GROUP[:60],
                            "type": "x", "payload": "x"}])
        self.addCleanup(self.stack.sql, "DELETE FROM outbox")
        relay = self.start("relay")
        suite.wait_for("the reason", lambda: self.stack.number(
            "SELECT diverted_keys FROM relay_lease WHERE lane = 'outbox'"))
        reason = self.stack.number("SELECT diverted_reason FROM relay_lease WHERE lane = 'outbox'")
        self.assertIn("no' topic\\", reason)
        suite.wait_for("its metric", lambda: relay.metric("tallybox_relay_diverted_keys") == 1)
        self.stack.tallybox("status")
        self.sound()

    def test_a_group_of_any_name_keeps_its_place_and_its_dead(self):
        bootstrap = suite.kafka().bootstrap
        wire.create_topic(bootstrap, self.stack.topic + "-dead", 1)
        sets = {"consumer.group": GROUP, "consumer.topics": self.stack.topic + "-dead"}
        for number, text in enumerate(HOSTILE):
            wire.produce(bootstrap, self.stack.topic + "-dead", text.encode() + b"\x00\xff",
                         key=text.replace("\n", " ").replace("\t", " ").replace("\r", " ")[:40],
                         headers={f"h{number}": "x'\\"})
        self.start("consume", sets=sets)
        self.stack.wait_rows("dead_record", len(HOSTILE))
        rows = self.stack.sql("SELECT consumer_group, payload, headers FROM dead_record "
                              "ORDER BY record_offset")
        for number, (group, payload, headers) in enumerate(rows):
            self.assertEqual(group, GROUP)
            self.assertEqual(payload, HOSTILE[number].encode() + b"\x00\xff")
            kept = {name: base64.b64decode(text) for name, text in json.loads(headers)}
            self.assertEqual(kept, {f"h{number}": b"x'\\"})
        self.assertEqual(
            self.stack.sql("SELECT consumer_group, next_offset FROM consumer_progress"),
            [(GROUP, len(HOSTILE))] if self.stack.number(
                "SELECT COUNT(*) FROM consumer_progress") == 1 else None)
        done = self.stack.tallybox("status", "--json", sets=sets)
        self.assertIn(str(len(HOSTILE)), done.stdout)
        self.sound()

    def test_names_of_tables_are_checked_before_anything_starts(self):
        for lanes in ("outbox`; DROP TABLE remark; -- ", "outbox'", "outbox.x", "a" * 65):
            for command in ("relay", "status", "verify"):
                done = self.stack.tallybox(command, sets={"relay.lanes": lanes},
                                           expect=suite.USAGE)
                self.assertIn("relay.lanes", done.stderr)
        self.sound()

    def test_a_database_of_any_name(self):
        name = "it's `a\\b` \"c\"_%"
        self.addCleanup(self.stack.sql, "DROP DATABASE IF EXISTS `" + name.replace("`", "``")
                        + "`", database=None)
        sets = {"mysql.database": name, "mysql.user": "root"}
        self.stack.tallybox("migrate", "up", sets=sets)
        self.stack.tallybox("migrate", "up", sets=sets)
        self.stack.tallybox("migrate", "verify", sets=sets)
        self.stack.tallybox("vote", "1", "2", sets=sets)
        grants = self.stack.tallybox("migrate", "grants", sets=sets).stdout
        self.stack.accounts.grant()
        self.stack.sql_all(line.rstrip(";") for line in grants.splitlines()
                           if line.startswith("GRANT "))
        self.sound()


class FileThief(threading.Thread):
    """A server that logs everybody in and answers every statement by asking for a file."""

    WANTED = b"/etc/passwd"

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.flags = set()
        self.asked = 0
        self.answers = []
        self.talks = []  # one event for each connection, set when it is over
        self.start()

    @staticmethod
    def packet(connection):
        head = b""
        while len(head) < 4:
            more = connection.recv(4 - len(head))
            if not more:
                raise ConnectionError
            head += more
        length = int.from_bytes(head[:3], "little")
        body = b""
        while len(body) < length:
            more = connection.recv(length - len(body))
            if not more:
                raise ConnectionError
            body += more
        return head[3], body

    @staticmethod
    def send(connection, number, body):
        connection.sendall(len(body).to_bytes(3, "little") + bytes([number]) + body)

    def talk(self, connection):
        # Protocol 41, secure connection, plugin names, LOCAL INFILE and multi statements on offer.
        offered = 0x0001 | 0x0008 | 0x0080 | 0x0200 | 0x8000 | (0x0001 | 0x0002 | 0x0008) << 16
        greeting = (b"\x0a" + b"8.4.0\0" + struct.pack("<I", 1) + b"12345678\0"
                    + struct.pack("<HBHH", offered & 0xFFFF, 45, 2, offered >> 16) + bytes([21])
                    + bytes(10) + b"123456789012\0" + b"mysql_native_password\0")
        self.send(connection, 0, greeting)
        number, login = self.packet(connection)
        self.flags.add(struct.unpack("<I", login[:4])[0])
        self.send(connection, number + 1, b"\0\0\0\2\0\0\0")
        while True:
            _, command = self.packet(connection)
            if command[:1] != b"\x03":
                self.send(connection, 1, b"\0\0\0\2\0\0\0")
                continue
            self.asked += 1
            self.send(connection, 1, b"\xfb" + self.WANTED)
            number, answer = self.packet(connection)
            self.answers.append(answer)
            self.send(connection, number + 1, b"\0\0\0\2\0\0\0")

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.talks.append(threading.Event())
            with connection:
                try:
                    self.talk(connection)
                except (ConnectionError, OSError):
                    pass
            self.talks[-1].set()


class Thief(unittest.TestCase):
    """A database server gets no file of ours."""

    def test_a_server_that_asks_for_a_file_gets_none(self):
        thief = FileThief()
        self.addCleanup(thief.listener.close)
        done = subprocess.run(
            [suite.BINARY, "migrate", "status", "--set", f"mysql.port={thief.port}",
             "--set", "mysql.query_timeout_ms=2000"], capture_output=True, text=True, timeout=120,
            check=False, env=suite.clean_environment(), cwd=suite.run().folder)
        self.assertNotEqual(done.returncode, suite.DONE, done.stdout)
        suite.wait_for("the thief to have heard it all", lambda: thief.talks and all(
            talk.is_set() for talk in thief.talks))
        self.assertTrue(thief.flags, done.stderr)
        for flags in thief.flags:
            self.assertFalse(flags & 0x10000, "CLIENT_MULTI_STATEMENTS")
        self.assertTrue(thief.asked, "no statement came that could be answered so")
        self.assertEqual(b"".join(thief.answers), b"")


if __name__ == "__main__":
    unittest.main()
