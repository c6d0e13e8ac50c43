# SPDX-License-Identifier: MIT
"""The proxy injects each ordered fault, ends it in time, and ends with its parent."""

import pathlib
import socket
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import suite  # noqa: E402
import installation  # noqa: E402


class Echo(threading.Thread):
    """Sends back what it hears, and remembers it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = b""

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                while data := connection.recv(65536):
                    self.heard += data
                    connection.sendall(data)
            except OSError:
                pass


class Proxy(unittest.TestCase):
    """One link to an echo."""

    any_database = True

    def setUp(self):
        self.echo = Echo()
        self.echo.start()
        self.addCleanup(self.echo.listener.close)
        self.port = installation.free_port()
        self.proxy = installation.Proxy({"one": [self.port, self.echo.port],
                                         "two": [installation.free_port(), 1]})
        self.addCleanup(self.proxy.close)

    def connect(self, seconds=10):
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
        connection.settimeout(seconds)
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, text=b"hello"):
        connection.sendall(text)
        answer = b""
        while len(answer) < len(text):
            piece = connection.recv(65536)
            if not piece:
                raise ConnectionError("closed")
            answer += piece
        return answer

    def test_bytes_pass_unchanged(self):
        text = bytes(range(256)) * 4000
        connection = self.connect()
        sender = threading.Thread(target=connection.sendall, args=(text,))
        sender.start()
        answer = b""
        while len(answer) < len(text):
            answer += connection.recv(65536)
        sender.join()
        self.assertEqual(answer, text)

    def test_an_end_is_passed_on(self):
        connection = self.connect()
        connection.sendall(b"last")
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.recv(100), b"last")
        self.assertEqual(connection.recv(100), b"")

    def test_cut_resets_and_refuses_for_its_time(self):
        connection = self.connect()
        self.assertEqual(self.ask(connection), b"hello")
        self.proxy.order("one", "cut", 1)
        with self.assertRaises(ConnectionError):
            connection.recv(1)
        self.wait_again()

    def wait_again(self):
        def look():
            try:
                return self.ask(self.connect()) == b"hello"
            except OSError:
                return False
        suite.wait_for("the link to work again", look)

    def test_lose_lets_the_request_through_and_no_answer(self):
        connection = self.connect()
        self.ask(connection)
        self.proxy.order("one", "lose", 4)
        suite.wait_for("the order to be heard", lambda: self.unanswered(connection))
        with self.assertRaises(ConnectionError):
            while connection.recv(100):
                pass
        self.assertIn(b"lost", self.echo.heard)
        self.wait_again()

    @staticmethod
    def unanswered(connection):
        """Whether a question stays without an answer for a while."""
        connection.settimeout(1)
        try:
            connection.sendall(b"lost")
            connection.recv(100)
        except socket.timeout:
            return True
        finally:
            connection.settimeout(10)
        return False

    def test_stall_holds_everything_and_loses_nothing(self):
        connection = self.connect()
        self.ask(connection)
        began = time.monotonic()
        self.proxy.order("one", "stall", 1.5)
        while time.monotonic() - began < 1:
            answer = self.ask(connection, b"later")
            self.assertEqual(answer, b"later")
        self.assertGreater(time.monotonic() - began, 1)

    def test_slow_takes_its_time(self):
        connection = self.connect()
        self.proxy.order("one", "slow", 30)
        began = time.monotonic()
        for _ in range(20):
            self.ask(connection)
        self.assertGreater(time.monotonic() - began, 0.5)
        self.proxy.heal()
        self.assertEqual(self.ask(connection), b"hello")

    def test_a_server_that_is_away_is_a_reset(self):
        with self.assertRaises(ConnectionError):
            with socket.create_connection(("127.0.0.1", self.proxy.ports["two"]), 10) as there:
                there.settimeout(10)
                there.recv(1)

    def test_it_ends_with_its_stdin(self):
        self.proxy.process.stdin.close()
        self.assertEqual(self.proxy.process.wait(20), 0)


if __name__ == "__main__":
    unittest.main()
