# SPDX-License-Identifier: MIT
"""docs/backup.md, played with its own commands: the log is restored from an older dump, or moves to
another database, and no vote is lost or counted twice."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import installation  # noqa: E402
import page_files  # noqa: E402
from test_failover import operator_sql  # noqa: E402

PAGE = suite.ROOT / "docs/backup.md"
STOPPED = ("consume", "rollup", "housekeep", "retry")


def blocks(wanted="sh"):
    """{name: content} of the page; a block inside a list is indented."""
    text = re.sub(r"^ {3}", "", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return {name: content for language, name, content in page_files.blocks(text)
            if language == wanted}


def sink_tables():
    """What the migrations of the readers' side create, and what every database has."""
    texts = [path.read_text() for path in (suite.ROOT / "schema/migrate").glob("0*.sql")]
    return {"schema_history"} | {table for text in texts if "-- side: sink\n" in text
                                 for table in re.findall(r"^CREATE TABLE (\w+)", text, re.M)}


class BackupCase(suite.Case):
    """The roles as processes of their own, and the clients of the page on PATH."""

    def setUp(self):
        self.work = self.stack.folder / "work"
        self.work.mkdir(exist_ok=True)
        server = suite.database()
        for name in ("mariadb", "mariadb-dump"):
            self.program(name, f'"{shutil.which(name)}" --no-defaults --host={server.host} '
                               f'--port={server.port} --user=root "$@"')
        for name, role in (("tallybox", "migrate"), ("doctor", "run")):
            account = self.stack.accounts.sets((role,), {})
            self.program(name, " ".join([f'"{suite.BINARY}" "$@"', *(
                f'"--set={key}={value}"' for key, value in account.items())]))
        (self.work / "tallybox.ini").unlink(missing_ok=True)
        (self.work / "tallybox.ini").symlink_to(self.stack.ini)
        self.log = self.stack.name
        self.moved = f"{self.stack.name}_moved"
        self.addCleanup(self.stack.sql, f"DROP DATABASE IF EXISTS `{self.moved}`", database=None)

    def program(self, name, command):
        path = self.work / name
        path.write_text(f"#!/bin/sh\nexec {command}\n")
        path.chmod(0o700)

    def play(self, name, database):
        """A block of the page for this database."""
        text = re.sub(r"^(mariadb.*?)\btallybox\b(?!\.)", rf"\1{database}", blocks()[name],
                      flags=re.M).replace("votes", self.moved)
        text = text.replace("tallybox doctor --role consume", "doctor doctor --role run")
        text = text.replace("--host=db2 ", "")
        done = subprocess.run(["bash", "-ec", text], cwd=self.work, capture_output=True, text=True,
                              timeout=120, check=False, env=suite.clean_environment(
                                  PATH=f"{self.work}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}{done.stderr}")
        return done.stdout

    def vote(self, voters):
        lines = "".join(f"{voter},{content}\n" for voter in voters for content in (1, 2, 3))
        self.stack.tallybox("vote", "--csv", "-", stdin=("voter_id,content_id\n" + lines).encode())

    def count(self):
        return self.stack.sql("SELECT COUNT(*) FROM vote_document", name=self.log)[0][0]

    def wait_logged(self, count):
        suite.wait_for(f"{count} votes in {self.log}", lambda: self.count() >= count)
        self.assertEqual(self.count(), count)

    def start_all(self, names):
        return [self.start(name) for name in names]

    def verify(self):
        report = json.loads(self.stack.tallybox("verify", "--json", "--wait", "60").stdout)
        self.assertTrue(report["ok"], report)

    def move(self):
        """Votes are accepted meanwhile, and wait in Kafka or in the outbox."""
        self.play("backup_log.sh", self.log)
        self.play("move_log.sh", self.log)
        self.stack.write_ini(sink__database=self.moved)
        self.log = self.moved
        self.stack.accounts.grant()
        self.play("check_log.sh", self.log)


class SharedBackup(BackupCase):
    """The writers' tables and the log in one database, as they are by default."""

    seconds = 60

    def test_the_page_names_the_tables_of_the_log(self):
        words = blocks()["backup_log.sh"].replace("\\\n", " ").split(" > ")[0].split()
        self.assertEqual(set(words[words.index("tallybox") + 1:]), sink_tables())

    def test_the_log_is_restored_beside_the_writers_then_with_them_and_moves(self):
        writers = self.start_all(["serve", "relay"])
        readers = self.start_all(STOPPED)
        self.vote(range(1, 11))
        self.wait_logged(30)
        self.play("backup.sh", self.log)
        self.play("backup_log.sh", self.log)
        self.vote(range(11, 21))
        self.wait_logged(60)

        # The log alone, while votes are accepted and published.
        for role in readers:
            role.end()
        self.vote(range(21, 26))
        self.play("restore_log.sh", self.log)
        self.assertEqual(self.count(), 30)
        readers = self.start_all(STOPPED)
        self.wait_logged(75)
        self.verify()
        # A consumer that has just started does not know of an earlier place.
        self.assertNotIn("event=progress_went_back", readers[0].log_text())
        for role in writers:
            self.assertTrue(role.ready())

        # Both: the writers have lost votes that the log gets back from Kafka.
        for role in writers + readers:
            role.end()
        self.play("restore.sh", self.log)
        self.assertEqual(self.count(), 30)
        others = self.start_all(["relay", *STOPPED])
        self.wait_logged(75)
        self.stack.wait_drained()
        self.stack.tallybox("verify", expect=suite.FAILED)
        for statement in operator_sql():
            self.stack.sql(statement)
        self.verify()
        self.vote(range(26, 31))
        self.wait_logged(90)
        self.verify()

        # The move to a database of its own.
        for role in others[1:]:
            role.end()
        self.vote(range(31, 36))
        old = self.log
        self.move()
        self.start_all(STOPPED)
        self.wait_logged(105)
        self.verify()
        self.play("drop_old_log.sh", old)
        self.assertFalse({table for table, in self.stack.sql("SHOW TABLES", name=old)}
                         & (sink_tables() - {"schema_history"}))
        self.play("check_log.sh", self.log)
        self.vote(range(36, 41))
        self.wait_logged(120)
        self.verify()


class Backup(BackupCase):
    """The log in a database of its own."""

    seconds = 40

    def setUp(self):
        super().setUp()
        self.log = f"{self.stack.name}_log"
        self.addCleanup(self.stack.sql, f"DROP DATABASE IF EXISTS `{self.log}`", database=None)
        self.stack.write_ini(sink__database=self.log)
        self.stack.tallybox("migrate", "up")
        self.stack.accounts.grant()

    def test_the_log_is_restored_from_an_older_dump_and_moves_to_another_database(self):
        relay, consumer = self.start_all(["relay", "consume"])
        self.vote(range(1, 11))
        self.wait_logged(30)
        self.play("backup.sh", self.log)
        self.vote(range(11, 21))
        self.wait_logged(60)
        # Against the page, without a stop: a consumer notices it with the next records. (A role that
        # looks at a table while the dump replaces it ends.)
        self.play("restore.sh", self.log)
        self.vote(range(21, 31))
        suite.wait_for("the consumer to notice", lambda: "event=progress_went_back" in
                       consumer.log_text())
        self.wait_logged(90)
        relay.end()
        consumer.end()
        self.play("restore.sh", self.log)
        self.assertEqual(self.count(), 30)
        role = self.start("run")
        self.wait_logged(90)
        self.verify()

        role.end()
        self.vote(range(31, 36))
        self.move()
        self.start("run")
        self.wait_logged(105)
        self.verify()


class OtherServer(installation.Installation):
    """The log moves to another server, with the accounts of the pages."""

    seconds = 60

    def setUp(self):
        super().setUp()
        self.other = suite.Server(suite.DATABASE, self.work / "other")
        self.addCleanup(self.other.kill)
        self.other.start()
        # The client finds the server by the name that the page gives it.
        (self.work / "mariadb").rename(self.work / "mariadb-here")
        self.program("mariadb", 'case $1 in --host=db2)\n    shift\n    set -- '
                     f'--port={self.other.port} "$@"\n    ;;\nesac\nexec mariadb-here "$@"')
        self.program("mariadb-dump", f'exec "{shutil.which("mariadb-dump")}" --no-defaults '
                                     f'--host=127.0.0.1 --port={self.server.port} --user=root "$@"')

    def play(self, name):
        return self.shell(blocks()[name])

    def point_sink(self):
        settings = blocks("ini")["sink.ini"]
        self.assertIn("host = db2\n", settings)
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write("\n" + settings.replace("host = db2\n", f"host = 127.0.0.1\n"
                                              f"port = {self.other.port}\n"))

    def note_passwords(self, printed):
        """New ones are those of the other server."""
        found = re.findall(r"\[role\.(\w+)\].*\nmysql\.user = \S+\nmysql\.password = (\S+)", printed)
        text = self.ini.read_text()
        for role, password in found:
            heading = f"[role.{role}]\n"
            self.assertEqual(text.count(heading), 1, role)
            text = text.replace(heading, f"{heading}sink.password = {password}\n")
        self.ini.write_text(text)

    def vote(self, contents):
        for content in contents:
            answer = suite.http_call(self.api_port, "POST", "/v1/votes", json.dumps(
                {"voterId": 1, "contentId": content, "voting": 1}).encode(),
                {"Content-Type": "application/json"})
            self.assertEqual(answer.status, 200, answer.body)

    def wait_logged(self, count, **login):
        def look():
            return self.sql("SELECT COUNT(*) FROM vote_document", **login)[0][0] >= count
        suite.wait_for(f"{count} votes in the log", look)

    def start_readers(self):
        for role in STOPPED:
            self.start(installation.role_command(role))

    def test_the_log_moves_while_votes_are_accepted(self):
        topic = f"votes-{self.server.port}"
        self.make_outbox()
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(f"[relay]\ntopics = vote={topic}\n[consumer]\ntopics = {topic}\n")
        self.make_votes()
        self.restart(installation.role_command("relay"))
        for role in ("consume", "rollup", "housekeep", "verify"):
            self.account(role)
        self.stop("retry")
        self.start_readers()
        self.vote(range(1, 21))
        self.wait_logged(20, database="tallybox")
        for role in STOPPED:
            self.stop(role)
        self.vote(range(21, 31))

        self.play("backup_log.sh")
        self.play("move_log.sh")
        self.point_sink()
        self.note_passwords(self.play("grant_log.sh").stderr)
        self.play("check_log.sh")
        self.start_readers()
        there = {"port": self.other.port, "database": "votes"}
        self.wait_logged(30, **there)
        self.play("drop_old_log.sh")
        for role in ("serve", "relay"):
            self.restart(installation.role_command(role))
        suite.wait_for("the API to answer", self.answers)
        self.vote(range(31, 41))
        self.wait_logged(40, **there)
        self.assertEqual(self.sql("SELECT COUNT(*) FROM vote_document", **there)[0][0], 40)
        verify = installation.inline("docs/backup.md", "tallybox verify --wait 600")
        self.shell(verify)


if __name__ == "__main__":
    unittest.main()
