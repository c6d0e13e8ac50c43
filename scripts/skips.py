# SPDX-License-Identifier: MIT
"""tests/skips.txt against what a run has skipped: the two must agree in both directions."""

import collections
import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATH = os.path.join(ROOT, "tests", "skips.txt")
TIERS = ("c", "e2e", "chaos")
VARIANTS = ("mariadb", "mysql", "dev", "asan", "tsan", "clang")
WHENS = ("always", "unprivileged")

Entry = collections.namedtuple("Entry", "tier variant when test reason")


def read(lines):
    """The entries of the lines; ValueError names a line that is none."""
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(None, 4)
        if (len(words) < 5 or words[0] not in TIERS or words[1] not in VARIANTS
                or words[2] not in WHENS):
            raise ValueError(f"tests/skips.txt:{number}: expected TIER VARIANT WHEN TEST REASON")
        entries.append(Entry(*words[:4], words[4].strip()))
    return entries


def differences(entries, tier, variant, ran, skipped, known, privileged=None):
    """Sentences. ran: names of the tests that were not skipped. skipped: {name: reason}. known: the
    names of all tests there are; None: this run does not know."""
    if privileged is None:
        privileged = os.geteuid() == 0
    listed = {one.test for one in entries if (one.tier, one.variant) == (tier, variant)
              and (one.when == "always" or not privileged)}
    found = [f"{tier} {variant} {test} was skipped ({reason}), but tests/skips.txt does not list it"
             for test, reason in sorted(skipped.items()) if test not in listed]
    for test in sorted(listed - set(skipped)):
        if test in ran:
            found.append(f"{tier} {variant} {test} is in tests/skips.txt, but it ran")
        elif known is not None and test not in known:
            found.append(f"{tier} {variant} {test} is in tests/skips.txt, but there is no such test")
    return found


def check(tier, variant, ran, skipped, known):
    """The same for the file itself."""
    with open(PATH, encoding="utf-8") as lines:
        return differences(read(lines), tier, variant, ran, skipped, known)
