# SPDX-License-Identifier: MIT
"""A lane is added by the commands of the pages: to the votes as OPERATIONS.md tells, and to the
events of an application as docs/sizing.md tells. No event is lost, and each lane is used."""

import contextlib
import json
import pathlib
import re
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import installation  # noqa: E402
from binlog_lane import ACCOUNT, LaneCase  # noqa: E402
from installation import block, commands, page, role_command, section  # noqa: E402
import wire  # noqa: E402

VOTES = 40


class AddedLane(installation.Installation):
    """With the accounts of the pages."""

    seconds = 30

    def play(self, text, name):
        return self.shell(block(text, "sh", name)).stdout

    def lanes(self):
        """{table: whether a relay holds its lane and no row waits} of `tallybox status`."""
        status = json.loads(self.shell("tallybox status --json").stdout)
        return {lane["table"]: bool(lane["owner"]) and lane["rows"] == 0
                for lane in status["outbox"]["lanes"]}

    def wait_lanes(self, *tables):
        suite.wait_for(f"empty lanes {tables}", lambda: self.lanes() == dict.fromkeys(tables, True))

    def vote(self, contents):
        for content in contents:
            answer = suite.http_call(self.api_port, "POST", "/v1/votes", json.dumps(
                {"voterId": 1, "contentId": content, "voting": 1}).encode(),
                {"Content-Type": "application/json"})
            self.assertEqual(answer.status, 200, answer.body)

    def read_lanes(self, topic):
        """{key: table of the lane that published it}"""
        return {record.key.decode(): record.headers["lane"]
                for record in wire.read_topic(suite.kafka().bootstrap, topic)}

    def test_votes_get_a_second_lane(self):
        text = section("OPERATIONS.md", "## The number of lanes")
        topic = f"votes-{self.server.port}"
        self.make_outbox()
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(f"[relay]\ntopics = vote={topic}\n")
        self.make_votes()
        self.account("lanes")
        self.restart(role_command("relay"))
        self.vote(range(1, VOTES))
        self.wait_lanes("outbox")

        self.ini.write_text(self.ini.read_text().replace("[relay]\n", block(text, "ini", "lanes.ini")))
        self.play(text, "add_lane.sh")
        self.restart(role_command("relay"))
        self.vote(range(VOTES, VOTES + 5))
        self.assertRegex(self.play(text, "set_lanes.sh"), r"(?m)^lanes +2$")
        self.assertEqual(suite.http_call(self.api_port, "GET", "/v1/contents/2/votes").status, 200)
        self.ini.write_text(self.ini.read_text().replace(
            "[api]\n", block(text, "ini", "lane_count.ini")))
        self.restart(role_command("serve"))
        suite.wait_for("the API to answer", self.answers)
        self.vote(range(1000, 1000 + VOTES))
        self.wait_lanes("outbox", "outbox_1")
        found = self.read_lanes(topic)
        self.assertEqual(sorted(map(int, found)), [*range(1, VOTES + 5), *range(1000, 1000 + VOTES)])
        self.assertEqual({lane for key, lane in found.items() if int(key) < 1000}, {"outbox"})
        self.assertEqual({lane for key, lane in found.items() if int(key) >= 1000},
                         {"outbox", "outbox_1"})

    def append(self, table, key):
        self.sql(f"INSERT INTO tallybox.{table} (id, aggregatetype, aggregateid, type, payload) "
                 f"VALUES ('{key}', 'order', '{key}', 'OrderPlaced', '{{}}')", **self.shop_login)

    def test_events_of_an_application_get_a_lane_of_their_own(self):
        text = section("docs/sizing.md", "## Adding a lane")
        key = f"L-{self.server.port}"
        self.make_outbox()
        self.append("outbox", f"{key}-1")
        settings = re.search(r" {4}\[relay\]\n(?:(?: {4}.*)?\n)*", section("README.md", "### Lanes"))
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(textwrap.dedent(settings[0]))
        self.play(text, "add_lane.sh")
        self.restart(role_command("relay"))
        self.wait_lanes("outbox", "shop_events")
        self.assertNotIn("outbox/publish", self.play(text, "old_lane.sh"))
        self.append("shop_events", f"{key}-1")
        self.assertEqual(self.wait_record("orders", f"{key}-1").headers["lane"], "shop_events")
        self.assertEqual(self.wait_record("outbox.event.order", f"{key}-1").headers["lane"], "outbox")
        check = next(line for line in commands(page("OPERATIONS.md")) if "status --check" in line)
        self.assertTrue(self.shell(check).stdout.startswith("ok"))


