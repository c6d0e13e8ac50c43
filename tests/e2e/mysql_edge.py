# SPDX-License-Identifier: MIT
"""A place between the program and its database where trouble is made on purpose: it speaks just
enough of MySQL's protocol to answer a statement with an error of the test's choice, to lose the
answer to one, to refuse logins, or to be silent. Everything else passes through."""

import contextlib
import re
import socket
import struct
import threading
import time

import wire

# After these a server has closed the session, so the real one must lose it too.
ENDS_SESSION = {1053, 1077, 1079, 1080, 1152, 1153, 1154, 1158, 1159, 1160, 1161, 1184, 1927, 3169,
                4031, 4081}
# After these it has undone the transaction and kept the session.
UNDOES_TRANSACTION = {1213, 1180, 3101}
QUERY = 3
BINLOG_DUMPS = (0x12, 0x1e)
# MySQL's library sends a count of attributes before each statement.
NO_ATTRIBUTES = b"\0\1"


class Trouble:
    """What happens to the statements that match, so many times. code 0: the answer is lost and the
    connection cut, after the statement was done ("lose") or before ("cut")."""

    def __init__(self, pattern, kind, times, code=0, text=""):
        self.pattern = re.compile(pattern, re.IGNORECASE | re.DOTALL)
        self.kind = kind
        self.left = times
        self.code = code
        self.text = text
        self.hits = 0
        self.released = threading.Event()  # "hold"


