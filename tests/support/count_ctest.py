#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests inside the cmocka programs that ctest ran: count_ctest.py JUNIT-FILE

Prints "passed failed skipped". A program that ctest calls failed although no test of its own says
so (a crash, a timeout, a sanitizer's report at exit) is one failed test."""
import re
import sys
import xml.etree.ElementTree as tree

PASSED = re.compile(r"\[  PASSED  \] (\d+) test\(s\)")
FAILED = re.compile(r"\[  FAILED  \] (\d+) test\(s\)")
SKIPPED = re.compile(r"\[  SKIPPED \] (\d+) test\(s\)")


def total(pattern, text):
    return sum(int(number) for number in pattern.findall(text))


def count(case):
    output = "".join(part.text or "" for part in case.iter("system-out"))
    passed, failed, skipped = (total(p, output) for p in (PASSED, FAILED, SKIPPED))
    if case.get("status") == "fail" and failed == 0:
        failed = 1
    elif case.get("status") in ("notrun", "disabled"):
        failed += 1
    elif passed + failed + skipped == 0:
        passed = 1
    return passed, failed, skipped


def main():
    sums = [0, 0, 0]
    for case in tree.parse(sys.argv[1]).iter("testcase"):
        sums = [a + b for a, b in zip(sums, count(case))]
    print(*sums)


if __name__ == "__main__":
    main()
