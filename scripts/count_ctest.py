#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests inside the cmocka programs that ctest ran: count_ctest.py JUNIT PRESET whole|part

Prints "passed failed skipped". A program that ctest calls failed although no test of its own says
so (a crash, a timeout, a sanitizer's report at exit) is one failed test. So is each difference
between what was skipped and tests/skips.txt. part: some programs were left out."""
import re
import sys
import xml.etree.ElementTree as tree

import skips

PASSED = re.compile(r"\[  PASSED  \] (\d+) test\(s\)")
FAILED = re.compile(r"\[  FAILED  \] (\d+) test\(s\)")
SKIPPED = re.compile(r"\[  SKIPPED \] (\d+) test\(s\)")
ONE_OK = re.compile(r"^\[       OK \] (\w+)$", re.MULTILINE)
ONE_SKIPPED = re.compile(r"^\[  SKIPPED \] (\w+)$", re.MULTILINE)


def total(pattern, text):
    return sum(int(number) for number in pattern.findall(text))


def output_of(case):
    return "".join(part.text or "" for part in case.iter("system-out"))


def count(case):
    output = output_of(case)
    passed, failed, skipped = (total(p, output) for p in (PASSED, FAILED, SKIPPED))
    if case.get("status") == "fail" and failed == 0:
        failed = 1
    elif case.get("status") in ("notrun", "disabled"):
        failed += 1
    elif passed + failed + skipped == 0:
        passed = 1
    return passed, failed, skipped


def main():
    path, preset, extent = sys.argv[1:]
    cases = list(tree.parse(path).iter("testcase"))
    sums = [sum(column) for column in zip((0, 0, 0), *map(count, cases))]
    ran, skipped = set(), {}
    for case in cases:
        program, output = case.get("name"), output_of(case)
        ran.update(f"{program}.{test}" for test in ONE_OK.findall(output))
        skipped.update({f"{program}.{test}": "by the test itself"
                        for test in ONE_SKIPPED.findall(output)})
    known = ran | set(skipped) if extent == "whole" else None
    for sentence in skips.check("c", preset, ran, skipped, known):
        print(f"FAILED: {sentence}", file=sys.stderr)
        sums[1] += 1
    print(*sums)


if __name__ == "__main__":
    main()
