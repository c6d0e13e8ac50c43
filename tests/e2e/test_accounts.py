# SPDX-License-Identifier: MIT
"""What an account may and may not: of the database, and of the machine."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import accounts  # noqa: E402
import binlog_server  # noqa: E402
import suite  # noqa: E402
import wire  # noqa: E402

NOBODY = 65534

# Over plain TCP a first login to MySQL needs a package of Python's that need not be there.
SECURE = {} if suite.DATABASE == "mariadb" else {
    "ssl": {"verify_mode": "none", "check_hostname": False}}

# What each account must be refused, although its role works in the same tables.
FORBIDDEN = {
    "serve": ["UPDATE remark SET votes = 0", "DELETE FROM deleted_content",
              "DELETE FROM vote_tally", "SELECT * FROM outbox", "DELETE FROM outbox",
              "SELECT * FROM vote_document", "SELECT * FROM relay_lease",
              "INSERT INTO retry_task (scene, handler, origin) VALUES ('a', 'http', 'consumer')",
              "UPDATE retry_group SET owner = 'client'", "DELETE FROM retry_task",
              "UPDATE retry_task SET state = 0", "DELETE FROM retry_task_history",
              "INSERT INTO retry_attempt (task_id) VALUES (1)"],
    "first_try": ["DELETE FROM retry_task_history", "UPDATE retry_scene SET paused = 1",
                  "SELECT * FROM retry_group", "UPDATE retry_attempt SET reason = ''",
                  "SELECT * FROM outbox", "SELECT * FROM vote_state"],
    "relay": ["INSERT INTO outbox SELECT * FROM outbox", "UPDATE outbox SET payload = ''",
              "DELETE FROM relay_position", "UPDATE relay_published SET number = 0", "SELECT * FROM vote_state",
              "SELECT * FROM vote_document"],
    "application": ["INSERT INTO retry_task (scene, handler, origin) VALUES ('a', 'http', 'relay')",
                    "INSERT INTO retry_task (scene, handler, state) VALUES ('a', 'http', 4)",
                    "UPDATE retry_task SET origin = 'relay'", "UPDATE retry_task SET state = 0",
                    "SELECT params FROM retry_task", "DELETE FROM retry_task",
                    "INSERT INTO retry_group (name) VALUES ('mine')",
                    "UPDATE retry_group SET owner = 'client'", "SELECT topics FROM retry_group",
                    "SELECT * FROM outbox", "DELETE FROM outbox", "SELECT * FROM vote_state",
                    "UPDATE outbox_lanes SET next_count = 2"],
    "consume": ["UPDATE vote_document SET votes = 0", "DELETE FROM vote_document",
                "SELECT * FROM outbox", "SELECT * FROM remark", "DELETE FROM dead_record",
                "DELETE FROM retry_task", "UPDATE retry_task SET state = 0"],
    "housekeep": ["SELECT params FROM retry_task", "DELETE FROM retry_task",
                  "SELECT params FROM retry_task_history", "SELECT content FROM remark",
                  "UPDATE remark SET deleted_at = NULL", "DELETE FROM remark",
                  "DELETE FROM deleted_content", "SELECT * FROM vote_state"],
    "dead": ["SELECT what FROM retry_audit", "UPDATE retry_audit SET acted_by = ''",
             "DELETE FROM retry_audit", "UPDATE dead_history SET decision = ''"],
    "rollup": ["SELECT content FROM remark", "UPDATE remark SET content = ''",
               "UPDATE vote_tally SET votes = 0", "SELECT * FROM vote_document"],
    "retry": ["UPDATE retry_client SET address = 'http://evil/'",
              "INSERT INTO retry_client (task_group, address) VALUES ('a', 'http://evil/')",
              "DELETE FROM retry_scene", "UPDATE retry_scene SET paused = 1",
              "SELECT * FROM outbox", "SELECT * FROM vote_state"],
    "status": ["SELECT payload FROM outbox", "SELECT payload FROM dead_record",
               "SELECT content FROM remark", "UPDATE relay_lease SET owner = ''",
               "SELECT * FROM vote_state"],
    "verify": ["UPDATE vote_document SET votes = 0", "SELECT payload FROM outbox",
               "DELETE FROM vote_state"],
    "run": ["DROP TABLE remark", "UPDATE vote_document SET votes = 0",
            "DELETE FROM deleted_content"],
}


class Database(suite.Case):
    """The accounts that every other test runs with."""

    seconds = 30

    def test_no_account_may_more_than_its_role_needs(self):
        for role, statements in FORBIDDEN.items():
            for statement in [*statements, "CREATE TABLE x (y INT)", "DROP TABLE schema_history"]:
                with self.subTest(role=role, statement=statement):
                    with self.assertRaises(pymysql.MySQLError) as caught:
                        self.stack.sql(statement, user=f"tallybox_{role}",
                                       password=accounts.PASSWORD, **SECURE)
                    self.assertIn(caught.exception.args[0], (1044, 1142, 1143), caught.exception)

    def test_an_application_hands_over_events_and_tasks_of_its_own(self):
        login = {"user": "tallybox_application", "password": accounts.PASSWORD, **SECURE}
        self.stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
                       "(UUID(), 'order', '1', 'OrderPlaced', '{}')", **login)
        insert = ("INSERT INTO retry_task (task_group, scene, handler, ordering_key, "
                  "idempotency_key, biz_no, options, params, params_type, next_at) VALUES "
                  "('outbox', 'publish', 'kafka', 't/1', 'one', 'b', '{}', 'x', 'text/plain', "
                  "'2036-01-01')")
        self.stack.sql(insert, **login)
        self.assertEqual(self.stack.sql("SELECT origin, state FROM retry_task"), [("client", 0)])
        # The id of one that is active already, as RETRY.md says.
        with self.assertRaises(pymysql.err.IntegrityError) as caught:
            self.stack.sql(insert, **login)
        self.assertEqual(caught.exception.args[0], 1062)
        # As RETRY.md says.
        found = self.stack.sql(
            "SELECT id FROM retry_task WHERE active_hash = UNHEX(SHA2(CONCAT('client', 0x00, "
            "'outbox', 0x00, 'publish', 0x00, 0x01, 'one'), 256))", **login)
        self.assertEqual(found, self.stack.sql("SELECT id FROM retry_task"))
        self.stack.sql("DELETE FROM retry_task")

    def test_an_application_reads_the_number_of_lanes_with_a_lock(self):
        """As OPERATIONS.md says for writers that spread events over lanes."""
        writer = suite.connect(self.stack.name, autocommit=False, user="tallybox_application",
                               password=accounts.PASSWORD, **SECURE)
        self.addCleanup(writer.close)
        with writer.cursor() as cursor:
            cursor.execute("SELECT lane_count, next_count FROM outbox_lanes WHERE id = 1 "
                           "LOCK IN SHARE MODE")
            self.assertEqual(cursor.fetchall(), ((1, 0),))
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                           "VALUES (UUID(), 'order', '1', 'OrderPlaced', '{}')")
        writer.rollback()

    def test_a_missing_right_is_named_with_its_grant(self):
        self.stack.sql("CREATE USER IF NOT EXISTS poor@'%%' IDENTIFIED BY %s", ["x"])
        self.addCleanup(self.stack.sql, "DROP USER poor@'%'", database=None)
        for table in ("schema_history", "relay_lease"):
            self.stack.sql(f"GRANT SELECT ON {table} TO poor@'%'")
        password = self.stack.folder / "poor"
        password.write_text("x\n")
        role = suite.Role(self.stack, "relay", {"mysql.user": "poor",
                                                "mysql.password_file": password}, ()).start()
        self.addCleanup(role.kill)
        suite.wait_for("the right to be named", lambda: re.search(
            r"(INSERT|UPDATE|DELETE|SELECT)[A-Z, ]* command denied.*"
            r"it lacks GRANT [A-Z, ]+ ON \S*(instance|relay_lease|outbox); `tallybox migrate "
            r"grants`", role.log_text()))

    def test_status_names_the_role_whose_rights_its_account_lacks(self):
        done = self.stack.tallybox("status", expect=None, sets={
            "mysql.user": "tallybox_rollup",
            "mysql.password_file": self.stack.accounts.password_file})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(" ".join(done.stdout.split()), r"command denied to user .* `tallybox "
                         r"migrate grants --role status` those of this command")
        self.assertNotIn("configuration file", done.stderr)

    def make_rotated(self, user):
        """An account for `run` with a password file of its own, which is returned."""
        self.stack.sql(f"CREATE USER {user}@'%' IDENTIFIED BY 'first'", database=None)
        self.addCleanup(self.stack.sql, f"DROP USER {user}@'%'", database=None)
        self.stack.sql_all(line.replace("'tallybox_run'", f"'{user}'")
                           for role, line in self.stack.accounts.statements() if role == "run")
        password = self.stack.folder / user
        password.write_text("first\n")
        return password

    def change_password(self, user, password):
        """As an operator does it; then the server closes the connections of the account, so that
        each of them needs a login."""
        self.stack.sql(f"ALTER USER {user}@'%' IDENTIFIED BY '{password}'", database=None)
        for session, in self.stack.sql("SELECT id FROM information_schema.processlist WHERE user = "
                                       f"'{user}'", database=None):
            try:
                self.stack.sql(f"KILL {session}", database=None)
            except pymysql.MySQLError as reason:
                self.assertEqual(reason.args[0], 1094)  # it has ended

    def test_a_password_is_rotated_without_a_restart(self):
        password = self.make_rotated("rotated")
        sets = {"mysql.user": "rotated", "mysql.password_file": password}
        run = self.start("run", sets={**sets, "mysql.auth_wait_ms": 86400000})
        relay = self.start("relay", sets={**sets, "mysql.auth_wait_ms": 1000})
        run.vote((1, 1, 1))
        suite.wait_for("all shards", lambda: re.search(
            r"event=shards_leased handlers=\w+:16,.*of=16 ", run.log_text()))
        self.change_password("rotated", "second")
        # Every role of the process waits, however it would treat another fault of its account.
        for role in ("serve", "relay", "retry", "consume", "rollup", "housekeep"):
            suite.wait_for(f"{role} to be refused", lambda role=role: re.search(
                rf"event=dependency_down .*role={role} .*denied.*auth_wait_ms = 86400000",
                run.log_text()))
        suite.wait_for("the process not to be ready", lambda: not run.ready())
        # The shards of all handlers fail alike: one line for each error text, and one for all held.
        suite.wait_for("the leases to fail", lambda: "reason=cannot_renew_leases" in run.log_text())
        errors = re.findall(r"event=dependency_down dep=mysql role=retry "
                            r'reason=cannot_renew_leases err="(.*)"', run.log_text())
        self.assertEqual(len(errors), len({re.sub(r"\d+", "#", error) for error in errors}), errors)
        self.assertEqual(len(re.findall(r"event=shards_leased handlers=\w+:16,.*of=16 ",
                                        run.log_text())), 1, run.log_text())
        # A process that has waited long enough ends, whatever its role.
        self.assertEqual(relay.wait_end(), suite.FAILED, relay.log_text())
        self.assertRegex(relay.log_text(), "event=role_failed role=relay reason=login_refused .*denied")
        password.write_text("second\n")
        run.wait_ready()
        run.vote((2, 1, 1))
        run.process.send_signal(signal.SIGHUP)
        suite.wait_for("the reload", lambda: "event=reloaded " in run.log_text())
        self.assertIn("event=setting_changed setting=mysql.password from=*** to=***", run.log_text())
        self.assertNotIn("settings_need_restart", run.log_text())

    def test_the_password_of_the_sink_is_rotated_alone(self):
        passwords = {user: self.make_rotated(user) for user in ("writers", "sink")}
        run = self.start("run", sets={
            "mysql.user": "writers", "mysql.password_file": passwords["writers"],
            "sink.user": "sink", "sink.password_file": passwords["sink"],
            "sink.auth_wait_ms": 86400000, "rollup.interval_ms": 1000,
            "housekeep.interval_ms": 1000})
        self.change_password("sink", "second")
        for role in ("consume", "rollup", "housekeep"):
            suite.wait_for(f"{role} to be refused", lambda role=role: re.search(
                rf"event=dependency_down dep=sink role={role} .*denied for user .sink.*"
                "auth_wait_ms = 86400000", run.log_text()))
        suite.wait_for("the process not to be ready", lambda: not run.ready())
        self.assertNotRegex(run.log_text(), "event=dependency_down dep=mysql")
        run.vote((1, 1, 1))
        passwords["sink"].write_text("second\n")
        run.wait_ready()

    def test_what_is_printed_is_sql_that_can_be_run_twice(self):
        text = self.stack.tallybox("migrate", "grants").stdout
        self.assertIn("'tallybox_serve'@'%'", text)
        for _ in range(2):
            self.stack.sql_all(line.rstrip(";") for line in text.splitlines()
                               if line.startswith("GRANT "))


class Doctor(suite.Case):
    """`tallybox doctor` on real servers."""

    def doctor(self, *arguments, role="status", **sets):
        return self.stack.tallybox(
            "doctor", *arguments, expect=None,
            sets={"mysql.user": f"tallybox_{role}",
                  "mysql.password_file": self.stack.accounts.password_file,
                  **{key.replace("__", "."): value for key, value in sets.items()}})

    def test_each_role_has_the_privileges_that_migrate_grants_prints(self):
        for role in sorted(role for (role,) in map(tuple, accounts.ROLES_OF.values())):
            with self.subTest(role=role):
                done = self.doctor("--role", role, role=role)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"has the privileges of {role if role != 'run' else 'housekeep'}",
                              done.stdout)

    def test_an_account_of_another_role_lacks_privileges(self):
        done = self.doctor("--role", "relay", role="rollup")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"FAILED +mysql +the account lacks privileges of relay: GRANT "
                                      r"[A-Z, ]*DELETE[A-Z, ]* ON \S+\.outbox;")
        self.assertIn("to do: `tallybox migrate grants`", done.stdout)
        self.assertRegex(done.stdout, r"\n\d+ ok, \d+ warnings, 1 failed, 0 unreachable\n$")

    def test_what_the_wakeup_by_the_binary_log_lacks_is_a_warning(self):
        done = self.doctor("--role", "relay", "--json", role="relay", relay__wakeup="binlog")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = [one for one in json.loads(done.stdout)["findings"] if "relay.wakeup" in one["text"]]
        self.assertEqual([one["level"] for one in found], ["warning"])
        self.assertIn("GRANT REPLICATION SLAVE", found[0]["text"])
        self.assertIn("tallybox migrate grants --role relay_wakeup", found[0]["remedy"])
        done = self.doctor("--role", "relay", role="relay")
        self.assertNotIn("relay.wakeup", done.stdout)

    def test_what_a_lane_that_reads_the_binary_log_lacks_fails(self):
        """The servers of the tests have ROW and FULL, and the account has no privilege on the log."""
        def found(level):
            done = self.doctor("--role", "relay", "--json", role="relay",
                               lane__outbox__source="binlog", relay__server_id=1)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            return " ".join(one["text"] for one in json.loads(done.stdout)["findings"]
                            if one["level"] == level)
        self.assertIn("may not read the binary log: GRANT REPLICATION SLAVE", found("failed"))
        self.assertIn("the server has server_id = 1", found("failed"))
        self.assertNotIn("binlog_format", found("failed"))
        self.assertIn("binlog_row_metadata = ", found("warning"))
        self.assertIn("may not lock tables, so a lane with source = binlog stops", found("warning"))
        self.stack.sql("ALTER TABLE outbox ENGINE = MyISAM")
        try:
            self.assertIn("table outbox: its engine is MyISAM", found("failed"))
        finally:
            self.stack.sql("ALTER TABLE outbox ENGINE = InnoDB")

    def test_servers_that_do_not_answer_are_unreachable(self):
        closed = suite.free_port()
        done = self.doctor("--json", mysql__port=closed,
                           **{"kafka__bootstrap.servers": f"127.0.0.1:{closed}"})
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertFalse(found["ok"])
        self.assertEqual({one["subject"] for one in found["findings"]
                          if one["level"] == "unreachable"}, {"mysql", "kafka"})
        self.assertIn(f"no answer within 5 s from kafka.bootstrap.servers = 127.0.0.1:{closed}",
                      done.stdout)

    def test_kafka_is_not_asked_for_a_role_without_it(self):
        kafka = {"kafka__bootstrap.servers": f"127.0.0.1:{suite.free_port()}"}
        done = self.doctor("--role", "serve", role="serve", **kafka)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, r"(?m)^\w+ +kafka ")
        done = self.doctor("--role", "serve,retry", role="run", **kafka)
        self.assertIn("no answer within 5 s from kafka", done.stdout)

    def test_a_wrong_password_and_a_missing_file_fail(self):
        done = self.stack.tallybox(
            "doctor", expect=None, env={"TALLYBOX_MYSQL_PASSWORD": "wrong"},
            sets={"mysql.user": "tallybox_relay", "api.token_file": "/no/such/file"})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"FAILED +mysql .*1045")
        self.assertIn("--role relay reads the account of [role.relay]", done.stdout)
        self.assertRegex(done.stdout, r"FAILED +settings +serve cannot start: api.token_file: cannot "
                                      "open /no/such/file: No such file")
        self.assertNotIn("wrong", done.stdout)

    def test_each_role_checks_its_settings(self):
        wrong = {"api__listen": "0.0.0.0:8080", "retry__http_ca": "/nonexist",
                 "kafka__consumer.group.id": "mine"}
        done = self.doctor(**wrong)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertNotIn("every setting is valid", done.stdout)
        for text in ("serve cannot start: api.listen: other machines can reach this address",
                     "retry cannot start: handler http: retry.http_ca: /nonexist: No such file",
                     "consume cannot start: kafka.consumer.group.id: group.id cannot be set here"):
            self.assertRegex(done.stdout, f"FAILED +settings +{text}")
        done = self.doctor(retry__handlers="nope", admin__tls_cert="/nonexist")
        self.assertRegex(done.stdout, 'retry cannot start: retry.handlers: there is no handler "nope"')
        self.assertRegex(done.stdout, "serve, relay, retry, consume, rollup, housekeep cannot start: "
                                      "admin.tls_key is not set")
        # A role reads its own section, and nothing else is asked of it.
        done = self.doctor("--role", "rollup", role="rollup", **wrong)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("cannot start", done.stdout)
        self.addCleanup(self.stack.write_ini)
        self.stack.ini.write_text(self.stack.ini.read_text() +
                                  "[role.serve]\napi.listen = 0.0.0.0:8080\n")
        self.assertRegex(self.doctor().stdout, "serve cannot start: api.listen: other machines")

    def test_an_address_of_another_machine_is_not_checked(self):
        def doctor(*arguments, **more):
            return self.doctor(*arguments, api__listen="203.0.113.1:8080",
                               admin__listen="203.0.113.2:9464+", admin__without_token="yes", **more)

        done = doctor(api__without_token="yes")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "warning +settings +serve: api.listen = 203.0.113.1:8080 was not "
                                      "checked: this machine does not have that address")
        self.assertRegex(done.stdout, "warning +settings +serve, relay, retry, consume, rollup, "
                                      "housekeep: admin.listen = 203.0.113.2:9464\\+ was not checked")
        self.assertNotIn("every setting is valid", done.stdout)
        # What does not depend on the machine is checked.
        done = doctor(api__tasks="on")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("serve cannot start: api.tasks is on but", done.stdout)
        done = doctor()
        self.assertIn("serve cannot start: api.listen: other machines can reach", done.stdout)
        # A role that is started there itself must have the address.
        done = self.stack.tallybox("serve", expect=2, sets={"api.listen": "203.0.113.1:8080"})
        self.assertIn("cannot listen on 203.0.113.1:8080: this machine does not have", done.stderr)

    def test_the_configuration_of_the_topics_is_read(self):
        prefix = self.stack.settings["relay.topic_prefix"]
        small, wide = f"{prefix}small", f"{prefix}wide"
        wire.create_topic(suite.kafka().bootstrap, small, 1, {"max.message.bytes": 500000})
        wire.create_topic(suite.kafka().bootstrap, wide, 3, {"max.message.bytes": 1004096})
        done = self.doctor(relay__topics=f"big={small}", relay__topic_replication=3)
        self.assertIn(f"topic {small}: max.message.bytes = 500000 is too small for a row of "
                      "relay.row_bytes_max = 1000000 bytes", done.stdout)
        self.assertNotIn(f"topic {wide}: max.message.bytes", done.stdout)
        self.assertIn(f"topic {wide} has one replica", done.stdout)
        self.assertRegex(done.stdout, "FAILED +kafka +relay.topic_replication = 3 is more than the "
                                      "number of brokers")

    def test_an_unknown_role_is_refused_with_the_list(self):
        done = self.doctor("--role", "relay,chef")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--role chef: expected one of run,serve,relay", done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
class Machine(suite.Case):
    """A daemon needs no right of root."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tallybox-nobody-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)

    def nobody(self, *words, **options):
        return subprocess.Popen(
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
             "--no-new-privs", "--pdeathsig", "KILL", *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, cwd="/", env=suite.clean_environment(), **options)

    def test_a_role_runs_as_nobody(self):
        with open(suite.BINARY, "rb") as program:
            if program.read(4) != b"\x7fELF":
                self.skipTest("this program is started by a script in another account's folder")
        program = self.folder / "tallybox"
        shutil.copy(suite.BINARY, program)
        ini, password = self.folder / "tallybox.ini", self.folder / "password"
        shutil.copy(self.stack.ini, ini)
        ini.chmod(0o644)
        password.write_text(accounts.PASSWORD + "\n")
        password.chmod(0o400)
        os.chown(password, NOBODY, NOBODY)
        port, admin = suite.free_port(), suite.free_port()
        role = self.nobody(program, "run", "--config", ini, "--set", "mysql.user=tallybox_run",
                           "--set", f"mysql.password_file={password}",
                           "--set", f"api.listen=127.0.0.1:{port}",
                           "--set", f"admin.listen=127.0.0.1:{admin}")
        try:
            def ready():
                self.assertIsNone(role.poll(), role.returncode and role.stderr.read())
                try:
                    return suite.http_call(admin, "GET", "/readyz").status == 200
                except OSError:
                    return False
            suite.wait_for("run to be ready as nobody", ready)
            status = pathlib.Path(f"/proc/{role.pid}/status").read_text()
            self.assertRegex(status, rf"Uid:\s+{NOBODY}\s+{NOBODY}")
            answer = suite.http_call(port, "POST", "/v1/votes",
                                     b'{"voterId":1,"contentId":1,"voting":1}',
                                     {"Content-Type": "application/json"})
            self.assertEqual(answer.status, 200, answer.body)
            self.stack.wait_rows("vote_document", 1)
        finally:
            role.terminate()
            log = role.communicate(timeout=60)[1]
        self.assertEqual(role.returncode, 0, log)
        self.assertNotIn("runs_as_root", log)

    def test_a_password_that_every_account_can_read_is_told(self):
        """It works: a secret that a platform mounts into a container often has mode 0444."""
        password = self.folder / "password"
        password.write_text(accounts.PASSWORD + "\n")
        sets = {"mysql.user": "tallybox_rollup", "mysql.password_file": password}
        for mode, count in ((0o444, 1), (0o440, 0)):
            password.chmod(mode)
            role = self.start("rollup", sets=sets)
            self.assertEqual(role.log_text().count("event=password_file_open"), count, role.log_text())
            if count:
                self.assertRegex(role.log_text(), rf"setting=mysql.password_file file=\"{password}\" "
                                                  "mode=444 .*chmod o=")

    def test_root_is_told(self):
        role = self.start("rollup")
        self.assertEqual(role.log_text().count("event=runs_as_root"), 1)


