# SPDX-License-Identifier: MIT
"""Processes on a host whose clock is wrong by hours: who holds what, and what is
written, follows the database's clock."""

import pathlib
import subprocess
import sys
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import house  # noqa: E402

LEASE_S = 4  # so long that a busy machine does not lose it
NOISE_S = 10


def wrong_clock(hours):
    """The environment of a process whose wall clock is off; steady clocks stay what they are."""
    library = house.run().folder / "wrong_clock.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library),
                        str(house.ROOT / "tests/support/wrong_clock.c"), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK_S": str(hours * 3600)}


class WrongClock(house.Case):
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
                house.wait_for("the remark", lambda want=total: self.stack.number(
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

    def holds(self, relay):
        return f"-{relay.pid}-" in self.stack.number("SELECT owner FROM relay_lease")

    def wait_held(self, relay):
        house.wait_for("the lane to move", lambda: self.holds(relay), LEASE_S + NOISE_S)

    def publish(self):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "other",
                            "aggregateid": "k", "type": "Happened"}])
        self.stack.wait_drained()


if __name__ == "__main__":
    unittest.main()
