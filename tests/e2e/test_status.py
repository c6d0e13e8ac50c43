# SPDX-License-Identifier: MIT
"""`tallybox status`: what it calls a problem, and what it names."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402


@contextlib.contextmanager
def away(stack, table):
    """The table has another name meanwhile."""
    stack.sql(f"RENAME TABLE {table} TO {table}_away")
    try:
        yield
    finally:
        stack.sql(f"RENAME TABLE {table}_away TO {table}")


class MissingTables(suite.Case):
    """One table after the other is renamed on a full installation."""

    def status(self, *arguments, **options):
        return " ".join(self.stack.tallybox("status", *arguments, **options).stdout.split())

    def test_each_missing_table_is_named(self):
        root = {"mysql.user": "root"}
        tables = {table for table, in self.stack.sql("SHOW TABLES")} - {"schema_history"}
        for table in sorted(tables):
            with self.subTest(table=table), away(self.stack, table):
                text = self.status("--check", sets=root, expect=suite.FAILED)
                self.assertRegex(text, rf"^PROBLEMS: \[mysql\] \S+ at \S+: tables are missing: {table}: "
                                       "tallybox migrate verify compares all tables")
                self.assertNotIn("migrate up", text)
        self.assertNotIn("tables are missing", self.status("--check", sets=root, expect=None))

    def test_a_part_that_cannot_be_read_names_its_table(self):
        """With the account of the role status, which sees some tables only."""
        with away(self.stack, "retry_task"):
            page = self.status(expect=suite.FAILED)
            self.assertIn("tables are missing: retry_task: tallybox migrate verify", page)
            self.assertIn(f"not known: mysql {suite.database().host}:{suite.database().port}: Table "
                          f"'{self.stack.name}.retry_task' doesn't exist (1146): `tallybox migrate "
                          "verify`", page)
            self.assertNotIn("migrate up", page)
        with away(self.stack, "relay_lease"):
            text = self.status("--check", expect=suite.FAILED)
            self.assertIn("tables are missing: relay_lease", text)
            self.assertNotIn("no table outbox", text)
        with away(self.stack, "outbox"):
            self.assertIn("lane outbox: there is no table outbox",
                          self.status("--check", expect=suite.FAILED))
        with away(self.stack, "vote_state"):
            self.assertNotIn("tables are missing", self.status("--check", expect=None))
