# SPDX-License-Identifier: MIT
"""What a role has said, event by event."""

import datetime
import re

EVENT = re.compile(r"level=(\w+) event=(\w+)(.*)")
TIME = re.compile(r"time=(\S+)Z ")
# common/kafka.c lets librdkafka say the same again after a minute.
AGAIN_S = 59


def event_lines(role):
    """(level, event, rest) of every line of a role's log."""
    return EVENT.findall(role.log_text())


def repeated(role):
    """Lines of a log that say the same more than once, whatever their numbers."""
    said, found = {}, {}
    for text in role.log_text().splitlines():
        event, time = EVENT.search(text), TIME.match(text)
        if not event or event[1] not in ("warn", "error"):
            continue
        line, at = (event[2], re.sub(r"\d+", "#", event[3])), datetime.datetime.fromisoformat(time[1])
        may = line[0] == "kafka_library" and (at - said.get(line, at)).total_seconds() >= AGAIN_S
        if line in said and not may:
            found[line] = found.get(line, 1) + 1
        said[line] = at
    return found


def spells(role, event):
    """How often trouble of this name began, and how often it ended."""
    lines = [rest for _, name, rest in event_lines(role) if name == event]
    over = [rest for rest in lines if "state=over" in rest]
    return len(lines) - len(over), len(over)
