# SPDX-License-Identifier: MIT
"""Ports for roles, proxies and stand-ins."""

import itertools
import socket
import threading


def _port_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# Below the range of the servers and far below the one from which clients get theirs. Processes that
# test at the same time share it out: who holds the name of a slice has its ports.
PORTS_FROM, PORTS_TO, PORTS_SLICE = 10000, 15000, 250


def _ports_take():
    """(the socket that holds the slice until this process ends, its first port)"""
    for start in range(PORTS_FROM, PORTS_TO, PORTS_SLICE):
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0tallybox-test-ports-{start}")
            return holder, start
        except OSError:
            holder.close()
    raise RuntimeError("too many test runs at a time: all ports are taken")


class _Ports:
    """The ports of this process, one after the other."""

    lock = threading.Lock()
    holder = ports = None
    kept = set()

    @classmethod
    def next(cls, keep):
        with cls.lock:
            if cls.ports is None:
                cls.holder, start = _ports_take()
                cls.ports = itertools.cycle(range(start, start + PORTS_SLICE))
            port = next(port for port in cls.ports if port not in cls.kept and _port_free(port))
            if keep:
                cls.kept.add(port)
            return port


def free_port(keep=False):
    """A port that nothing listens on, not given out again for a long time; keep: never, because
    its server may be stopped for a while."""
    return _Ports.next(keep)
