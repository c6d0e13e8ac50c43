# SPDX-License-Identifier: MIT
"""The outbox in the database of the application, from nothing else than its pages: docs/outbox.md, with
the program that it installs, and docs/debezium.md, from a connector's table to the first records of
the relay."""

import json
import os
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import page_files  # noqa: E402
import installation  # noqa: E402
import wire  # noqa: E402
from connect import SOURCES  # noqa: E402
from installation import block, commands, inline, page, section  # noqa: E402

TOPIC = "outbox.event.order"


class ShopCase(installation.Installation):
    """The outbox is in the database `shop`."""

    def setUp(self):
        super().setUp()
        self.sql("CREATE DATABASE shop")
        self.order = f"{type(self).__name__}-{os.getpid()}-{self.server.port}"

    def make_settings(self):
        super().make_settings()
        here = re.search(r"application's database write its name, `(database = \w+)`",
                         page("docs/outbox.md"))[1]
        text = self.ini.read_text()
        self.assertIn("\ndatabase = tallybox\n", text)
        self.ini.write_text(text.replace("database = tallybox", here))

    def shop(self, statements, **login):
        return self.sql(statements, database="shop", **login)

    def tables(self):
        return {name for name, in self.shop("SHOW TABLES")}


class ApplicationsDatabase(ShopCase):
    """docs/outbox.md, the second of its two places for the table."""

    seconds = 20

    def install(self):
        """The program of this run takes the place of the one that is built."""
        build, copy = page_files.files(page("docs/outbox.md"))["install.sh"].splitlines()
        self.assertEqual(build, inline("README.md", "./dev build release"))
        copy = copy.replace("sudo ", "").replace("build/release/tallybox", f'"{suite.BINARY}"')
        self.assertIn(" /usr/local/bin/tallybox", copy)
        (self.work / "tallybox").unlink()
        self.shell(copy.replace("/usr/local/bin", str(self.work)))

    def test_from_the_program_to_the_first_event(self):
        files = page_files.files(page("docs/outbox.md"))
        self.shop(files["shop.sql"])
        self.shop("CREATE TABLE remark (mine INT)")
        self.install()
        self.make_outbox()
        self.assertLessEqual({"orders", "remark", "outbox", "retry_task"}, self.tables())
        self.assertFalse({"vote_state", "vote_document"} & self.tables())
        self.assertFalse(self.sql("SHOW DATABASES LIKE 'tallybox'"))

        self.sql(files["shop_rights.sql"])
        self.shop(files["order_in_shop.sql"].replace("A-1001", self.order), **self.shop_login)
        self.wait_record(TOPIC, "7", f'{{"number":"{self.order}","cents":1990}}'.encode())
        self.assertEqual(self.shop("SELECT number FROM orders"), [(self.order,)])
        check = next(line for line in commands(page("OPERATIONS.md")) if "status --check" in line)
        self.assertTrue(self.shell(check).stdout.startswith("ok"))
        self.sql(files["old_tasks.sql"].replace("tallybox.", "shop."))
        self.assertEqual(self.shop("SHOW COLUMNS FROM remark")[0][0], "mine")

    def test_an_account_that_the_application_has_gets_the_rights_of_the_page(self):
        files = page_files.files(page("docs/outbox.md"))
        self.shop(files["shop.sql"])
        self.make_outbox()
        self.sql("DROP USER 'shop'@'%'")
        self.sql("CREATE USER 'shop'@'%' IDENTIFIED BY 'x'")
        self.sql(files["shop_rights.sql"])
        command = inline("docs/outbox.md",
                         "tallybox migrate grants --role application_insert --account shop@localhost")
        self.assertEqual(self.shell(command.replace("@localhost", "@%")).stdout, "")
        login = {"user": "shop", "password": "x"}
        self.shop(files["order_in_shop.sql"].replace("A-1001", self.order), **login)
        self.wait_record(TOPIC, "7", self.order.encode())
        # Also for webhooks.
        self.shop("INSERT INTO retry_task (scene, handler) VALUES ('a', 'http')", **login)

    def test_an_account_is_repaired_by_the_same_command(self):
        """As the page says under "Again"."""
        self.make_outbox()
        command = next(line for line in section("docs/outbox.md", "## 2.").splitlines()
                       if "--role status " in line)
        status = "tallybox status --config tallybox.ini"
        before = self.ini.read_text()
        self.sql("ALTER USER 'tallybox_status'@'%' IDENTIFIED BY 'lost'")
        self.assertEqual(self.run_command(status).returncode, suite.FAILED)
        self.assertEqual(self.shell(command).stdout, "")
        self.assertEqual(self.ini.read_text(), before)
        self.shell(status)
        # Another installation of this server, whose settings file has no such section.
        self.ini.write_text(re.sub(r"\[role\.status\]\n.*\n.*\n", "", before))
        self.assertNotEqual(self.run_command(command).returncode, 0)
        self.ini.write_text(before)
        self.shell(status)


