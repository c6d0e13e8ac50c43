#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/skips.py finds between the list and a run."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import skips  # noqa: E402

LIST = skips.read(["# a comment\n", "\n", "e2e mysql always m.C.test_a it cannot run there\n",
                   "e2e mysql unprivileged m.C.test_b it needs root\n"])


ALL = {f"m.C.test_{letter}" for letter in "abc"}


def found(ran, skipped, known=frozenset(ALL), variant="mysql", privileged=True):
    return skips.differences(LIST, "e2e", variant, ran, skipped, known, privileged)


class Differences(unittest.TestCase):
    def test_a_run_that_agrees_with_the_list_has_none(self):
        self.assertEqual(found({"m.C.test_b", "m.C.test_c"}, {"m.C.test_a": "so"}), [])
        self.assertEqual(found({"m.C.test_c"}, {"m.C.test_a": "so", "m.C.test_b": "so"},
                               privileged=False), [])

    def test_a_skip_that_is_not_listed_is_named_with_its_reason(self):
        sentence, = found({"m.C.test_b"}, {"m.C.test_a": "so", "m.C.test_c": "no way"})
        self.assertIn("m.C.test_c was skipped (no way)", sentence)

    def test_a_skip_of_another_variant_is_not_listed(self):
        self.assertEqual(len(found(set(), {"m.C.test_a": "so"}, variant="mariadb")), 1)

    def test_a_listed_test_that_ran_is_named(self):
        sentence, = found({"m.C.test_a", "m.C.test_b"}, {})
        self.assertIn("m.C.test_a is in tests/skips.txt, but it ran", sentence)

    def test_a_listed_test_that_is_gone_is_named(self):
        sentence, = found({"m.C.test_b"}, {}, known=ALL - {"m.C.test_a"})
        self.assertIn("there is no such test", sentence)

    def test_a_listed_test_that_this_run_leaves_out_is_not_named(self):
        self.assertEqual(found({"m.C.test_b"}, {}), [])
        self.assertEqual(found({"m.C.test_b"}, {}, known=None), [])

    def test_what_only_root_can_do_must_run_as_root(self):
        sentence, = found(set(), {"m.C.test_a": "so", "m.C.test_b": "so"})
        self.assertIn("m.C.test_b was skipped", sentence)


class Reading(unittest.TestCase):
    def test_a_line_without_a_reason_is_refused_with_its_number(self):
        for line in ("e2e mysql always test", "e2e oracle always test why", "x mysql always t why",
                     "e2e mysql sometimes test why"):
            with self.subTest(line=line), self.assertRaises(ValueError) as caught:
                skips.read(["# first\n", line])
            self.assertIn("tests/skips.txt:2", str(caught.exception))

    def test_the_list_itself_can_be_read(self):
        with open(skips.PATH, encoding="utf-8") as lines:
            self.assertTrue(skips.read(lines))


if __name__ == "__main__":
    unittest.main()
