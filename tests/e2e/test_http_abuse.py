# SPDX-License-Identifier: MIT
"""HTTP clients that are slow, half there, wrong or many: after each of them the server answers as
before, no vote is half counted, memory is bounded and every descriptor comes back."""

import collections
import contextlib
import json
import os
import pathlib
import random
import resource
import socket
import struct
import sys
import threading
import time
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

# Votes have to be counted within it, too.
TIMEOUT_MS = 10000
# A connection that has nothing to say is closed after the time-out, in whole seconds, and the look
# at it may be late on a busy machine.
GONE_SECONDS = TIMEOUT_MS / 1000 + 60
MEMORY_MIB_MAX = 400
TCP_REPAIR = 19  # of linux/tcp.h
ESTABLISHED, LISTENING = "01", "0A"  # in /proc/net/tcp
FIRST_VOTER = 1000000
COMMITTERS = 2
NO_SUCH_SESSION = 1094


def vote_body(voter, content=1, voting=1):
    return json.dumps({"voterId": voter, "contentId": content, "voting": voting}).encode()


def vote_request(voter, content=1, voting=1, more=b""):
    body = vote_body(voter, content, voting)
    return (b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def chunked_request(voter, content=1):
    body = vote_body(voter, content)
    return (b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + body[:5] +
            b"\r\n%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n")


# A request of 3 KiB with an answer of three times as much.
LONG_ANSWER = ("GET /v1/votes?voterId=1&contentIds=" + ",".join(map(str, range(10**15, 10**15 + 200))) +
               " HTTP/1.1\r\nHost: localhost\r\n\r\n").encode()


def kind_of(file):
    """An open file without the number that tells it from others."""
    return file.partition(":[")[0]


def status_of(answer):
    """The status of the first answer in some bytes; None when there is none."""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else None


def reset(connection):
    """Closes it with a RST instead of a FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_to_end(connection):
    """What comes until the server closes; a reset is an end, too."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionError:
        pass
    return data


class Answers:
    """Takes one answer after the other off a connection."""

    def __init__(self, connection):
        self.file = connection.makefile("rb")

    def next(self):
        """Status and body; None at the end."""
        first = self.file.readline()
        if not first:
            return None
        length = 0
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return int(first.split()[1]), self.file.read(length)


class Abuse(suite.Case):
    """Each test leaves the server as it found it."""

    settings = {"api.request_timeout_ms": TIMEOUT_MS, "api.body_bytes_max": 65536,
                "api.committers": COMMITTERS}
    # serve is ready while a relay reads what was voted.
    roles = ("relay", "serve")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.voters = iter(range(FIRST_VOTER, 10 * FIRST_VOTER))
        cls.serve.vote((1, 1, 1))
        cls.serve.vote((1, 1, 0))
        # Each committer, each reader of totals or remarks and each task intake has its own, and so
        # have the watch of the lanes, that of recommended lists, and the thread that tells that
        # this process lives; the remover has two, for votes and for remarks.
        suite.wait_for("all connections to the database, and no other", lambda: (
            cls.sessions() == 4 * COMMITTERS + 5 and cls.connections() == 0))
        cls.at_first = collections.Counter(map(kind_of, cls.open_files()))
        cls.descriptors = cls.at_first.total()

    @classmethod
    def count_descriptors(cls):
        return len(os.listdir(f"/proc/{cls.serve.pid}/fd"))

    @classmethod
    def open_files(cls):
        """What the server's descriptors stand for; one may go while we look."""
        found = []
        for one in pathlib.Path(f"/proc/{cls.serve.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(one))
        return sorted(found)

    @staticmethod
    def tcp_rows():
        lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        return [line.split() for line in lines]

    @classmethod
    def connections(cls):
        """How many the server holds that came to its two ports, whatever their state."""
        ports = {cls.serve.api_port, cls.serve.admin_port}
        return sum(int(row[1].split(":")[1], 16) in ports and row[3] != LISTENING and row[9] != "0"
                   for row in cls.tcp_rows())

    @classmethod
    def sessions(cls):
        """How many the server has to its database. The database itself may count some that were
        closed a moment ago. Each has two descriptors: that by which it is cut comes a moment after
        the connection."""
        mine, port = collections.Counter(cls.open_files()), f":{suite.database().port:04X}"
        return sum(row[2].endswith(port) and row[3] == ESTABLISHED and mine[f"socket:[{row[9]}]"] == 2
                   for row in cls.tcp_rows())

    def setUp(self):
        self.votes = self.stack.number("SELECT COALESCE(SUM(votes), 0) FROM vote_count")
        self.expected = 0  # votes that a test has seen answered with 200

    def tearDown(self):
        if not self.serve.alive():
            self.fail(f"the server ended\n{suite.tail(self.serve.log)}")
        self.wait_gone()
        self.vote_works()
        votes = self.stack.number("SELECT COALESCE(SUM(votes), 0) FROM vote_count")
        self.assertEqual(votes - self.votes, self.expected)
        rows = self.stack.number("SELECT COUNT(*) FROM vote_state WHERE voting = 1")
        self.assertEqual(rows, votes)
        self.serve.wait_ready()
        self.assertLess(self.serve.peak_rss_mib(), MEMORY_MIB_MAX)

    def wait_gone(self):
        """Until every connection of the test has given its descriptor back. One that waits to be
        accepted has no descriptor yet, and may still get one."""
        try:
            suite.wait_for("the connections to be gone", lambda: (
                self.connections() == 0 and self.count_descriptors() <= self.descriptors),
                GONE_SECONDS)
        except AssertionError as reason:
            now = collections.Counter(map(kind_of, self.open_files()))
            raise AssertionError(f"{reason}\nmore than at first: {dict(now - self.at_first)}, less: "
                                 f"{dict(self.at_first - now)}") from None

    def vote_works(self, seconds=60):
        """A vote of another client is answered, and counted."""
        answer = self.serve.call("POST", "/v1/votes", vote_body(next(self.voters), 2),
                                 {"Content-Type": "application/json"}, seconds=seconds)
        self.assertEqual(answer.status, 200, answer.body)
        self.expected += 1

    def connect(self, data=b"", port=None, source="127.0.0.1"):
        connection = socket.create_connection(("127.0.0.1", port or self.serve.api_port), 60,
                                              (source, 0))
        connection.settimeout(GONE_SECONDS + 20)
        self.addCleanup(connection.close)
        connection.sendall(data)
        return connection

    def vanish(self, connection):
        """The peer is gone without a word: no FIN, no RST."""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            connection.close()
        except PermissionError:
            pass  # it stays open and silent, which looks the same from the other side

    def open_narrow(self, seconds):
        """A connection that takes little at a time."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.serve.api_port))
        connection.settimeout(seconds)
        self.addCleanup(connection.close)
        return connection

    def send_what_is_taken(self, connection, data):
        """The server may answer and close before it has read everything."""
        try:
            connection.sendall(data)
        except ConnectionError:
            pass


class Slow(Abuse):
    """Clients that take too much time."""

    def test_a_client_that_never_reads_is_let_go(self):
        for _ in range(5):
            connection = self.open_narrow(0.2)
            try:
                connection.sendall(LONG_ANSWER * 10000)
                self.fail("the server takes requests without an end")
            except OSError:
                pass  # no more fits, or it was let go already
        self.vote_works()
        self.wait_gone()


class HalfOpen(Abuse):
    """Clients that are there by half."""

    seconds = 35
    PIECES = (b"", b"P", b"POST /v1/votes HTTP/1.1\r\n", b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\n",
              b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Content-Length: 500\r\n\r\n{",
              b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n10\r\n{")

    def test_peers_that_vanish_are_forgotten(self):
        for piece in self.PIECES * 10:
            self.vanish(self.connect(piece))
        self.vote_works()
        self.wait_gone()

    def test_half_closed_connections_get_their_answer_and_end(self):
        connection = self.connect(vote_request(next(self.voters)))
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(status_of(read_to_end(connection)), 200)
        self.expected += 1
        for piece in self.PIECES:
            connection = self.connect(piece)
            connection.shutdown(socket.SHUT_WR)
            self.assertIn(status_of(read_to_end(connection)), (None, 400))

    def test_admin_pages_outlive_idle_connections(self):
        for number in range(50):
            self.connect(b"GET /", self.serve.admin_port, f"127.0.0.{number // 10 + 2}")
        self.assertEqual(self.serve.admin("/healthz").status, 200)
        self.assertEqual(self.serve.admin("/metrics").status, 200)
        self.vote_works()
        self.doCleanups()

    def test_slow_clients_do_not_keep_a_probe_waiting(self):
        """They take every connection, and send a byte now and then."""
        slow = [self.connect(b"G", self.serve.admin_port, f"127.0.0.{number % 7 + 2}")
                for number in range(70)]
        # Twice a header's time: each of them is closed before, whatever it sends.
        until = time.monotonic() + 10
        while time.monotonic() < until:
            self.assertEqual(self.serve.admin("/healthz").status, 200)
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.send(b"E")
            time.sleep(0.5)
        for connection in slow:
            self.assertEqual(read_to_end(connection), b"")
        self.assertEqual(self.serve.admin("/metrics").status, 200)

    def test_running_out_of_descriptors_is_survived(self):
        soft, hard = resource.prlimit(self.serve.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.serve.pid, resource.RLIMIT_NOFILE, (self.descriptors + 10, hard))
        self.addCleanup(resource.prlimit, self.serve.pid, resource.RLIMIT_NOFILE, (soft, hard))
        log_bytes = self.serve.log.stat().st_size
        idle = [self.connect() for _ in range(100)]
        # Those that wait to be taken are closed as well; the first ones make room by and by.
        for connection in idle:
            connection.close()
        self.vote_works(seconds=GONE_SECONDS)
        self.assertLess(self.serve.log.stat().st_size - log_bytes, 100000)


class Idle(Abuse):
    """A time-out that none of these connections will see."""

    settings = {**Abuse.settings, "api.request_timeout_ms": 600000,
                "api.header_timeout_ms": 600000, "api.body_timeout_ms": 600000}

    def test_a_request_of_one_byte_at_a_time_is_answered(self):
        connection = self.connect()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = vote_request(next(self.voters))
        for number, byte in enumerate(request):
            connection.sendall(bytes([byte]))
            if number % 20 == 0:
                self.vote_works()
        self.assertEqual(Answers(connection).next()[0], 200)
        self.expected += 1
        connection.close()

    def test_a_client_that_does_not_read_keeps_nobody_waiting(self):
        """Its answers wait in its own connection, one at a time, and are all there later."""
        count = 1000
        # Python counts them for all that is sent, not for each piece.
        connection = self.open_narrow(240)
        writer = threading.Thread(target=self.send_what_is_taken,
                                  args=(connection, LONG_ANSWER * count))
        writer.start()
        for _ in range(20):
            self.vote_works()
        answers = Answers(connection)
        for _ in range(count):
            status, body = answers.next()
            self.assertEqual((status, len(json.loads(body))), (200, 200))
        writer.join(GONE_SECONDS)
        self.assertFalse(writer.is_alive())
        connection.close()

    def test_peers_that_vanish_before_their_answer_are_forgotten(self):
        """Their votes count: the requests were whole."""
        holder = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(holder.close)
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM vote_count WHERE content_id = 1 FOR UPDATE")
        peers = [self.connect(vote_request(next(self.voters))) for _ in range(10)]
        for peer in peers:
            self.vanish(peer)
        suite.wait_for("ten votes in hand", lambda: self.connections() >= 10)
        holder.rollback()
        suite.wait_for("ten votes", lambda: self.counted() - self.votes == 10)
        self.expected += 10
        for peer in peers:
            peer.close()

    def counted(self):
        return self.stack.number("SELECT COALESCE(SUM(votes), 0) FROM vote_count")

    def test_a_thousand_idle_connections_leave_room_for_votes(self):
        # This side needs as many, beside what the tests before have not given back yet.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = self.serve.peak_rss_mib()
        idle = [self.connect(piece) for piece in (b"", b"POST /v1/votes HTTP/1.1\r\n") * 500]
        for _ in range(50):
            self.vote_works()
        suite.wait_for("only idle connections", lambda: self.connections() == 1000)
        self.assertLess(self.serve.peak_rss_mib() - before, 100)
        for connection in idle:
            connection.close()


class Few(suite.Case):
    """A process that may hold 300 files and sockets."""

    settings = {"api.request_timeout_ms": 600000, "api.header_timeout_ms": 600000,
                "api.committers": 1}

    def test_idle_connections_leave_room_for_the_database(self):
        serve = suite.Role(self.stack, "serve", {}, [])
        words = serve.command()
        serve.command = lambda: ["prlimit", "--nofile=200:300", *words]
        serve.start().wait_ready()
        self.addCleanup(serve.end)
        self.assertEqual(resource.prlimit(serve.pid, resource.RLIMIT_NOFILE), (300, 300))
        self.assertIn("event=connections_limited", serve.log_text())
        held = [socket.create_connection(("127.0.0.1", serve.api_port), 60) for _ in range(400)]
        for connection in held:
            self.addCleanup(connection.close)
        sessions = self.stack.sql("SELECT id FROM information_schema.processlist WHERE db = %s AND "
                                  "id <> CONNECTION_ID()", (self.stack.name,))
        for (session,) in sessions:
            try:
                self.stack.sql(f"KILL {session}")
            except pymysql.MySQLError as reason:
                # One of an earlier statement of ours may have ended meanwhile.
                self.assertEqual(reason.args[0], NO_SUCH_SESSION)
        held[0].sendall(vote_request(1))
        self.assertEqual(Answers(held[0]).next()[0], 200)


class Cut(Abuse):
    """Requests that end before their end."""

    def cut_everywhere(self, make):
        voter = next(self.voters)
        request = make(voter, 3)
        for length in range(len(request)):
            connection = self.connect(request[:length])
            if length % 3 == 0:
                reset(connection)
            else:
                connection.close()
        self.wait_gone()
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM vote_state WHERE voter_id = %s", (voter,)), 0)
        connection = self.connect(request)
        self.assertEqual(Answers(connection).next()[0], 200)
        connection.close()
        self.expected += 1

    def test_a_request_cut_at_any_byte_does_nothing(self):
        self.cut_everywhere(vote_request)

    def test_a_chunked_request_cut_at_any_byte_does_nothing(self):
        self.cut_everywhere(chunked_request)

    def test_an_array_cut_off_is_not_counted_in_part(self):
        votes = [{"voterId": next(self.voters), "contentId": 4, "voting": 1} for _ in range(1000)]
        body = json.dumps(votes).encode()
        head = (b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body))
        for length in range(0, len(body), 997):
            reset(self.connect(head + body[:length]))
        self.wait_gone()
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM vote_state WHERE content_id = 4"), 0)

    def test_the_second_of_two_pipelined_requests_may_be_cut(self):
        first, second = next(self.voters), next(self.voters)
        request = vote_request(second)
        for length in range(0, len(request), 7):
            connection = self.connect(vote_request(first, voting=1) + request[:length])
            self.assertEqual(Answers(connection).next()[0], 200)
            reset(connection)
        self.wait_gone()
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM vote_state WHERE voter_id = %s", (second,)), 0)
        self.expected += 1


class Pipelined(Abuse):
    """Several requests before the first answer."""

    def test_answers_come_in_the_order_of_the_requests(self):
        voters = [next(self.voters) for _ in range(200)]
        connection = self.connect(b"".join(vote_request(voter, 5) for voter in voters))
        answers = Answers(connection)
        for number, voter in enumerate(voters, 1):
            status, body = answers.next()
            vote = json.loads(body)
            self.assertEqual((status, vote["voterId"], vote["votes"]), (200, voter, number))
        self.expected += len(voters)
        connection.close()

    def test_a_bad_request_among_them_is_answered_in_its_place(self):
        voters = [next(self.voters) for _ in range(2)]
        bad = (b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               b"Content-Length: 1\r\n\r\n{")
        other = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection = self.connect(vote_request(voters[0]) + bad + other + vote_request(voters[1]))
        answers = Answers(connection)
        self.assertEqual([answers.next()[0] for _ in range(4)], [200, 400, 404, 200])
        self.expected += 2
        connection.close()

    def test_nothing_behind_the_last_request_is_read(self):
        first, second = next(self.voters), next(self.voters)
        connection = self.connect(vote_request(first, more=b"Connection: close\r\n") +
                                  vote_request(second))
        self.assertEqual(read_to_end(connection).count(b"HTTP/1.1 "), 1)
        self.expected += 1


class Wrong(Abuse):
    """Requests that are not as they should be."""

    HEAD = b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    def refused(self, request, statuses=(400,)):
        """One answer with one of these statuses, then the end."""
        connection = self.connect()
        self.send_what_is_taken(connection, request)
        data = read_to_end(connection)
        self.assertIn(status_of(data), statuses, (request[:200], data[:200]))
        self.assertNotIn(b"eventId", data)

    def test_a_wrong_content_length_is_refused(self):
        body = vote_body(next(self.voters))
        good = b"%d" % len(body)
        for text in (b"abc", b"-1", b"+" + good, good + b"x", b"0x10", b"", good + b", " + good,
                     good + b" " + good, b"1e3"):
            with self.subTest(text):
                self.refused(self.HEAD + b"Content-Length: " + text + b"\r\n\r\n" + body)
        for text in (b"9" * 19, b"9" * 30, b"18446744073709551616"):
            with self.subTest(text):
                self.refused(self.HEAD + b"Content-Length: " + text + b"\r\n\r\n" + body,
                             (400, 413))

    def test_a_request_with_two_ends_is_refused(self):
        body = vote_body(next(self.voters))
        length = b"Content-Length: %d\r\n" % len(body)
        chunks = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
        for headers, content in (
                (length + length, body),
                (length + b"Content-Length: 0\r\n", body),
                (b"Content-Length: 0\r\n" + length, body),
                (length + b"Transfer-Encoding: chunked\r\n", chunks),
                (b"Transfer-Encoding: chunked\r\n" + length, chunks),
                (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunks),
                (b"Transfer-Encoding: gzip, chunked\r\n", chunks),
                (b"Transfer-Encoding: identity\r\n", body),
                (b"Content-Length : %d\r\n" % len(body), body)):
            with self.subTest(headers):
                self.refused(self.HEAD + headers + b"\r\n" + content +
                             vote_request(next(self.voters)))

    def test_rubbish_in_chunks_is_refused(self):
        for text in (b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n",
                     b"f" * 16 + b"\r\n{}", b"f" * 40 + b"\r\n{}", b"2\r\n{}XX0\r\n\r\n",
                     b"\r\n\r\n\r\n", b"\0\r\n{}\r\n0\r\n\r\n", b";\r\n{}\r\n0\r\n\r\n"):
            with self.subTest(text):
                self.refused(self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + text,
                             (400, 413, None))

    def test_bodies_above_the_limit_cost_nothing(self):
        before = self.serve.peak_rss_mib()
        body = b" " * 3000000
        length = self.HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
        chunked = self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body)
        threads = [threading.Thread(target=self.send_large, args=(head + body + end,))
                   for head, end in ((length, b""), (chunked, b"\r\n0\r\n\r\n")) * 16]
        self.seen = []
        for thread in threads:
            thread.start()
        self.vote_works()
        for thread in threads:
            thread.join(GONE_SECONDS)
        self.assertEqual(self.seen, [413] * 32)
        self.assertLess(self.serve.peak_rss_mib() - before, 64)

    def send_large(self, request):
        with socket.create_connection(("127.0.0.1", self.serve.api_port), 90) as connection:
            self.send_what_is_taken(connection, request)
            self.seen.append(status_of(connection.recv(4096)))

    def test_floods_of_headers_are_refused(self):
        many = b"".join(b"X-%d: y\r\n" % number for number in range(5000))
        for request in (b"GET /v1/contents/1/votes HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n",
                        b"GET /v1/contents/1/votes HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000000,
                        b"GET /" + b"x" * 1000000, b"G" * 1000000,
                        b"GET /v1/votes?" + b"a=b&" * 100000 + b" HTTP/1.1\r\n\r\n",
                        b"GET /v1/votes?" + b"&" * 3000 + b" HTTP/1.1\r\n\r\n"):
            with self.subTest(request[:60]):
                self.refused(request, (400, 413, 414, 431, 501, None))

    def test_methods_and_paths_of_all_kinds_are_answered(self):
        rng = random.Random(7)
        methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT",
                   "BREW", "get", "M" * 200]
        paths = ["/", "*", "/v1", "/v1/votes", "/v1/votes/", "//v1/votes", "/v1/../v1/votes",
                 "/v1/contents/1/votes", "/v1/contents//votes", "/v1/contents/%31/votes",
                 "/v1/contents/1%2f/votes", "/%00", "/v1/votes%00", "/v1/contents/1/votes?voterId",
                 "/v1/contents/1/votes?voterId=%", "/%ff%fe", "/%zz", "http://x/v1/votes", "x:1",
                 "/v1/votes?voterId=1&contentIds=" + "," * 500, "/" + "a/" * 2000]
        for _ in range(600):
            method, path = rng.choice(methods), rng.choice(paths)
            with self.subTest(method=method, path=path[:60]):
                connection = self.connect(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
                                          "Connection: close\r\n\r\n".encode())
                status = status_of(read_to_end(connection))
                self.assertTrue(status == 200 and "contents" in path and method in ("GET", "HEAD")
                                or status in (204, 400, 404, 405, 415), f"{status}")

    def test_bytes_that_are_no_text_are_answered(self):
        rng = random.Random(8)
        for number in range(300):
            rubbish = bytes(rng.randrange(128, 256) for _ in range(rng.randrange(1, 40)))
            request = (b"GET /v1/contents/" + rubbish + b"/votes HTTP/1.1\r\n",
                       b"GET /v1/contents/1/votes?" + rubbish + b"=" + rubbish + b" HTTP/1.1\r\n",
                       b"GET /nothing HTTP/1.1\r\n" + b"X-" + b"a: " + rubbish + b"\r\n",
                       b"POST /v1/votes HTTP/1.1\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n" % len(rubbish))[number % 4]
            tail = rubbish if number % 4 == 3 else b""
            connection = self.connect(request + b"Host: localhost\r\nConnection: close\r\n\r\n" + tail)
            head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
            with self.subTest(request):
                self.assertIn(status_of(head), (400, 404))
                self.assertIn("error", json.loads(body.decode("utf-8")))

    def test_random_bytes_are_answered_or_let_go(self):
        rng = random.Random(9)
        for _ in range(300):
            data = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 300)))
            reset(self.connect(data))
            connection = self.connect(data + b"\r\n\r\n")
            connection.close()


if __name__ == "__main__":
    unittest.main()
