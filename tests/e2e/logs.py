# SPDX-License-Identifier: MIT
"""What a role has said, event by event."""

import datetime
import re

EVENT = re.compile(r"level=(\w+) event=(\w+)(.*)")
TIME = re.compile(r"time=(\S+)Z ")
# Seconds after which a line may be repeated: a text of librdkafka is new again after two quiet
# minutes, and what is still waited for is named once a minute.
AGAIN_S = {"kafka_library": 119, "not_ready": 59, "still_waiting": 59}

# The event that ends a condition. The next failure is logged again, and a busy machine may cause
# one.
ENDS = {"ready_again": "not_ready", "dependency_up": "dependency_down",
        "work_resumed": "work_paused", "check_passed": "check_failed",
        "partitions_assigned": "partitions_lost"}
PLACE = re.compile(r"^ ?(.*?)(?: (?:err|after_ms|count|lasts_ms)=.*)?$")
SPELLS_MAX = 3


def event_lines(role):
    """(level, event, rest) of every line of a role's log."""
    return EVENT.findall(role.log_text())


def place_of(rest):
    """The `key=value` pairs that both events of a condition have."""
    return re.sub(r"\d+", "#", PLACE.match(rest)[1])


def repeated(role):
    """Lines of a log that say the same more than once while a condition fails, or in more than a
    few failures, whatever their numbers."""
    said, times, found = {}, {}, {}
    for text in role.log_text().splitlines():
        event, time = EVENT.search(text), TIME.match(text)
        if not event:
            continue
        ended = ENDS.get(event[2]), place_of(event[3])
        said = {line: at for line, at in said.items()
                if (line[0], place_of(line[1])) != ended}
        if event[1] not in ("warn", "error"):
            continue
        line = event[2], re.sub(r"\d+", "#", event[3])
        at = datetime.datetime.fromisoformat(time[1])
        may = (line[0] in AGAIN_S and
               (at - said.get(line, at)).total_seconds() >= AGAIN_S[line[0]])
        times[line] = times.get(line, 0) + (not may)
        if line in said and not may or times[line] > SPELLS_MAX:
            found[line] = times[line]
        said[line] = at
    return found


def recovered(text, place):
    """A condition whose place contains this text failed, and all such conditions are ok again."""
    states = {}
    for _, event, rest in EVENT.findall(text):
        if place in rest and event in ENDS:
            states[ENDS[event], place_of(rest)] = True
        elif place in rest and event in ENDS.values():
            states[event, place_of(rest)] = False
    return bool(states) and all(states.values())
