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


class Login(suite.Case):
    """Which settings an error text names when the server refuses the account or the database."""

    def test_a_command_without_a_section_says_how_to_make_its_account(self):
        ini = self.stack.folder / "login.ini"
        ini.write_text(self.stack.ini.read_text().replace("user = root", "user = absent") +
                       "[role.verify]\nmysql.user = absent\n")
        for words, role in ((["dead", "list"], "dead"), (["lanes", "show"], "lanes"),
                            (["vote", "1", "2"], "serve"), (["migrate", "up"], "migrate"),
                            (["status"], "status")):
            with self.subTest(words=words):
                done = self.stack.command([*words, "--config", ini], {}, expect=None)
                text = " ".join((done.stdout + done.stderr).split())
                self.assertRegex(text, r"(1045|1698)")
                self.assertRegex(text, rf"there is no \[role.{role}\] in \S+/login.ini; `tallybox "
                                       rf"migrate grants --role {role} --create-user \| mariadb` makes "
                                       "its account")
        done = self.stack.command(["verify", "--config", ini], {}, expect=None)
        self.assertRegex(done.stderr, "(1045|1698)")
        self.assertNotIn("there is no [role.", done.stderr)

    def test_a_wrong_name_of_the_database_is_named_with_its_setting(self):
        place = f"mysql.database ({self.stack.folder}/database.ini:"
        ini = self.stack.folder / "database.ini"
        ini.write_text(self.stack.ini.read_text().replace(f"database = {self.stack.name}\n",
                                                          "database = nope\n"))
        port = suite.database().port
        for words in (["dead", "list"], ["status"]):
            done = self.stack.command([*words, "--config", ini], {}, expect=None)
            text = " ".join((done.stdout + done.stderr).split())
            self.assertIn(f"Unknown database 'nope' (1049): check {place}", text)
        for account, words in (
                ({}, f"database nope at {suite.database().host}:{port} does not exist: check "),
                (self.stack.accounts.sets(["relay"], {}),
                 f"database nope at {suite.database().host}:{port} is missing, or account "
                 "tallybox_relay has no right to it (1044): check ")):
            relay = suite.Role(self.stack, "relay", {**account, "mysql.database": "nope"}, ()).start()
            self.addCleanup(relay.kill)
            suite.wait_for("the name of the setting", lambda relay=relay, words=words:
                           words + "--set mysql.database" in relay.log_text()
                           or words + "mysql.database (--set mysql.database)" in relay.log_text())
