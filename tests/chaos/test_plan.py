# SPDX-License-Identifier: MIT
"""The plan of faults: the same for the same seed, and what the README says of it."""

import collections
import itertools
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plan  # noqa: E402


class Plan(unittest.TestCase):
    """Over many seeds."""

    any_database = True

    def test_the_same_seed_gives_the_same_plan_and_another_another(self):
        self.assertEqual(plan.text(7, plan.make(7, 120)), plan.text(7, plan.make(7, 120)))
        self.assertNotEqual(plan.make(7, 120), plan.make(8, 120))

    def test_some_lanes_that_read_the_log_publish_exactly_once(self):
        seen = {(chosen["lane.outbox.source"], chosen["lane.outbox.exactly_once"])
                for chosen in map(plan.settings, range(40))}
        self.assertEqual(seen, {("table", "no"), ("binlog", "no"), ("binlog", "yes")})

    def test_every_kind_of_fault_hits_every_target_it_can(self):
        seen = {(fault.kind, fault.target) for seed in range(40)
                for fault in plan.make(seed, 300)}
        due = set(itertools.product(plan.ROLE_KINDS, plan.ROLES))
        due |= set(itertools.product(plan.LINK_KINDS, plan.LINKS))
        due |= set(itertools.product(plan.SERVER_KINDS, plan.SERVERS))
        due.add(("reload", plan.SETTINGS))
        self.assertEqual(due - seen, set())

    def test_a_minute_has_faults_of_every_sort(self):
        for seed in range(20):
            faults = plan.make(seed, 60)
            for server in plan.SERVERS:
                self.assertTrue(any(t.target == server and t.kind == "kill" for t in faults))
            self.assertGreater(sum(t.kind == "kill" for t in faults), 8)
            self.assertGreater(sum(t.target in plan.LINKS for t in faults), 3)
            self.assertLess(faults[-1].at, 60)

    def test_a_target_has_one_fault_at_a_time(self):
        for seed in range(20):
            until = collections.defaultdict(float)
            for fault in plan.make(seed, 300):
                self.assertGreaterEqual(fault.at, until[fault.target], (seed, fault))
                until[fault.target] = fault.at + fault.seconds

    def test_survivors_die_only_when_all_of_their_sort_do(self):
        for seed in range(20):
            faults = plan.make(seed, 300)
            for name in plan.survivors(seed):
                for death in (t for t in faults if t.target == name and t.kind == "kill"):
                    same = {t.target for t in faults if t.at == death.at}
                    self.assertEqual(same, set(plan.RELAYS + plan.CONSUMERS + plan.RETRIES))

    def test_some_freezes_and_stalls_outlast_lease_and_session(self):
        lengths = [t.seconds for t in plan.make(1, 600) if t.kind in ("stop", "stall")]
        self.assertGreater(sum(s * 1000 > plan.LEASE_MS for s in lengths), 10)
        self.assertGreater(sum(s * 1000 < plan.LEASE_MS for s in lengths), 10)


if __name__ == "__main__":
    unittest.main()
