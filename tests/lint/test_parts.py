#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How scripts/parts.py shares out work, and the jobs of ./dev test long with it."""

import os
import random
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import parts  # noqa: E402

LONG_SH = os.path.join(ROOT, "scripts/test_long.sh")
CI_PARTS = 8


def long_shell(command):
    """What a command prints that knows the functions of ./dev test long."""
    done = subprocess.run(["bash", "-c", f". scripts/say.sh; . scripts/test_long.sh; {command}"], cwd=ROOT,
                          env={**os.environ, "ROOT": ROOT}, capture_output=True, text=True, check=True)
    return done.stdout.split()


def long_weights():
    return {name: int(seconds) for name, seconds in
            (word.split("=") for word in long_shell('printf "%s\\n" "${LONG_JOBS[@]}"'))}


class Split(unittest.TestCase):
    def test_each_name_is_in_exactly_one_part(self):
        source = random.Random(1)
        for count in range(1, 30):
            weights = {f"job-{n}": source.randrange(0, 900) for n in range(source.randrange(0, 40))}
            together = sum(parts.split(weights, count), [])
            self.assertEqual(sorted(together), sorted(weights))

    def test_no_part_is_longer_than_the_average_and_the_longest_name(self):
        source = random.Random(2)
        for count in range(1, 30):
            weights = {f"job-{n}": source.randrange(1, 900) for n in range(40)}
            longest = max(sum(weights[name] for name in part) for part in parts.split(weights, count))
            self.assertLessEqual(longest, sum(weights.values()) / count + max(weights.values()))

    def test_the_longest_are_not_together(self):
        self.assertEqual(parts.split({"a": 9, "b": 9, "c": 1, "d": 8, "e": 2}, 3),
                         [["a", "c"], ["b"], ["d", "e"]])

    def test_a_part_does_not_depend_on_the_order_of_the_names(self):
        self.assertEqual(parts.choose({"a": 1, "b": 1, "c": 2}, "2/2"),
                         parts.choose({"c": 2, "b": 1, "a": 1}, "2/2"))


class Long(unittest.TestCase):
    def test_each_job_is_in_exactly_one_part(self):
        weights = long_weights()
        for count in (1, 2, 3, CI_PARTS, len(weights)):
            together = []
            for number in range(1, count + 1):
                together += long_shell(f"long_part_set {number}/{count}; long_part_jobs")
            self.assertEqual(sorted(together), sorted(weights), f"{count} parts")

    def test_each_job_can_be_run(self):
        for name in long_weights():
            self.assertEqual(long_shell(f"declare -F long_{name}"), [f"long_{name}"])

    def test_the_parts_of_ci_take_about_as_long(self):
        weights = long_weights()
        sums = [sum(weights[name] for name in part) for part in parts.split(weights, CI_PARTS)]
        average = sum(sums) / len(sums)
        self.assertLess(max(sums), 1.15 * average, sums)
        self.assertGreater(min(sums), 0.85 * average, sums)
        with open(os.path.join(ROOT, ".ci/run"), encoding="utf-8") as run:
            self.assertIn(f"% {CI_PARTS} + 1", run.read())


if __name__ == "__main__":
    unittest.main()
