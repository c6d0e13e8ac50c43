# SPDX-License-Identifier: MIT
"""What the relay finds in the binary logs of the real servers: the rows of committed transactions, in
their order, and a named reason wherever rows could be missing."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402

PROGRAM = suite.ROOT / "build/dev/tallybox-binlog-changes"


class Changes(binlog_server.LogCase):
    """Each test reads what it has written itself."""

    seconds = 60

    def setUp(self):
        super().setUp()
        self.run_all("DROP TABLE IF EXISTS u, plain",
                     "CREATE TABLE u (id INT AUTO_INCREMENT PRIMARY KEY, payload LONGBLOB)")
        self.before = self.position()

    def run_changes(self, skip=0, gtid="", before=None, **start):
        """(exit code, lines, error) of what came behind `before`."""
        before = self.before if before is None else before
        stream = self.stream(untilEnd=True, **(start or {"gtids": before}))
        rc, _, _, text = stream.end()
        self.assertEqual(rc, "ok", text)
        done = subprocess.run([PROGRAM, stream.file, "shop", "t", before, str(skip), gtid],
                              capture_output=True, text=True, timeout=60, check=False)
        lines = done.stdout.splitlines()
        self.last = lines[-1]
        return done.returncode, lines[:-1], done.stderr

    def changes(self, **options):
        code, lines, text = self.run_changes(**options)
        self.assertEqual(code, 0, text)
        # The set behind a commit is looked at by a test of its own; a server tells that it skips.
        return [line.rsplit(" ", 1)[0] if line.startswith("commit") else line for line in lines
                if line != "idle"]

    def rows(self, **options):
        """The payloads of rows that were not taken back."""
        kept, present = [], []
        for line in self.changes(**options):
            words = line.split(" ")
            if words[0] == "row":
                present.append(words[3])
            elif words[0] == "undo":
                present = present[:int(words[1])]
            elif words[0] == "commit":
                self.assertEqual(len(present), int(words[1]), line)
                kept, present = kept + present, []
        self.assertEqual(present, [])
        return kept

    def refused(self, *words):
        code, _, text = self.run_changes()
        self.assertEqual(code, 1, text)
        for word in words:
            self.assertIn(word, text)

    def last_gtid(self):
        """Of the last transaction, when it is the only one since the test began or on MariaDB."""
        if suite.DATABASE == "mariadb":
            return self.ask("SELECT @@last_gtid")[0][0]
        done = self.ask(f"SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{self.before}')")[0][0]
        server, numbers = done.split(":")
        return f"{server}:{numbers.rsplit('-', 1)[-1]}"

    def run_all(self, *statements):
        for statement in statements:
            self.cursor.execute(statement)

    def test_rows_come_in_the_order_of_their_commits(self):
        other = self.connect()
        self.addCleanup(other.close)
        cursor = other.cursor()
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO shop.t (payload) VALUES ('first of two')")
        self.insert("one")
        cursor.execute("INSERT INTO shop.t (payload) VALUES ('second of two'), ('third of two')")
        cursor.execute("COMMIT")
        self.assertEqual(self.changes(), [
            "row 1 2 one", "commit 1",
            "row 1 1 first of two", "row 2 3 second of two", "row 3 4 third of two", "commit 3"])

    def test_a_commit_knows_all_transactions_before_it(self):
        self.insert(count=3)
        _, lines, _ = self.run_changes()
        self.assertEqual(lines[-1].split(" ")[2], self.position().replace("\n", ""))
        # Reading goes on behind any of them.
        behind = [line.split(" ")[2] for line in lines if line.startswith("commit")]
        for count, position in enumerate(behind, 1):
            self.assertEqual(len(self.rows(before=position)), 3 - count)

    def test_a_commit_knows_its_place_in_the_file(self):
        self.run_all("FLUSH BINARY LOGS")
        name = self.log_file()
        if suite.DATABASE == "mariadb":
            # It comes at any time after the file was begun, also behind the rows.
            suite.wait_for("the checkpoint", lambda: any(
                row[2] == "Binlog_checkpoint" and row[5] == name
                for row in self.ask(f"SHOW BINLOG EVENTS IN '{name}'")))
        self.insert(count=2)
        self.rows()
        end = self.ask("SHOW BINARY LOGS")[-1][1]
        self.assertIn(f"end {name}:{end} ", self.last)
        self.insert("behind it")
        self.assertEqual(self.rows(file=name, offset=end), ["behind"])

    def test_rows_that_were_done_are_skipped_in_the_first_transaction_only(self):
        self.run_all("BEGIN", "INSERT INTO t (payload) VALUES ('a'), ('b')",
                     "INSERT INTO t (payload) VALUES ('c')", "COMMIT")
        gtid = self.last_gtid()
        self.insert("d")
        self.assertEqual(self.changes(skip=2, gtid=gtid),
                         ["row 3 3 c", "commit 3", "row 1 4 d", "commit 1"])
        self.assertEqual(self.changes(skip=3, gtid=gtid), ["commit 3", "row 1 4 d", "commit 1"])
        code, _, text = self.run_changes(skip=2, gtid=self.last_gtid())
        self.assertEqual(code, 1)
        self.assertIn("were done before, and this one comes first", text)

    def test_rolled_back_rows_are_not_in_the_log(self):
        self.run_all("BEGIN", "INSERT INTO t (payload) VALUES ('no')", "ROLLBACK",
                     "BEGIN", "INSERT INTO t (payload) VALUES ('a')", "SAVEPOINT s",
                     "INSERT INTO t (payload) VALUES ('no')", "ROLLBACK TO s",
                     "INSERT INTO t (payload) VALUES ('b')", "COMMIT")
        self.assertEqual(self.rows(), ["a", "b"])

    if suite.DATABASE == "mariadb":  # MySQL refuses such transactions where it has GTIDs
        def test_rows_that_were_rolled_back_beside_a_table_without_transactions_are_undone(self):
            self.run_all("CREATE TABLE plain (id INT) ENGINE=MyISAM")
            self.before = self.position()
            self.run_all("BEGIN", "INSERT INTO t (payload) VALUES ('no')", "INSERT INTO plain VALUES (1)",
                         "ROLLBACK",
                         "BEGIN", "INSERT INTO t (payload) VALUES ('a')", "SAVEPOINT `S p`",
                         "INSERT INTO t (payload) VALUES ('no')", "INSERT INTO plain VALUES (2)",
                         "ROLLBACK TO SAVEPOINT `s P`", "INSERT INTO t (payload) VALUES ('b')", "COMMIT")
            self.assertEqual(self.rows(), ["a", "b"])
            self.assertIn("undo 1", self.changes())

    def test_changes_of_other_tables_and_of_rows_are_not_rows(self):
        self.run_all("INSERT INTO u (payload) VALUES ('other')",
                     "BEGIN", "INSERT INTO u (payload) VALUES ('other')",
                     "INSERT INTO t (payload) VALUES ('a')", "COMMIT",
                     "UPDATE t SET payload = 'changed'", "DELETE FROM t",
                     "INSERT INTO t (payload) SELECT payload FROM u")
        self.assertEqual(self.rows(), ["a", "other", "other"])
        self.assertIn("updates=1 statements=0", self.last)

    def test_a_trigger_writes_rows_of_both_tables_in_one_statement(self):
        self.run_all("CREATE TRIGGER hand_on AFTER INSERT ON u FOR EACH ROW "
                     "INSERT INTO t (payload) VALUES (CONCAT('of_', NEW.payload))")
        self.before = self.position()
        self.run_all("INSERT INTO u (payload) VALUES ('a'), ('b')")
        self.assertEqual(self.rows(), ["of_a", "of_b"])

    def test_definitions_that_name_the_table_are_told(self):
        self.insert("a")
        self.run_all("ALTER TABLE t ADD COLUMN more INT DEFAULT 7 FIRST")
        self.run_all("ALTER TABLE t DROP COLUMN more, ADD COLUMN last INT DEFAULT 8")
        self.insert("b")
        self.run_all("CREATE TABLE IF NOT EXISTS tt (id INT)", "DROP TABLE tt")
        self.assertEqual([line for line in self.changes() if not line.startswith("commit 0")],
                         ["row 1 1 a", "commit 1", "definition", "definition", "row 1 2 b", "commit 1"])
        self.run_all("TRUNCATE TABLE t")
        self.insert("c")
        self.assertEqual(self.rows(), ["a", "b", "c"])

    def test_rows_of_statements_are_refused_and_not_missed(self):
        self.run_all("SET binlog_format = STATEMENT")
        self.insert("unseen")
        self.refused("a statement may change table t", "binlog_format = ROW", "INSERT INTO t",
                     "transaction ", " at ")

    def test_statements_for_other_tables_are_counted(self):
        self.run_all("SET binlog_format = STATEMENT", "INSERT INTO u (payload) VALUES ('t_in_text')",
                     "SET binlog_format = ROW")
        self.insert("a")
        self.assertEqual(self.rows(), ["a"])
        self.assertIn("statements=1", self.last)

    def test_xa_of_one_phase_commits_and_of_two_is_refused(self):
        self.run_all("XA START 'x'", "INSERT INTO t (payload) VALUES ('a')", "XA END 'x'",
                     "XA COMMIT 'x' ONE PHASE")
        self.insert("b")
        self.assertEqual(self.rows(), ["a", "b"])
        self.run_all("XA START 'y'", "INSERT INTO u (payload) VALUES ('other table')", "XA END 'y'",
                     "XA PREPARE 'y'", "XA COMMIT 'y'")
        self.insert("c")
        self.assertEqual(self.rows(), ["a", "b", "c"])
        self.run_all("XA START 'z'", "INSERT INTO t (payload) VALUES ('d')", "XA END 'z'",
                     "XA PREPARE 'z'", "XA ROLLBACK 'z'")
        self.refused("prepared by XA", "1 rows of table t")

    def test_xa_is_decided_after_the_server_was_killed(self):
        self.run_all("XA START 'other'", "INSERT INTO u (payload) VALUES ('other table')", "XA END 'other'",
                     "XA PREPARE 'other'")
        self.restart()
        self.insert("a")
        self.run_all("XA COMMIT 'other'")
        self.insert("b")
        self.assertEqual(self.rows(), ["a", "b"])
        self.run_all("XA START 'ours'", "INSERT INTO t (payload) VALUES ('c')", "XA END 'ours'",
                     "XA PREPARE 'ours'")
        self.restart()
        self.run_all("XA COMMIT 'ours'")
        self.refused("prepared by XA", "1 rows of table t")

    def test_xa_that_is_not_prepared_is_not_in_the_log(self):
        self.run_all("XA START 'x'", "INSERT INTO t (payload) VALUES ('no')", "XA END 'x'", "XA ROLLBACK 'x'",
                     "XA START 'x'", "INSERT INTO t (payload) VALUES ('no')")
        self.restart()
        self.insert("a")
        self.assertEqual(self.rows(), ["a"])

    def test_a_table_that_is_made_anew_goes_on(self):
        self.insert("a")
        self.run_all("DROP TABLE t", "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, payload LONGBLOB)")
        self.insert("b")
        self.run_all("RENAME TABLE t TO old", "CREATE TABLE t LIKE old")
        self.insert("c")
        self.assertEqual(self.rows(), ["a", "b", "c"])
        self.assertGreaterEqual(self.changes().count("definition"), 4)
        self.run_all("DROP TABLE old")

    def restart(self):
        """After SIGKILL."""
        self.server.kill()
        self.server.restart()
        self.connection = self.connect()
        self.cursor = self.connection.cursor()
        self.run_all("USE shop")

    def test_files_may_change_at_any_transaction(self):
        for number in range(20):
            self.insert(f"r{number}")
            if number % 3 == 0:
                self.run_all("FLUSH BINARY LOGS")
        self.assertEqual(self.rows(), [f"r{number}" for number in range(20)])

    def test_a_server_that_was_killed_goes_on_in_another_file(self):
        self.insert("a", count=5)
        self.server.kill()
        self.server.restart()
        with self.connect() as connection:
            connection.cursor().execute("INSERT INTO shop.t (payload) VALUES ('b'), ('b')")
            self.cursor = connection.cursor()
            self.assertEqual(self.rows(), ["a"] * 5 + ["b"] * 2)

    def test_a_large_transaction_has_all_its_rows(self):
        self.run_all("BEGIN")
        for _ in range(10):
            self.cursor.execute("INSERT INTO t (payload) VALUES " + ", ".join(["('xxxxxxxxxx')"] * 2000))
        self.run_all("COMMIT")
        self.assertEqual(len(self.rows()), 20000)

    if suite.DATABASE == "mariadb":
        def test_loaded_rows_are_rows(self):
            path = pathlib.Path(self.folder.name) / "load.txt"
            path.write_text("101\tx\n102\ty\n")
            os.chmod(self.folder.name, 0o755)
            self.cursor.execute(f"LOAD DATA INFILE '{path}' INTO TABLE t")
            self.assertEqual(self.rows(), ["x", "y"])

        def test_rows_that_are_loaded_by_a_statement_are_refused(self):
            path = pathlib.Path(self.folder.name) / "load.txt"
            path.write_text("101\tx\n102\ty\n")
            os.chmod(self.folder.name, 0o755)
            self.run_all("SET binlog_format = STATEMENT",
                         f"LOAD DATA INFILE '{path}' INTO TABLE t")
            self.refused("a statement may change table t")

        def test_compressed_events_are_read(self):
            self.run_all("SET GLOBAL log_bin_compress = ON")
            self.addCleanup(self.ask, "SET GLOBAL log_bin_compress = OFF")
            self.run_all("ALTER TABLE t COMMENT = 'a comment that is long enough to be compressed, "
                         "because it is the same again and again, the same again and again'")
            self.insert("x" * 5000, count=3)
            self.assertEqual(self.rows(), ["x" * 20] * 3)
            self.assertIn("definition", self.changes())

        def test_a_sequence_that_goes_back_is_refused(self):
            self.run_all("FLUSH BINARY LOGS")
            self.insert("a")
            self.run_all("SET gtid_seq_no = 5")
            self.insert("b")
            code, lines, text = self.run_changes(file=self.log_file(), offset=4)
            self.assertEqual((code, lines[0]), (1, "row 1 1 a"))
            self.assertIn("its GTID, or a later one of its domain, was there before", text)
            # The next tests begin behind the highest number.
            self.run_all("SET gtid_seq_no = 1000000")
            self.insert("c")
    else:
        def test_compressed_transactions_are_read(self):
            self.run_all("SET binlog_transaction_compression = ON",
                         "BEGIN", "INSERT INTO t (payload) VALUES (REPEAT('x', 5000)), ('b')",
                         "INSERT INTO t (payload) VALUES ('c')", "COMMIT")
            gtid = self.last_gtid()
            self.insert("d")
            self.assertEqual(self.changes(), [f"row 1 1 {'x' * 20}", "row 2 2 b", "row 3 3 c", "commit 3",
                                              "row 1 4 d", "commit 1"])
            self.assertEqual(self.changes(skip=2, gtid=gtid), ["row 3 3 c", "commit 3", "row 1 4 d", "commit 1"])

        def test_tagged_transactions_are_read(self):
            self.run_all("SET gtid_next = 'AUTOMATIC:shop'")
            self.insert("a")
            self.run_all("SET gtid_next = 'AUTOMATIC'")
            self.insert("b")
            _, lines, _ = self.run_changes()
            self.assertEqual(lines[-1].split(" ")[2], self.position().replace("\n", ""))


if __name__ == "__main__":
    unittest.main()
