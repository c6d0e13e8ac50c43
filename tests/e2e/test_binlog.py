# SPDX-License-Identifier: MIT
"""The parser of the binary log on files of the real servers: every row of a table of all types is read
as the server itself reads it from the table."""

import collections
import json
import pathlib
import random
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

PROGRAM = suite.ROOT / "build/dev/tallybox-binlog"


def text(column):
    return f"CAST({column} AS CHAR)"


def number(column):
    return f"CAST({column} + 0 AS CHAR)"


def as_hex(column):
    return f"HEX({column})"


def same(value):
    return value


def float_of(value):
    return None if value is None else float(value)


def float32_of(value):
    """The nearest number of four bytes."""
    return None if value is None else struct.unpack("f", struct.pack("f", float(value)))[0]


def lower(value):
    return None if value is None else value.lower()


def bits_of(value):
    """Bytes with the highest first."""
    return None if value is None else str(int(value, 16))


def set_of(value):
    """Bytes with the lowest first."""
    return None if value is None else str(int.from_bytes(bytes.fromhex(value), "little"))


def padded(size):
    """The log leaves out zeros at the end of a BINARY."""
    return lambda value: None if value is None else value.ljust(2 * size, "0")


# (definition, values, what the server is asked for, of its answer, of the parser's value)
INTEGERS = [
    (f"{name}{sign}", [low, high, 0, 1], text, same, same)
    for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
    for sign, low, high in (("", -2 ** (bits - 1), 2 ** (bits - 1) - 1),
                            (" UNSIGNED", 1, 2 ** bits - 1))]
COLUMNS = [
    # A YEAR in front of the others: whether it counts among the numbers that have a sign.
    ("YEAR", [1901, 2155, 0, 2026], number, same, same),
    *INTEGERS,
    ("DECIMAL(65,30)", ["'-12345678901234567890123456789012345.123456789012345678901234567891'", "0",
                        "'0.000000000000000000000000000001'", "-1"], text, same, same),
    ("DECIMAL(10,0)", ["-9999999999", "9999999999", "0", "7"], text, same, same),
    ("DECIMAL(5,5)", ["-0.99999", "0.00001", "0", "0.5"], text, same, same),
    ("DECIMAL(18,9) UNSIGNED", ["123456789.987654321", "0.1", "0", "1"], text, same, same),
    ("FLOAT", ["-3.5e30", "1.1", "0", "1e-20"], lambda column: f"CAST({column} AS DOUBLE)", float32_of,
     float32_of),
    ("DOUBLE", ["-1.7976931348623157e308", "0.1", "0", "2.2250738585072014e-308"], same, float_of,
     float_of),
    ("BIT(1)", ["b'1'", "b'0'", "b'1'", "b'0'"], number, same, bits_of),
    ("BIT(11)", ["b'10000000001'", "b'0'", "b'1'", "b'11111111111'"], number, same, bits_of),
    ("BIT(64)", ["~0", "0", "1", "255"], number, same, bits_of),
    ("DATE", ["'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'1969-12-31'"], text, same, same),
    *[(f"DATETIME({digits})", ["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'",
                               "'2026-11-27 04:05:06.789012'", "'1969-12-31 23:59:59.999'"], text, same,
       same) for digits in range(7)],
    *[(f"TIMESTAMP({digits}) NULL", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'",
                                     "'2026-11-27 04:05:06.789012'", "'2026-11-27 04:05:06.1'"],
       lambda column: f"CAST(ROUND(UNIX_TIMESTAMP({column}) * 1000000) AS CHAR)", same, same)
      for digits in range(7)],
    *[(f"TIME({digits})", ["'-838:59:59'", "'838:59:59'", "'-00:00:00.1'", "'12:34:56.789012'"], text,
       same, same) for digits in range(7)],
    ("CHAR(10)", ["'ascii'", "''", "'a  '", "'äöü€'"], as_hex, lower, same),
    ("CHAR(255)", ["REPEAT('x', 255)", "''", "'€'", "'y'"], as_hex, lower, same),
    ("VARCHAR(10)", ["'ascii'", "''", "'a  '", "'äöü€'"], as_hex, lower, same),
    ("VARCHAR(300)", ["REPEAT('€', 300)", "''", "'z'", "'y'"], as_hex, lower, same),
    ("BINARY(16)", ["UNHEX('00112233445566778899AABBCCDDEE00')", "''", "'a'", "'0123456789abcdef'"],
     as_hex, lower, padded(16)),
    ("VARBINARY(300)", ["UNHEX('00FF00')", "''", "'a'", "REPEAT('b', 300)"], as_hex, lower, same),
    ("ENUM('one','two','three')", ["'one'", "'three'", "2", "'two'"], number, same, same),
    ("SET('a','b','c','d','e','f','g','h','i')", ["'a,i'", "''", "'b,c'", "'h'"], number, same, set_of),
    ("TINYTEXT", ["'t'", "''", "'€'", "REPEAT('x', 255)"], as_hex, lower, same),
    ("TEXT", ["'t'", "''", "'€'", "REPEAT('x', 40000)"], as_hex, lower, same),
    ("MEDIUMTEXT", ["'t'", "''", "'€'", "REPEAT('x', 70000)"], as_hex, lower, same),
    ("LONGBLOB", ["UNHEX('00')", "''", "'b'", "REPEAT('y', 70000)"], as_hex, lower, same),
]
NAMES = [f"c{number}" for number in range(len(COLUMNS))]


