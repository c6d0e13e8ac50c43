# SPDX-License-Identifier: MIT
"""The accounts that `migrate grants --create-user` makes, and what each may do then."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import pymysql

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import suite  # noqa: E402
import test_schema  # noqa: E402


class Accounts(test_schema.SchemaCase):
    """`migrate grants --role R --create-user` piped into an administrator's client."""

    def pipe(self, role, *arguments):
        """Runs what is printed, statement by statement, as a client without --force does. Returns
        the settings of the account."""
        self.addCleanup(self.sql, f"DROP USER IF EXISTS 'tallybox_{role}'@'%'", database=None)
        done = subprocess.run(self.words("grants", "--role", role, "--create-user", *arguments),
                              capture_output=True, text=True, timeout=60, check=True,
                              env=suite.clean_environment())
        self.shown = []
        for line in done.stdout.splitlines():
            if line and not line.startswith("--"):
                self.shown += self.sql(line, database=None)
        password = self.folder / f"password_{role}"
        password.write_text(re.search(r"password = (\S+)", done.stderr).group(1) + "\n")
        return {"mysql.user": f"tallybox_{role}", "mysql.password_file": password}

    def users(self):
        return {row[0] for row in self.sql("SELECT user FROM mysql.user", database=None)}

    def test_each_role_gets_its_account_in_one_step(self):
        for role in ("migrate", "retry", "application_insert"):
            self.sql(f"DROP USER IF EXISTS 'tallybox_{role}'@'%'", database=None)
        with self.assertRaises(pymysql.MySQLError) as caught:
            self.pipe("retry", "--only", "outbox")
        self.assertIn(caught.exception.args[0], (1049, 1146))
        self.assertRegex(self.shown[0][0], f"missing in database {self.name}: .*retry_task.*: run "
                                           "`tallybox migrate up --only outbox` first, then this "
                                           "again")
        self.assertNotIn("tallybox_retry", self.users())

        account = self.pipe("migrate")
        self.migrate("up", "--only", "outbox", sets=account)
        with self.assertRaises(pymysql.MySQLError):
            self.pipe("retry")
        self.assertIn("if it has the outbox only, add --only outbox to this command, or run "
                      "`tallybox migrate up --with votes` first", self.shown[0][0])
        self.assertNotIn("tallybox_retry", self.users())
        account = self.pipe("retry", "--only", "outbox")
        self.assertEqual(self.shown, [])
        words = [suite.BINARY, "doctor", "--role", "retry", "--config", str(self.ini)]
        words += [word for key, value in account.items() for word in ("--set", f"{key}={value}")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                              env=suite.clean_environment())
        self.assertIn("the account has the privileges of retry", done.stdout)
        self.assertIn("the tables are those of this version", done.stdout)
        self.assertNotIn("votes-", done.stdout)
        words[words.index("retry")] = "serve"
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                              env=suite.clean_environment())
        self.assertEqual(done.returncode, suite.FAILED, done.stdout)
        self.assertRegex(done.stdout, "FAILED +schema +.*")
        self.assertNotIn("the tables are those of this version", done.stdout)
        role = suite.Role(self, "retry", account, ()).start()
        self.addCleanup(role.end)
        role.wait_ready()

        account = self.pipe("application_insert", "--only", "outbox")
        login = {"user": account["mysql.user"],
                 "password": account["mysql.password_file"].read_text().strip()}
        writer = suite.connect(self.name, **login)
        self.addCleanup(writer.close)
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                           "VALUES (UUID(), 'order', '1', 'OrderPlaced', '{}')")
            cursor.execute("INSERT INTO retry_task (scene, handler, idempotency_key, options) "
                           "VALUES ('invoice', 'http', 'invoice/815', '{}')")
            with self.assertRaises(pymysql.MySQLError):
                cursor.execute("SELECT COUNT(*) FROM outbox")

    def test_tasks_are_taken_over_http_without_the_tables_for_votes(self):
        """serve with api.votes = off and retry: no table for votes, and no Kafka that answers."""
        for role in ("migrate", "serve", "retry"):
            self.sql(f"DROP USER IF EXISTS 'tallybox_{role}'@'%'", database=None)
        account = self.pipe("migrate")
        self.migrate("up", "--only", "outbox", sets=account)
        tokens = self.folder / "tokens"
        tokens.write_text("token-of-the-shop-of-tasks tasks:default votes read remarks\n")
        tokens.chmod(0o600)
        sets = {"api.votes": "off", "api.tasks": "on", "api.token_file": tokens,
                "retry.http_hosts": "127.0.0.1:9",
                "kafka.bootstrap.servers": f"127.0.0.1:{suite.free_port()}"}
        accounts = {role: self.pipe(role, "--only", "outbox") for role in ("serve", "retry")}
        roles = {}
        for role, account in accounts.items():
            roles[role] = suite.Role(self, role, {**sets, **account}, ()).start()
            self.addCleanup(roles[role].end)
            roles[role].wait_ready()
        words = [suite.BINARY, "doctor", "--role", "serve", "--config", str(self.ini)]
        words += [word for key, value in {**sets, **accounts["serve"]}.items()
                  for word in ("--set", f"{key}={value}")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                              env=suite.clean_environment())
        self.assertEqual(done.returncode, suite.DONE, done.stdout)
        headers = {"Authorization": "Bearer token-of-the-shop-of-tasks",
                   "Content-Type": "application/json"}
        api = roles["serve"]
        for method, path, body in (("POST", "/v1/votes", "{}"),
                                   ("GET", "/v1/contents/1/votes", None),
                                   ("GET", "/v1/remarks?itemId=1", None),
                                   ("GET", "/v1/items/1/recommended?start=1&stop=2", None)):
            answer = suite.http_call(api.api_port, method, path, body, headers)
            self.assertEqual(answer.status, 403, answer.body)
            self.assertIn(b"votes are off; api.votes = on allows them", answer.body)
        task = {"scene": "invoice", "handler": "http", "options": {"url": "http://127.0.0.1:9/"}}
        answer = suite.http_call(api.api_port, "POST", "/v1/tasks", json.dumps(task), headers)
        self.assertEqual(answer.status, 201, answer.body)
        number = json.loads(answer.body)["id"]
        suite.wait_for("an attempt that fails", lambda: b'"failures":1' in suite.http_call(
            api.api_port, "GET", f"/v1/tasks/{number}", None, headers).body)

    def test_one_account_serves_two_databases_of_a_server_with_the_password_of_its_section(self):
        sink = f"{self.name}_sink"
        self.addCleanup(self.drop, sink)
        with self.ini.open("a") as ini:
            ini.write(f"[sink]\ndatabase = {sink}\n\n[role.verify]\nmysql.user = tallybox_verify\n"
                      "mysql.password = It's-1-password\n")
        self.sql("DROP USER IF EXISTS 'tallybox_verify'@'%'", database=None)
        self.addCleanup(self.sql, "DROP USER IF EXISTS 'tallybox_verify'@'%'", database=None)
        self.migrate("up")
        done = subprocess.run(self.words("grants", "--role", "verify", "--create-user"),
                              capture_output=True, text=True, timeout=60, check=True,
                              env=suite.clean_environment())
        self.assertEqual(done.stderr, "")
        self.sql(*[line for line in done.stdout.splitlines() if line and not line.startswith("--")],
                 database=None)
        done = subprocess.run([suite.BINARY, "verify", "--wait", "1", "--config", str(self.ini)],
                              capture_output=True, text=True, timeout=60, check=False,
                              env=suite.clean_environment())
        self.assertEqual(done.returncode, suite.DONE, done.stdout + done.stderr)

    def test_a_new_account_is_appended_to_the_settings_and_made_once(self):
        """A second run gives the account what the settings say; another installation, whose
        settings have no password, leaves it as it is."""
        user = f"{self.name}_status"
        self.addCleanup(self.sql, f"DROP USER IF EXISTS '{user}'@'%'", database=None)
        self.migrate("up")
        before = self.ini.read_text()
        words = ("--role", "status", "--account", user, "--create-user")
        self.assertEqual(self.client(*words), (0, ""))
        written = self.ini.read_text()[len(before):]
        self.assertRegex(written, r"\A\n# .*\n\[role\.status\]\nmysql\.user = "
                                  rf"{user}\nmysql\.password = \S+\n\Z")
        status = [suite.BINARY, "status", "--config", str(self.ini)]
        def shown():
            return subprocess.run(status, capture_output=True, text=True, timeout=60, check=False,
                                  env=suite.clean_environment()).stdout
        self.assertRegex(shown(), r"\A(ok|PROBLEMS)")
        self.assertNotIn("denied", shown())
        # The settings have the password now.
        self.assertEqual(self.client(*words), (0, ""))
        self.assertEqual(self.ini.read_text(), before + written)
        self.ini.write_text(before)
        code, printed = self.client(*words)
        self.assertEqual(code, 1)
        self.assertIn(f"the account '{user}'@'%' exists and keeps its password", printed)
        self.assertIn("let [role.status] of the settings file have its name", printed)
        self.assertIn("ERROR 1396", printed)
        other = self.ini.read_text()
        self.assertIn("denied", shown())
        self.ini.write_text(before + written)
        self.assertNotIn("denied", shown())
        # A lost password: the settings have a new one.
        self.ini.write_text(other)
        self.assertEqual(self.client(*words), (0, ""))
        self.assertNotIn("denied", shown())

    def test_an_account_of_the_application_gets_the_rights(self):
        """As one of a single host, and no section of the settings file."""
        user = f"{self.name}_shop"
        self.addCleanup(self.sql, f"DROP USER IF EXISTS '{user}'@'127.0.0.1'", database=None)
        self.sql(f"CREATE USER '{user}'@'127.0.0.1' IDENTIFIED BY 'own'", database=None)
        self.migrate("up", "--only", "outbox")
        before = self.ini.read_text()
        words = ("--role", "application_insert", "--only", "outbox", "--account",
                 f"{user}@127.0.0.1")
        self.assertEqual(self.client(*words), (0, ""))
        self.assertEqual(self.ini.read_text(), before)
        writer = suite.connect(self.name, user=user, password="own")
        self.addCleanup(writer.close)
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                           "VALUES (UUID(), 'order', '1', 'OrderPlaced', '{}')")
            cursor.execute("INSERT INTO retry_task (scene, handler, idempotency_key, options) "
                           "VALUES ('invoice', 'http', 'invoice/815', '{}')")
        code, printed = self.client(*words, "--create-user")
        self.assertEqual(code, 1)
        self.assertIn("Run this again without --create-user", printed)
        self.assertRegex(self.ini.read_text()[len(before):],
                         rf"\A\n# .* keep it out .*\n# user = {user}\n# password = \S+\n\Z")

    def test_roles_and_options_are_checked(self):
        for arguments in (("grants", "--role", "relya"), ("grants", "--create-user"),
                          ("grants", "--account", "shop"), ("up", "--account", "shop"),
                          ("grants", "--role", "relay", "--account", "@localhost"),
                          ("grants", "--only", "votes"), ("up", "--role", "relay")):
            self.migrate(*arguments, expect=suite.USAGE)


if __name__ == "__main__":
    unittest.main()
