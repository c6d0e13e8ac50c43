# SPDX-License-Identifier: MIT
"""Waits for a state by polling. A row, a topic, a file or a listener that is not there yet is a look
that found nothing, not an error."""

import time

import pymysql

# Numbers of the client library for: nothing listens there.
CANNOT_CONNECT = (2002, 2003)


class NotThere(AssertionError):
    """What was asked for does not exist (yet). Outside of wait_for() it fails the test."""


def look(probe):
    """What the probe found, or None, and why it found nothing."""
    try:
        return probe(), None
    except (NotThere, ConnectionError, FileNotFoundError) as reason:
        return None, reason
    except pymysql.OperationalError as reason:
        if reason.args[0] not in CANNOT_CONNECT:
            raise
        return None, reason


def wait_for(what, probe, seconds=60, every=0.05):
    """Calls probe until it returns something true, which is the result. The last look is after the
    time is up, however long the one before it took."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        value, reason = look(probe)
        if value:
            return value
        if late:
            found = f"gave {value!r}" if reason is None else f"found nothing: {reason!r}"
            raise AssertionError(f"waited {seconds} s for {what}; the last look {found}")
        time.sleep(every)
