# SPDX-License-Identifier: MIT
"""docs/upgrade.md, played with its own commands. No older version exists, so the installation of the
version before is one whose newest migration was taken back: its tables, its record and the
privileges on them. The old program's roles are those that have started before that."""

import os
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import installation  # noqa: E402
from installation import block, page, role_command  # noqa: E402

PAGE = "docs/upgrade.md"
VOTE_ROLES = ("consume", "rollup", "housekeep")


class UpgradeCase(installation.Installation):
    """The version before, and the steps of the page."""

    def take_back(self, name):
        """Undoes a migration of which no running role needs the tables."""
        text = (suite.ROOT / f"schema/migrate/{name}.sql").read_text(encoding="utf-8")
        for table in re.findall(r"^CREATE TABLE (\w+)", text, re.M):
            self.revoke(table)
            self.sql(f"DROP TABLE tallybox.{table}")
        self.sql(f"DELETE FROM tallybox.schema_history WHERE name = '{name}'")

    def revoke(self, table):
        """All privileges on a table; a dropped table would leave them behind."""
        granted = self.sql(
            "SELECT DISTINCT grantee FROM (SELECT grantee, table_schema, table_name FROM "
            "information_schema.table_privileges UNION SELECT grantee, table_schema, table_name FROM "
            f"information_schema.column_privileges) p WHERE table_schema = 'tallybox' AND "
            f"table_name = '{table}'")
        self.assertTrue(granted, table)
        for grantee, in granted:
            self.sql(f"REVOKE ALL PRIVILEGES ON tallybox.{table} FROM {grantee}")

    def block(self, name):
        return block(page(PAGE), "sh", name).strip()

    def look(self, name):
        """Step 2: what is wrong is the schema alone, and the plan has the migration alone."""
        doctor, plan = self.block("look.sh").splitlines()
        done = self.run_command(doctor)
        self.assertEqual(done.returncode, suite.FAILED, done.stdout + done.stderr)
        failed = re.findall(r"^FAILED +(\w+) .*", done.stdout, re.M)
        self.assertEqual(failed, ["schema"], done.stdout)
        self.assertIn("run `tallybox migrate up`", " ".join(done.stdout.split()))
        titles = re.findall(r"^-- (\w+), statement \d+$", self.shell(plan).stdout, re.M)
        self.assertEqual(set(titles), {name})

    def lacks(self, role):
        """Whether doctor misses privileges of a role."""
        done = self.run_command(f"tallybox doctor --role {role} --config tallybox.ini")
        return f"the account lacks privileges of {role}" in " ".join(done.stdout.split())

    def ready(self, role):
        """Whether the newest process of a role answers /readyz with 200."""
        self.assertIsNone(self.running[role].poll(), self.logs())
        port = int(re.findall(r"event=admin_listening url=http://[^ ]*?:(\d+)/", self.log(role))[-1])
        try:
            return suite.http_call(port, "GET", "/readyz").status == 200
        except OSError:
            return False

    def wait_ready(self, role):
        suite.wait_for(f"{role} to be ready\n", lambda: self.ready(role))

    def check_status(self):
        status = self.block("check.sh").splitlines()[0]
        suite.wait_for("status to be ok", lambda: self.run_command(status).stdout.startswith("ok"))
        self.shell(status)


class UpgradeOutbox(UpgradeCase):
    """An installation with the outbox only, as docs/outbox.md makes it."""

    seconds = 30

    def test_the_steps(self):
        self.make_outbox()
        for role in ("relay", "retry"):
            self.wait_ready(role)
            self.stop(role)
        self.take_back("0006_retry")
        tables = self.sql("SHOW TABLES FROM tallybox")
        # One that is started too early waits.
        self.start(role_command("retry"))
        suite.wait_for("the reason of retry", lambda: "run `tallybox migrate up`" in
                       self.log("retry"))
        self.assertFalse(self.ready("retry"))

        self.look("0006_retry")
        self.assertEqual(self.sql("SHOW TABLES FROM tallybox"), tables)
        self.shell(self.block("migrate.sh"))
        made = {name for name, in self.sql("SHOW TABLES FROM tallybox")}
        self.assertIn("retry_task", made)
        self.assertFalse({"vote_state", "vote_count", "vote_document", "remark"} & made)
        self.assertTrue(self.lacks("retry"))
        self.shell(self.block("grants_outbox.sh"))
        self.assertFalse(self.lacks("retry"))
        self.wait_ready("retry")
        self.start(role_command("relay"))
        key = f"upgrade-{os.getpid()}-{self.server.port}"
        self.sql("INSERT INTO tallybox.outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
                 f"(UUID(), 'order', '{key}', 'OrderPlaced', '{{}}')")
        self.wait_record("outbox.event.order", key)
        self.check_status()


class UpgradeVotes(UpgradeCase):
    """An installation with all roles, which run meanwhile."""

    seconds = 60

    def make_votes_installation(self):
        """All roles, each under its account."""
        topic = f"votes-upgrade-{os.getpid()}-{self.server.port}"
        self.make_settings()
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(f"\n[relay]\ntopics = vote={topic}\n\n[consumer]\ntopics = {topic}\n")
        self.account("migrate")
        self.shell("tallybox migrate up --config tallybox.ini")
        for role in re.search(r"for role in (.*?);", self.block("grants.sh"))[1].split():
            self.account(role)

    def order(self):
        """The roles in the order in which the page replaces them."""
        text = re.search(r"Replace the roles one after the other: (.*?)\.", page(PAGE))[1]
        roles = re.findall(r"`(\w+)`", text)
        self.assertEqual(set(roles), {"relay", "retry", "serve", *VOTE_ROLES})
        return roles

    def vote(self, voter):
        answer = suite.http_call(self.api_port, "POST", "/v1/votes",
                                 f'{{"voterId":{voter},"contentId":2,"voting":1}}',
                                 {"Content-Type": "application/json"})
        self.assertEqual((answer.status, b'"changed":true' in answer.body), (200, True), answer)

    def test_the_steps(self):
        self.make_votes_installation()
        roles = self.order()
        for role in roles:
            self.start(role_command(role))
        for role in roles:
            self.wait_ready(role)
        # Nothing reads this table unless consumer.votes_from is anyone.
        self.take_back("0005_vote_last")
        self.vote(1)

        self.look("0005_vote_last")
        self.shell(self.block("migrate.sh"))
        self.assertTrue(self.lacks("consume"))
        self.shell(self.block("grants.sh"))
        self.assertFalse(self.lacks("consume"))
        for voter, role in enumerate(roles, 2):
            self.vote(voter)
            self.restart(role_command(role))
            self.wait_ready(role)
        self.vote(100)
        self.check_status()
        for command in self.block("check.sh").splitlines():
            self.shell(command)
        self.assertEqual(self.sql("SELECT COUNT(*) FROM tallybox.vote_document"),
                         [(len(roles) + 2,)])


if __name__ == "__main__":
    unittest.main()
