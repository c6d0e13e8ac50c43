# SPDX-License-Identifier: MIT
"""The way to a database that is not on this machine: encrypted, and to no other server."""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certs  # noqa: E402
import suite  # noqa: E402

# The kernel takes it for the loopback; the program cannot know, and must not trust it.
NOT_LOCAL = "0.0.0.0"


class MysqlTls(unittest.TestCase):
    """`mysql.tls` and `mysql.tls_ca`."""

    @classmethod
    def setUpClass(cls):
        cls.folder = suite.run().folder / "tls-certs"
        cls.authority = certs.Authority(cls.folder)
        cls.other = certs.Authority(cls.folder, "other")

    def server(self, name, places=None):
        """A server whose certificate is for these places; None: one that has no TLS."""
        arguments = ["--ssl=OFF"] if suite.DATABASE == "mariadb" else ["--tls-version="]
        if places:
            cert, key = self.authority.issue(name, places)
            arguments = [f"--ssl-ca={self.authority.ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
        server = suite.OwnServer(name, arguments)
        server.start()
        self.addCleanup(server.stop)
        return server

    def status(self, server, expect, **sets):
        """`migrate status` as a client of this server; what it said."""
        ini = self.folder / "client.ini"
        settings = {"host": server.host, "port": server.port, "user": "root",
                    "database": "tallybox", "connect_timeout_ms": 60000, **sets}
        ini.write_text("[mysql]\n" + "".join(f"{key} = {value}\n"
                                             for key, value in settings.items()))
        done = subprocess.run([suite.BINARY, "migrate", "status", "--config", str(ini)],
                              capture_output=True, text=True, timeout=120, check=False,
                              env=suite.clean_environment())
        if expect is None:
            self.assertNotEqual(done.returncode, suite.DONE)
        else:
            self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    # No database is there yet: who is let in is told so, with exit code 1.
    def welcome(self, server, **sets):
        self.assertIn("does not exist", self.status(server, suite.FAILED, **sets))

    def test_the_right_authority_and_name_are_let_in(self):
        server = self.server("right", f"IP:127.0.0.1,IP:{NOT_LOCAL},DNS:localhost")
        for host in (NOT_LOCAL, "127.0.0.1", "localhost"):
            with self.subTest(host=host):
                self.welcome(server, host=host, tls="verify", tls_ca=self.authority.ca)
        # By default, too, where the host is not this machine.
        self.welcome(server, host=NOT_LOCAL, tls_ca=self.authority.ca)
        text = self.status(server, suite.UNAVAILABLE, host=NOT_LOCAL, tls_ca=self.other.ca)
        self.assertRegex(text, "(?i)certificate")
        self.assertIn("with tls = auto the server needs a certificate for this host", text)
        self.assertIn(str(self.other.ca)[:60], text)
        # Without a tls_ca the system's authorities are asked, and do not know ours.
        self.status(server, suite.UNAVAILABLE, host=NOT_LOCAL)
        # Encrypted without a check of the name; and not encrypted.
        self.welcome(server, host=NOT_LOCAL, tls="on")
        self.welcome(server, host=NOT_LOCAL, tls="off")
        text = self.status(server, None, tls="verify", tls_ca="/nowhere/ca.pem")
        self.assertRegex(text, "(?i)tls|ssl")

    def test_a_certificate_for_another_name_is_not_let_in(self):
        server = self.server("elsewhere", "DNS:db.example.com,IP:10.0.0.1")
        text = self.status(server, suite.UNAVAILABLE, host=NOT_LOCAL, tls_ca=self.authority.ca)
        self.assertIn("with tls = auto the server needs a certificate for this host", text)
        self.status(server, suite.UNAVAILABLE, host="127.0.0.1", tls="verify",
                    tls_ca=self.authority.ca)
        self.welcome(server, host="127.0.0.1")

    def test_a_server_without_tls_is_refused_where_it_is_needed(self):
        server = self.server("bare")
        for sets in ({"host": NOT_LOCAL}, {"tls": "verify"}, {"tls": "on"}):
            with self.subTest(sets=sets):
                text = self.status(server, None, **sets)
                self.assertRegex(text, "(?i)(offers no TLS|SSL is required|does not support)")
        self.welcome(server)
        self.welcome(server, host=NOT_LOCAL, tls="off")


if __name__ == "__main__":
    unittest.main()