class FromDebezium(ShopCase):
    """docs/debezium.md: the connector has been stopped with a row that it did not read."""

    seconds = 20

    def block(self, language, name):
        return block(page("docs/debezium.md"), language, name)

    def write(self, number):
        """The writer's own statement, the same before and after, under its own account."""
        self.shop("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
                  f"('{number}-{self.order}', 'order', '{self.order}', 'OrderPlaced', "
                  f"'{{\"number\": {number}}}')", user="writer", password="x")

    def refuse(self):
        """What the page says of a stock table, before anything was done."""
        done = self.run_command(self.block("sh", "change_over.sh").strip())
        words = "not a tallybox outbox table: outbox has no column seq"
        self.assertEqual(done.returncode, suite.FAILED, done.stdout + done.stderr)
        self.assertIn(f"`{words}`", page("docs/debezium.md"))
        self.assertIn(words, done.stderr)
        self.assertEqual(self.tables(), {"outbox"})

    def test_the_change_over(self):
        self.shop(self.block("sql", "stock.sql"))
        self.sql("CREATE USER 'writer'@'%' IDENTIFIED BY 'x'")
        self.sql("GRANT INSERT ON shop.outbox TO 'writer'@'%'")
        self.make_settings()
        self.write(1)
        self.play("migrate_account.sh")
        self.refuse()

        self.shop(self.block("sql", "change_over.sql"))
        self.play("change_over.sh")
        self.shop(self.block("sql", "copy.sql"))
        self.play("accounts.sh")
        self.write(2)
        for command in self.block("sh", "start.sh").splitlines():
            self.start(command)
        suite.wait_for("both records", lambda: len(self.records()) == 2)
        self.assertEqual([(one.headers["id"], one.headers["ce_type"], one.value)
                          for one in self.records()],
                         [(f"{number}-{self.order}", "OrderPlaced", f'{{"number": {number}}}'.encode())
                          for number in (1, 2)])
        status, = self.block("sh", "status.sh").splitlines()
        suite.wait_for("an empty outbox", lambda: re.search(
            r"(?s)^ok\n.*\n  outbox +0 ", self.shell(status).stdout))
        self.shop(self.block("sql", "drop.sql"))
        self.assertNotIn("outbox_old", self.tables())

    def play(self, name):
        self.shell_blocks(f"```sh\n{self.block('sh', name)}```\n")

    def records(self):
        return [one for one in wire.read_topic(suite.kafka().bootstrap, TOPIC)
                if one.key == self.order.encode()]


class LaneOnTheStockTable(ShopCase):
    """docs/debezium.md, the change over with one command: with the accounts of the page and no other.
    In place of the connector there are its JSON and its offset."""

    seconds = 20

    def setUp(self):
        super().setUp()
        self.page = page("docs/debezium.md")
        self.shop(block(self.page, "sql", "stock.sql").replace("TABLE outbox ", "TABLE outboxevent "))
        self.make_settings()
        self.write_json("connector", {"name": "shop", "config": {
            "connector.class": SOURCES[suite.DATABASE], "topic.prefix": "shop",
            "database.hostname": "127.0.0.1", "database.port": str(self.server.port),
            "database.include.list": "shop", "table.include.list": "shop.outboxevent",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "transforms": "outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"}})

    def write_json(self, name, value):
        (self.work / f"{name}.json").write_text(json.dumps(value))

    def command(self, end):
        """A command of the page, with files in place of the URL of the connector."""
        found = re.search(rf"^ *(tallybox adopt .*--connector) \S+{end}$", self.page, re.M)
        return f"{found[1]} connector.json --offsets offsets.json{end}"

    def write_offset(self):
        """The connector has read what is there now."""
        variable = {"mariadb": "gtid_binlog_pos", "mysql": "gtid_executed"}[suite.DATABASE]
        gtids = self.sql(f"SELECT @@GLOBAL.{variable}")[0][0].replace("\n", "")
        self.write_json("offsets", {"offsets": [
            {"partition": {"server": "shop"}, "offset": {"gtids": gtids, "file": "b.1", "pos": 4}}]})

    def write(self, number):
        self.shop("INSERT INTO outboxevent VALUES "
                  f"('{number}-{self.order}', 'order', '{self.order}', 'OrderPlaced', '{number}')")

    def values(self):
        return [record.value for record in wire.read_topic(suite.kafka().bootstrap, TOPIC)
                if record.key == self.order.encode()]

    def play(self, name):
        self.shell_blocks(f"```sh\n{block(self.page, 'sh', name)}```\n")

    def test_the_accounts_of_the_page_are_enough(self):
        self.write_offset()
        found = self.shell(self.command("")).stdout
        printed = re.split(r"(?m)^(?:differs|note|equal)", found)[0]
        self.ini.write_text(re.sub(r"\[mysql\]\n(.+\n)+", "", self.ini.read_text()) + printed)
        self.play("lane_accounts.sh")
        self.write(1)
        self.write_offset()
        self.write(2)
        begin = self.command(" --begin") + " --accept-differences"
        self.sql("REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM 'tallybox_relay'@'%'")
        self.assertIn("REPLICATION SLAVE", self.run_command(begin).stderr)
        self.sql("GRANT REPLICATION SLAVE ON *.* TO 'tallybox_relay'@'%'")
        # The offset has GTIDs.
        self.shell(begin)
        self.sql("GRANT REPLICATION CLIENT ON *.* TO 'tallybox_relay'@'%'")
        relay = "tallybox relay --config tallybox.ini"
        self.start(relay)
        suite.wait_for("the row behind the offset", lambda: self.values() == [b"2"])
        self.stop("relay")

        self.write(3)
        lanes = inline("docs/debezium.md", "tallybox lanes begin outboxevent --replace-position")
        self.play("lanes_account.sh")
        self.shell(lanes)
        self.write(4)
        self.start(relay)
        suite.wait_for("the row behind the end", lambda: self.values() == [b"2", b"4"])


if __name__ == "__main__":
    unittest.main()
