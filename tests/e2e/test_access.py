# SPDX-License-Identifier: MIT
"""Who may talk to the API and the admin pages: tokens, TLS, and what other machines can reach."""

import http.client
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certs  # noqa: E402
import suite  # noqa: E402

OLD = "old-token-of-the-first-half-year"
NEW = "new-token-of-the-second-half-year"
VOTE = {"voterId": 1, "contentId": 1, "voting": 1}


def bearer(token):
    return {"Authorization": f"Bearer {token}"} if token else {}


class Access(suite.Case):
    """serve on all addresses."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.authority = certs.Authority(cls.stack.folder / "certs")
        cls.cert, cls.key = cls.authority.issue("server", "IP:127.0.0.1")

    def setUp(self):
        self.tokens = self.stack.folder / "tokens"
        self.write_tokens(OLD)

    def write_tokens(self, *tokens):
        self.tokens.write_text("".join(f"{token}\n" for token in tokens))
        self.tokens.chmod(0o600)

    def serve(self, **options):
        """A serve that answers on all addresses; options are settings of [api]."""
        port = suite.free_port()
        sets = {"api.listen": f"0.0.0.0:{port}",
                **{f"api.{key}": value for key, value in options.items()}}
        role = self.start("serve", sets=sets)
        role.api_port = port
        return role

    def refused(self, *words, **sets):
        """serve does not start, and says these words; nothing listens meanwhile."""
        sets = {"admin.listen": "off",
                **{key.replace("__", "."): value for key, value in sets.items()}}
        done = self.stack.tallybox("serve", sets=sets, expect=suite.USAGE)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr

    def https(self, port, path="/v1/votes", token=None, context=None, body=None):
        context = context or ssl.create_default_context(cafile=self.authority.ca)
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        try:
            headers = {**bearer(token), **({"Content-Type": "application/json"} if body else {})}
            connection.request("POST" if body else "GET", path,
                               json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def test_other_machines_need_a_token_or_a_word_of_the_operator(self):
        place = f"0.0.0.0:{suite.free_port()}"
        self.refused("other machines can reach this address", "api.token_file",
                     "api.without_token = yes", api__listen=place)
        self.refused("admin.token_file", "admin.without_token = yes", admin__listen=place)
        role = self.serve(without_token="yes")
        role.vote((1, 1, 1))
        self.assertIn("event=http_without_tls", role.log_text())

    def test_only_the_right_token_opens(self):
        role = self.serve(token_file=self.tokens)
        for token in (None, NEW, OLD[:-1], OLD + "x", OLD.upper(), ""):
            with self.subTest(token=token):
                answer = role.call("POST", "/v1/votes", VOTE, headers=bearer(token))
                self.assertEqual(answer.status, 401)
                self.assertIn("Bearer", answer.headers["www-authenticate"])
                error = json.loads(answer.body)["error"]
                self.assertEqual(error["code"], "unauthorized")
                self.assertNotIn(OLD, answer.body.decode())
        self.assertEqual(role.call("GET", "/v1/contents/1/votes").status, 401)
        self.assertEqual(role.call("GET", "/nowhere").status, 401)
        answer = role.call("POST", "/v1/votes", VOTE, headers=bearer(OLD))
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_state WHERE voter_id = 1"), 1)

    def test_tokens_change_without_a_gap(self):
        role = self.serve(token_file=self.tokens)

        def status(token):
            return role.call("GET", "/v1/contents/1/votes", headers=bearer(token)).status

        def reload(*tokens):
            seen = role.log_text().count("tokens_reload")
            self.write_tokens(*tokens)
            role.process.send_signal(signal.SIGHUP)
            suite.wait_for("the tokens to be read again",
                           lambda: role.log_text().count("tokens_reload") > seen)

        self.assertEqual((status(OLD), status(NEW)), (200, 401))
        reload(OLD, NEW)
        self.assertEqual((status(OLD), status(NEW)), (200, 200))
        reload(NEW)
        self.assertEqual((status(OLD), status(NEW)), (401, 200))
        reload("too-short")
        self.assertEqual((status(OLD), status(NEW)), (401, 200))
        self.assertIn("tokens_reload_failed", role.log_text())
        self.assertNotIn("too-short", role.log_text())

    def test_a_missing_scope_is_named_and_changes_with_the_file(self):
        self.write_tokens(f"{OLD} votes", f"{NEW} read")
        role = self.serve(token_file=self.tokens)
        answer = role.call("GET", "/v1/contents/1/votes", headers=bearer(OLD))
        self.assertEqual(answer.status, 403)
        self.assertIn("lacks the scope read", answer.body.decode())
        self.assertEqual(role.call("POST", "/v1/votes", VOTE, headers=bearer(OLD)).status, 200)
        answer = role.call("POST", "/v1/votes", VOTE, headers=bearer(NEW))
        self.assertEqual(json.loads(answer.body)["error"]["code"], "forbidden")
        self.assertIn("lacks the scope votes", answer.body.decode())
        self.write_tokens(f"{OLD} votes", f"{NEW} read votes")
        role.process.send_signal(signal.SIGHUP)
        suite.wait_for("the new scope", lambda: role.call(
            "POST", "/v1/votes", VOTE, headers=bearer(NEW)).status == 200)

    def test_a_file_of_tokens_that_all_can_read_is_refused(self):
        self.tokens.chmod(0o644)
        self.refused("api.token_file", "open to every account of this machine (mode 644)",
                     "chmod o=", api__token_file=self.tokens)
        self.refused("cannot open", api__token_file=self.tokens.with_name("none"))
        self.write_tokens("short")
        self.refused("tokens:1: has a token of 5 characters", api__token_file=self.tokens)

    def test_https_with_a_token(self):
        role = self.serve(token_file=self.tokens, tls_cert=self.cert, tls_key=self.key)
        self.assertNotIn("http_without_tls", role.log_text())
        self.assertEqual(self.https(role.api_port, body=VOTE)[0], 401)
        status, body = self.https(role.api_port, token=OLD, body=VOTE)
        self.assertEqual((status, json.loads(body)["votes"]), (200, 1))
        self.assertEqual(self.https(role.api_port, "/v1/contents/1/votes", OLD)[0], 200)
        # A client that trusts another authority does not talk to it.
        other = certs.Authority(self.stack.folder / "other", "other")
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.https(role.api_port, token=OLD,
                       context=ssl.create_default_context(cafile=other.ca))
        # Plain HTTP gets no answer there.
        with self.assertRaises((http.client.HTTPException, OSError)):
            role.call("GET", "/v1/contents/1/votes", headers=bearer(OLD))

    def test_nothing_older_than_tls_1_2(self):
        role = self.serve(token_file=self.tokens, tls_cert=self.cert, tls_key=self.key)
        for version, good in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                              (ssl.TLSVersion.TLSv1_3, True)):
            context = ssl.create_default_context(cafile=self.authority.ca)
            # Else this side would already refuse to offer the old one.
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            with self.subTest(version=version):
                if good:
                    self.assertEqual(self.https(role.api_port, token=OLD, context=context,
                                                body=VOTE)[0], 200)
                else:
                    with self.assertRaises(ssl.SSLError):
                        self.https(role.api_port, token=OLD, context=context)

    def test_a_certificate_and_a_key_that_do_not_fit_are_refused(self):
        key = self.authority.issue("another", "IP:127.0.0.1")[1]
        self.refused("api.tls_key", "does not belong to the first certificate",
                     api__tls_cert=self.cert, api__tls_key=key)
        self.refused("api.tls_key is not set", api__tls_cert=self.cert)
        self.refused("api.tls_cert", "holds no certificate", api__tls_cert=self.key,
                     api__tls_key=self.key)
        locked = self.stack.folder / "locked.key"
        certs.openssl("rsa", "-aes256", "-passout", "pass:secret", "-in", self.key, "-out", locked)
        locked.chmod(0o600)
        text = self.refused("holds no private key", "without a password", api__tls_cert=self.cert,
                            api__tls_key=locked)
        self.assertNotIn("Enter", text)
        self.key.chmod(0o644)
        self.addCleanup(self.key.chmod, 0o600)
        self.refused("api.tls_key", "open to every account", api__tls_cert=self.cert,
                     api__tls_key=self.key)

    def test_admin_pages_ask_for_a_token_but_healthz(self):
        self.refused("admin.token_file", "no token has the scope operate",
                     admin__listen=f"127.0.0.1:{suite.free_port()}",
                     admin__token_file=self.tokens)
        self.write_tokens(f"{OLD} operate", f"{NEW} votes read tasks:default")
        role = self.start("serve", ready=False, sets={"admin.token_file": self.tokens})
        suite.wait_for("readiness", lambda: suite.http_call(
            role.admin_port, "GET", "/readyz", headers=bearer(OLD)).status == 200)
        for path in ("/readyz", "/metrics", "/"):
            self.assertEqual(role.admin(path).status, 401, path)
            self.assertEqual(suite.http_call(role.admin_port, "GET", path,
                                             headers=bearer(OLD)).status, 200, path)
            answer = suite.http_call(role.admin_port, "GET", path, headers=bearer(NEW))
            self.assertEqual(answer.status, 403, path)
            self.assertIn(b"lacks the scope operate", answer.body)
        self.assertEqual(role.admin("/healthz").status, 200)

    def test_admin_pages_over_https(self):
        port = suite.free_port()
        self.write_tokens(f"{OLD} operate")
        role = suite.Role(self.stack, "serve", {
            "admin.listen": f"0.0.0.0:{port}", "admin.tls_cert": self.cert,
            "admin.tls_key": self.key, "admin.token_file": self.tokens}, ()).start()
        self.addCleanup(role.end)

        def look():
            try:
                return self.https(port, "/readyz", OLD)[0] == 200
            except OSError:
                return False
        suite.wait_for("readiness", look)
        self.assertEqual(self.https(port, "/readyz")[0], 401)
        self.assertEqual(self.https(port, "/healthz"), (200, b"ok\n"))
        self.assertIn(f"url=https://{socket.gethostname()}:{port}/", role.log_text())


class Silent(unittest.TestCase):
    """What needs no server of ours."""

    def test_everything_listens_on_the_loopback_by_default(self):
        done = subprocess.run([suite.BINARY, "config", "--defaults"], capture_output=True,
                              text=True, check=True)
        listens = [line for line in done.stdout.splitlines() if line.startswith("listen = ")]
        self.assertEqual(len(listens), 2, listens)
        for line in listens:
            self.assertIn("listen = 127.0.0.1:", line)


if __name__ == "__main__":
    unittest.main()
