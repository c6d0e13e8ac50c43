# SPDX-License-Identifier: MIT
"""Processes on a host whose clock is wrong by hours: who holds what, and what is
written, follows the database's clock."""

import json
import pathlib
import re
import subprocess
import sys
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

LEASE_S = 4  # so long that a busy machine does not lose it
NOISE_S = 10


def wrong_clock(hours):
    """The environment of a process whose wall clock is off; steady clocks stay what they are."""
    library = suite.run().folder / "wrong_clock.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library),
                        str(suite.ROOT / "tests/support/wrong_clock.c"), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK_S": str(hours * 3600)}


class WrongClock(suite.Case):
    """Each role in turn has the wrong one, hours ahead and hours behind."""

    seconds = 40
    settings = {"relay.lease_ms": LEASE_S * 1000, "relay.send_timeout_ms": 1000,
                "rollup.interval_ms": 1000}

    def test_votes_carry_the_time_of_the_database(self):
        self.stack.sql("INSERT INTO remark (id) VALUES (1)")
        for turn, hours in enumerate((5, -5, 9600)):
            with self.subTest(hours=hours):
                env = wrong_clock(hours)
                roles = [self.stack.role(name, env=env, ready=False)
                         for name in ("serve", "relay", "consume", "rollup")]
                for role in roles:
                    role.wait_ready()
                for voter in range(turn * 20 + 1, turn * 20 + 21):
                    roles[0].vote((voter, 1, 1))
                total = turn * 20 + 20
                self.stack.wait_rows("vote_document", total)
                suite.wait_for("the remark", lambda want=total: self.stack.number(
                    "SELECT votes FROM remark WHERE id = 1") == want)
                for role in roles:
                    self.assertEqual(role.terminate(), 0)
        worst = self.stack.number("SELECT MAX(ABS(TIMESTAMPDIFF(SECOND, gmt_create, "
                                  "UTC_TIMESTAMP()))) FROM vote_document")
        self.assertLess(worst, 600)
        for record in self.stack.records():
            self.assertLess(abs(record.timestamp / 1000 - time.time()), 600)
        self.stack.wait_drained()
        self.stack.tallybox("verify")

    def test_lanes_stay_and_move_by_the_clock_of_the_database(self):
        for hours in (5, -5):
            with self.subTest(hours=hours):
                right = self.start("relay")
                self.wait_held(right)
                wrong = self.stack.role("relay", env=wrong_clock(hours))
                time.sleep(1.5 * LEASE_S)
                self.assertTrue(self.holds(right), "the wrong clock took the lane")
                right.kill()
                self.wait_held(wrong)
                self.publish()
                right.start().wait_ready()
                time.sleep(1.5 * LEASE_S)
                self.assertTrue(self.holds(wrong), "the wrong clock lost the lane")
                self.assertEqual(wrong.terminate(), 0)
                self.wait_held(right)
                self.publish()
                self.assertEqual(right.terminate(), 0)

    def test_the_record_of_a_task_is_brought_forward_by_the_clock_of_the_database(self):
        topic = f"waited.{self.stack.name}"
        wire.create_topic(suite.kafka().bootstrap, topic, 1, {"retention.ms": 4 * 3600000})
        for turn, hours in enumerate((5, -5)):
            with self.subTest(hours=hours):
                retry = self.stack.role("retry", env=wrong_clock(hours))
                for age in (1, 3):
                    at = int((time.time() - age * 3600) * 1000)
                    self.stack.sql(
                        "INSERT INTO retry_task (scene, handler, ordering_key, options, params) "
                        "VALUES ('work', 'kafka', 'k', %s, 'x')",
                        [json.dumps({"topic": topic, "timestampMs": at})])
                suite.wait_for("no task to be left", lambda: self.stack.number(
                    "SELECT COUNT(*) FROM retry_task") == 0)
                self.assertEqual(retry.terminate(), 0)
                records = self.stack.records(topic)[2 * turn:]
                # Half of the retention is two hours.
                self.assertEqual([round((time.time() - one.timestamp / 1000) / 3600)
                                  for one in records], [1, 2])

    def holds(self, relay):
        return f"-{relay.pid}-" in self.stack.number("SELECT owner FROM relay_lease")

    def wait_held(self, relay):
        suite.wait_for("the lane to move", lambda: self.holds(relay), LEASE_S + NOISE_S)

    def publish(self):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "other",
                            "aggregateid": "k", "type": "Happened"}])
        self.stack.wait_drained()


