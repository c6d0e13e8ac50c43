#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the test classes it is told to, on servers of its own: e2e_worker.py TIER OUTPUT [NAME]

Reads names of classes (module.Class), one a line, from standard input, and answers each with a line
of JSON on standard output: what the class printed, and which tests passed, failed and were skipped.
Everything printed goes to the file OUTPUT first, where it can still be read when a test has taken
this process along. A test that takes longer than TALLYBOX_TEST_SECONDS (default 420) fails with the
place where it stood."""

import json
import os
import resource
import signal
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_S = int(os.environ.get("TALLYBOX_TEST_SECONDS", "420"))


class TooLong(BaseException):
    """What no test takes for an answer that did not come, as it would a TimeoutError."""


class Result(unittest.TextTestResult):
    """Counts tests, not failures: a test with three failed subtests is one failed test."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bad, self.skips, self.good = set(), {}, set()

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
        self.skips[test.id()] = reason

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.bad.add(test.id())

    def outcome(self):
        """Counts, the names of the tests that ran, and why the others were skipped."""
        skips = {test: reason for test, reason in self.skips.items() if test not in self.bad}
        return {"good": len(self.good - self.bad), "bad": len(self.bad), "skipped": len(skips),
                "ran": sorted(self.good | self.bad), "skips": skips}


def tests_in(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_in(item)
        else:
            yield item


def discover(tier, name=None):
    """{"module.Class": suite} of tests/TIER/test_*.py, of those whose name contains NAME."""
    loader = unittest.TestLoader()
    if name:
        loader.testNamePatterns = [name if "*" in name else f"*{name}*"]
    found = {}
    for test in tests_in(loader.discover(os.path.join(ROOT, "tests", tier), pattern="test_*.py")):
        kind = type(test)
        # The stand-in for a file that cannot be imported: every one is a class of its own.
        broken = kind.__module__ == "unittest.loader"
        key = test.id() if broken else f"{kind.__module__}.{kind.__qualname__}"
        found.setdefault(key, unittest.TestSuite()).addTest(test)
    return found


def too_long(*_):
    raise TooLong(f"the test took longer than {LIMIT_S} s")


def cpu_s():
    """What this process and its children that have ended took of the CPU."""
    return sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def said(output):
    """What was printed since the last time."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(output, "r+b") as file:
        text = file.read().decode(errors="replace")
        file.truncate(0)
    return text


def main():
    sys.dont_write_bytecode = True
    tier, output, *name = sys.argv[1:]
    signal.signal(signal.SIGALRM, too_long)
    # SIGTERM ends it as Ctrl-C does: with the tests' own cleaning up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    classes = discover(tier, *name)
    while line := sys.stdin.readline():
        runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
        before = cpu_s()
        result = runner.run(classes[line.strip()])
        print(json.dumps({**result.outcome(), "cpu_s": cpu_s() - before, "text": said(output)}),
              file=answers, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
