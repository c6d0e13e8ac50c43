# SPDX-License-Identifier: MIT
"""The registry of clients: beats, limits, rights and the configuration of a group."""

import concurrent.futures
import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from ports import free_port  # noqa: E402
import suite  # noqa: E402
import test_retry_routing  # noqa: E402

TOKEN = "token-of-the-shop-and-its-clients"
OTHER = "token-of-the-mail-and-its-clients"
OPERATOR = "token-of-the-operator-of-the-queue"
JSON = {"Content-Type": "application/json"}


class ClientsCase(suite.Case):
    """Helpers of this file."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} tasks:shop\n{OTHER} tasks:mail\n")
        tokens.chmod(0o600)
        cls.sets = {"api.tasks": "on", "api.token_file": tokens, "retry.clients_max": 8,
                    "retry.http_hosts": "127.0.0.1, *.shop.example"}
        cls.serve = cls.stack.role("serve", sets=cls.sets)
        for group in ("shop", "mail"):
            cls.stack.tallybox("retry", "group", "set", group, "--handlers", "http")

    def setUp(self):
        self.stack.sql("DELETE FROM retry_client")

    def call(self, method, path, body=None, token=TOKEN, headers=None, serve=None):
        raw = json.dumps(body).encode() if body is not None else None
        return (serve or self.serve).call(method, path, raw, {
            "Authorization": f"Bearer {token}", **(JSON if raw else {}), **(headers or {})})

    def beat(self, address, status=200, group="shop", **more):
        more_arguments = {name: more.pop(name) for name in ("token", "serve") if name in more}
        answer = self.call("POST", "/v1/clients/beat",
                           {"group": group, "address": address, **more}, **more_arguments)
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def clients(self, *words):
        done = self.stack.tallybox("retry", "clients", "--json", *words)
        return json.loads(done.stdout)["clients"]

    def age(self, address, seconds):
        self.stack.sql("UPDATE retry_client SET last_beat_at = last_beat_at - INTERVAL %s SECOND "
                       "WHERE address = %s", [seconds, address])


class Beats(ClientsCase):
    """POST /v1/clients/beat, and the list."""

    def test_a_client_is_registered_once(self):
        first = self.beat("http://a.shop.example", version="1.4", failedReports=2)
        self.assertEqual((first["beatMs"], first["expiresMs"]), (30000, 90000))
        self.age("http://a.shop.example:80", 60)
        self.assertEqual(self.beat("http://A.shop.example:80/", version="1.5", failedReports=3),
                         first)
        client, = self.clients("--group", "shop")
        self.assertEqual((client["address"], client["version"], client["failed_reports"],
                          client["live"], client["config_current"]),
                         ("http://a.shop.example:80", "1.5", 5, True, True))
        self.assertLess(client["first_beat_ms"], client["last_beat_ms"] + 60000)
        self.assertEqual(self.clients("--group", "mail"), [])
        self.age("http://a.shop.example:80", 91)
        self.assertFalse(self.clients()[0]["live"])
        listed = self.stack.tallybox("retry", "clients").stdout
        self.assertRegex(listed, r"shop +http://a\.shop\.example:80 +expired +9\d s")
        self.assertGreaterEqual(self.serve.metric("tallybox_client_failed_reports_total"), 5)

    def test_bad_beats_are_refused(self):
        for body, status, code, at in (
                ({"address": "http://evil.example/"}, 422, "refused", "/address"),
                ({"address": "http://a.shop.example:81/"}, 422, "refused", "/address"),
                ({"address": "http://user:pass@a.shop.example/"}, 422, "refused", "/address"),
                ({"address": "file:///etc/passwd"}, 422, "refused", "/address"),
                ({}, 400, "missing", "/address"),
                ({"address": "http://a.shop.example", "group": "mail"}, 403, "forbidden", "/group"),
                ({"address": "http://a.shop.example", "group": "a b"}, 400, "out_of_range",
                 "/group")):
            with self.subTest(body=body):
                answer = self.call("POST", "/v1/clients/beat", {"group": "shop", **body})
                error = json.loads(answer.body)["error"]
                self.assertEqual((answer.status, error["code"], error.get("at")), (status, code, at))
                self.assertNotIn(b"pass@", answer.body)
        self.assertEqual(self.call("POST", "/v1/clients/beat", {}, token="x" * 32).status, 401)
        self.assertEqual(self.clients(), [])

    def test_a_group_without_a_row_has_no_clients(self):
        self.stack.sql("DELETE FROM retry_group WHERE name = 'mail'")
        self.addCleanup(self.stack.tallybox, "retry", "group", "set", "mail", "--handlers", "http")
        fault = self.beat("http://a.shop.example", 422, group="mail", token=OTHER)["error"]
        self.assertIn("no row", fault["message"])
        self.assertEqual(self.call("GET", "/v1/config?group=mail", token=OTHER).status, 404)

    def test_a_group_has_a_limit(self):
        for number in range(8):
            self.beat(f"http://n{number}.shop.example")
        fault = self.beat("http://n8.shop.example", 422)["error"]
        self.assertIn("8 clients", fault["message"])
        self.beat("http://n0.shop.example")  # it is registered already
        self.beat("http://n8.shop.example", group="mail", token=OTHER)
        self.age("http://n3.shop.example:80", 91)
        self.beat("http://n8.shop.example")
        names = [client["address"] for client in self.clients("--group", "shop")]
        self.assertEqual(len(names), 8)
        self.assertNotIn("http://n3.shop.example:80", names)

    def test_the_limit_holds_for_many_at_once_and_two_processes(self):
        second = self.stack.role("serve", sets=self.sets)
        self.addCleanup(second.kill)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(
                lambda number: self.call("POST", "/v1/clients/beat",
                                         {"group": "shop", "address": f"http://m{number}.shop.example"},
                                         serve=(self.serve, second)[number % 2]).status, range(24)))
        self.assertEqual(sorted(answers), [200] * 8 + [422] * 16)
        self.assertEqual(len(self.clients()), 8)


class Listed(ClientsCase):
    """GET /v1/clients."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(tokens.read_text() + f"{OPERATOR} operate\n")
        cls.operator = cls.stack.role("serve", sets={**cls.sets, "api.operate": "on"})
        suite.wait_for("clients to be asked for", lambda: cls.operator.call(
            "GET", "/v1/clients?group=shop", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200)

    def listed(self, query, status=200, **more):
        answer = self.call("GET", f"/v1/clients?{query}", serve=self.operator, **more)
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def test_the_clients_of_a_group_are_listed_page_by_page(self):
        for number in range(5):
            self.beat(f"http://n{number}.shop.example", version=f"1.{number}", failedReports=number)
        self.beat("http://other.shop.example", group="mail", token=OTHER)
        self.age("http://n3.shop.example:80", 91)
        found, query = [], "group=shop&limit=2"
        while True:
            page = self.listed(query)
            found += page["clients"]
            if not page["more"]:
                break
            self.assertEqual((len(page["clients"]), page["after"]), (2, found[-1]["address"]))
            query = f"group=shop&limit=2&after={page['after']}"
        self.assertEqual(
            [(one["group"], one["address"], one["version"], one["failedReports"], one["live"])
             for one in found],
            [("shop", f"http://n{n}.shop.example:80", f"1.{n}", n, n != 3) for n in range(5)])
        # As the command has them.
        self.assertEqual(
            [(one["address"], one["lastBeatAt"], one["expiresAt"], one["firstBeatAt"],
              one["configVersion"], one["configCurrent"]) for one in found],
            [(one["address"], one["last_beat_ms"], one["expires_ms"], one["first_beat_ms"],
              one["config_version"], one["config_current"])
             for one in self.clients("--group", "shop")])
        self.assertTrue(all(one["expiresAt"] - one["lastBeatAt"] == 90000 for one in found))
        self.stack.tallybox("retry", "group", "set", "shop", "--route", "lru")
        self.addCleanup(self.stack.tallybox, "retry", "group", "set", "shop", "--route", "round_robin")
        self.assertEqual({one["configCurrent"] for one in self.listed("group=shop")["clients"]},
                         {False})
        self.assertEqual(self.listed("group=shop&after=~"),
                         {"clients": [], "more": False, "after": None})

    def test_a_token_sees_the_clients_of_its_groups_and_an_operator_all(self):
        self.beat("http://a.shop.example")
        self.beat("http://b.shop.example", group="mail", token=OTHER)
        self.assertEqual(self.listed("group=mail", 403)["error"]["at"], "group")
        self.assertEqual(self.listed("group=shop", 403, token=OTHER)["error"]["code"], "forbidden")
        for group, address in (("shop", "http://a.shop.example:80"),
                               ("mail", "http://b.shop.example:80")):
            page = self.listed(f"group={group}", token=OPERATOR)
            self.assertEqual([one["address"] for one in page["clients"]], [address])
        self.assertEqual(self.listed("group=none", token=OPERATOR)["clients"], [])
        off = self.call("GET", "/v1/clients?group=shop", token=TOKEN)
        self.assertEqual(off.status, 200, off.body)

    def test_bad_queries_are_refused(self):
        for query, code, at in (("", "missing", "group"), ("group=a%20b", "out_of_range", "group"),
                                ("group=shop&limit=0", "out_of_range", "limit"),
                                ("group=shop&limit=201", "out_of_range", "limit"),
                                ("group=shop&after=", "out_of_range", "after"),
                                ("group=shop&after=%C3%A4", "out_of_range", "after"),
                                ("group=shop&after=" + "a" * 256, "out_of_range", "after"),
                                ("group=shop&x=1", "unknown_field", "x")):
            with self.subTest(query=query):
                error = self.listed(query, 400)["error"]
                self.assertEqual((error["code"], error["at"]), (code, at))


class Configuration(ClientsCase):
    """GET /v1/config."""

    def config(self, status=200, **headers):
        answer = self.call("GET", "/v1/config?group=shop",
                           headers={name.replace("_", "-"): value for name, value in headers.items()})
        self.assertEqual(answer.status, status, answer.body)
        return answer

    def test_the_version_follows_each_change(self):
        versions = {self.beat("http://a.shop.example")["configVersion"]}
        for words in (("group", "set", "shop", "--route", "lru"),
                      ("scene", "set", "mail", "--group", "shop", "--policy", '{"attempts": 3}',
                       "--wait", "0"),
                      ("scene", "set", "mail", "--group", "shop", "--policy", '{"attempts": 4}',
                       "--wait", "0"),
                      ("pause", "mail", "--group", "shop", "--wait", "0"),
                      ("group", "disable", "shop"), ("group", "enable", "shop")):
            self.stack.tallybox("retry", *words)
            version = self.beat("http://a.shop.example")["configVersion"]
            self.assertNotIn(version, versions)
            versions.add(version)
            answer = self.config()
            body = json.loads(answer.body)
            self.assertEqual((body["version"], answer.headers["etag"]), (version, f'"{version}"'))
            self.config(304, If_None_Match=f'"x", W/"{version}"')
        self.assertEqual((body["route"], body["policies"]),
                         ("lru", [{"scene": "mail", "paused": True, "policy": {"attempts": 4}}]))
        # The change of another group is none of this one.
        self.stack.tallybox("retry", "group", "set", "mail", "--route", "random")
        self.config(304, If_None_Match=f'"{version}"')
        self.stack.sql("UPDATE retry_scene SET policy = '{}' WHERE scene = 'mail'")
        self.config(200, If_None_Match=f'"{version}"')

    def test_other_groups_are_not_shown(self):
        self.assertEqual(self.call("GET", "/v1/config?group=mail").status, 403)
        self.assertEqual(self.call("GET", "/v1/config").status, 400)
        self.assertEqual(self.call("GET", "/v1/config?group=a%20b").status, 400)

    def test_a_route_must_exist(self):
        done = self.stack.tallybox("retry", "group", "set", "shop", "--route", "nearest", expect=None)
        self.assertEqual(done.returncode, 2)
        self.assertIn("consistent_hash", done.stderr)


class Stalls:
    """How long the machine or the database has kept a thread waiting that needs almost nothing."""

    def __init__(self, stack):
        self.stack = stack
        self.ending = threading.Event()
        self.longest = 0
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            while not self.ending.is_set():
                before = time.monotonic()
                self.ending.wait(0.01)
                cursor.execute("SELECT COUNT(*) FROM retry_scene")
                cursor.fetchall()
                self.longest = max(self.longest, time.monotonic() - before)

    def begin(self):
        self.longest = 0

    def longest_ms(self):
        return self.longest * 1000

    def end(self):
        self.ending.set()
        self.thread.join()


class Pushes(ClientsCase):
    """Changes of a configuration reach the live clients."""

    settings = {"retry.poll_ms": 50}

    def test_each_live_client_is_told_a_change_once(self):
        servers = []
        for _ in range(3):
            server = test_retry_routing.Server(("127.0.0.1", free_port(keep=True)),
                                               test_retry_routing.Answerer)
            server.asked, server.status, server.cuts = [], 200, False
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            servers.append(server)
        hosts = ",".join(f"127.0.0.1:{server.server_port}" for server in servers)
        serve = self.stack.role("serve", sets={**self.sets, "retry.http_hosts": hosts})
        self.addCleanup(serve.kill)
        addresses = [f"http://127.0.0.1:{server.server_port}" for server in servers]
        told = {self.beat(address, serve=serve)["configVersion"] for address in addresses}
        self.assertEqual(len(told), 1)
        self.age(addresses[2], 91)
        for _ in range(2):
            self.start("retry", sets={"retry.http_hosts": hosts})
        versions = []
        for attempts in (5, 6, 7):
            self.stack.tallybox("retry", "scene", "set", "mail", "--group", "shop", "--policy",
                                json.dumps({"attempts": attempts}))
            suite.wait_for("both clients to be told", lambda: self.stack.number(
                "SELECT COUNT(*) FROM retry_client WHERE address IN (%s, %s) AND config_version = ("
                "SELECT MAX(config_version) FROM retry_client WHERE address = %s)",
                [*addresses[:2], addresses[0]]) == 2 and
                           all(len(server.asked) > len(versions) for server in servers[:2]))
            versions.append(json.loads(servers[0].asked[-1][1])["version"])
            config = json.loads(self.call("GET", "/v1/config?group=shop").body)
            self.assertEqual((config["version"], config["policies"][0]["policy"]),
                             (versions[-1], {"attempts": attempts}))
        for server in servers[:2]:
            self.assertEqual([(path, json.loads(body)) for path, body in server.asked], [
                ("/tallybox/config", {"group": "shop", "version": version})
                for version in versions])
        self.assertEqual(len(set(versions)), 3)
        self.assertEqual(servers[2].asked, [])
        # A beat tells it, too: there is no push then.
        self.assertEqual(self.beat(addresses[2], serve=serve)["configVersion"], versions[-1])

    def test_a_change_is_a_task_for_each_live_client_within_a_second(self):
        """As RETRY.md promises, by the clock of the database: from the change, as its row has it, to
        the last task. A change proves nothing while the machine or the database stalls."""
        number, proofs = 64, 5
        serve = self.stack.role("serve", sets={**self.sets, "retry.clients_max": number})
        self.addCleanup(serve.kill)
        suite.wait_for("clients to be asked for", lambda: self.call(
            "GET", "/v1/clients?group=shop", serve=serve).status == 200)
        for client in range(number):
            self.beat(f"http://n{client}.shop.example", serve=serve)
        # The tasks wait, so that their times can be read.
        self.stack.tallybox("retry", "pause", "config", "--group", "shop", "--wait", "0")
        self.addCleanup(self.stack.sql, "DELETE FROM retry_scene")
        self.addCleanup(self.stack.sql, "DELETE FROM retry_task")
        for _ in range(2):
            self.start("retry", sets={"retry.http_hosts": "*.shop.example"})
        stalls = Stalls(self.stack)
        self.addCleanup(stalls.end)
        delays = []
        for attempts in range(1, 40):
            self.wait_told(number)
            self.stack.sql("DELETE FROM retry_task")
            stalls.begin()
            self.stack.tallybox("retry", "scene", "set", "mail", "--group", "shop", "--policy",
                                json.dumps({"attempts": attempts}), "--wait", "0")
            suite.wait_for("a task for each client", lambda: self.stack.number(
                "SELECT COUNT(*) FROM retry_task WHERE scene = 'config'") == number)
            longest = stalls.longest_ms()
            delay, = self.stack.sql(
                "SELECT TIMESTAMPDIFF(MICROSECOND, (SELECT updated_at FROM retry_scene WHERE scene = "
                "'mail'), MAX(created_at)) DIV 1000 FROM retry_task WHERE scene = 'config'")[0]
            if longest < 200:
                delays.append(delay)
            if len(delays) == proofs:
                break
        self.assertEqual(len(delays), proofs, "the machine stalls all the time")
        self.assertLessEqual(max(delays), 1000, delays)

    def wait_told(self, number):
        """Every client has been told the version of its group."""
        suite.wait_for("no push to be missing", lambda: [one["config_current"] for one in self.clients(
            "--group", "shop")] == [True] * number)

    def test_a_group_without_such_tasks_gets_none(self):
        self.beat("http://a.shop.example")
        self.stack.tallybox("retry", "group", "set", "shop", "--scenes", "mail")
        self.addCleanup(self.stack.tallybox, "retry", "group", "set", "shop", "--scenes", "*")
        role = self.start("retry", sets={"retry.http_hosts": "*.shop.example"})
        suite.wait_for("the client to be read", lambda: role.metric("tallybox_retry_clients_live") == 1)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 0)
        self.assertEqual(self.clients()[0]["config_current"], False)


if __name__ == "__main__":
    unittest.main()
