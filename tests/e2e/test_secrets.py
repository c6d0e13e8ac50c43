# SPDX-License-Identifier: MIT
"""Plants a secret of its own in every place that takes one, lets everything run, fail and tell all
it knows, and looks for them in all of it."""

import http.client
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certs  # noqa: E402
import suite  # noqa: E402

SECRETS = {
    "the wrong password in the settings": "zq1-in-the-ini-file",
    "the wrong password in the environment": "zq2-in-the-environment",
    "the wrong password in its file": "zq3-in-a-password-file",
    "kafka.sasl.password": "zq4-of-the-broker",
    "kafka.ssl.key.password": "zq5-of-the-client-key",
    "kafka.producer.sasl.password": "zq6-of-the-producer",
    "a token of the API": "zq7-token-of-the-api-0123456789",
    "a token of the admin pages": "zq8-token-of-the-admin-pages",
    "a wrong token": "zq9-token-that-is-not-one",
    "a token that is too short": "zq0-short",
}


class Secrets(suite.Case):
    """Nothing that was planted comes out."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        authority = certs.Authority(cls.stack.folder / "certs")
        cls.cert, cls.key = authority.issue("server", "IP:127.0.0.1")
        cls.client_key = cls.stack.folder / "client.key"
        certs.openssl("rsa", "-aes256", "-passout",
                      f"pass:{SECRETS['kafka.ssl.key.password']}", "-in", cls.key, "-out",
                      cls.client_key)
        # The middle line of a private key.
        lines = cls.key.read_text().splitlines()
        cls.secrets = {**SECRETS, "the private key of HTTPS": lines[len(lines) // 2]}

    def setUp(self):
        self.seen = []

    def file(self, name, *lines):
        path = self.stack.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o600)
        return path

    def look(self, what, text):
        self.seen.append(what)
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        for name, secret in self.secrets.items():
            self.assertNotIn(secret, text, f"{name} is in {what}")

    def run_and_look(self, *words, **options):
        done = self.stack.tallybox(*words, expect=None, **options)
        self.look(f"{words} {options.get('sets')}", done.stdout + done.stderr)
        return done

    def look_at(self, role, token=None):
        """Everything a running role tells about itself."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for path in ("/readyz", "/metrics", "/", "/nowhere"):
            try:
                self.look(f"{role.name} {path}",
                          suite.http_call(role.admin_port, "GET", path, headers=headers).body)
            except (OSError, http.client.HTTPException):
                pass
        for name in ("cmdline", "comm", "status"):
            self.look(f"/proc of {role.name}: {name}",
                      pathlib.Path(f"/proc/{role.pid}/{name}").read_bytes())
        self.look(f"the log of {role.name}", role.log_text())

    def kafka_settings(self):
        """A broker that wants no password, asked with one; and librdkafka tells all it does."""
        return {"kafka.security.protocol": "sasl_plaintext", "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.username": "u", "kafka.debug": "all",
                "kafka.sasl.password": SECRETS["kafka.sasl.password"],
                "kafka.producer.sasl.password": SECRETS["kafka.producer.sasl.password"],
                "kafka.ssl.key.location": self.client_key,
                "kafka.ssl.key.password": SECRETS["kafka.ssl.key.password"],
                "log.level": "debug"}

    def ini_with(self, **settings):
        """Another file of settings, with these beside those of the installation."""
        path = self.stack.folder / "planted.ini"
        sections = {}
        merged = {**self.stack.settings,
                  **{key.replace("__", "."): value for key, value in settings.items()}}
        for key, value in merged.items():
            section, rest = key.split(".", 1)
            sections.setdefault(section, []).append(f"{rest} = {value}\n")
        path.write_text("".join(f"[{name}]\n{''.join(lines)}\n"
                                for name, lines in sections.items()))
        return path

    def test_settings_are_printed_without_them(self):
        ini = self.ini_with(**self.kafka_settings(),
                            mysql__password=SECRETS["the wrong password in the settings"])
        for words in (["config"], ["config", "--json"], ["config", "--defaults"],
                      ["migrate", "grants"], ["migrate", "status"], ["status"], ["verify"]):
            self.run_and_look(*words, "--config", str(ini))
        self.run_and_look("config", env={
            "TALLYBOX_MYSQL_PASSWORD": SECRETS["the wrong password in the environment"]})
        # A line that is wrong for another reason than its secret; and a secret too long.
        for line in (f"passwrod = {SECRETS['the wrong password in the settings']}",
                     f"password = {SECRETS['the wrong password in the settings'] * 40}"):
            self.run_and_look("config", "--config",
                              str(self.file("wrong.ini", "[mysql]", line)))
        self.run_and_look("config", "--config", str(self.file(
            "wrong.ini", "[kafka]", "ssl.key.pem = " + self.key.read_text().replace("\n", " "))))
        # The command line is shown to all, so the program takes none from it.
        for key in ("mysql.password", "sink.password", "kafka.sasl.password",
                    "kafka.producer.sasl.password", "kafka.ssl.key.password"):
            done = self.run_and_look("status", sets={
                key: SECRETS["kafka.sasl.password"]})
            self.assertEqual(done.returncode, suite.USAGE)
            self.assertIn("other accounts of this machine", done.stderr)
        self.assertGreater(len(self.seen), 15)

    def test_logins_fail_without_a_word_of_them(self):
        path = self.file("wrong-password", SECRETS["the wrong password in its file"])
        ini = self.ini_with(mysql__password=SECRETS["the wrong password in the settings"],
                            log__level="debug", mysql__auth_wait_ms=0)
        for words in (["status"], ["status", "--json"], ["verify"], ["migrate", "up"],
                      ["vote", "1", "1"], ["rollup", "--once"], ["serve"], ["relay"]):
            done = self.run_and_look(*words, sets={
                "mysql.user": "root", "mysql.password_file": path, "log.level": "debug",
                "admin.listen": "off", "mysql.auth_wait_ms": 0})
            self.assertIn("denied", done.stdout + done.stderr, words)
            self.run_and_look(*words, "--config", str(ini),
                              sets={"mysql.user": "root", "admin.listen": "off"})
            self.run_and_look(*words, sets={
                "mysql.user": "root", "admin.listen": "off", "mysql.auth_wait_ms": 0}, env={
                    "TALLYBOX_MYSQL_PASSWORD": SECRETS["the wrong password in the environment"]})

    def test_a_broker_that_refuses_hears_and_tells_nothing(self):
        ini = self.ini_with(**self.kafka_settings())
        self.stack.append([{"id": "x", "aggregatetype": "vote", "aggregateid": "1", "type": "x"}])
        self.addCleanup(self.stack.sql, "DELETE FROM outbox")
        for name in ("relay", "consume"):
            role = self.stack.role(name, ready=False, arguments=["--config", str(ini)])
            self.addCleanup(role.kill)
            # librdkafka prints all its properties, and says why the handshake fails.
            suite.wait_for("librdkafka to try", lambda: "SASL" in role.log_text().upper() and
                           "facility=CONF" in role.log_text())
            self.look_at(role)
            role.process.send_signal(signal.SIGHUP)
            suite.wait_for("the settings to be read again",
                           lambda: "event=reload" in role.log_text())
            self.look_at(role)
            role.kill()

    def test_tokens_and_keys_stay_inside(self):
        api, admin = SECRETS["a token of the API"], SECRETS["a token of the admin pages"]
        role = self.stack.role("serve", ready=False, sets={
            "api.token_file": self.file("api-tokens", api), "log.level": "debug",
            "admin.token_file": self.file("admin-tokens", f"{admin} operate"),
            "admin.tls_cert": "", "api.tls_cert": self.cert, "api.tls_key": self.key})
        self.addCleanup(role.end)
        suite.wait_for("the API", lambda: "event=api_listening" in role.log_text())
        for token in (admin, SECRETS["a wrong token"], None):
            self.look_at(role, token)
        # Not HTTPS, a wrong token, a token in the wrong place.
        for headers in ({"Authorization": f"Bearer {SECRETS['a wrong token']}"},
                        {"Authorization": f"Basic {SECRETS['a wrong token']}"}):
            answer = suite.http_call(role.admin_port, "GET",
                                     f"/metrics?access_token={SECRETS['a wrong token']}",
                                     headers=headers)
            self.assertEqual(answer.status, 401)
            self.look("an answer of the admin pages", answer.body + str(answer.headers).encode())
        self.file("api-tokens", api, SECRETS["a token that is too short"])
        role.process.send_signal(signal.SIGHUP)
        suite.wait_for("the tokens to be read again",
                       lambda: "event=tokens_reload_failed" in role.log_text())
        self.look_at(role, admin)
        for sets in ({"api.tls_cert": self.key, "api.tls_key": self.key},
                     {"api.tls_cert": self.cert, "api.tls_key": self.client_key},
                     {"api.token_file": self.key}):
            self.run_and_look("serve", sets={"admin.listen": "off", **sets})


if __name__ == "__main__":
    unittest.main()
