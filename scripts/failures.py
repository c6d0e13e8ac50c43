#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What failed, from the output of tests: failures.py LOG

Prints the lines in which cmocka, unittest, ctest and ./dev name what failed, in their order. The
name of a unittest test is followed by the exception that ended it, without the traceback, so that
the cause can be read where only the end of a long log is kept: lines are cut, and a reason that
was given before is named and not repeated. Prints nothing when no line of the
log looks like a failure."""

import re
import sys

NAMES = re.compile(
    r"\[  FAILED  \] \w+$|\[  ERROR   \]|\[   LINE   \]|FAIL: |ERROR: |FAILED: |error: |SUMMARY: "
    r"|SURVIVED: |VIOLATION: |(lost|twice|reordered|totals|reads): |seed [0-9]+: ")
NAMES_INSIDE = re.compile(r"\*\*\*(Failed|Timeout|Exception)")
TEST = re.compile(r"(FAIL|ERROR): ")
RULE = re.compile(r"(={70}|-{70})$")
TRACEBACK = "Traceback (most recent call last):"

LINES_MAX = 120
REASON_LINES_MAX = 6  # of one exception
COLUMNS_MAX = 200


def is_failure(line):
    return NAMES.match(line) or NAMES_INSIDE.search(line)


def reason_in(block):
    """The lines of the last exception of a report; those before it are its causes."""
    reason, inside = [], False
    for line in block:
        if line == TRACEBACK:
            reason, inside = [], True
        elif inside and (line.startswith(" ") or not line):
            continue
        else:
            inside = False
            reason.append(line)
    while reason and not reason[-1]:
        reason.pop()
    if len(reason) > REASON_LINES_MAX:
        reason[REASON_LINES_MAX - 1:] = [f"... {len(reason) - REASON_LINES_MAX + 1} more lines"]
    return [f"    {line}" for line in reason]


def block_behind(lines, at):
    """The report behind the name of a test, which stands between two rules; the first line of the
    docstring of the test may come before it."""
    if at + 1 < len(lines) and not RULE.match(lines[at]) and RULE.match(lines[at + 1]):
        at += 1
    if at >= len(lines) or not RULE.match(lines[at]):
        return []
    end = at + 1
    while end < len(lines) and not RULE.match(lines[end]):
        end += 1
    return lines[at + 1:end]


def failures(text):
    lines, found, reasons, at = text.splitlines(), [], {}, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not is_failure(line):
            continue
        found.append(line)
        if TEST.match(line):
            block = block_behind(lines, at)
            reason = reason_in(block)
            first = reasons.setdefault(tuple(reason), line)
            found += reason if first is line or not reason else [f"    as {first}"]
            # What looks like a failure in it is part of its reason.
            at += len(block)
    if len(found) > LINES_MAX:
        found[LINES_MAX:] = [f"... {len(found) - LINES_MAX} more lines"]
    return [line[:COLUMNS_MAX] for line in found]


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        for line in failures(log.read()):
            print(line)


if __name__ == "__main__":
    main()
