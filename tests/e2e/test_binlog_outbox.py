# SPDX-License-Identifier: MIT
"""Rows of outbox tables of many kinds, as the binary log has them: the same bytes that a SELECT of the
relay returns, or a reason that names the column."""

import datetime
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402

PROGRAM = suite.ROOT / "build/dev/tallybox-binlog-outbox"
OURS = {name: name for name in ("seq", "id", "aggregatetype", "aggregateid", "type", "payload", "headers",
                                "created_at")}
TEXTS = ("id", "aggregatetype", "aggregateid", "type", "payload", "headers")
# Types of keys, with values that one of them may break on.
KEYS = [
    ("VARCHAR(64) CHARACTER SET utf8mb4", ["'plain'", "''", "'äöü€😀'", "'blank at the end '"]),
    ("VARCHAR(64) CHARACTER SET latin1", ["'plain'", "'äöüßÿ'", "'€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ'", "''"]),
    ("VARCHAR(64) CHARACTER SET ascii", ["'plain'", "''", "'x'", "'~'"]),
    ("CHAR(40) CHARACTER SET utf8mb4", ["'plain'", "''", "'äöü€'", "'blanks   '"]),
    ("TEXT CHARACTER SET utf8mb3", ["'plain'", "''", "'äöü€'", "'blank '"]),
    ("VARBINARY(40)", ["'plain'", "''", "x'00ff00'", "'x '"]),
    ("BINARY(16)", ["x'00112233445566778899aabbccddeeff'", "x'00112233445566778899aabbccddee00'", "''",
                    "'0123456789abcdef'"]),
    ("TINYINT", ["-128", "127", "0", "-1"]),
    ("TINYINT UNSIGNED", ["255", "128", "0", "1"]),
    ("SMALLINT UNSIGNED", ["65535", "32768", "0", "1"]),
    ("MEDIUMINT", ["-8388608", "8388607", "0", "-1"]),
    ("MEDIUMINT UNSIGNED", ["16777215", "8388608", "0", "1"]),
    ("INT", ["-2147483648", "2147483647", "0", "-1"]),
    ("INT UNSIGNED", ["4294967295", "2147483648", "0", "1"]),
    ("BIGINT", ["-9223372036854775808", "9223372036854775807", "0", "-1"]),
    ("BIGINT UNSIGNED", ["18446744073709551615", "9223372036854775808", "0", "1"]),
    ("DECIMAL(20,4)", ["-1234567890123456.7891", "0.0001", "0", "1"]),
    ("ENUM('one', 'it''s', 'a,b', 'ä€', '') CHARACTER SET utf8mb4", ["'one'", "\"it's\"", "'a,b'", "'ä€'"]),
    (r"ENUM('App\\Event\\New', 'x\n', '\\', 'n') CHARACTER SET utf8mb4", ["1", "2", "3", "4"]),
]
PAYLOADS = [
    ("LONGBLOB", ["'x'", "NULL", "x'00ff'", "REPEAT('x', 70000)"]),
    ("TINYBLOB", ["'x'", "NULL", "''", "REPEAT('x', 255)"]),
    ("MEDIUMTEXT CHARACTER SET utf8mb4", ["'ä€😀'", "NULL", "''", "REPEAT('€', 30000)"]),
    ("TEXT CHARACTER SET latin1", ["'ä€'", "NULL", "''", "REPEAT('ü', 500)"]),
    ("JSON", ["'{\"b\": 1, \"aa\": [true, null, 1.5, \"ä\"]}'", "NULL", "'[]'", "'\"text\"'"]),
    ("VARCHAR(300) CHARACTER SET utf8mb4", ["'x'", "NULL", "''", "REPEAT('€', 300)"]),
    ("INT", ["1", "NULL", "-1", "0"]),
]
TIMES = [
    ("DATETIME(3)", ["'2026-11-27 08:09:10.123'", "NULL", "'1969-12-31 23:59:59.999'", "'2026-01-01'"]),
    ("DATETIME", ["'2026-11-27 08:09:10'", "NULL", "'1000-01-01'", "'9999-12-31 23:59:59'"]),
    ("TIMESTAMP(6) NULL", ["'2026-11-27 08:09:10.123456'", "NULL", "'1970-01-01 00:00:01'",
                           "'2038-01-19 03:14:07.999999'"]),
]


