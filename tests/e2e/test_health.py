# SPDX-License-Identifier: MIT
"""`tallybox health`: asks a process on this machine as a supervisor does, and what its exit codes
mean."""

import contextlib
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certs  # noqa: E402
import suite  # noqa: E402

TOKEN = "token-of-the-supervisor-0123456789"
OTHER_TOKEN = "token-of-a-client-0123456789"


def command(*arguments, env=None, ini="/dev/null", **sets):
    """Sets are given as section__key=value."""
    words = [suite.BINARY, "health", "--config", str(ini), *map(str, arguments)]
    for key, value in sets.items():
        words += ["--set", f"{key.replace('__', '.')}={value}"]
    return words, suite.clean_environment(**(env or {}))


def health(*arguments, seconds=60, **more):
    words, env = command(*arguments, **more)
    return subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False,
                          stdin=subprocess.DEVNULL, env=env)


class Listener:
    """Accepts connections, hands each to a function, and keeps what clients sent to it."""

    def __init__(self, serve, context=None):
        self.serve = serve
        self.context = context
        self.received = b""
        self.accepted = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            self.accepted += 1
            with contextlib.suppress(OSError):
                if self.context:
                    connection = self.context.wrap_socket(connection, server_side=True)
                self.serve(self, connection)
            connection.close()

    def read_request(self, connection):
        """Up to the end of a header."""
        got = b""
        while b"\r\n\r\n" not in got:
            piece = connection.recv(4096)
            if not piece:
                break
            got += piece
            self.received += piece

    def close(self):
        self.over.set()
        # Wakes accept().
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(30)


def hang(listener, connection):
    listener.read_request(connection)
    listener.over.wait(60)


def drip(listener, connection):
    """A header that never ends."""
    listener.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not listener.over.wait(0.05):
        connection.sendall(b"x")


def answer(*pieces):
    def serve(listener, connection):
        listener.read_request(connection)
        for piece in pieces:
            connection.sendall(piece)
    return serve


def page(status, body, more=b""):
    return answer(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), more, body))