class Connections(suite.Case):
    """What docs/sizing.md tells of idle roles; each has an account of its own."""

    seconds = 20
    roles = ("relay", "retry", "consume", "serve", "rollup", "housekeep")

    def count(self):
        rows = self.stack.sql("SELECT user, COUNT(*) FROM information_schema.processlist "
                              "WHERE user LIKE 'tallybox%' GROUP BY user")
        return {user.removeprefix("tallybox_"): count for user, count in rows}

    def test_an_idle_role_has_as_many_as_the_page_tells(self):
        text = re.search(r"\*\*Connections\*\*[^:]*:(.*)\n", page("docs/sizing.md"))[1]
        told = {role: int(count) for role, count in re.findall(r"`(\w+)` (\d+)", text)}
        self.assertEqual(set(told), set(self.roles))

        def look():
            found = self.count()
            if found != told:
                raise suite.NotThere(str(found))
            return True
        # After a minute the server closes what was not used.
        suite.wait_for(f"the connections {told}", look, 40)


class LogConnections(LaneCase):
    """What docs/sizing.md tells of lanes that read the binary log, and ARCHITECTURE of their threads."""

    seconds = 40
    LANES = {"relay.lanes": "outbox,second", "lane.second.source": "binlog"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.sql("CREATE TABLE second LIKE outbox")
        cls.stack.sql(f"GRANT SELECT, DELETE ON {cls.stack.name}.second TO '{ACCOUNT}'@'%'")

    def count(self):
        return self.stack.number("SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s", [ACCOUNT])

    def threads(self, relay):
        names = set()
        for task in pathlib.Path(f"/proc/{relay.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                names.add((task / "comm").read_text().strip())
        return {name for name in names if name.startswith("relay-")}

    def check(self, lanes, told, threads, sets):
        relay = self.start("relay", sets=sets)
        suite.wait_for("the positions", lambda: self.stack.number("SELECT COUNT(*) FROM relay_position") == lanes)

        def look():
            sharing, count = relay.metric("tallybox_relay_stream_shared"), self.count()
            if sharing != (lanes if lanes > 1 else 0) or count != told:
                raise suite.NotThere(f"{sharing} lanes share the stream, {count} connections")
            return True
        suite.wait_for(f"{told} connections", look, 30)
        self.assertEqual(self.threads(relay), threads)
        relay.terminate()

    def test_a_relay_has_as_many_connections_and_the_threads_that_the_pages_tell(self):
        text = page("docs/sizing.md")
        relay = int(re.search(r"`relay` (\d+)", text)[1])
        own, polling, sharing, shared = map(int, re.search(
            r"`source = binlog` has (\d+)\s+instead of (\d+), or (\d+) while .* has (\d+) for all", text).groups())
        row = re.search(r"(?m)^\| relay \| (.*) \|$", section("ARCHITECTURE.md", "## Threads"))[1]
        threads = set(re.findall(r"`(relay-[a-z]+)`", row)) - {"relay-delete", "relay-wakeup"}
        self.check(1, relay - polling + own, threads - {"relay-share"}, {})
        self.check(2, relay - polling + 2 * sharing + shared, threads, self.LANES)


if __name__ == "__main__":
    unittest.main()