# Types of columns that may become headers only.
HEADERS = [
    ("DATE", ["'2026-11-27'", "NULL", "'1000-01-01'", "'9999-12-31'"]),
    ("TIME(3)", ["'08:09:10.123'", "NULL", "'-838:59:59'", "'00:00:00'"]),
    ("TIME", ["'08:09:10'", "NULL", "'-00:00:01'", "'838:59:59'"]),
    ("YEAR", ["2026", "NULL", "1901", "2155"]),
    ("TIMESTAMP NULL", ["'2026-11-27 08:09:10'", "NULL", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"]),
    ("TIMESTAMP(1) NULL", ["'2026-11-27 08:09:10.1'", "NULL", "'1970-01-01 00:00:01'",
                           "'2038-01-19 03:14:07.9'"]),
    ("DATETIME(6)", ["'2026-11-27 08:09:10.123456'", "NULL", "'1000-01-01'", "'9999-12-31 23:59:59.9'"]),
    ("DECIMAL(40,20)", ["-12345678901234567890.00000000000000000001", "NULL", "0", "0.5"]),
]


def column_of(pair):
    """A definition that may be NULL."""
    return pair[0] if "NULL" in pair[0] else pair[0] + " NULL"


def as_bytes(value):
    """As the server sends it."""
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


class Rows(binlog_server.LogCase):
    seconds = 60

    def setUp(self):
        super().setUp()
        self.cursor.execute("SET NAMES utf8mb4")
        self.cursor.execute("SET time_zone = '+00:00'")
        self.cursor.execute("DROP TABLE IF EXISTS outbox")

    def set_metadata(self, level):
        before = self.ask("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
        self.addCleanup(self.ask, f"SET GLOBAL binlog_row_metadata = '{before}'")
        self.cursor.execute(f"SET GLOBAL binlog_row_metadata = '{level}'")

    def run_program(self, before, fields=None, headers=()):
        stream = self.stream(untilEnd=True, gtids=before)
        rc, _, _, text = stream.end()
        self.assertEqual(rc, "ok", text)
        options = {"host": self.server.host, "port": self.server.port, "user": "root", "schema": "shop",
                   "table": "outbox", "columns": fields or OURS, "headers": list(headers)}
        return subprocess.run([PROGRAM, json.dumps(options), stream.file], capture_output=True, text=True,
                              timeout=60, check=False)

    def read(self, before, fields=None, headers=()):
        done = self.run_program(before, fields, headers)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def expected(self, fields):
        """What a SELECT returns, in the order of the rows."""
        asked = ", ".join(fields.get(name) or "NULL" for name in ("seq", "created_at", *TEXTS))
        rows = []
        for seq, created, *texts in self.ask(f"SELECT {asked} FROM outbox ORDER BY place"):
            if created is not None:
                created -= datetime.datetime(1970, 1, 1)
                created //= datetime.timedelta(milliseconds=1)
            rows.append([seq or 0, created, False,
                         *[None if text is None else as_bytes(text).hex() for text in texts]])
        return rows

    def check(self, fields, before):
        self.assertEqual(self.read(before, fields), self.expected(fields))

    def make(self, **columns):
        """A table with a key of its own, in front of columns that no field has."""
        self.cursor.execute(
            "CREATE TABLE outbox (more VARCHAR(20) DEFAULT 'more', place INT AUTO_INCREMENT PRIMARY KEY, "
            + ", ".join(f"{name} {definition}" for name, definition in columns.items())
            + ") CHARACTER SET utf8mb4")

    def try_kinds(self, field, kinds):
        """Tables that differ in the column of this field."""
        for kind in kinds:
            with self.subTest(field=field, type=kind[0]):
                self.cursor.execute("DROP TABLE IF EXISTS outbox")
                columns = {"id": "CHAR(36)", "aggregatetype": "VARCHAR(255)",
                           "aggregateid": "VARCHAR(255)", "type": "VARCHAR(255)", "payload": "LONGBLOB",
                           field: column_of(kind)}
                self.make(**columns)
                before = self.position()
                for value in [*kind[1], "NULL"]:
                    self.cursor.execute(f"INSERT INTO outbox ({field}) VALUES ({value})")
                self.check({**OURS, "seq": None, "headers": None,
                            "created_at": "created_at" if field == "created_at" else None}, before)

    def both_ways(self, field, kinds):
        self.set_metadata("FULL")
        self.try_kinds(field, kinds)
        self.set_metadata("MINIMAL" if suite.DATABASE == "mysql" else "NO_LOG")
        self.try_kinds(field, kinds)

    def test_keys_of_all_types(self):
        self.both_ways("aggregateid", KEYS)

    def test_ids_of_all_types(self):
        self.both_ways("id", KEYS)

    def test_payloads_of_all_types(self):
        self.both_ways("payload", PAYLOADS)

    def test_times_of_all_types(self):
        self.both_ways("created_at", TIMES)

    def test_headers_of_all_types(self):
        """Rows of a table with a column of each type, the last one without values: the bytes of a SELECT."""
        kinds = [kind for kind in KEYS + PAYLOADS + TIMES + HEADERS if "70000" not in kind[1][-1]
                 and "30000" not in kind[1][-1]]
        for part in kinds[:16], kinds[16:32], kinds[32:]:
            columns = {f"c{n}": column_of(kind) for n, kind in enumerate(part)}
            self.cursor.execute("DROP TABLE IF EXISTS outbox")
            self.make(id="CHAR(36)", aggregatetype="VARCHAR(255)", aggregateid="VARCHAR(255)",
                      type="VARCHAR(255)", payload="LONGBLOB", **columns)
            before = self.position()
            for number in range(5):
                values = [(kind[1] + ["NULL"])[number] for kind in part]
                self.cursor.execute(f"INSERT INTO outbox ({', '.join(columns)}) VALUES "
                                    f"({', '.join(values)})")
            asked = [name if "BIN" in kind[0] or "BLOB" in kind[0] else
                     f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
                     for name, kind in zip(columns, part)]
            self.assertEqual(
                [row[9:] for row in self.read(before, {**OURS, "seq": None}, columns)],
                [[None if value is None else value.hex() for value in row]
                 for row in self.ask(f"SELECT {', '.join(asked)} FROM outbox ORDER BY place")])

    def test_the_table_of_this_program(self):
        text = (suite.ROOT / "schema/migrate/0001_outbox.sql").read_text()
        self.cursor.execute(text[text.index("CREATE TABLE outbox ("):text.index(";\n")])
        before = self.position()
        self.cursor.execute(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers) VALUES "
            "('0190a5f0-0000-7000-8000-000000000001', 'vote', '7', 'Vote', x'00ff', '{\"a\": \"ä\"}'), "
            "('short', 'vöte', '€', '', NULL, NULL)")
        rows = self.read(before)
        self.assertEqual([row[0] for row in rows], [1, 2])
        self.assertEqual(rows[0][3:], [b"0190a5f0-0000-7000-8000-000000000001".hex(), b"vote".hex(),
                                       b"7".hex(), b"Vote".hex(), "00ff", '{"a": "ä"}'.encode().hex()])
        self.assertEqual(rows[1][3:], [b"short".hex(), "vöte".encode().hex(), "€".encode().hex(), "", None,
                                       None])
        created = self.ask("SELECT created_at FROM outbox WHERE seq = 1")[0][0]
        created -= datetime.datetime(1970, 1, 1)
        self.assertEqual(rows[0][1], created // datetime.timedelta(milliseconds=1))

    def test_columns_may_have_other_names(self):
        fields = {"id": "event_id", "aggregatetype": "Root", "aggregateid": "root_id", "type": "kind",
                  "payload": "body"}
        self.make(**{name: "VARCHAR(30)" for name in fields.values()})
        before = self.position()
        self.cursor.execute("INSERT INTO outbox (event_id, Root, root_id, kind, body) "
                            "VALUES ('i', 'r', 'k', 't', 'b')")
        self.check({**fields, "aggregatetype": "rOOT"}, before)

    def test_a_row_that_is_too_large_for_a_record_keeps_its_payload_if_that_fits_into_a_batch(self):
        self.make(id="CHAR(36)", aggregatetype="TEXT", aggregateid="TEXT", type="TEXT", payload="LONGBLOB")
        before = self.position()
        self.cursor.execute("INSERT INTO outbox (id, payload) VALUES ('a', REPEAT('x', 1000001))")
        self.cursor.execute("INSERT INTO outbox (id, aggregateid, payload) "
                            "VALUES ('b', REPEAT('k', 1025), 'x')")
        rows = self.read(before)
        self.assertEqual([(bytes.fromhex(row[3]), row[2], row[7]) for row in rows],
                         [(b"a", True, None), (b"b", True, b"x".hex())])

    def refused(self, *words, before=None):
        done = self.run_program(before)
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)

    def try_refused(self, *words, **columns):
        self.cursor.execute("DROP TABLE IF EXISTS outbox")
        self.make(**{"id": "CHAR(36)", "aggregatetype": "VARCHAR(255)", "aggregateid": "VARCHAR(255)",
                     "type": "VARCHAR(255)", "payload": "LONGBLOB", **columns})
        before = self.position()
        self.cursor.execute("INSERT INTO outbox (more) VALUES ('x')")
        self.refused("table outbox: column ", *words, before=before)

    def test_what_cannot_be_published_is_refused_by_name(self):
        self.try_refused("aggregateid has the type float", aggregateid="FLOAT")
        self.try_refused("type has the type set", type="SET('a', 'b')")
        self.try_refused("payload has the type point", payload="POINT")
        self.try_refused("aggregateid is ZEROFILL", aggregateid="INT(8) ZEROFILL")
        self.try_refused("id has the type date", id="DATE")
        self.try_refused("aggregateid has the character set utf16",
                         aggregateid="VARCHAR(20) CHARACTER SET utf16")
        self.cursor.execute("DROP TABLE outbox")
        self.make(id="CHAR(36)", aggregatetype="TEXT", aggregateid="TEXT", type="TEXT")
        before = self.position()
        self.cursor.execute("INSERT INTO outbox (id) VALUES ('a')")
        self.refused("the table has no column payload", before=before)

    def test_rows_of_an_earlier_definition_are_not_misread(self):
        self.set_metadata("MINIMAL" if suite.DATABASE == "mysql" else "NO_LOG")
        self.make(id="CHAR(36)", aggregatetype="TEXT", aggregateid="TEXT", type="TEXT", payload="LONGBLOB")
        before = self.position()
        self.cursor.execute("INSERT INTO outbox (id) VALUES ('a')")
        self.cursor.execute("ALTER TABLE outbox ADD COLUMN last INT")
        self.refused("has 8 columns, and its rows in the binary log have 7", "binlog_row_metadata = FULL",
                     before=before)
        self.cursor.execute("ALTER TABLE outbox DROP COLUMN last, MODIFY aggregateid INT")
        self.refused("column aggregateid is a int, and its rows in the binary log are of type 252",
                     before=before)

    def test_rows_without_all_columns_are_refused(self):
        self.make(id="CHAR(36)", aggregatetype="TEXT", aggregateid="TEXT", type="TEXT", payload="LONGBLOB")
        before = self.position()
        self.cursor.execute("SET binlog_row_image = MINIMAL")
        self.cursor.execute("INSERT INTO outbox (id) VALUES ('a')")
        self.refused("the rows lack it: the binary log needs binlog_row_image = FULL", before=before)


if __name__ == "__main__":
    unittest.main()