# What has broken parsers before, and what SQL has and JSON has not.
DOCUMENTS = [
    "'{}'", "'[]'", "'null'", "'true'", "'[null, true, false]'", "'\"\"'", "'{\"\": \"\"}'",
    "'[0, 1, -1, 32767, -32768, 32768, 65535, 65536, 2147483647, -2147483648, 2147483648, 4294967295, "
    "4294967296, 9223372036854775807, -9223372036854775808, 9223372036854775808, "
    "18446744073709551615]'",
    "'[0.0, -0.0, 1.0, 0.1, -2.5, 1e15, 1e16, 123456789012345.6, 1234567890123456.7, 1e-14, 1e-15, "
    "1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 0.30000000000000004, 1e100, 12e-20]'",
    "'{\"bb\": 1, \"a\": 2, \"ccc\": 3, \"A\": 4, \"ab\": [{\"x\": []}, {\"y\": {}}]}'",
    "JSON_ARRAY('a\"b\\\\c/d', '\b\n\r\t', CHAR(12), CHAR(1), CHAR(31), CHAR(127), 'äöü€', '😀')",
    "JSON_ARRAY(REPEAT('x', 127), REPEAT('x', 128), REPEAT('y', 16384))",
    "JSON_OBJECT(REPEAT('k', 300), REPEAT('€', 30000))",
    "JSON_ARRAY(REPEAT('z', 70000), 70000, -70000, 5, 4294967296, NULL, TRUE, 1.5, JSON_OBJECT('a', 1))",
    "JSON_ARRAY(CAST('1.50' AS DECIMAL(10,2)), CAST('-0.001' AS DECIMAL(10,3)), "
    "CAST('12345678901234567890.123456789' AS DECIMAL(65,30)))",
    "JSON_ARRAY(CAST('2026-11-27' AS DATE), CAST('2026-11-27 04:05:06.789' AS DATETIME(3)), "
    "CAST('-838:59:59' AS TIME), CAST('12:34:56.789012' AS TIME(6)), CAST('-00:00:00.5' AS TIME(1)), "
    "TIMESTAMP('1000-01-01'))",
    "JSON_ARRAY(CAST(REPEAT('x', 57) AS BINARY), CAST(REPEAT('x', 58) AS BINARY), "
    "CAST(REPEAT('x', 300) AS BINARY))",
    "JSON_ARRAY(CAST('abc' AS BINARY), x'00ff', b'101', ST_AsBinary(POINT(1, 2)))",
    "CAST(CONCAT(REPEAT('[', 99), '1', REPEAT(']', 99)) AS JSON)",
]


