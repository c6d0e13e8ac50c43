# SPDX-License-Identifier: MIT
"""An operator who looks after blocked tasks with the program's own commands alone: corrects some of
the refused outbox rows, skips the others, and gives up tasks that can never be done. What the
operator is about to do goes into a ledger first."""

import json
import random
import re
import zlib

import suite
import ledger

SKIPPED_OF = 3     # one of so many refused rows is skipped
INTERRUPTED = 0.15  # of corrections: the operator is called away before the task may run
LOOK_ROWS = 50
MOVED = re.compile(r"^([0-9a-f-]{36})/\d+\.\d+\.\d+$")
GROUP_EVERY = 4    # looks


def action_for(event):
    """What is done with a refused row; the same at every look."""
    return "skip" if zlib.crc32(event.encode()) % SKIPPED_OF == 0 else "correct"


def event_of(idempotency_key):
    """A lane that publishes exactly once writes the move behind the event id."""
    return MOVED.sub(r"\1", idempotency_key) if idempotency_key else idempotency_key


class TaskOperator:
    """One person at one terminal; call from one thread at a time."""

    def __init__(self, stack, folder, seed, lanes):
        self.stack = stack
        self.lanes = lanes
        self.rng = random.Random(f"{seed} operator")
        self.ledger = ledger.Ledger(folder / "operator.ledger")
        self.decided = set()
        self.looks = 0

    def retry(self, *words, stdin=None):
        """The command's end; while the database is away it fails, and is said again later."""
        return self.stack.tallybox("retry", *words, stdin=stdin, expect=None, seconds=60)

    def act(self, group=None):
        """One look at everything that is blocked or parked. group: its configuration changes, too."""
        if group:
            self.group(group)
        self.retry("cancel", "--group", "default", "--state", "blocked", "--yes")
        self.retry("unpark", "--group", "default", "--skip", "--yes")
        for lane in self.lanes:
            done = self.retry("list", "--group", lane, "--state", "blocked", "--json",
                              "--limit", str(LOOK_ROWS))
            if done.returncode != suite.DONE:
                return
            for task in json.loads(done.stdout)["tasks"]:
                self.decide(task["id"], event_of(task["idempotency_key"]))

    def group(self, name):
        """Each change is pushed to the clients of the group."""
        self.looks += 1
        if self.looks % GROUP_EVERY == 1:
            self.retry("group", "set", name, "--description", f"look {self.looks}")
        elif self.looks % GROUP_EVERY == 2:
            self.retry("group", "disable", name)
        else:
            self.retry("group", "enable", name)

    def decide(self, task, event):
        action = action_for(event)
        if event not in self.decided:
            self.decided.add(event)
            self.ledger.write({"what": "decision", "event": event, "action": action})
        if action == "skip":
            self.retry("cancel", str(task))
            return
        if self.correct(task, event) and self.rng.random() >= INTERRUPTED:
            self.retry("run-now", str(task))

    def correct(self, task, event):
        """The row's number is the first word of what was refused. Correcting it again is
        harmless."""
        done = self.retry("show", str(task), "--json")
        if done.returncode != suite.DONE:
            return False
        shown = json.loads(done.stdout)["task"]
        words = ["edit", str(task), "--params", "-"]
        if "rowHeaders" in json.loads(shown["options"]):
            words += ["--headers", "{}"]
        return self.retry(*words, stdin=shown["params"].split()[0].encode()).returncode == suite.DONE

    def close(self):
        self.ledger.close()