class Session:
    """One connection of the program, and ours to the server behind it."""

    def __init__(self, edge, client):
        self.edge = edge
        self.client = client
        self.server = socket.create_connection((edge.host, edge.server_port), 60)
        for one in (client, self.server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(None)
        self.mute = False  # answers of the server are dropped
        self.swallowed = threading.Semaphore(0)
        self.over = threading.Event()
        self.reads_log = False
        self.rest = bytearray()  # of the log, below a packet
        self.prefix = b""  # of a statement, where its attributes would be

    def close(self):
        for one in (self.client, self.server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def error(self, sequence, code, text):
        body = struct.pack("<BH", 0xFF, code) + b"#HY000" + text.encode()
        self.client.sendall(struct.pack("<I", len(body))[:3] + bytes([sequence]) + body)

    def upward(self):
        """Statements, one packet at a time; a larger one than a packet passes as it is."""
        try:
            while True:
                head = wire.read_exactly(self.client, 4)
                body = wire.read_exactly(self.client, int.from_bytes(head[:3], "little"))
                if head[3] == 0 and body[:1] == bytes([QUERY]):
                    sql = body[1:]
                    self.prefix = NO_ATTRIBUTES if sql.startswith(NO_ATTRIBUTES) else b""
                    sql = sql[len(self.prefix):].decode(errors="replace")
                    if not self.statement(sql, head + body):
                        return
                else:
                    self.reads_log |= head[3] == 0 and body[0] in BINLOG_DUMPS
                    self.server.sendall(head + body)
        except OSError:
            pass
        finally:
            self.close()

    def statement(self, sql, packet):
        """False: the connection is over."""
        trouble = self.edge.trouble_for(sql)
        if trouble is None:
            self.server.sendall(packet)
            return True
        if trouble.kind == "cut":
            return False
        if trouble.kind == "hang":
            self.edge.released.wait()
            return False
        if trouble.kind == "hold":
            trouble.released.wait()
            self.server.sendall(packet)
            return True
        if trouble.kind == "lose":
            self.mute = True
            self.server.sendall(packet)
            # The server's own end of the session says that the statement was done.
            self.server.sendall(struct.pack("<I", 1)[:3] + b"\0\x01")
            self.over.wait(60)
            return False
        if trouble.code in UNDOES_TRANSACTION:
            self.silently(b"ROLLBACK")
        self.error(1, trouble.code, trouble.text)
        return trouble.code not in ENDS_SESSION

    def silently(self, sql):
        """A statement of the proxy itself; the client does not see its answer, one small packet."""
        self.mute = True
        body = bytes([QUERY]) + self.prefix + sql
        self.server.sendall(struct.pack("<I", len(body))[:3] + b"\0" + body)
        self.swallowed.acquire(timeout=60)
        self.mute = False

    def downward(self):
        try:
            while True:
                data = self.server.recv(1 << 16)
                if not data:
                    break
                if self.mute:
                    self.swallowed.release()
                elif self.reads_log:
                    self.pass_events(data)
                else:
                    self.client.sendall(data)
        except OSError:
            pass
        finally:
            self.over.set()
            self.close()


    def pass_events(self, data):
        """One packet after the other, while the edge says so."""
        self.rest += data
        while self.rest and self.edge.event_s > 0:
            length = 4 + int.from_bytes(self.rest[:3], "little")
            if len(self.rest) < length:
                return
            self.client.sendall(self.rest[:length])
            del self.rest[:length]
            time.sleep(self.edge.event_s)
        self.client.sendall(self.rest)
        self.rest.clear()


class Edge:
    """Listens on a port of its own until close()."""

    def __init__(self, host, server_port):
        self.host, self.server_port = host, server_port
        self.lock = threading.Lock()
        self.troubles = []
        self.refusal = None  # (code, text) for every new connection
        self.event_s = 0  # between two events of the binary log
        self.sessions = []
        self.cuts = 0  # cut_all()s so far
        self.released = threading.Event()
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                cuts, refusal = self.cuts, self.refusal
                if refusal:
                    self.refuse(client, *refusal)
                    continue
                try:
                    session = Session(self, client)
                except OSError:
                    client.close()
                    continue
                with self.lock:
                    self.sessions.append(session)
                    late = cuts != self.cuts
                if late:
                    session.close()
                for run in (session.upward, session.downward):
                    threading.Thread(target=run, daemon=True).start()

    @staticmethod
    def refuse(client, code, text):
        """As a server that is full: an error instead of a greeting, without a state."""
        body = struct.pack("<BH", 0xFF, code) + text.encode()
        with contextlib.suppress(OSError):
            client.sendall(struct.pack("<I", len(body))[:3] + b"\0" + body)
            client.close()

    def trouble_for(self, sql):
        with self.lock:
            for trouble in self.troubles:
                if trouble.left != 0 and trouble.pattern.search(sql):
                    trouble.left -= 1
                    trouble.hits += 1
                    return trouble
        return None

    def _make(self, trouble):
        with self.lock:
            self.troubles.append(trouble)
        return trouble

    def answer(self, pattern, code, text="trouble made by a test", times=1):
        """Statements that match are answered with this error and not done. times < 0: all."""
        return self._make(Trouble(pattern, "answer", times, code, text))

    def lose(self, pattern, times=1):
        """They are done, and the connection is cut before the answer."""
        return self._make(Trouble(pattern, "lose", times))

    def cut(self, pattern, times=1):
        """The connection is cut before they reach the server."""
        return self._make(Trouble(pattern, "cut", times))

    def hang(self, pattern, times=1):
        """They are not answered until close()."""
        return self._make(Trouble(pattern, "hang", times))

    def hold(self, pattern, times=1):
        """They wait until `released` is set, and pass then."""
        return self._make(Trouble(pattern, "hold", times))

    def refuse_logins(self, code, text):
        self.refusal = (code, text)

    def cut_all(self):
        """Every connection, now; also one that is just being made."""
        with self.lock:
            self.cuts += 1
            sessions, self.sessions = self.sessions, []
        for session in sessions:
            session.close()

    def well(self):
        """No more trouble."""
        self.refusal = None
        with self.lock:
            self.troubles = []

    def close(self):
        self.released.set()
        with self.lock:
            for trouble in self.troubles:
                trouble.released.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut_all()