class Types(suite.Case):
    """A table of all types, on this server."""

    seconds = 15

    def setUp(self):
        self.connection = suite.connect(self.stack.name, autocommit=True)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()
        self.addCleanup(self.cursor.execute, "DROP TABLE IF EXISTS types")
        for statement in ("SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET binlog_format = ROW"):
            self.cursor.execute(statement)

    def begin_file(self):
        self.cursor.execute("FLUSH BINARY LOGS")

    def file(self):
        self.cursor.execute("SHOW BINARY LOGS")
        name = self.cursor.fetchall()[-1][0]
        self.cursor.execute("SELECT @@datadir")
        return pathlib.Path(self.cursor.fetchone()[0]) / name

    def read(self, unsigned=None):
        """The rows of the table in the newest file, and what else is in it."""
        words = [PROGRAM, self.file(), f"{self.stack.name}.types"] + ([unsigned] if unsigned else [])
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return lines[:-1], lines[-1]

    def fill(self):
        self.cursor.execute("CREATE TABLE types (id INT AUTO_INCREMENT PRIMARY KEY, " + ", ".join(
            f"{name} {column[0]}" for name, column in zip(NAMES, COLUMNS)) + ") CHARACTER SET utf8mb4")
        self.begin_file()
        for row in range(4):
            self.cursor.execute(f"INSERT INTO types ({', '.join(NAMES)}) VALUES "
                                f"({', '.join(str(column[1][row]) for column in COLUMNS)})")
        self.cursor.execute("INSERT INTO types (id) VALUES (NULL), (NULL)")

    def expected(self):
        asked = ", ".join(column[2](name) for name, column in zip(NAMES, COLUMNS))
        self.cursor.execute(f"SELECT {asked} FROM types ORDER BY id")
        return [[column[3](value) for column, value in zip(COLUMNS, row)]
                for row in self.cursor.fetchall()]

    def check(self, rows):
        expected = self.expected()
        self.assertEqual(len(rows), len(expected))
        for number_of_row, (row, due) in enumerate(zip(rows, expected)):
            self.assertEqual(row[0], str(number_of_row + 1))
            for column, value, expect in zip(COLUMNS, row[1:], due):
                with self.subTest(row=number_of_row, type=column[0]):
                    self.assertEqual(column[4](value), expect)

    def unsigned(self):
        self.cursor.execute("SELECT column_type LIKE '%%unsigned%%' FROM information_schema.columns "
                            "WHERE table_schema = %s AND table_name = 'types' "
                            "ORDER BY ordinal_position", [self.stack.name])
        return "".join(str(int(value)) for value, in self.cursor.fetchall())

    def set_metadata(self, level):
        self.cursor.execute("SELECT @@GLOBAL.binlog_row_metadata")
        before = self.cursor.fetchone()[0]
        self.addCleanup(self.stack.sql, f"SET GLOBAL binlog_row_metadata = '{before}'")
        self.cursor.execute(f"SET GLOBAL binlog_row_metadata = '{level}'")

    def test_every_value_is_that_of_the_table(self):
        self.set_metadata("FULL")
        self.fill()
        rows, facts = self.read()
        self.assertTrue(facts["signs"])
        self.assertTrue(facts["names"])
        self.assertGreaterEqual(facts["gtids"], 5)
        self.check(rows)

    def test_without_metadata_the_signs_come_from_the_caller(self):
        self.set_metadata("MINIMAL" if suite.DATABASE == "mysql" else "NO_LOG")
        self.fill()
        rows, facts = self.read(self.unsigned())
        self.assertFalse(facts["names"])
        self.check(rows)

    def test_many_rows_of_a_statement(self):
        self.cursor.execute("CREATE TABLE types (id INT PRIMARY KEY, payload VARCHAR(200))")
        self.begin_file()
        self.cursor.execute("INSERT INTO types VALUES " + ", ".join(
            f"({number_of_row}, REPEAT('x', {number_of_row % 200}))" for number_of_row in range(2000)))
        rows, facts = self.read()
        self.assertEqual(rows, [[str(number_of_row), (b"x" * (number_of_row % 200)).hex()]
                                for number_of_row in range(2000)])
        self.assertGreater(max(facts["events"].get(kind, 0) for kind in ("23", "30")), 10)

    if suite.DATABASE == "mariadb":  # MySQL compresses whole transactions instead
        def test_compressed_events_have_the_same_rows(self):
            self.stack.sql("SET GLOBAL log_bin_compress = ON")
            self.addCleanup(self.stack.sql, "SET GLOBAL log_bin_compress = OFF")
            self.fill()
            rows, facts = self.read(self.unsigned())
            self.assertGreater(sum(facts["events"].get(kind, 0) for kind in ("166", "169")), 0, facts)
            self.check(rows)

    if suite.DATABASE == "mysql":
        def test_compressed_transactions_have_the_same_rows(self):
            self.cursor.execute("SET binlog_transaction_compression = ON")
            self.set_metadata("FULL")
            self.fill()
            rows, facts = self.read()
            self.assertGreater(facts["events"].get("40", 0), 0, facts)
            self.check(rows)

        def test_tagged_gtids_are_those_of_the_server(self):
            self.cursor.execute("CREATE TABLE types (id INT AUTO_INCREMENT PRIMARY KEY)")
            self.begin_file()
            uuid = self.stack.sql("SELECT REPLACE(@@server_uuid, '-', '')")[0][0]
            tag = f"t{time.monotonic_ns():x}"
            self.addCleanup(self.cursor.execute, "SET gtid_next = 'AUTOMATIC'")
            self.cursor.execute(f"SET gtid_next = 'AUTOMATIC:{tag}'")
            for count in range(1, 131):
                self.cursor.execute("INSERT INTO types VALUES ()")
                if count in (1, 63, 64, 127, 128, 130):
                    rows, facts = self.read()
                    self.assertEqual(facts["gtid"], f"{uuid}:{tag}:{count}")
                    self.assertEqual(len(rows), count)

        def read_documents(self, documents):
            self.cursor.execute("CREATE TABLE types (id INT AUTO_INCREMENT PRIMARY KEY, doc JSON)")
            self.begin_file()
            for document in documents:
                self.cursor.execute(f"INSERT INTO types (doc) VALUES ({document})")
            rows, _ = self.read()
            self.cursor.execute("SELECT CAST(doc AS CHAR) FROM types ORDER BY id")
            for document, row, expect in zip(documents, rows, self.cursor.fetchall(), strict=True):
                with self.subTest(document=document[:200]):
                    self.assertEqual(row[1], expect[0])

        def test_documents_are_the_text_of_the_server(self):
            self.read_documents(DOCUMENTS)

        def test_documents_made_by_chance_are_the_text_of_the_server(self):
            rng = random.Random(20261127)

            def make(depth):
                kind = rng.randrange(9 if depth < 5 else 7)
                if kind == 0:
                    return rng.choice([None, True, False])
                if kind < 3:
                    return rng.randrange(-2 ** rng.randrange(1, 64), 2 ** rng.randrange(1, 65))
                if kind < 5:
                    return struct.unpack("d", struct.pack("Q", rng.randrange(2 ** 62)))[0]
                if kind < 7:
                    return "".join(chr(rng.choice((32, 34, 92, 97, 228, 8364, 128512)) + rng.randrange(3))
                                   for _ in range(rng.randrange(20)))
                if kind == 7:
                    return [make(depth + 1) for _ in range(rng.randrange(6))]
                return {str(rng.randrange(10 ** rng.randrange(1, 9))): make(depth + 1)
                        for _ in range(rng.randrange(6))}
            self.read_documents([self.connection.escape(json.dumps(make(0), ensure_ascii=False))
                                 for _ in range(300)])

        def test_a_large_transaction_is_read_with_little_memory(self):
            """256 MB that are compressed to a few."""
            self.cursor.execute("SET binlog_transaction_compression = ON")
            self.cursor.execute("CREATE TABLE types (id INT PRIMARY KEY, payload LONGBLOB)")
            self.begin_file()
            self.cursor.execute("BEGIN")
            for number_of_row in range(256):
                self.cursor.execute("INSERT INTO types VALUES (%s, REPEAT('x', 1000000))",
                                    [number_of_row])
            self.cursor.execute("COMMIT")
            words = ["bash", "-c", "ulimit -v 60000; exec \"$@\" | cut -c 1-20", "words", PROGRAM,
                     self.file(), f"{self.stack.name}.types"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.stderr, "")
            self.assertEqual([line.split(",")[0] for line in done.stdout.splitlines()[:-1]],
                             [f'["{number_of_row}"' for number_of_row in range(256)])

    def test_bytes_that_changed_by_chance_end_with_a_reason(self):
        """Without checksums: single bits, bytes, and parts that are gone."""
        self.cursor.execute("SELECT @@GLOBAL.binlog_checksum")
        self.addCleanup(self.stack.sql, f"SET GLOBAL binlog_checksum = {self.cursor.fetchone()[0]}")
        self.cursor.execute("SET GLOBAL binlog_checksum = NONE")
        self.set_metadata("FULL")
        if suite.DATABASE == "mysql":
            self.cursor.execute("SET binlog_transaction_compression = ON")
        self.fill()
        good, bad = self.file().read_bytes(), self.stack.folder / "changed"
        rng = random.Random(20261128)
        ends = collections.Counter()
        for number in range(300):
            changed = bytearray(good)
            at = rng.randrange(4, len(good))
            if number % 3 == 0:
                changed[at] ^= 1 << rng.randrange(8)
            elif number % 3 == 1:
                changed[at] = rng.randrange(256)
            else:
                del changed[at:at + rng.randrange(1, 200)]
            bad.write_bytes(changed)
            done = subprocess.run([PROGRAM, bad, f"{self.stack.name}.types"], capture_output=True,
                                  timeout=60, check=False)
            with self.subTest(number=number, at=at):
                self.assertIn(done.returncode, (0, 1))
                self.assertEqual(done.returncode == 1, bool(done.stderr))
            ends[done.returncode] += 1
        self.assertGreater(ends[1], 50, ends)

    def test_a_damaged_file_is_refused_by_its_checksum(self):
        self.cursor.execute("CREATE TABLE types (id INT PRIMARY KEY, payload VARCHAR(200))")
        self.begin_file()
        self.cursor.execute("INSERT INTO types VALUES (1, 'something to damage')")
        bad = self.stack.folder / "damaged"
        bad.write_bytes(self.file().read_bytes().replace(b"something", b"somethinG"))
        done = subprocess.run([PROGRAM, bad, f"{self.stack.name}.types"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has the checksum", done.stderr)


if __name__ == "__main__":
    unittest.main()
