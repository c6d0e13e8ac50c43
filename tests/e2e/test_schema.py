# SPDX-License-Identifier: MIT
"""`tallybox migrate` on a real server: making the schema, finding what differs, going on after
kills of the program and of the server, and what daemons say about a schema that does not fit."""

import itertools
import json
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest

import pymysql

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import page_files  # noqa: E402

MIGRATIONS = sorted(path.stem for path in (suite.ROOT / "schema/migrate").glob("0*.sql"))
COUNT, NEWEST = len(MIGRATIONS), int(MIGRATIONS[-1][:4])
NUMBERS = itertools.count(1)
LOCK = "CONCAT('tallybox migrate ', LEFT(SHA2(LOWER(DATABASE()), 256), 32))"


def newest_of(*sides):
    """The highest number of a migration of one of these sides."""
    return max(int(path.name[:4]) for path in (suite.ROOT / "schema/migrate").glob("0*.sql")
               if any(f"-- side: {side}\n" in path.read_text() for side in sides))


class SchemaCase(unittest.TestCase):
    """A database of its own, which does not exist at first. No broker is needed."""

    def setUp(self):
        self.name = f"schema_{next(NUMBERS)}"
        self.folder = suite.run().folder / self.name
        self.folder.mkdir()
        self.ini = self.folder / "tallybox.ini"
        self.ini.write_text(f"[mysql]\nhost = {suite.database().host}\n"
                            f"port = {suite.database().port}\nuser = root\n"
                            f"database = {self.name}\n")
        self.addCleanup(self.drop)

    def drop(self, name=None):
        self.sql(f"DROP DATABASE IF EXISTS `{name or self.name}`", database=None)

    def sql(self, *statements, database=""):
        """The rows of the last statement."""
        connection = suite.connect(self.name if database == "" else database)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def client(self, *arguments):
        """`migrate grants ... 2>> tallybox.ini | mariadb`: what the client printed, and its exit
        code."""
        with self.ini.open("a") as ini:
            done = subprocess.run(self.words("grants", *arguments), stdout=subprocess.PIPE,
                                  stderr=ini, text=True, timeout=60, check=True,
                                  env=suite.clean_environment())
        done = subprocess.run(["mariadb", "--no-defaults", f"--host={suite.database().host}",
                               f"--port={suite.database().port}", "--user=root", "--table"],
                              input=done.stdout, capture_output=True, text=True, timeout=60,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    def words(self, *arguments, sets=None):
        words = [suite.BINARY, "migrate", "--config", str(self.ini), *map(str, arguments)]
        for key, value in (sets or {}).items():
            words += ["--set", f"{key}={value}"]
        return words

    def start(self, *arguments):
        return subprocess.Popen(self.words(*arguments), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env=suite.clean_environment())

    def migrate(self, *arguments, expect=suite.DONE, sets=None):
        """stdout and stderr together."""
        done = subprocess.run(self.words(*arguments, sets=sets), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                              env=suite.clean_environment())
        self.assertEqual(done.returncode, expect, f"migrate {arguments}: {done.stdout}")
        return done.stdout

    def migrate_json(self, action, expect=suite.DONE, sets=None):
        text = self.migrate(action, "--json", expect=expect, sets=sets)
        return json.loads(text[text.index("{"):text.rindex("}") + 1])["databases"]

    def tables(self, name=None):
        return {row[0] for row in self.sql("SHOW TABLES", database=name or self.name)}

    def history(self):
        return self.sql("SELECT version, state, statement, statements FROM schema_history "
                        "ORDER BY version")


class Migrate(SchemaCase):
    """From nothing to the newest version, and what the actions show on the way."""

    def test_up_makes_the_database_and_again_does_nothing(self):
        status = self.migrate_json("status", expect=suite.FAILED)[0]
        self.assertEqual([one["state"] for one in status["migrations"]], ["pending"] * COUNT)
        self.assertIn("does not exist", status["message"])

        text = self.migrate("up")
        self.assertIn("database created", text)
        self.assertIn("0001_outbox: applied", text)
        self.assertIn(f"has schema version {NEWEST}", text)
        self.assertLessEqual({"outbox", "vote_state", "vote_count", "relay_lease", "instance",
                              "vote_document", "vote_tally", "consumer_progress", "dead_record",
                              "remark", "schema_history"}, self.tables())

        before = self.sql("SELECT * FROM schema_history ORDER BY version")
        self.assertNotIn("applied", self.migrate("up"))
        self.assertEqual(self.sql("SELECT * FROM schema_history ORDER BY version"), before)
        status = self.migrate_json("status")[0]
        self.assertTrue(status["ok"])
        self.assertEqual((status["version"], status["needs"]), (NEWEST, NEWEST))
        self.assertEqual(status["sides"], ["outbox", "votes", "sink"])
        self.assertTrue(all(one["finishedAt"] for one in status["migrations"]))
        self.assertEqual(self.migrate_json("plan")[0]["statements"], [])
        self.assertIn("is as schema version", self.migrate("verify"))

    def test_a_plan_run_by_hand_becomes_the_baseline(self):
        self.sql(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4", database=None)
        statements = self.migrate_json("plan")[0]["statements"]
        self.assertEqual(self.tables(), set())
        self.sql(*[one["sql"] for one in statements])
        text = self.migrate("up", expect=suite.FAILED)
        self.assertRegex(text, "already has tables that tallybox makes: outbox, .* and more; "
                               "nothing was changed: .*baseline")
        self.assertEqual(self.history(), [])

        self.sql("ALTER TABLE vote_tally DROP INDEX ix_vote_tally_changed")
        text = self.migrate("baseline", expect=suite.FAILED)
        self.assertIn("index vote_tally.ix_vote_tally_changed is missing", text)
        self.assertIn("nothing was recorded", text)
        self.assertEqual(self.history(), [])

        self.sql("CREATE INDEX ix_vote_tally_changed ON vote_tally (changed_at)")
        self.assertIn("is recorded as schema version", self.migrate("baseline"))
        self.migrate("verify")
        self.assertIn("baseline", self.migrate("status"))
        self.assertNotIn("applied", self.migrate("up"))

    def test_up_and_plan_stop_where_they_are_told(self):
        self.migrate("up", "--to", 1)
        self.assertIn(f"has schema version 1, this program needs {NEWEST}",
                      self.migrate("status", expect=suite.FAILED))
        self.assertNotIn("remark", self.tables())
        self.assertIn("CREATE TABLE remark", self.migrate("plan"))
        self.assertNotIn("CREATE TABLE", self.migrate("plan", "--to", 1))
        self.assertIn(f"needs {NEWEST}", self.migrate("verify", expect=suite.FAILED))
        self.migrate("up")
        self.migrate("verify")

    def test_two_databases_have_a_side_and_a_history_each(self):
        sink = f"{self.name}_sink"
        self.addCleanup(self.drop, sink)
        sets = {"sink.database": sink}
        self.migrate("up", sets=sets)
        self.assertIn("outbox", self.tables())
        self.assertNotIn("remark", self.tables())
        self.assertIn("remark", self.tables(sink))
        self.assertNotIn("outbox", self.tables(sink))
        first, second = self.migrate_json("status", sets=sets)
        self.assertEqual((first["version"], first["sides"]),
                         (newest_of("outbox", "votes"), ["outbox", "votes"]))
        self.assertEqual((second["version"], second["sides"]), (newest_of("sink"), ["sink"]))
        self.migrate("verify", sets=sets)
        self.drop(sink)
        text = self.migrate("verify", sets=sets, expect=suite.FAILED)
        self.assertIn(f"is as schema version {newest_of('outbox', 'votes')}", text)
        self.assertIn(f"database {sink} at", text)

    def test_one_database_under_two_names_is_no_trouble(self):
        sets = {"sink.host": "localhost" if suite.database().host != "localhost" else "127.0.0.1"}
        self.migrate("up", sets=sets)
        self.migrate("verify", sets=sets)
        self.migrate("status")

    def test_what_is_wrong_is_said(self):
        self.assertIn('did you mean "status"', self.migrate("statsu", expect=suite.USAGE))
        self.migrate(expect=suite.USAGE)
        self.migrate("up", "--wait", "-1", expect=suite.USAGE)
        self.assertIn("tallybox: ", self.migrate("up", sets={"mysql.port": 1},
                                                 expect=suite.UNAVAILABLE))


class Drift(SchemaCase):
    """verify tells every difference by name, and nothing else."""

    KINDS = (
        ("ALTER TABLE vote_tally MODIFY votes INT NOT NULL",
         "column vote_tally.votes is int not null: expected bigint not null"),
        ("ALTER TABLE vote_tally MODIFY votes BIGINT UNSIGNED NOT NULL",
         "column vote_tally.votes is bigint unsigned not null: expected bigint not null"),
        ("ALTER TABLE vote_tally MODIFY votes BIGINT NULL",
         "column vote_tally.votes is bigint null: expected bigint not null"),
        ("ALTER TABLE remark ALTER score SET DEFAULT 5",
         "column remark.score is tinyint not null default '5': expected tinyint not null "
         "default '0'"),
        ("ALTER TABLE remark ALTER header DROP DEFAULT",
         "column remark.header is varchar(255) utf8mb4_unicode_ci not null: expected "
         "varchar(255) utf8mb4_unicode_ci not null default ''"),
        ("ALTER TABLE outbox MODIFY created_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)",
         "column outbox.created_at is datetime(3) not null default (current_timestamp(3)): "
         "expected datetime(3) not null default (utc_timestamp(3))"),
        ("ALTER TABLE outbox MODIFY aggregateid VARCHAR(64) CHARACTER SET utf8mb4 "
         "COLLATE utf8mb4_unicode_ci NOT NULL",
         "column outbox.aggregateid is varchar(64) utf8mb4_unicode_ci not null: expected "
         "varchar(64) utf8mb4_bin not null"),
        ("ALTER TABLE outbox MODIFY seq BIGINT NOT NULL",
         "column outbox.seq is bigint not null: expected bigint not null auto_increment"),
        ("ALTER TABLE vote_state ADD COLUMN mine INT NULL",
         "column vote_state.mine should not be there: it is int null"),
        ("ALTER TABLE remark DROP COLUMN images", "column remark.images is missing: expected"),
        ("ALTER TABLE remark DROP INDEX ix_remark_newest",
         "index remark.ix_remark_newest is missing: expected key (item_id, id)"),
        ("CREATE INDEX mine ON remark (user_name(10), votes)",
         "index remark.mine should not be there: it is key (user_name(10), votes)"),
        ("ALTER TABLE vote_tally DROP INDEX ix_vote_tally_changed, "
         "ADD UNIQUE INDEX ix_vote_tally_changed (changed_at)",
         "index vote_tally.ix_vote_tally_changed is unique key (changed_at): expected key "
         "(changed_at)"),
        ("ALTER TABLE vote_count DROP PRIMARY KEY",
         "index vote_count.PRIMARY is missing: expected primary key (content_id)"),
        ("DROP TABLE rollup_state", "table rollup_state is missing: expected engine innodb"),
        ("ALTER TABLE vote_document REMOVE PARTITIONING",
         "table vote_document is engine innodb: expected engine innodb, partitioned by range "
         "columns(create_date)"),
    )

    def groups(self):
        """The kinds, as few groups as can be made without two of one table in a group."""
        groups = []
        for statement, line in self.KINDS:
            table = re.match(r"\w+ (\w+)", line).group(1)
            for group in groups:
                if table not in group:
                    break
            else:
                group = {}
                groups.append(group)
            group[table] = (statement, line)
        return [list(group.values()) for group in groups]

    def test_each_kind_of_drift_is_one_line(self):
        for group in self.groups():
            self.drop()
            self.migrate("up")
            self.sql(*[statement for statement, _ in group])
            text = self.migrate("verify", expect=suite.FAILED)
            for statement, line in group:
                with self.subTest(statement):
                    self.assertEqual(text.count(line), 1, text)
            self.assertEqual(len(text.splitlines()), len(group) + 1, text)
            self.assertIn(f"differs from schema version {NEWEST} in {len(group)} places", text)

    def test_a_view_in_place_of_a_table_is_drift(self):
        self.migrate("up")
        self.sql("RENAME TABLE vote_count TO elsewhere",
                 "CREATE VIEW vote_count AS SELECT * FROM elsewhere")
        self.assertIn("table vote_count is engine none", self.migrate("verify",
                                                                      expect=suite.FAILED))

    def test_the_same_is_told_as_json(self):
        self.migrate("up")
        self.sql("ALTER TABLE remark DROP COLUMN images")
        report = self.migrate_json("verify", expect=suite.FAILED)[0]
        self.assertFalse(report["ok"])
        self.assertEqual(report["drift"], [{
            "kind": "column", "table": "remark", "name": "images",
            "expected": "text utf8mb4_unicode_ci null", "actual": None}])

    def test_what_operators_do_is_no_drift(self):
        self.migrate("up")
        self.sql("CREATE TABLE outbox_1 LIKE outbox", "CREATE TABLE theirs (x INT)",
                 "ALTER TABLE vote_document DROP PARTITION p_before",
                 "ALTER TABLE vote_document COMMENT = 'ours'",
                 "INSERT INTO remark (item_id) VALUES (1)", "ANALYZE TABLE remark")
        self.migrate("verify")


class History(SchemaCase):
    """What the history says is believed, and checked."""

    def test_an_edited_migration_is_an_error_that_names_it(self):
        self.migrate("up")
        self.sql("UPDATE schema_history SET sha256 = REPEAT('0', 64) WHERE version = 1")
        for action in ("up", "plan", "baseline"):
            text = self.migrate(action, expect=suite.FAILED)
            self.assertIn("migration 0001_outbox is not the one that was applied", text)
        status = self.migrate_json("status", expect=suite.FAILED)[0]
        self.assertEqual(status["migrations"][0]["state"], "edited")

    def test_a_statement_in_doubt_is_looked_for(self):
        self.migrate("up")
        half_way = ("UPDATE schema_history SET state = 'trying', statement = 7, "
                    "finished_at = NULL WHERE version = 2")
        for undo in ("DO 1", "DROP TABLE rollup_state"):
            with self.subTest(undo):
                self.sql(half_way, undo)
                self.assertIn("half-way through migration 0002_sink (7 of 8 statements)",
                              self.migrate("status", expect=suite.FAILED))
                self.assertIn("goes on behind statement 7 of 8", self.migrate("up"))
                self.assertEqual(self.history()[1], (2, "applied", 8, 8))
                self.migrate("verify")

    def test_what_stands_in_the_way_is_left_alone(self):
        """All names are checked before anything is made; the table of the shop stays."""
        self.sql(f"CREATE DATABASE {self.name}", database=None)
        self.sql("CREATE TABLE remark (mine INT)")
        for arguments in ((), ("--to", 2)):
            text = self.migrate("up", *arguments, expect=suite.FAILED)
            self.assertIn("already has tables that tallybox makes: remark; nothing was changed: "
                          "rename them, leave the votes out (`tallybox migrate up --only outbox`), "
                          "or give tallybox another database", text)
            self.assertEqual(self.tables(), {"remark"})
        self.sql("DROP TABLE remark")
        self.migrate("up")
        self.migrate("verify")

    def test_a_history_of_another_program_is_named(self):
        self.sql(f"CREATE DATABASE {self.name}", database=None)
        self.sql("CREATE TABLE schema_history (installed_rank INT PRIMARY KEY)")
        for action in ("up", "status"):
            self.assertIn("the table schema_history in database "
                          f"{self.name} is not tallybox's", self.migrate(action, expect=suite.FAILED))


class OnlyOutbox(SchemaCase):
    """`migrate up --only outbox` into the database of a shop, which has a table remark itself."""

    def setUp(self):
        super().setUp()
        self.sql(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4", database=None)
        self.sql("CREATE TABLE remark (mine INT)")

    def role(self, name, *arguments):
        role = suite.Role(self, name, {}, arguments).start()
        self.addCleanup(role.end)
        return role

    def tallybox(self, *words, expect=suite.DONE):
        done = subprocess.run([suite.BINARY, *words, "--config", str(self.ini)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60, check=False, env=suite.clean_environment())
        self.assertEqual(done.returncode, expect, done.stdout)
        return done.stdout

    def test_votes_are_left_out_and_added_later(self):
        for arguments in (("status", "--only", "outbox"), ("status", "--with", "votes"),
                          ("grants", "--with", "votes"), ("up", "--with", "outbox"),
                          ("up", "--only", "outbox", "--with", "votes")):
            self.migrate(*arguments, expect=suite.USAGE)
        self.assertNotIn("remark", self.migrate("plan", "--only", "outbox"))
        text = self.migrate("up", "--only", "outbox")
        self.assertIn("with the outbox only", text)
        made = self.tables()
        self.assertLessEqual({"remark", "outbox", "relay_lease", "instance", "retry_task"}, made)
        self.assertFalse({"vote_state", "vote_count", "vote_document", "dead_record"} & made)

        self.assertIn("with the outbox only: up to date", self.migrate("status"))
        self.assertTrue(self.migrate_json("status")[0]["outboxOnly"])
        self.assertIn("with the outbox only", self.migrate("verify"))
        self.migrate("up", "--only", "outbox")
        text = self.tallybox("status")
        self.assertIn("with the outbox only", text)
        self.assertTrue(text.endswith("\nvotes\n  left out: this installation has the outbox "
                                      "only\n"), text)
        self.assertNotIn("roll-up", text)
        self.assertRegex(self.tallybox("verify", "--wait", "1"), r"(?s)ok +outbox_drained.*ok: 1 checks")

        retry = self.role("retry", "--migrate")
        retry.wait_ready()
        rollup = self.role("rollup", "--migrate")
        suite.wait_for("the reason of rollup", lambda:
                       "has the outbox only, without the tables for votes: run `tallybox migrate "
                       "up --with votes`" in rollup.log_text())
        self.assertEqual(self.tables(), made)

        # Without an option the history decides, also in a step of docs/upgrade.md.
        for action in ("plan", "up", "baseline"):
            text = self.migrate(action)
            self.assertNotIn("vote_", text)
        self.assertIn("with the outbox only", text)
        self.assertIn("nothing to run", self.migrate("plan"))
        self.assertEqual(self.tables(), made)

        text = self.migrate("up", "--with", "votes", expect=suite.FAILED)
        self.assertRegex(text, "remark; nothing was changed: rename them, or .*`tallybox migrate "
                               "baseline --with votes`")
        self.assertEqual(self.tables(), made)
        self.sql("RENAME TABLE remark TO shop_remark")
        self.assertIn("CREATE TABLE remark", self.migrate("plan", "--with", "votes"))
        self.assertNotIn("only", self.migrate("up", "--with", "votes"))
        self.migrate("verify")
        rollup.wait_ready()
        self.assertIn("has vote tables already",
                      self.migrate("up", "--only", "outbox", expect=suite.FAILED))

    def test_debeziums_table_is_in_the_way_until_it_is_renamed(self):
        self.sql("CREATE TABLE outbox (id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype "
                 "VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT "
                 "NULL, payload JSON NULL)",
                 "INSERT INTO outbox VALUES (UUID(), 'order', 'o-1', 'Made', '{}')")
        for arguments in (("--only", "outbox"), ()):
            text = self.migrate("up", *arguments, expect=suite.FAILED)
            self.assertRegex(text, r"already has tables that tallybox makes: outbox.* \(not a "
                                   r"tallybox outbox table: outbox has no column seq\); nothing "
                                   r"was changed: rename them")
            self.assertEqual(self.tables(), {"outbox", "remark"})
        self.sql(*self.page("change_over.sql"))
        self.migrate("up", "--only", "outbox")
        self.sql(*self.page("copy.sql"))
        self.assertEqual(self.sql("SELECT seq, aggregateid FROM outbox"), [(1, "o-1")])
        self.migrate("verify")

    def page(self, name):
        """The statements of a block of docs/outbox.md, in the database of this test."""
        text = page_files.files((suite.ROOT / "docs/outbox.md").read_text(encoding="utf-8"))[name]
        return [one.replace("tallybox.", f"{self.name}.").strip()
                for one in text.split(";") if one.strip()]

    def test_the_page_writes_an_event_from_another_database(self):
        shop, user = f"{self.name}_shop", f"{self.name}_user"
        self.addCleanup(self.drop, shop)
        self.addCleanup(self.sql, f"DROP USER IF EXISTS {user}@'%'", database=None)
        self.migrate("up", "--only", "outbox")
        self.sql(f"CREATE DATABASE {shop}", f"CREATE USER {user}@'%' IDENTIFIED BY 'x'",
                 database=None)
        self.sql(*self.page("shop.sql"), database=shop)
        self.sql(*[one.replace("'shop'", f"'{user}'").replace("shop.", f"{shop}.")
                   for one in self.page("shop_rights.sql")], database=None)
        self.assertEqual(self.client("--role", "application_insert", "--account", user, "--only",
                                     "outbox"), (0, ""))
        connection = suite.connect(shop, user=user, password="x")
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            for statement in self.page("order.sql"):
                cursor.execute(statement)
            cursor.execute("START TRANSACTION")
            for statement in self.page("order.sql")[1:-1]:
                cursor.execute(statement.replace("A-1001", "A-1002"))
            cursor.execute("ROLLBACK")
        self.assertEqual(self.sql("SELECT aggregateid, payload FROM outbox"),
                         [("7", b'{"number":"A-1001","cents":1990}')])
        self.assertEqual(self.sql("SELECT number FROM orders", database=shop), [("A-1001",)])
        self.sql(*self.page("old_tasks.sql"))

    def test_the_database_of_the_sink_is_not_made(self):
        sink = f"{self.name}_sink"
        self.addCleanup(self.drop, sink)
        sets = {"sink.database": sink}
        self.migrate("up", "--only", "outbox", sets=sets)
        for action in ("status", "verify", "plan", "up"):
            self.assertNotIn(sink, self.migrate(action, sets=sets))
        self.assertFalse(self.sql(f"SHOW DATABASES LIKE '{sink}'", database=None))
        self.assertIn(f"-- database {sink} at",
                      self.migrate("plan", "--with", "votes", sets=sets))
        self.migrate("up", "--with", "votes", sets=sets)
        self.assertIn("vote_document", self.tables(sink))
        self.migrate("verify", sets=sets)

    def test_votes_are_added_in_another_database_than_they_were_left_out_of(self):
        sink = f"{self.name}_sink"
        self.addCleanup(self.drop, sink)
        self.migrate("up", "--only", "outbox")
        with self.ini.open("a") as ini:
            ini.write(f"[sink]\ndatabase = {sink}\n")
        self.migrate("up", "--with", "votes")
        self.migrate("verify")
        self.assertIn("up to date", self.migrate("status"))
        self.assertNotIn("only", self.tallybox("status", expect=suite.UNAVAILABLE))
        self.assertRegex(self.tallybox("verify", "--wait", "1"), "ok: [1-9][0-9]+ checks")
        self.role("rollup").wait_ready()

    def test_retry_starts_while_votes_are_added(self):
        self.sql("DROP TABLE remark")
        self.migrate("up", "--only", "outbox")
        self.migrate("up", "--with", "votes", "--to", 2)
        self.assertIn("this program needs", self.migrate("status", expect=suite.FAILED))
        self.role("retry").wait_ready()
        rollup = self.role("rollup")
        suite.wait_for("the reason of rollup", lambda: "this program needs" in rollup.log_text())
        self.migrate("up")
        self.migrate("verify")
        rollup.wait_ready()


class TakenNames(SchemaCase):
    """[sink] names another database, in which a shop has a table remark."""

    def setUp(self):
        super().setUp()
        self.sink = f"{self.name}_sink"
        self.addCleanup(self.drop, self.sink)
        self.sql(f"CREATE DATABASE {self.sink}", database=None)
        self.sql("CREATE TABLE remark (mine INT)", database=self.sink)
        with self.ini.open("a") as ini:
            ini.write(f"[sink]\ndatabase = {self.sink}\n")

    def assert_nothing_was_made(self):
        self.assertFalse(self.sql(f"SHOW DATABASES LIKE '{self.name}'", database=None))
        self.assertEqual(self.tables(self.sink), {"remark"})

    def test_a_name_that_is_taken_in_one_stops_up_before_the_other_is_changed(self):
        text = self.migrate("up", expect=suite.FAILED)
        self.assertRegex(text, f"database {self.sink} at .* already has tables that tallybox makes: "
                               r"remark; nothing was changed: rename them, leave the votes out "
                               r"\(`tallybox migrate up --only outbox`\)")
        self.assert_nothing_was_made()
        report = self.migrate_json("up", expect=suite.FAILED)
        self.assertEqual([(one["database"], one["ok"]) for one in report], [(self.sink, False)])
        self.assert_nothing_was_made()
        # The remedy that the message names works.
        self.migrate("up", "--only", "outbox")
        self.migrate("verify")
        self.assertEqual(self.tables(self.sink), {"remark"})

    def test_a_role_that_migrates_checks_both_first(self):
        role = suite.Role(self, "rollup", {}, ["--migrate"]).start()
        self.addCleanup(role.kill)
        self.assertEqual(role.wait_end(), suite.FAILED)
        self.assertIn(f"database {self.sink} at", role.log_text())
        self.assertIn("remark; nothing was changed", role.log_text())
        self.assert_nothing_was_made()
        self.sql("RENAME TABLE remark TO shop_remark", database=self.sink)
        role = suite.Role(self, "rollup", {}, ["--migrate"]).start()
        self.addCleanup(role.end)
        role.wait_ready()
        self.migrate("verify")

    def test_votes_that_are_there_cannot_be_left_out(self):
        self.migrate("up", sets={"sink.database": self.name})
        text = self.migrate("up", expect=suite.FAILED)
        self.assertRegex(text, "remark; nothing was changed: rename them, or give tallybox another "
                               "database")
        self.assertNotIn("--only outbox", text)


class Killed(SchemaCase):
    """Whatever is killed, and whenever: up again completes it."""

    def assert_completes(self):
        self.migrate("up")
        self.assertEqual([row[1] for row in self.history()], ["applied"] * COUNT)
        self.migrate("verify")

    def test_runs_killed_anywhere_are_completed(self):
        rng = random.Random(20260101)
        began = time.monotonic()
        self.migrate("up")
        whole = time.monotonic() - began
        killed = rounds = 0
        while rounds < 4 or killed < 4:
            rounds += 1
            self.assertLess(rounds, 40)
            self.drop()
            for _ in range(3):
                process = self.start("up")
                time.sleep(rng.uniform(0.1, 1) * whole)
                process.kill()
                process.communicate()
                killed += process.returncode == -9
                self.assertIn(process.returncode, (0, -9))
                # The first run may have been slow because the machine had other work.
                whole *= 1 if process.returncode else 0.6
            self.assert_completes()

    def test_a_crash_of_the_server_is_got_over(self):
        rng = random.Random(20260102)
        for _ in range(2):
            suite.wait_for("the server", lambda: self.drop() or True)
            self.migrate("up", "--to", 1)
            process = self.start("up")
            time.sleep(rng.uniform(0.02, 0.1))
            suite.database().kill()
            text = process.communicate()[0]
            self.assertIn(process.returncode, (suite.DONE, suite.UNAVAILABLE), text)
            suite.database().restart()
            self.assert_completes()

    def test_ten_racing_starters_all_end_well(self):
        processes = [self.start("up") for _ in range(10)]
        texts = [process.communicate(timeout=60)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * 10, texts)
        applied = re.findall(r"(\d+_\w+): applied", "".join(texts))
        self.assertEqual(sorted(applied), MIGRATIONS)
        self.migrate("verify")

    def test_a_runner_waits_for_its_turn_as_long_as_it_is_told(self):
        self.sql(f"CREATE DATABASE {self.name}", database=None)
        holder = suite.connect(self.name)
        with holder.cursor() as cursor:
            cursor.execute(f"SELECT GET_LOCK({LOCK}, 0)")
            self.assertEqual(cursor.fetchone(), (1,))
        text = self.migrate("up", "--wait", 1, expect=suite.UNAVAILABLE)
        self.assertIn("another process has been migrating", text)
        self.assertEqual(self.tables(), set())
        waiting = self.start("up")
        time.sleep(0.3)
        holder.close()
        text = waiting.communicate(timeout=30)[0]
        self.assertEqual(waiting.returncode, 0, text)


class Rights(SchemaCase):
    """With as few rights as docs/grants.md names, and with fewer."""

    def account(self, *rights):
        user = f"{self.name}_account"
        self.sql(f"DROP USER IF EXISTS {user}@'%'", f"CREATE USER {user}@'%' IDENTIFIED BY 'x'",
                 *[f"GRANT {one} TO {user}@'%'" for one in rights], database=None)
        self.addCleanup(self.sql, f"DROP USER IF EXISTS {user}@'%'", database=None)
        path = self.folder / "password"
        path.write_text("x\n")
        return {"mysql.user": user, "mysql.password_file": path}

    def test_an_account_that_may_not_make_the_database_says_what_to_run(self):
        sets = self.account()
        text = self.migrate("up", sets=sets, expect=suite.FAILED)
        self.assertIn(f"CREATE DATABASE `{self.name}` CHARACTER SET utf8mb4", text)
        self.assertIn("GRANT", text)

    def test_the_rights_of_the_readme_are_enough(self):
        self.sql(f"CREATE DATABASE {self.name}", database=None)
        sets = self.account(f"SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON "
                            f"{self.name}.*")
        self.migrate("up", sets=sets)
        self.migrate("verify", sets=sets)
        sets = self.account(f"SELECT ON {self.name}.*")
        self.migrate("status", sets=sets)
        self.migrate("verify", sets=sets)

    def test_a_missing_right_stops_and_is_made_good(self):
        self.sql(f"CREATE DATABASE {self.name}", database=None)
        rights = "SELECT, INSERT, UPDATE, DELETE"
        sets = self.account(f"{rights} ON {self.name}.*")
        self.assertIn("denied", self.migrate("up", sets=sets, expect=suite.FAILED))
        self.migrate("up", "--to", 1)
        text = self.migrate("up", sets=sets, expect=suite.FAILED)
        self.assertRegex(text, "migration 0002_sink, statement 1 of 8: .*denied")
        self.assertEqual(self.history()[1], (2, "running", 0, 8))
        self.migrate("up")
        self.migrate("verify")


class Gate(SchemaCase):
    """What a daemon says while the schema is not the one it needs."""

    def daemon(self, *arguments):
        role = suite.Role(self, "rollup", {}, arguments).start()
        self.addCleanup(role.end)
        return role

    def wait_reason(self, role, *words):
        def look():
            if not role.alive():
                raise AssertionError(f"ended with {role.process.returncode}: {role.log_text()}")
            try:
                answer = role.admin("/readyz")
            except OSError:
                return False
            text = answer.body.decode()
            return answer.status == 503 and all(word in text for word in words)
        suite.wait_for(f"not ready because {words}", look)
        self.assertEqual(role.admin("/healthz").status, 200)

    def place(self):
        return f"database {self.name} at {suite.database().host}:{suite.database().port}"

    def test_an_older_schema_is_named_and_waited_for(self):
        role = self.daemon()
        self.wait_reason(role, f"{self.place()} does not exist", "tallybox migrate up")
        self.migrate("up", "--to", 1)
        self.wait_reason(role, f"{self.place()} has schema version 1, this program needs {NEWEST}: run "
                               "`tallybox migrate up` or start with --migrate")
        self.migrate("up")
        role.wait_ready()

    def test_a_newer_schema_is_named(self):
        self.migrate("up")
        self.sql(f"INSERT INTO schema_history SELECT {NEWEST + 1}, 'later', side, sha256, state, "
                 "statement, statements, baseline, program, started_at, updated_at, finished_at "
                 "FROM schema_history WHERE version = 2")
        role = self.daemon("--migrate")
        self.wait_reason(role, f"{self.place()} has schema version {NEWEST + 1}, this program knows "
                               f"{NEWEST} at most: use a newer tallybox")
        self.sql(f"DELETE FROM schema_history WHERE version = {NEWEST + 1}")
        role.wait_ready()

    def test_a_daemon_that_is_told_to_migrates_first(self):
        roles = [self.daemon("--migrate") for _ in range(3)]
        for role in roles:
            role.wait_ready()
        self.migrate("verify")
        self.assertEqual(sum("event=migration_applied" in role.log_text() for role in roles), 1)


if __name__ == "__main__":
    unittest.main()
