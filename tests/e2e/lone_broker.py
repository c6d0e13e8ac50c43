# SPDX-License-Identifier: MIT
"""A broker that is going away: it speaks just enough of Kafka's protocol to say that the cluster has
no brokers, as a real one may for a moment, and remembers who asked."""

import contextlib
import socket
import struct
import threading

import wire

METADATA, API_VERSIONS = 3, 18
UNSUPPORTED_VERSION = 35
METADATA_VERSION = 4
# (number, lowest, highest version) of what clients want to see before they talk to a broker: Produce
# and Fetch of records with headers, and InitProducerId.
APIS = ((0, 0, 3), (1, 0, 4), (METADATA, 0, METADATA_VERSION), (API_VERSIONS, 0, 0), (22, 0, 0))


def topics_of(body):
    """The names in a request for metadata, of a version before they became compact. Who asks for all
    topics hears of one."""
    count, at, names = struct.unpack_from(">i", body)[0], 4, []
    if count < 0:
        return [b"some"]
    for _ in range(count):
        length = struct.unpack_from(">h", body, at)[0]
        names.append(body[at + 2:at + 2 + length])
        at += 2 + length
    return names


class LoneBroker:
    """Listens until close(). It is the only broker until it was asked twice, and none after that."""

    def __init__(self, port):
        self.port = port
        self.asked = 0
        self.denied = 0  # answers that there are no brokers
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection, contextlib.suppress(OSError):
            while True:
                size = struct.unpack(">i", wire.read_exactly(connection, 4))[0]
                request = wire.read_exactly(connection, size)
                api, version, correlation, client = struct.unpack_from(">hhih", request)
                answer = self.answer(api, version, request[10 + max(0, client):])
                message = struct.pack(">i", correlation) + answer
                connection.sendall(struct.pack(">i", len(message)) + message)

    def answer(self, api, version, body):
        if api == API_VERSIONS:
            return (struct.pack(">hi", UNSUPPORTED_VERSION if version else 0, len(APIS)) +
                    b"".join(struct.pack(">hhh", *one) for one in APIS))
        if api != METADATA:
            raise ConnectionError(f"no answer to {api}")
        names = topics_of(body)
        self.asked += 1
        brokers = []
        if self.asked <= 2:
            brokers = [struct.pack(">ih9sih", 1, 9, b"127.0.0.1", self.port, -1)]
        else:
            self.denied += bool(names)
        # No throttling, no cluster id, no controller, and topics without partitions.
        return (struct.pack(">ii", 0, len(brokers)) + b"".join(brokers) +
                struct.pack(">hii", -1, -1, len(names)) +
                b"".join(struct.pack(">hh", 0, len(name)) + name + struct.pack(">?i", False, 0)
                         for name in names))

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
