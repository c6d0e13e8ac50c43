#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shares out work in parts that take about as long: parts.py K/N NAME=SECONDS...

Prints the names in part K of N, one a line: the longest first goes to the part that has the least
so far. So each name is in exactly one part, and no part is longer than the average and the longest
name together."""

import sys


def split(weights, count):
    """Lists of the names in {name: seconds}; the same ones for the same arguments."""
    parts, sums = [[] for _ in range(count)], [0] * count
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        least = sums.index(min(sums))
        parts[least].append(name)
        sums[least] += weights[name]
    return parts


def choose(weights, part):
    """The names in the part K/N."""
    number, count = map(int, part.split("/"))
    return split(weights, count)[number - 1]


def main():
    pairs = (word.split("=") for word in sys.argv[2:])
    for name in choose({name: int(seconds) for name, seconds in pairs}, sys.argv[1]):
        print(name)


if __name__ == "__main__":
    main()
