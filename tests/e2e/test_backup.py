# SPDX-License-Identifier: MIT
"""docs/backup.md: the log is restored from an older copy, or moves to another database, and no vote
is lost or counted twice."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402


class Backup(suite.Case):
    """The tables of [sink] are in a database of their own, so that they can be copied alone."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.first = f"{cls.stack.name}_log"
        cls.second = f"{cls.stack.name}_moved"
        for name in (cls.first, cls.second):
            cls.addClassCleanup(cls.stack.sql, f"DROP DATABASE IF EXISTS `{name}`", database=None)
        cls.stack.write_ini(sink__database=cls.first)
        cls.stack.tallybox("migrate", "up")
        cls.stack.accounts.grant()

    def vote(self, voters):
        lines = "".join(f"{voter},{content}\n" for voter in voters for content in (1, 2, 3))
        self.stack.tallybox("vote", "--csv", "-", stdin=("voter_id,content_id\n" + lines).encode())

    def count(self, database):
        return self.stack.sql("SELECT COUNT(*) FROM vote_document", name=database)[0][0]

    def wait_logged(self, database, count):
        suite.wait_for(f"{count} votes in {database}", lambda: self.count(database) >= count)
        self.assertEqual(self.count(database), count)

    def tables(self, database):
        rows = self.stack.sql("SELECT table_name FROM information_schema.tables WHERE table_schema "
                              "= %s AND table_type = 'BASE TABLE' ORDER BY 1", [database],
                              database=None)
        return [row[0] for row in rows]

    def copy(self, source, target):
        """What a dump with --single-transaction holds, loaded into another database."""
        connection = suite.connect(None, autocommit=False)
        with connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{target}`")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            tables = self.tables(source)
            for table in tables:
                cursor.execute(f"DROP TABLE IF EXISTS `{target}`.`{table}`")
                cursor.execute(f"CREATE TABLE `{target}`.`{table}` LIKE `{source}`.`{table}`")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            for table in tables:
                columns = self.columns(source, table)
                cursor.execute(f"INSERT INTO `{target}`.`{table}` ({columns}) SELECT {columns} FROM "
                               f"`{source}`.`{table}`")
            connection.commit()

    def columns(self, database, table):
        """Without the generated ones, which no dump has either."""
        rows = self.stack.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND "
            "table_name = %s AND COALESCE(generation_expression, '') = '' ORDER BY ordinal_position",
            [database, table], database=None)
        return ", ".join(f"`{row[0]}`" for row in rows)

    def verify(self):
        report = json.loads(self.stack.tallybox("verify", "--json", "--wait", "60").stdout)
        self.assertTrue(report["ok"], report)

    def test_the_log_is_restored_from_an_older_copy_and_moves_to_another_database(self):
        copy = f"{self.first}_copy"
        self.addCleanup(self.stack.sql, f"DROP DATABASE IF EXISTS `{copy}`", database=None)
        role = self.start("run")
        self.vote(range(1, 11))
        self.wait_logged(self.first, 30)
        # While everything runs.
        self.copy(self.first, copy)
        self.vote(range(11, 21))
        self.wait_logged(self.first, 60)
        role.end()
        self.copy(copy, self.first)
        self.assertEqual(self.count(self.first), 30)
        role = self.start("run")
        self.wait_logged(self.first, 60)
        self.verify()

        # The move: votes are accepted meanwhile and wait in Kafka or in the outbox.
        role.end()
        self.vote(range(21, 26))
        self.copy(self.first, self.second)
        self.stack.write_ini(sink__database=self.second)
        self.stack.accounts.grant()
        self.stack.tallybox("migrate", "verify")
        self.start("run")
        self.wait_logged(self.second, 75)
        self.verify()
        self.assertEqual(self.count(self.first), 60)


if __name__ == "__main__":
    unittest.main()
