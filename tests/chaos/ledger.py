# SPDX-License-Identifier: MIT
"""What the writers were told, in files of their own: a line of JSON each, on the disk before the
writer goes on.

  {"what": "vote", "outcome": "ok", "voter", "content", "voting", "changed", "votes", "event",
   "asked", "told"}
  {"what": "vote", "outcome": "deleted", "voter", "content", "voting", "asked", "told"}
  {"what": "vote", "outcome": "unknown" or "refused", "voter", "content", "voting"}
  {"what": "transaction", "outcome": "committed" or "rolled back" or "unknown", "id",
   "votes": [[voter, content, voting, votes, event]...], "steps": [[key, n, event]...],
   "poison": [event of a task that cannot be done...],
   "calls": [[handler, key, n, event] of a task of http or exec...],
   "refused": [event of an outbox row that is among the steps and that is not published
   unchanged...]}
  {"what": "call", "outcome": "asked", "tried" (also "done") or "accepted", "handler", "key", "n",
   "event"}
  {"what": "effect", "handler", "event", "key", "n"}
  {"what": "decision", "event", "action": "correct" or "skip"}
  {"what": "remark", "outcome": "asked" or "made", "id", "item", "told" of "made"}
  {"what": "deletion", "outcome": "asked" or "deleted", "id", "asked" or "told"}
  {"what": "weights", "weights": [votes, score, age]}, before they are set
  {"what": "paging", "item", "sort", "limit", "voter" or null, "end": "whole" or "short" or
   "expired", "pages": [{"asked", "told", "stale", "next", "remarks": [[id, item, votes, voting]
   ...]}]}
  {"what": "recommended", "item", "start", "stop", "voter" or null, "asked", "told", "list",
   "window", "count", "stale", "building", "remarks": [[id, item, votes, voting, rank, score,
   created]...]}

asked, told: seconds, before a request and after its answer. unknown: no answer was seen. refused:
answered, nothing was done. deleted: refused because the content is deleted."""

import json
import os
import pathlib


class Ledger:
    """One writer's file."""

    def __init__(self, path):
        self.file = open(path, "ab")  # pylint: disable=consider-using-with

    def write(self, *entries):
        """On the disk when it returns."""
        self.file.write("".join(json.dumps(entry) + "\n" for entry in entries).encode())
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self):
        self.file.close()


def read(folder):
    """All entries of all writers; each writer's in its order. A last line that is torn was never
    acted upon."""
    for path in sorted(pathlib.Path(folder).glob("*.ledger")):
        with open(path, "rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)