class Health(suite.Case):
    """Asks roles that run."""

    def setUp(self):
        self.authority = certs.Authority(self.stack.folder / "certs")
        # A name that is neither the loopback nor this machine's.
        self.cert, self.key = self.authority.issue("server", "DNS:relay.example")
        self.tokens = self.stack.folder / "tokens"
        self.tokens.write_text(f"{OTHER_TOKEN} votes read\n{TOKEN} operate\n")
        self.tokens.chmod(0o600)

    def assert_result(self, done, code, text):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (code, text, ""))

    def test_a_process_that_runs_is_healthy_and_ready(self):
        relay = self.start("relay")
        listen = f"127.0.0.1:{relay.admin_port}"
        self.assert_result(health(admin__listen=listen), suite.DONE, "ok\n")
        self.assert_result(health("--ready", admin__listen=listen), suite.DONE, "ok\n")
        # A health check inherits the environment of its container.
        self.assert_result(health("--ready", env={"TALLYBOX_ADMIN_LISTEN": listen}), suite.DONE,
                           "ok\n")
        self.assert_result(health("--url", f"http://localhost:{relay.admin_port}/"), suite.DONE,
                           "ok\n")
        found = json.loads(health("--json", "--ready", admin__listen=listen).stdout)
        self.assertEqual((found["ok"], found["status"], found["url"]),
                         (True, 200, f"http://{listen}/readyz"))
        self.assertEqual(sorted(found["lines"]), sorted(relay.admin("/readyz").body.decode()
                                                        .splitlines()[1:]))
        self.assertIn("relay kafka: ok", found["lines"])
        found = json.loads(health("--json", admin__listen=listen).stdout)
        self.assertEqual(found, {"ok": True, "url": f"http://{listen}/healthz", "status": 200,
                                 "lines": []})

    def test_the_section_of_a_role_tells_its_address(self):
        relay = self.start("relay")
        ini = self.stack.folder / "roles.ini"
        ini.write_text("[admin]\nlisten = 127.0.0.1:9464+\n"
                       f"[role.relay]\nadmin.listen = 127.0.0.1:{relay.admin_port}\n")
        self.assert_result(health("--role", "relay", ini=ini), suite.DONE, "ok\n")
        done = health("--role", "serve", ini=ini)
        self.assertEqual((done.returncode, done.stdout), (suite.USAGE, ""))
        self.assertIn("the process takes any free port", done.stderr)
        done = health("--role", "rellay", ini=ini)
        self.assertEqual((done.returncode, done.stdout), (suite.USAGE, ""))
        self.assertIn("did you mean [role.relay]?", done.stderr)

    def test_without_its_database_a_process_is_healthy_and_not_ready(self):
        # Started without it, and deprived of it later.
        waiting = self.start("relay", ready=False, sets={"mysql.port": suite.free_port()})
        relay = self.start("relay")
        suite.database().stop()
        self.addCleanup(suite.database().restart)
        suite.wait_for("the relay to be unready", lambda: relay.admin("/readyz").status == 503)
        for role, line in ((waiting, "start: "), (relay, "relay ")):
            with self.subTest(line=line):
                listen = f"127.0.0.1:{role.admin_port}"
                self.assert_result(health(admin__listen=listen), suite.DONE, "ok\n")
                done = health("--ready", admin__listen=listen)
                self.assertEqual((done.returncode, done.stderr), (suite.FAILED, ""))
                lines = done.stdout.splitlines()
                self.assertEqual(lines[0], "not ready")
                self.assertTrue(any(one.startswith(line) for one in lines[1:]), done.stdout)
                self.assertNotIn(": ok", done.stdout)
                done = health("--ready", "--json", admin__listen=listen)
                found = json.loads(done.stdout)
                self.assertEqual((done.returncode, found["ok"], found["status"]),
                                 (suite.FAILED, False, 503))
                self.assertTrue(any(one.startswith(line) for one in found["lines"]), found)
        suite.database().restart()
        relay.wait_ready()
        self.assert_result(health("--ready", admin__listen=f"127.0.0.1:{relay.admin_port}"),
                           suite.DONE, "ok\n")

    def test_a_frozen_process_does_not_answer(self):
        relay = self.start("relay")
        listen = f"127.0.0.1:{relay.admin_port}"
        relay.process.send_signal(signal.SIGSTOP)
        try:
            done = health("--timeout", 1, admin__listen=listen)
        finally:
            relay.process.send_signal(signal.SIGCONT)
        self.assertEqual((done.returncode, done.stdout), (suite.UNAVAILABLE, ""))
        self.assertIn(f"http://{listen}/healthz: ", done.stderr)

    def test_every_address_is_asked_at_the_loopback(self):
        for host in ("0.0.0.0", "[::]", "*"):
            with self.subTest(host=host):
                port = suite.free_port()
                listen = f"{host}:{port}"
                self.relay_at({"admin.listen": listen, "admin.without_token": "yes"})
                self.assert_result(health(admin__listen=listen), suite.DONE, "ok\n")
                self.assert_result(health("--url", f"http://127.0.0.1:{port}"), suite.DONE, "ok\n")

    def test_the_loopback_of_ipv6_is_asked(self):
        listen = f"[::1]:{suite.free_port()}"
        self.relay_at({"admin.listen": listen})
        self.assert_result(health(admin__listen=listen), suite.DONE, "ok\n")
        self.assert_result(health("--ready", "--url", f"http://{listen}"), suite.DONE, "ok\n")

    def relay_at(self, sets):
        """A relay with other admin settings; when it is ready, those by which it is asked."""
        relay = suite.Role(self.stack, "relay",
                           {**self.stack.accounts.sets(["relay"], {}), **sets}, ())
        self.addCleanup(relay.start().end)
        used = {key.replace(".", "__"): value for key, value in sets.items()}
        suite.wait_for("the relay to be ready",
                       lambda: health("--ready", **used).returncode == suite.DONE)
        return used

    def test_tls_tokens_and_hosts_of_the_settings_are_used(self):
        port = suite.free_port()
        sets = {"admin.listen": f"127.0.0.1:{port}", "admin.token_file": self.tokens,
                "admin.hosts": "*.relay.example:9464,relay.example", "admin.tls_cert": self.cert,
                "admin.tls_key": self.key}
        used = self.relay_at(sets)
        self.assert_result(health("--ready", **used), suite.DONE, "ok\n")
        self.assert_result(health(**used), suite.DONE, "ok\n")
        self.assert_result(health("--ready", "--url", f"https://localhost:{port}", **used),
                           suite.DONE, "ok\n")
        # Without one of them.
        done = health("--ready", **{**used, "admin__hosts": ""})
        self.assertEqual((done.returncode, done.stdout), (suite.FAILED, ""))
        self.assertIn("status 421: this server does not answer for that host", done.stderr)
        done = health("--ready", **{**used, "admin__token_file": ""})
        self.assertEqual((done.returncode, done.stdout), (suite.FAILED, ""))
        self.assertIn("status 401: a bearer token is needed", done.stderr)
        done = health(**{**used, "admin__tls_cert": "", "admin__tls_key": ""})
        self.assertEqual((done.returncode, done.stdout), (suite.UNAVAILABLE, ""))

    def test_a_certificate_that_its_authority_has_renewed_is_no_failure(self):
        """The process has the old one until it is restarted."""
        chain = self.stack.folder / "chain.pem"
        chain.write_text(self.cert.read_text() + self.authority.ca.read_text())
        port = suite.free_port()
        sets = {"admin.listen": f"127.0.0.1:{port}", "admin.token_file": self.tokens,
                "admin.tls_cert": chain, "admin.tls_key": self.key}
        used = self.relay_at(sets)
        cert, _ = self.authority.issue("renewed", "DNS:relay.example")
        chain.write_text(cert.read_text() + self.authority.ca.read_text())
        self.assert_result(health("--ready", **used), suite.DONE, "ok\n")
        # One without its authority does not tell that both are of one; no token is sent then.
        chain.write_text(cert.read_text())
        self.assert_result(health(**used), suite.DONE, "ok\n")
        done = health("--ready", **used)
        self.assertEqual((done.returncode, done.stdout), (suite.UNAVAILABLE, ""))
        self.assertRegex(done.stderr, "(?i)certificate")

    def test_a_token_file_without_the_scope_is_a_wrong_setting(self):
        self.tokens.write_text(f"{OTHER_TOKEN} votes read\n")
        done = health("--ready", admin__listen="127.0.0.1:1", admin__token_file=self.tokens)
        self.assertEqual((done.returncode, done.stdout), (suite.USAGE, ""))
        self.assertIn(f"admin.token_file: {self.tokens}: no token has the scope operate",
                      done.stderr)
        self.assertNotIn(OTHER_TOKEN, done.stderr)


