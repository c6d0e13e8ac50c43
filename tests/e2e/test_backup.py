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
import page_files  # noqa: E402
from test_failover import operator_sql  # noqa: E402

PAGE = suite.ROOT / "docs/backup.md"
STOPPED = ("consume", "rollup", "housekeep", "retry")


def blocks():
    """{name: commands} of the page; a block inside a list is indented."""
    text = re.sub(r"^ {3}", "", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return {name: content for language, name, content in page_files.blocks(text)
            if language == "sh"}


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
        text = text.replace("tallybox doctor", "doctor doctor")
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
        for table in sink_tables() - {"schema_history"}:
            self.stack.sql(f"DROP TABLE {table}", name=old)
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
        role = self.start("run")
        self.vote(range(1, 11))
        self.wait_logged(30)
        self.play("backup.sh", self.log)
        self.vote(range(11, 21))
        self.wait_logged(60)
        # Against the page, without a stop: a consumer notices it with the next records.
        self.play("restore.sh", self.log)
        self.vote(range(21, 31))
        suite.wait_for("the consumer to notice", lambda: "event=progress_went_back" in
                       role.log_text())
        self.wait_logged(90)
        role.end()
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


if __name__ == "__main__":
    unittest.main()
