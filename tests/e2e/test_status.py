# SPDX-License-Identifier: MIT
"""`tallybox status`: what it calls a problem, and what it names."""

import contextlib
import json
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


class Doctor(suite.Case):
    """`tallybox doctor` on an installation with an account for each role."""

    def doctor(self, *arguments, ini=None, expect=None):
        done = self.stack.command(["doctor", *arguments, "--config", ini or self.stack.ini], {},
                                  expect=expect)
        done.stdout = " ".join(done.stdout.split())
        return done

    def write_ini(self, *roles):
        """The account outside of the sections does not exist."""
        ini = self.stack.folder / "doctor.ini"
        text = self.stack.ini.read_text().replace("user = root", "user = absent")
        for role in roles:
            text += (f"[role.{role}]\nmysql.user = tallybox_{role}\n"
                     f"mysql.password_file = {self.stack.accounts.password_file}\n")
        ini.write_text(text)
        return ini

    def test_each_missing_table_fails_for_the_roles_that_need_it(self):
        tables = {table for table, in self.stack.sql("SHOW TABLES")} - {"schema_history"}
        for table in sorted(tables):
            with self.subTest(table=table), away(self.stack, table):
                done = self.doctor(expect=suite.FAILED)
                self.assertRegex(done.stdout, rf"FAILED schema database \S+ at \S+: table {table} is "
                                              "missing: .* to do: `tallybox migrate verify`")
                self.assertNotIn("the tables are those of this version", done.stdout)
        ini = self.write_ini("relay", "retry", "rollup")
        for table, role, other in (("outbox", "relay", "rollup"), ("retry_task", "relay", "rollup"),
                                   ("retry_attempt", "retry", "relay"), ("remark", "rollup", "retry")):
            with self.subTest(table=table), away(self.stack, table):
                done = self.doctor("--role", role, ini=ini, expect=suite.FAILED)
                self.assertIn(f": table {table} is missing", done.stdout)
                done = self.doctor("--role", other, ini=ini, expect=suite.DONE)
                self.assertIn("ok schema the tables are those of this version", done.stdout)

    def test_columns_that_differ_are_named_to_accounts_that_see_them(self):
        self.stack.sql("ALTER TABLE relay_lease ADD COLUMN mine INT")
        self.addCleanup(self.stack.sql, "ALTER TABLE relay_lease DROP COLUMN mine")
        ini = self.write_ini("relay", "rollup")
        done = self.doctor("--role", "relay", ini=ini, expect=suite.DONE)
        self.assertRegex(done.stdout, r"warning schema \S.*: column relay_lease.mine should not be there")
        self.assertNotIn("relay_lease", self.doctor("--role", "rollup", ini=ini).stdout)

    def test_every_role_sees_that_nothing_differs(self):
        ini = self.write_ini("serve", "relay", "retry", "consume", "rollup", "housekeep", "status",
                             "verify", "dead", "lanes", "migrate", "retry_admin", "run")
        done = self.doctor("--strict", "--json", ini=ini)
        self.assertNotIn('"subject": "schema", "text": "database', done.stdout)
        self.assertIn("the tables are those of this version", done.stdout)
        for role in ("serve", "relay", "status", "dead", "retry_admin", "housekeep"):
            self.assertIn(f"the account has the privileges of {role}", done.stdout)

    def test_each_role_is_checked_with_its_own_section(self):
        ini = self.write_ini("relay", "retry")
        for arguments in ((), ("--role", "relay,retry")):
            done = self.doctor(*arguments, ini=ini, expect=suite.DONE)
            for text in ("the account has the privileges of relay", "privileges of retry",
                         "the tables are those of this version"):
                self.assertIn(text, done.stdout)
            self.assertNotIn("Access denied", done.stdout)
            self.assertEqual(done.stdout.count("the clocks differ"), 1)
        done = self.doctor("--role", "relay,verify", ini=ini, expect=suite.FAILED)
        self.assertIn("the account has the privileges of relay", done.stdout)
        self.assertRegex(done.stdout, r"FAILED mysql .*'absent'.*: there is no \[role.verify\] in "
                                      r"\S+; `tallybox migrate grants --role verify --create-user \| "
                                      "mariadb` makes its account to do: check account and password "
                                      "of this section; `tallybox config --role verify` shows")

    def test_a_file_without_sections_is_checked_with_its_account(self):
        done = self.doctor(expect=suite.DONE)
        self.assertIn("the tables are those of this version", done.stdout)
        self.assertNotIn("the privileges of", done.stdout)
        done = self.doctor(ini=self.write_ini("status"), expect=suite.FAILED)
        self.assertIn("Access denied for user 'absent'", done.stdout)
        self.assertIn("the account has the privileges of status", done.stdout)


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
        for words in (["dead", "list"], ["status"], ["doctor"]):
            done = self.stack.command([*words, "--config", ini], {}, expect=None)
            text = " ".join((done.stdout + done.stderr).split())
            self.assertIn(f"Unknown database 'nope' (1049): check {place}", text)
        self.assertIn(f"to do: check {place}", text)
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


