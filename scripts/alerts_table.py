#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the rules of docs/alerts.yml as the table of OPERATIONS: alerts_table.py FILE

The file is read in the form in which it is written: a key and its value in one line."""

import re
import sys

LINE = re.compile(r"^ +(?:- )?(\w+): ?(.*)$")
KEYS = ("alert", "expr", "severity", "summary", "action")


def text_of(value):
    """A scalar without its quotes."""
    if value[:1] == value[-1:] == "'":
        return value[1:-1].replace("''", "'")
    return value


def read(content):
    """A list of dicts with KEYS and `for`; ValueError names a rule that lacks one of KEYS."""
    rules = []
    for line in content.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        key, value = match.groups()
        if key == "alert":
            rules.append({"for": ""})
        elif key == "labels":
            key, value = "severity", value.removeprefix("{severity: ").removesuffix("}")
        if rules:
            rules[-1][key] = text_of(value)
    for rule in rules:
        missing = [key for key in KEYS if not rule.get(key)]
        if missing:
            raise ValueError(f"{rule.get('alert')} has no {missing[0]}")
    return rules


def table(rules):
    yield "| alert | severity | when | meaning | look at |"
    yield "|---|---|---|---|---|"
    for rule in rules:
        when = f"`{rule['expr']}`" + (f" for {rule['for']}" if rule["for"] else "")
        cells = (f"`{rule['alert']}`", rule["severity"], when, rule["summary"], rule["action"])
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(table(read(file.read()))))


if __name__ == "__main__":
    main()
