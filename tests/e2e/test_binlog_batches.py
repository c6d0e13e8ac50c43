# SPDX-License-Identifier: MIT
"""The rows of an outbox table in batches from the log of a real server, as a lane reads them: transactions
of all sizes, parts that are undone, reading again from each position, and memory."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402

BESIDE = "tallybox-binlog-batches"
COLUMNS = {name: name for name in ("seq", "id", "aggregatetype", "aggregateid", "type", "payload")}
BATCH_ROWS = 16
MANY_ROWS = 200_000
MEMORY_MIB = 64


class BatchCase(binlog_server.LogCase):
    def setUp(self):
        super().setUp()
        for statement in ("DROP TABLE IF EXISTS outbox, plain",
                          "CREATE TABLE outbox (seq BIGINT AUTO_INCREMENT PRIMARY KEY, id CHAR(36) NOT NULL, "
                          "aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, "
                          "type VARCHAR(255) NOT NULL, payload LONGBLOB)",
                          # What a transaction changes here is not undone, and is in the log.
                          "CREATE TABLE plain (n INT) ENGINE = MyISAM"):
            self.cursor.execute(statement)
        self.start = {"byGtid": True, "before": self.position()}

    def add(self, rows, size=20):
        self.cursor.execute(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
            + ", ".join(["(UUID(), 'vote', '1', 'voted', REPEAT('x', %s))"] * rows), [size] * rows)

    def transaction(self, rows):
        """Of up to three statements."""
        self.cursor.execute("BEGIN")
        for part in range(min(rows, 3)):
            self.add(rows // 3 + (part < rows % 3))
        self.cursor.execute("COMMIT")

    def run_tool(self, position, **options):
        """(exit code, output, errors)"""
        program, environment = suite.program_beside(BESIDE)
        given = {"host": self.server.host, "port": self.server.port, "user": "root", "schema": "shop",
                 "table": "outbox", "columns": COLUMNS, "serverId": 4712, "batchRows": BATCH_ROWS,
                 "batchBytes": 100_000, "rowsEnough": BATCH_ROWS // 2, "position": position, **options}
        done = subprocess.run([str(program), json.dumps(given)], capture_output=True, text=True,
                              env=environment, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    def read(self, position, **options):
        """[rows, position] of each batch; the last one is at the end of the log."""
        code, out, errors = self.run_tool(position, **options)
        self.assertEqual(code, 0, errors)
        *batches, end = [json.loads(line) for line in out.splitlines()]
        self.memory_mib = end["end"]
        return [(batch["rows"], batch["position"]) for batch in batches]

    def expected(self):
        return [list(row) for row in self.ask("SELECT seq, LENGTH(payload) FROM outbox ORDER BY seq")]

    def check(self):
        """Reads the whole log, and then from each position in it."""
        batches = self.read(self.start)
        expected = self.expected()
        self.assertEqual([row for rows, _ in batches for row in rows], expected)
        done = 0
        for rows, position in batches:
            self.assertLessEqual(len(rows), BATCH_ROWS)
            done += len(rows)
            again = self.read(position)
            self.assertEqual([row for more, _ in again for row in more], expected[done:], position)
        return batches

    def start_by_file(self):
        where = self.ask("SHOW BINARY LOG STATUS" if suite.DATABASE == "mysql" else "SHOW MASTER STATUS")[0]
        return {"byGtid": False, "file": where[0], "offset": where[1]}

    def undo_parts(self, rows):
        """A transaction whose undone parts are in the log."""
        self.cursor.execute("BEGIN")
        self.add(rows)
        self.cursor.execute("SAVEPOINT a")
        self.cursor.execute("INSERT INTO plain VALUES (1)")
        self.add(rows)
        self.cursor.execute("ROLLBACK TO a")
        self.add(rows)
        self.cursor.execute("SAVEPOINT b")
        self.add(rows)
        self.cursor.execute("INSERT INTO plain VALUES (2)")
        self.cursor.execute("ROLLBACK TO b")
        self.add(1)
        self.cursor.execute("COMMIT")

    def check_undone_parts(self):
        for rows in (1, BATCH_ROWS // 2, BATCH_ROWS, 2 * BATCH_ROWS):
            self.undo_parts(rows)
            self.add(1)
        self.check()

    def check_transactions_that_are_rolled_back(self):
        for rows in (1, BATCH_ROWS, 2 * BATCH_ROWS + 1):
            self.add(1)
            self.cursor.execute("BEGIN")
            self.add(rows)
            self.cursor.execute("INSERT INTO plain VALUES (1)")
            self.add(rows)
            self.cursor.execute("ROLLBACK")
        self.check()


class Batches(BatchCase):
    seconds = 60

    def test_transactions_of_all_sizes(self):
        for rows in (1, 1, 2, BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1, 1, 3 * BATCH_ROWS, 5):
            self.transaction(rows)
        batches = self.check()
        self.assertTrue(any(position["rowsDone"] > 0 for _, position in batches))

    def test_rows_that_fill_a_batch_by_their_size(self):
        for size in (10, 70_000, 60_000, 30_000, 99_000, 10):
            self.add(1, size)
        self.cursor.execute("BEGIN")
        for size in (60_000, 60_000, 10, 90_000):
            self.add(1, size)
        self.cursor.execute("COMMIT")
        self.check()

    def test_other_transactions_move_the_position(self):
        self.add(1)
        self.insert(count=3)
        batches = self.read(self.start)
        self.assertEqual(batches[-1][1]["before"], self.position())

    def test_a_table_that_changes(self):
        self.add(2)
        self.cursor.execute("ALTER TABLE outbox ADD COLUMN more INT FIRST")
        self.add(2)
        code, _, errors = self.run_tool(self.start)
        # The rows before the change are not those of the present definition.
        self.assertEqual(code, 1)
        self.assertIn("rc=fatal", errors)
        self.assertIn("outbox", errors)
        batches = self.read({"byGtid": True, "before": self.position()})
        self.assertEqual([rows for rows, _ in batches], [[]])

    def test_a_position_by_file(self):
        self.start = self.start_by_file()
        for rows in (1, BATCH_ROWS + 1, 2):
            self.transaction(rows)
            self.cursor.execute("FLUSH BINARY LOGS")
        for _, position in self.check():
            self.assertFalse(position["byGtid"])

    def test_a_purged_log_is_named(self):
        self.add(1)
        self.cursor.execute("FLUSH BINARY LOGS")
        self.add(1)
        self.cursor.execute("FLUSH BINARY LOGS")
        self.cursor.execute("PURGE BINARY LOGS TO %s", [self.log_file()])
        code, _, errors = self.run_tool(self.start)
        self.assertEqual(code, 1)
        self.assertIn("rc=fatal refusal=1", errors)

    def test_a_log_without_whole_rows_is_not_opened(self):
        for name, wrong, right in binlog_server.WRONG_VARIABLES:
            with self.subTest(name=name):
                self.cursor.execute(f"SET GLOBAL {name} = {wrong}")
                code, _, errors = self.run_tool(self.start)
                self.assertNotEqual(code, 0)
                self.assertIn("rc=fatal", errors)
                self.assertIn(f"{name} = {wrong}", errors)
                self.cursor.execute(f"SET GLOBAL {name} = {right}")
                self.check()

    def test_memory_does_not_grow_with_a_transaction(self):
        self.cursor.execute("CREATE TEMPORARY TABLE numbers (n INT)")
        self.cursor.execute("INSERT INTO numbers VALUES " + ", ".join(f"({n})" for n in range(1000)))
        self.cursor.execute(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) SELECT UUID(), 'vote', n, "
            "'voted', REPEAT('x', 100) FROM numbers, (SELECT seq AS i FROM "
            "(WITH RECURSIVE r(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM r WHERE seq < %s) "
            "SELECT seq FROM r) AS few) AS parts", [MANY_ROWS // 1000])
        batches = self.read(self.start, batchRows=5000, batchBytes=4_000_000, rowsEnough=2500, quiet=True)
        self.assertEqual(sum(rows for rows, _ in batches), MANY_ROWS)
        self.assertLess(self.memory_mib, MEMORY_MIB)
        print(f"\n{MANY_ROWS} rows in one transaction: {self.memory_mib} MiB", file=sys.stderr)


    if suite.DATABASE == "mariadb":

        def test_parts_that_are_undone(self):
            self.check_undone_parts()

        def test_transactions_that_are_rolled_back(self):
            self.check_transactions_that_are_rolled_back()


class WithoutGtids(BatchCase):
    """With GTIDs MySQL refuses transactions that could leave undone rows in the log."""

    database = "mysql"
    seconds = 30
    arguments = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]

    def setUp(self):
        super().setUp()
        self.start = self.start_by_file()

    def test_parts_that_are_undone(self):
        self.check_undone_parts()

    def test_transactions_that_are_rolled_back(self):
        self.check_transactions_that_are_rolled_back()


if __name__ == "__main__":
    unittest.main()
