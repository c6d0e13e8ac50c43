#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests/TIER/test_*.py: run_e2e.py TIER COUNT-FILE [NAME]

Prints each test as it goes and writes "passed failed skipped" to COUNT-FILE. A test that takes
longer than TALLYBOX_TEST_SECONDS (default 300) fails with the place where it stood."""
import os
import signal
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = int(os.environ.get("TALLYBOX_TEST_SECONDS", "300"))


class Result(unittest.TextTestResult):
    """Counts tests, not failures: a test with three failed subtests is one failed test."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bad, self.skips, self.good = set(), set(), set()

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        signal.alarm(LIMIT_S)

    def stopTest(self, test):
        signal.alarm(0)
        self.stream.writeln(f"    {time.monotonic() - self.began:.1f} s")
        self.stream.flush()
        super().stopTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.good.add(test.id())

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.bad.add(test.id())

    def addError(self, test, err):
        super().addError(test, err)
        self.bad.add(test.id())

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.bad.add(test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skips.add(test.id())

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.bad.add(test.id())

    def counts(self):
        return len(self.good - self.bad), len(self.bad), len(self.skips - self.bad)


def too_long(*_):
    raise TimeoutError(f"the test took longer than {LIMIT_S} s")


def main():
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGALRM, too_long)
    # SIGTERM ends it as Ctrl-C does: with the tests' own cleaning up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    loader = unittest.TestLoader()
    if len(sys.argv) > 3:
        name = sys.argv[3]
        loader.testNamePatterns = [name if "*" in name else f"*{name}*"]
    suite = loader.discover(os.path.join(ROOT, "tests", sys.argv[1]), pattern="test_*.py")
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    result = runner.run(suite)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        print(*result.counts(), file=out)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