class SetBack(suite.Case):
    """The database's clock is set back by an hour while a holder is dead: what the holder wrote lies
    in the future. UPDATE plays the clock."""

    seconds = 60
    settings = {"relay.lease_ms": LEASE_S * 1000, "relay.send_timeout_ms": 1000,
                "retry.lease_ms": LEASE_S * 1000, "retry.poll_ms": 50, "retry.rescue_ms": 500,
                "rollup.interval_ms": 1000}

    def set_back(self):
        """All times but those that are compared with nothing, an hour ahead of now."""
        for table, column in (("relay_lease", "lease_until"), ("instance", "seen_at"),
                              ("rollup_state", "lease_until"), ("housekeep_state", "lease_until")):
            self.stack.sql(f"UPDATE {table} SET {column} = {column} + INTERVAL 1 HOUR")
        self.stack.sql("UPDATE retry_task SET lease_until = lease_until + INTERVAL 1 HOUR, "
                       "updated_at = updated_at + INTERVAL 1 HOUR WHERE state = 1")

    def holder(self, lane):
        return self.stack.number("SELECT owner FROM relay_lease WHERE lane = %s", [lane])

    def wait_held(self, role, lane):
        suite.wait_for(f"{lane} to be held by {role.pid}",
                       lambda: f"-{role.pid}-" in self.holder(lane), LEASE_S + NOISE_S)

    def test_the_lanes_of_a_dead_relay_are_taken_within_the_lease(self):
        dead = self.start("relay")
        self.wait_held(dead, "outbox")
        dead.kill()
        self.set_back()
        other = self.start("relay", ready=False)
        # The page names the cause only until the shortened lease has ended.
        suite.wait_for("the log to name the cause", lambda: re.search(
            r"event=lease_shortened .*the database clock was set back", other.log_text()))
        self.wait_held(other, "outbox")
        other.wait_ready()
        self.assertEqual(other.log_text().count("event=lease_shortened"), 1)
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "other",
                            "aggregateid": "k", "type": "Happened"}])
        self.stack.wait_drained()

    def test_a_lane_whose_relay_is_dead_is_named(self):
        """There is no other relay that could shorten its lease."""
        self.addCleanup(self.stack.sql, "UPDATE relay_lease SET owner = ''")
        dead = self.start("relay")
        self.wait_held(dead, "outbox")
        dead.kill()
        self.set_back()
        serve = self.start("serve", ready=False)
        suite.wait_for("readiness to name the lane", lambda: "no live relay serves outbox" in
                       serve.why_not_ready(), 3 * LEASE_S + NOISE_S)
        status = json.loads(self.stack.tallybox("status", "--json").stdout)
        self.assertEqual(status["outbox"]["written"]["unserved"], ["outbox"])
        self.assertIn("outbox: the database clock was set back", self.stack.tallybox("status").stdout)

    def test_a_relay_that_lives_keeps_its_lane(self):
        lives, other = self.start("relay"), self.start("relay")
        suite.wait_for("the lane to be held", lambda: self.holder("outbox"), LEASE_S + NOISE_S)
        before = self.stack.sql("SELECT owner, epoch FROM relay_lease WHERE lane = 'outbox'")
        for _ in range(3):
            self.set_back()
            time.sleep(1.5 * LEASE_S)
            self.assertEqual(self.stack.sql("SELECT owner, epoch FROM relay_lease WHERE "
                                            "lane = 'outbox'"), before)
        self.assertLess(self.stack.number(
            "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), lease_until) FROM relay_lease "
            "WHERE lane = 'outbox'"), 2 * LEASE_S)
        for role in (lives, other):
            self.assertTrue(role.ready())

    def test_shards_and_tasks_of_a_dead_process_go_on(self):
        folder = self.stack.folder
        program = folder / "hang"
        # The program that the killed process has started runs until the file go is there.
        program.write_text(f"#!/bin/sh\nwhile [ ! -e {folder}/go ] && [ -d {folder} ]; do sleep 0.2; done\n")
        program.chmod(0o755)
        self.addCleanup((folder / "go").touch)
        sets = {"retry.exec_programs": program}
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy) VALUES ('default', "
                       "'work', '{\"lease\": \"4s\", \"wait\": \"fixed 200ms\"}')")
        dead = self.start("retry", sets=sets)
        self.stack.sql("INSERT INTO retry_task (scene, handler, options) VALUES ('work', 'exec', "
                       "JSON_OBJECT('program', %s, 'timeout', '1h'))", [str(program)])
        suite.wait_for("the task to run", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE state = 1") == 1)
        dead.kill()
        (folder / "go").touch()
        self.set_back()
        other = self.start("retry", sets=sets, ready=False)
        suite.wait_for("the task to be done", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 0, 2 * LEASE_S + NOISE_S)
        self.wait_held(other, "retry:exec:0")
        self.assertIn("the database clock was set back", other.log_text())
        other.wait_ready()

    def test_a_roll_up_of_a_dead_process_is_taken_over_at_once(self):
        self.start("rollup").kill()
        self.stack.sql("UPDATE rollup_state SET owner = 'dead', epoch = epoch + 1, "
                       "lease_until = UTC_TIMESTAMP(3)")
        self.set_back()
        self.assertEqual(json.loads(self.stack.tallybox("status", "--json").stdout)
                         ["rollup"]["owner"], None)
        before = self.stack.number("SELECT epoch FROM rollup_state")
        role = self.start("rollup")
        suite.wait_for("the roll-up to be taken", lambda: self.stack.number(
            "SELECT epoch FROM rollup_state") > before, NOISE_S)
        self.assertIn("event=lease_implausible job=rollup owner=dead", role.log_text())


if __name__ == "__main__":
    unittest.main()