class Diverted(suite.Case):
    """Three keys are diverted, and two of them, with the newest, are free again."""

    def lane(self):
        lane, = json.loads(self.stack.tallybox("status", "--json").stdout)["outbox"]["lanes"]
        return lane

    def test_a_key_that_is_diverted_still_is_named(self):
        self.start("relay")
        rows = [{"id": f"event-{key}", "aggregatetype": "order", "aggregateid": key, "type": "Made",
                 "payload": b"1", "headers": "{not json"} for key in ("71", "72", "73")]
        for number, row in enumerate(rows, 1):
            self.stack.append([row])
            suite.wait_for("the key to be diverted",
                           lambda number=number: self.lane()["diverted_keys"] == number)
        for key in ("71", "73"):
            task = self.stack.number("SELECT id FROM retry_task WHERE ordering_key LIKE %s",
                                     [f"%/{key}"])
            self.stack.tallybox("retry", "cancel", str(task))
        suite.wait_for("two keys to be free", lambda: self.lane()["diverted_keys"] == 1)
        task = self.stack.number("SELECT id FROM retry_task")
        text = self.stack.tallybox("status", "--check", expect=suite.FAILED).stdout
        self.assertRegex(text, rf"keys diverted by a refused event: 1; task {task}, key \S+/72: "
                               r".*headers.*; tallybox retry list --group outbox shows the tasks, "
                               rf"tallybox retry edit {task} corrects this one")
        self.assertNotIn("/73", text)


class FailedTasks(suite.Case):
    """Tasks that fail because of a setting, and tasks that were given up."""

    def check(self, expect):
        return self.stack.tallybox("status", "--check", expect=expect).stdout

    def test_a_setting_that_refuses_tasks_is_a_problem(self):
        self.start("relay")
        retry = self.start("retry", sets={"retry.http_hosts": "example.org"})
        suite.wait_for("nothing to be wrong", lambda: self.stack.tallybox(
            "status", "--check", expect=None).stdout == "ok\n")
        self.stack.sql("""INSERT INTO retry_task (scene, handler, idempotency_key, options) VALUES
                          ('hook', 'http', 'one', '{"url": "http://absent.example/"}')""")
        suite.wait_for("the first attempt", lambda: self.stack.number(
            "SELECT attempts FROM retry_task") == 1)
        self.assertIn('retry queue: 1 tasks of the handler http fail because of a setting, '
                      'token or account, of tallybox or the application: the host "absent.example" with port 80 is not in retry.http_hosts of this '
                      'process: tallybox retry list --reason-class ours', self.check(suite.FAILED))
        retry.end()
        self.stack.sql("DELETE FROM retry_task")

    def test_an_exhausted_task_is_shown_until_it_is_requeued(self):
        self.start("relay")
        self.stack.sql(
            "INSERT INTO retry_task_history (id, task_group, scene, handler, params_type, state, "
            "attempts, next_at, reason_class, reason, owner, epoch, step, created_at, updated_at, "
            "outcome, ended_at) VALUES (1, 'default', 'hook', 'http', '', 0, 6, UTC_TIMESTAMP(3), "
            "'transient', 'no', '', 0, 0, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), 'exhausted', "
            "UTC_TIMESTAMP(3))")
        line = "tasks exhausted within a day: 1: tallybox retry history --outcome exhausted --since 1d"
        self.assertIn(line, self.stack.tallybox("status").stdout)
        self.assertEqual(self.check(None), "ok\n")
        done = self.stack.tallybox("retry", "history", "--outcome", "exhausted", "--since", "1d")
        self.assertIn("hook", done.stdout)
        self.stack.sql("UPDATE retry_task_history SET requeued_as = 2")
        self.assertNotIn("exhausted", self.stack.tallybox("status").stdout)
