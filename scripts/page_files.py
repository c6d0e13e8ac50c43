#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The files that a page of docs/ shows: page_files.py PAGE FOLDER [NAME...] writes them, or only
those that are named, into a folder.

A code block is a file when its fence names one after the language: "```python read_orders.py".
scripts/part_languages.sh fetches what the manifests of the pages list, and tests/e2e/test_pages.py
runs their programs: a page cannot show what does not work."""

import pathlib
import re
import sys

FENCE = re.compile(r"^```(\S+)(?: +(\S+))?\n(.*?)^```$", re.M | re.S)


def blocks(text):
    """(language, name or None, content) of each fenced block."""
    return [(match[1], match[2], match[3]) for match in FENCE.finditer(text)]


def files(text):
    """{name: content}; ValueError when two blocks have one name."""
    found = {}
    for _, name, content in blocks(text):
        if name is None:
            continue
        if name in found:
            raise ValueError(f"two blocks are named {name}")
        found[name] = content
    return found


def main():
    page, folder, *names = sys.argv[1:]
    found = files(pathlib.Path(page).read_text(encoding="utf-8"))
    for name in names or found:
        if name not in found:
            sys.exit(f"{page} shows no {name}")
        (pathlib.Path(folder) / name).write_text(found[name], encoding="utf-8")


if __name__ == "__main__":
    main()
