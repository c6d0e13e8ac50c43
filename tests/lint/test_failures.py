#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/failures.py finds in the output of tests."""

import io
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import failures  # noqa: E402


class Failing(unittest.TestCase):
    """Run by output_of() alone: none of its names is that of a test."""

    def subtests(self):
        for number in (1, 2):
            with self.subTest(number=number):
                self.assertEqual(number, 1, "the numbers differ")

    def chained(self):
        try:
            raise KeyError("the cause")
        except KeyError as reason:
            raise AssertionError("waited 60 s for a row\nFAILED: the log of the relay") from reason

    def described(self):
        """What it is about."""
        self.fail("the reason")

    def reasoned(self):
        self.fail("the reason")

    def wordy(self):
        self.fail("\n".join(f"line {number}" for number in range(20)))


def output_of(*names):
    out = io.StringIO()
    runner = unittest.TextTestRunner(stream=out, verbosity=2)
    runner.run(unittest.TestSuite(Failing(name) for name in names))
    return out.getvalue()


class Failures(unittest.TestCase):
    def test_a_test_is_named_with_its_message_and_without_its_traceback(self):
        name, reason = failures.failures(output_of("subtests"))
        self.assertRegex(name, r"^FAIL: .*\(number=2\)$")
        self.assertEqual(reason, "    AssertionError: 2 != 1 : the numbers differ")

    def test_the_last_of_several_exceptions_is_shown(self):
        self.assertEqual(failures.failures(output_of("chained"))[1:],
                         ["    AssertionError: waited 60 s for a row",
                          "    FAILED: the log of the relay"])

    def test_a_reason_that_came_before_is_named(self):
        first, reason, second, again = failures.failures(output_of("described", "reasoned"))
        self.assertEqual(reason, "    AssertionError: the reason")
        self.assertNotEqual(first, second)
        self.assertEqual(again, f"    as {first}")

    def test_a_docstring_is_passed_over(self):
        self.assertEqual(failures.failures(output_of("described"))[1:], ["    AssertionError: the reason"])

    def test_a_long_message_is_cut(self):
        found = failures.failures(output_of("wordy", "subtests"))
        self.assertEqual(found[1:7], ["    AssertionError: line 0"] + [f"    line {n}" for n in range(1, 5)]
                         + ["    ... 15 more lines"])
        self.assertRegex(found[7], "^FAIL: ")

    def test_lines_of_other_tools_are_found_in_their_order(self):
        lines = ["[  FAILED  ] a_test", "[  ERROR   ] --- 1 != 2", "[   LINE   ] --- a.c:1: error: Failure!",
                 "  7/9 Test #7: test_x ....***Failed  1.0 sec", "seed 12: stuck", "SURVIVED: a-mutant: unseen",
                 "FAILED: lint tidy", "error: there is no preset"]
        noise = ["[  FAILED  ] 1 test(s), listed below:", "FAILING", "no error: here", "30 passed, 1 failed"]
        text = "\n".join(line for pair in zip(lines, noise * 2) for line in pair)
        self.assertEqual(failures.failures(text), lines)

    def test_many_failures_are_counted(self):
        found = failures.failures("FAILED: x\n" * 200)
        self.assertEqual(len(found), failures.LINES_MAX + 1)
        self.assertEqual(found[-1], "... 80 more lines")

    def test_an_output_without_a_failure_gives_nothing(self):
        self.assertEqual(failures.failures("OK\n1 passed, 0 failed\n"), [])


if __name__ == "__main__":
    unittest.main()