class DoctorOfALog(binlog_server.LogCase):
    """A server of its own, whose variables may be changed."""

    seconds = 20
    arguments = [*binlog_server.ARGUMENTS[suite.DATABASE], "--binlog-ignore-db=shop",
                 "--binlog-expire-logs-seconds=3600"]

    def found(self, level, **sets):
        """As root, with a Kafka that answers: each run would wait 5 s for one that does not."""
        sets = {"mysql.host": self.server.host, "mysql.port": self.server.port, "mysql.user": "root",
                "mysql.database": "shop", "mysql.tls": "off", "lane.outbox.source": "binlog",
                "kafka.bootstrap.servers": suite.kafka().bootstrap, **sets}
        words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        done = subprocess.run([suite.BINARY, "doctor", "--role", "relay", "--json", *words],
                              capture_output=True, text=True, timeout=60, check=False,
                              env=suite.clean_environment())
        return " ".join(one["text"] for one in json.loads(done.stdout)["findings"] if
                        one["level"] == level)

    def test_what_the_log_lacks_is_named(self):
        self.assertIn("a filter keeps the database out of the binary log", self.found("failed"))
        self.assertIn("binlog_expire_logs_seconds = 3600", self.found("warning"))
        self.assertNotIn("binlog_format", self.found("failed"))
        for name, wrong, right in binlog_server.WRONG_VARIABLES:
            self.cursor.execute(f"SET GLOBAL {name} = {wrong}")
            self.assertIn(f"{name} = {wrong}", self.found("failed"))
            self.assertNotIn(name, self.found("failed", **{"lane.outbox.source": "table"}))
            self.cursor.execute(f"SET GLOBAL {name} = {right}")


if __name__ == "__main__":
    unittest.main()