class StandIns(unittest.TestCase):
    """What else may listen there, or not."""

    any_database = True

    def listen(self, serve, context=None):
        listener = Listener(serve, context)
        self.addCleanup(listener.close)
        return listener

    def ask(self, serve, *arguments, code):
        """stderr of a question to a server that behaves so."""
        listener = self.listen(serve)
        listen = f"127.0.0.1:{listener.port}"
        done = health(*arguments, admin__listen=listen)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(f"tallybox health: http://{listen}/", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        found = json.loads(health("--json", *arguments, admin__listen=listen).stdout)
        self.assertFalse(found["ok"])
        self.assertEqual(f"tallybox health: {found['error']}\n", done.stderr)
        self.assertEqual(found["status"] is None, code == suite.UNAVAILABLE)
        return done.stderr

    def tokens(self):
        path = suite.run().folder / "health-tokens"
        path.write_text(f"{OTHER_TOKEN} votes\n{TOKEN} operate\n")
        path.chmod(0o600)
        return path

    def test_a_port_without_a_listener_is_no_answer(self):
        port = suite.free_port()
        done = health(admin__listen=f"127.0.0.1:{port}")
        self.assertEqual((done.returncode, done.stdout), (suite.UNAVAILABLE, ""))
        self.assertIn(f"http://127.0.0.1:{port}/healthz: ", done.stderr)
        done = health("--ready", "--json", admin__listen=f"127.0.0.1:{port}")
        found = json.loads(done.stdout)
        self.assertEqual((done.returncode, found["ok"], found["status"]),
                         (suite.UNAVAILABLE, False, None))
        self.assertIn("/readyz: ", found["error"])

    def test_a_server_that_hangs_is_left_after_the_time_out(self):
        for serve in (hang, drip, lambda listener, _: listener.over.wait(60)):
            with self.subTest(serve=serve):
                listener = self.listen(serve)
                began = time.monotonic()
                done = health("--timeout", 2, admin__listen=f"127.0.0.1:{listener.port}")
                spent = time.monotonic() - began
                self.assertEqual((done.returncode, done.stdout), (suite.UNAVAILABLE, ""))
                self.assertRegex(done.stderr, "(?i)timed out")
                self.assertEqual(listener.accepted, 1)
                self.assertGreaterEqual(spent, 2)
                # The rest is a slow machine: without a bound the listener would hold it for 60 s.
                self.assertLess(spent, 20)

    def test_the_time_out_is_three_seconds(self):
        listener = self.listen(hang)
        began = time.monotonic()
        done = health(admin__listen=f"127.0.0.1:{listener.port}")
        self.assertEqual(done.returncode, suite.UNAVAILABLE)
        self.assertGreaterEqual(time.monotonic() - began, 3)

    def test_what_is_no_answer_of_http_is_none(self):
        for serve in (answer(b"SSH-2.0-OpenSSH_9.2\r\n"), answer(), answer(b"ok\n"),
                      answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no"),
                      page(b"200 OK", b"x" * (2 << 20))):
            with self.subTest():
                self.ask(serve, code=suite.UNAVAILABLE)

    def test_another_server_is_not_healthy(self):
        text = self.ask(page(b"200 OK", b"<html>welcome</html>\n"), code=suite.FAILED)
        self.assertIn("not the page of tallybox", text)
        self.ask(page(b"200 OK", b"ok\n"), "--ready", code=suite.FAILED)
        text = self.ask(page(b"404 Not Found", b"\x1b[31mnothing\x07\nhere\n"), code=suite.FAILED)
        self.assertIn("status 404: ?[31mnothing?", text)
        self.assertNotIn("\x1b", text)
        listener = self.listen(page(b"200 OK", b"ok\n"))
        text = self.ask(page(b"302 Found", b"", b"Location: http://127.0.0.1:%d/healthz\r\n"
                             % listener.port), code=suite.FAILED)
        self.assertIn("status 302", text)
        self.assertEqual(listener.accepted, 0)

    def test_proxies_of_the_environment_are_not_used(self):
        proxy = self.listen(page(b"200 OK", b"ok\n"))
        server = self.listen(page(b"200 OK", b"ok\n"))
        url = f"http://127.0.0.1:{proxy.port}"
        done = health(admin__listen=f"127.0.0.1:{server.port}",
                      env={"http_proxy": url, "ALL_PROXY": url, "all_proxy": url})
        self.assertEqual((done.returncode, done.stdout), (suite.DONE, "ok\n"))
        self.assertEqual((proxy.accepted, server.accepted), (0, 1))

    def test_the_token_is_in_the_request_alone(self):
        listener = self.listen(hang)
        words, env = command("--ready", "--timeout", 60, "--json", log__level="debug",
                             admin__listen=f"127.0.0.1:{listener.port}",
                             admin__token_file=self.tokens())
        with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            try:
                suite.wait_for("the request", lambda: b"\r\n\r\n" in listener.received)
                for name in ("cmdline", "comm", "environ"):
                    self.assertNotIn(TOKEN.encode(), pathlib.Path(
                        f"/proc/{process.pid}/{name}").read_bytes(), name)
            finally:
                listener.over.set()
            said = process.communicate(timeout=60)[0]
        self.assertIn(f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode(), listener.received)
        self.assertNotIn(OTHER_TOKEN.encode(), listener.received)
        self.assertIn(b'"ok":false', said)
        self.assertNotIn(TOKEN.encode(), said)

    def test_healthz_is_asked_without_a_token(self):
        listener = self.listen(page(b"200 OK", b"ok\n"))
        done = health(admin__listen=f"127.0.0.1:{listener.port}", admin__token_file=self.tokens())
        self.assertEqual(done.returncode, suite.DONE, done.stderr)
        self.assertIn(b"GET /healthz HTTP/1.1\r\n", listener.received)
        self.assertNotIn(b"Authorization", listener.received)

    def test_a_server_with_another_certificate_does_not_get_the_token(self):
        folder = suite.run().folder / "health-certs"
        authority = certs.Authority(folder)
        cert = authority.issue("ours", "IP:127.0.0.1")[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("another", "IP:127.0.0.1"))
        listener = self.listen(page(b"200 OK", b"ready\n"), context)
        done = health("--ready", admin__listen=f"127.0.0.1:{listener.port}",
                      admin__token_file=self.tokens(), admin__tls_cert=cert)
        self.assertEqual((done.returncode, done.stdout), (suite.UNAVAILABLE, ""))
        self.assertRegex(done.stderr, "(?i)certificate")
        self.assertEqual((listener.accepted, listener.received), (1, b""))

    def test_wrong_use_is_refused(self):
        for arguments, sets, text in (
                ((), {}, "admin.listen = 127.0.0.1:9464+: the process takes any free port"),
                ((), {"admin__listen": "off"}, "this process has no admin server"),
                (("--timeout", 0), {}, "expected 1 to 60 seconds"),
                (("--timeout", 61), {}, "expected 1 to 60 seconds"),
                (("--timeout", "soon"), {}, "expected a whole number"),
                (("--url", "127.0.0.1:9464"), {}, "expected http://HOST[:PORT]"),
                (("--url", "http://127.0.0.1:9464/metrics"), {}, "without a path"),
                (("relay",), {}, "takes no arguments"),
                (("--ready",), {"admin__listen": "127.0.0.1:1", "admin__token_file": "/nonexistent"},
                 "admin.token_file: cannot open /nonexistent")):
            with self.subTest(arguments=arguments, sets=sets):
                done = health(*arguments, **sets)
                self.assertEqual((done.returncode, done.stdout), (suite.USAGE, ""), done.stderr)
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
