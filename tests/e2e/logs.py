# SPDX-License-Identifier: MIT
"""What a role has said, event by event."""

import datetime
import re

EVENT = re.compile(r"level=(\w+) event=(\w+)(.*)")
TIME = re.compile(r"time=(\S+)Z ")
# common/kafka/kafka.c lets librdkafka say the same again after a minute.
AGAIN_S = 59

# What says that trouble is over. The next spell of it is said again, and a busy machine may make
# one.
ENDS = {"ready_again": "not_ready", "database_there": "database_away",
        "consumer_broker_back": "consumer_broker_trouble",
        "consumer_database_back": "consumer_database_trouble",
        "partitions_assigned": "partitions_lost", "rollup_works_again": "rollup_waits"}
SPELLS_MAX = 3


def event_lines(role):
    """(level, event, rest) of every line of a role's log."""
    return EVENT.findall(role.log_text())


def repeated(role):
    """Lines of a log that say the same more than once in a spell of trouble, or in more than a few
    spells, whatever their numbers."""
    said, times, found = {}, {}, {}
    for text in role.log_text().splitlines():
        event, time = EVENT.search(text), TIME.match(text)
        if not event:
            continue
        over = event[2] if "state=over" in event[3] else ENDS.get(event[2])
        said = {line: at for line, at in said.items() if line[0] != over}
        if event[1] not in ("warn", "error"):
            continue
        line = event[2], re.sub(r"\d+", "#", event[3])
        at = datetime.datetime.fromisoformat(time[1])
        may = line[0] == "kafka_library" and (at - said.get(line, at)).total_seconds() >= AGAIN_S
        times[line] = times.get(line, 0) + (not may)
        if line in said and not may or times[line] > SPELLS_MAX:
            found[line] = times[line]
        said[line] = at
    return found


def spells(role, event):
    """How often trouble of this name began, and how often it ended."""
    lines = [rest for _, name, rest in event_lines(role) if name == event]
    over = [rest for rest in lines if "state=over" in rest]
    return len(lines) - len(over), len(over)
