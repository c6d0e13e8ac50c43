# SPDX-License-Identifier: MIT
"""What every end-to-end test stands on: real servers started once per process of the run (classes
are shared out among several, see scripts/run_e2e.py), a fresh database, topic and group per
test class, and tallybox's roles as processes of their own.

TALLYBOX_BIN     the program (default: build/dev/tallybox)
TALLYBOX_DB      mariadb or mysql (default: mariadb)
TALLYBOX_SERVER  the script that starts servers (default: scripts/server)
TALLYBOX_WORK    where this run keeps its files (default: a temporary folder, removed at the end)

Everything that is started here is ended here, by its pid, also on SIGINT and SIGTERM.
"""

import atexit
import collections
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import pymysql

import accounts
import server_defaults
import wire
from ports import free_port
from waiting import NotThere, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.path.abspath(os.environ.get("TALLYBOX_BIN") or ROOT / "build/dev/tallybox")
DATABASE = os.environ.get("TALLYBOX_DB") or "mariadb"
SERVER = os.path.abspath(os.environ.get("TALLYBOX_SERVER") or ROOT / "scripts/server")

# Exit codes of the program.
DONE, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3

# Servers that can see a dead consumer sooner than after the usual six seconds.
# Of a relay that is not killed: no pause of a loaded machine makes it publish a row once more.
PATIENT = {"relay.lease_ms": 60000, "relay.send_timeout_ms": 30000}
SERVER_ARGUMENTS = {
    "mariadb": ["--max-connections=400", "--max-allowed-packet=64M"],
    "mysql": ["--max-connections=400", "--max-allowed-packet=64M", "--performance-schema=OFF"],
    "kafka": ["group.min.session.timeout.ms=1000", "message.max.bytes=2000000",
              "group.consumer.min.session.timeout.ms=1000",
              "group.consumer.session.timeout.ms=3000",
              "group.consumer.min.heartbeat.interval.ms=500",
              "group.consumer.heartbeat.interval.ms=500"],
}

Answer = collections.namedtuple("Answer", "status headers body")


def tail(path, lines=25):
    """The end of a log, for a person."""
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - 16000))
            text = log.read().decode(errors="replace")
    except OSError as reason:
        return f"({reason})"
    return "\n".join(text.splitlines()[-lines:])


class Run:
    """The files and processes of this run; ends everything."""

    def __init__(self):
        work = os.environ.get("TALLYBOX_WORK")
        self.borrowed = bool(work)
        if work:
            os.makedirs(work, exist_ok=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-", dir=work))
        self.servers = {}
        self.roles = set()
        self.numbers = itertools.count(1)
        self.owner = os.getpid()
        atexit.register(self.close)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                # The one exception that no test takes for its own failure.
                signal.signal(number, signal.default_int_handler)

    def server(self, kind):
        """The one server of a kind, started on first use."""
        if kind not in self.servers:
            server = Server(kind, self.folder / kind)
            server.start()
            self.servers[kind] = server
        return self.servers[kind]

    def close(self):
        if os.getpid() != self.owner:
            return
        for role in list(self.roles):
            role.kill()
        for server in self.servers.values():
            server.script("kill", check=False)
        if not self.borrowed:
            shutil.rmtree(self.folder, ignore_errors=True)


class Server:
    """One of the real servers, through scripts/server."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.folder = folder
        self.env = {}

    def script(self, command, *arguments, check=True):
        done = subprocess.run([SERVER, command, *arguments, str(self.folder)],
                              capture_output=True, text=True, timeout=600, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"server {command} {self.kind}: {done.stdout}{done.stderr}")
        self._read_env()

    def _read_env(self):
        try:
            lines = (self.folder / "env").read_text().splitlines()
        except OSError:
            return
        self.env = dict(line.split("=", 1) for line in lines if "=" in line)

    def start(self, port=None):
        """On a port that no other server gets while a test has stopped it."""
        port = port or free_port(keep=True)
        extra = SERVER_ARGUMENTS[self.kind]
        done = subprocess.run([SERVER, "start", self.kind, str(self.folder), "--port", str(port),
                               "--", *extra],
                              capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"server start {self.kind}: {done.stdout}{done.stderr}")
        self._read_env()

    def stop(self):
        self.script("stop")

    def kill(self):
        self.script("kill")

    def restart(self):
        """Starts it again on the same port with the same data, whether it runs or not."""
        self.script("restart")

    @property
    def host(self):
        return self.env["HOST"]

    @property
    def port(self):
        return int(self.env["PORT"])

    @property
    def pid(self):
        return int(self.env["PID"])

    @property
    def bootstrap(self):
        return self.env["BOOTSTRAP"]


_run = None


def run():
    """The run, made on first use so that importing this module starts nothing."""
    global _run  # pylint: disable=global-statement
    if _run is None:
        _run = Run()
    return _run


class OwnServer(Server):
    """A database server of one test class, with these arguments."""

    def __init__(self, name, arguments):
        super().__init__(DATABASE, run().folder / name)
        self.arguments = arguments

    def start(self, port=None):
        normal = SERVER_ARGUMENTS[self.kind]
        SERVER_ARGUMENTS[self.kind] = normal + self.arguments
        try:
            super().start(port)
        finally:
            SERVER_ARGUMENTS[self.kind] = normal
        run().servers[str(self.folder)] = self


def database():
    return run().server(DATABASE)


def kafka():
    return run().server("kafka")


def peak_rss_mib(pid):
    """What the kernel counted, of a process that has not ended."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


def connect(name=None, **more):
    """A connection of our own to the database under test: autocommit, UTC."""
    server = database()
    options = {"host": server.host, "port": server.port, "user": "root", "database": name,
               "autocommit": True, "charset": "utf8mb4", "connect_timeout": 60,
               "init_command": server_defaults.SESSION}
    return pymysql.connect(**{**options, **more})


def http_call(port, method, path, body=None, headers=None, seconds=60):
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        # Several headers of one name do not occur here.
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, fields, answer.read())
    finally:
        connection.close()


def parse_metrics(text):
    """{'name{labels}': value} of the exposition format."""
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    return values


class Role:
    """A tallybox daemon as a process: its log, its admin page, its life and death.

    Start roles from the main thread: the kernel ends them when that thread dies, which covers even
    a SIGKILL of the test run.
    """

    def __init__(self, stack, name, sets, arguments):
        self.name = name
        self.stack = stack
        self.sets = dict(sets)
        self.arguments = list(arguments)
        self.admin_port = free_port()
        self.api_port = free_port() if name in ("serve", "run") else None
        self.log = stack.folder / f"{name}-{self.admin_port}.log"
        self.process = None
        self.killed = False
        self.env = {}  # beside the usual one
        self.program = BINARY

    def command(self):
        sets = {"admin.listen": f"127.0.0.1:{self.admin_port}", **self.sets}
        if self.api_port:
            sets.setdefault("api.listen", f"127.0.0.1:{self.api_port}")
        words = [self.program, self.name, "--config", str(self.stack.ini), *self.arguments]
        for key, value in sets.items():
            words += ["--set", f"{key}={value}"]
        return words

    def start(self):
        """The role is killed when the thread that called this ends (PR_SET_PDEATHSIG)."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command()], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=clean_environment(**self.env))
        self.killed = False
        run().roles.add(self)
        return self

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def admin(self, path, seconds=30):
        return http_call(self.admin_port, "GET", path, seconds=seconds)

    def answers(self, path):
        """Whether an admin page says 200; an exit of the process is a failure at once."""
        if not self.alive():
            raise AssertionError(f"{self.name} ended with {self.process.returncode}\n"
                                 f"{tail(self.log)}")
        try:
            return self.admin(path).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def ready(self):
        return self.answers("/readyz")

    def wait_up(self):
        """Until it can be asked and told to stop, ready or not."""
        wait_for(f"{self.name} to come up", lambda: self.answers("/healthz"))
        return self

    def wait_ready(self, seconds=60):
        try:
            wait_for(f"{self.name} to be ready", self.ready, seconds)
        except AssertionError as reason:
            raise AssertionError(f"{reason}\n{self.why_not_ready()}\n{tail(self.log)}") from None
        return self

    def why_not_ready(self):
        try:
            return self.admin("/readyz").body.decode()
        except (OSError, http.client.HTTPException) as reason:
            return str(reason)

    def call(self, method, path, body=None, headers=None, seconds=60):
        """One request to the API; a body that is not bytes is sent as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        return http_call(self.api_port, method, path, body, headers, seconds)

    def vote(self, *votes, status=200):
        """Posts (voter, content, voting)s: one as an object, several as an array."""
        items = [{"voterId": v, "contentId": c, "voting": g} for v, c, g in votes]
        answer = self.call("POST", "/v1/votes", items[0] if len(items) == 1 else items)
        if answer.status != status:
            raise AssertionError(f"POST /v1/votes: {answer.status} {answer.body.decode()[:500]}")
        return json.loads(answer.body)

    def get(self, path):
        answer = self.call("GET", path)
        if answer.status != 200:
            raise AssertionError(f"GET {path}: {answer.status} {answer.body.decode()[:500]}")
        return json.loads(answer.body)

    def metrics(self):
        return parse_metrics(self.admin("/metrics").body.decode())

    def metric(self, name):
        """The sum over all labels of a metric; 0 where there is none."""
        return sum(value for key, value in self.metrics().items()
                   if key == name or key.startswith(name + "{"))

    def log_text(self):
        return self.log.read_text(errors="replace")

    def peak_rss_mib(self):
        return peak_rss_mib(self.pid)

    def kill(self):
        """SIGKILL, as a crash would."""
        if self.alive():
            self.killed = True
            self.process.kill()
        if self.process is not None:
            self.process.wait(60)
        run().roles.discard(self)

    def terminate(self, seconds=60):
        """SIGTERM; the exit code."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        return self.wait_end(seconds)

    def wait_end(self, seconds=60):
        """The exit code of a role that was told to stop; a second SIGTERM would cut that short."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {seconds} s of SIGTERM\n"
                                 f"{tail(self.log)}") from None
        run().roles.discard(self)
        return code

    def end(self):
        """For cleanups: it must go in peace, unless a test has killed it."""
        if self.process is None or self.killed:
            return
        ran = self.alive()
        code = self.terminate()
        if ran and code != 0:
            raise AssertionError(f"{self.name} ended with {code}\n{tail(self.log)}")


def clean_environment(**more):
    """The environment without settings of the program that a developer may have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLYBOX_")}
    return {**kept, **more}


def program_beside(name):
    """(path, environment) of another program of the build that is tested."""
    place = pathlib.Path(BINARY)
    if place.name == "tallybox-run":
        return place, clean_environment(TALLYBOX_BESIDE=name)
    return place.with_name(name), clean_environment()


class Stack:
    """One installation: a database, a topic, a group, an ini file, and the roles on them."""

    def __init__(self, name, settings=None, migrate=True):
        number = next(run().numbers)
        self.name = f"{name.lower()}_{number}"
        self.folder = run().folder / self.name
        self.folder.mkdir()
        self.ini = self.folder / "tallybox.ini"
        self.topic = f"votes-{self.name}"
        self.group = f"group-{self.name}"
        self.roles = []
        self.settings = {
            "mysql.host": database().host, "mysql.port": database().port, "mysql.user": "root",
            "mysql.database": self.name,
            "kafka.bootstrap.servers": kafka().bootstrap,
            "kafka.reconnect.backoff.max.ms": 500,
            "kafka.consumer.session.timeout.ms": 3000,
            "kafka.consumer.heartbeat.interval.ms": 500,
            "relay.topics": f"vote={self.topic}",
            "relay.topic_prefix": f"event.{self.name}.",
            "relay.topic_partitions": 4,
            "relay.lease_ms": 3000,
            "relay.send_timeout_ms": 2000,
            "api.request_timeout_ms": 30000,
            "admin.stop_timeout_ms": 20000,
            "consumer.group": self.group,
            "consumer.topics": self.topic,
            **(settings or {}),
        }
        # A test takes a setting of these away with None.
        self.settings = {key: value for key, value in self.settings.items() if value is not None}
        self.write_ini()
        self.accounts = accounts.Accounts(self)
        self.sql(f"CREATE DATABASE `{self.name}`", database=None)
        if migrate:
            self.tallybox("migrate", "up")
            self.accounts.grant()
            # No topic is allowed until an operator says so; most tests are not about that.
            self.sql("UPDATE retry_group SET topics = '*', handlers = '*' WHERE name = 'default'")

    def write_ini(self, **changes):
        """Writes the ini file; changes are given as section__key=value."""
        for key, value in changes.items():
            self.settings[key.replace("__", ".", 1)] = value
        sections = {}
        for key, value in self.settings.items():
            section, rest = (key.rsplit if key.startswith("lane.") else key.split)(".", 1)
            sections.setdefault(section, []).append(f"{rest} = {value}\n")
        text = "".join(f"[{section}]\n{''.join(lines)}\n" for section, lines in sections.items())
        new = self.ini.with_suffix(".new")
        new.write_text(text)
        # In one piece: roles may be starting.
        os.replace(new, self.ini)

    def tallybox(self, *arguments, stdin=None, expect=DONE, seconds=120, sets=None, env=None):
        """Runs a command to its end with its role's account; stdout and stderr as text."""
        account = self.accounts.sets(arguments, sets or {})
        return self.command(arguments, {**account, **(sets or {})}, stdin, expect, seconds, env)

    def command(self, arguments, sets, stdin=None, expect=DONE, seconds=120, env=None):
        """Runs a command to its end with these settings and no other."""
        words = [BINARY, arguments[0], "--config", str(self.ini), *map(str, arguments[1:])]
        for key, value in sets.items():
            words += ["--set", f"{key}={value}"]
        try:
            done = subprocess.run(words, input=stdin, capture_output=True, timeout=seconds,
                                  check=False, env=clean_environment(**(env or {})))
        except subprocess.TimeoutExpired as late:
            text = ((late.stdout or b"") + (late.stderr or b""))[-3000:].decode(errors="replace")
            raise AssertionError(f"tallybox {' '.join(map(str, arguments))} still ran after "
                                 f"{seconds} s\n{text}") from None
        done.stdout = done.stdout.decode(errors="replace")
        done.stderr = done.stderr.decode(errors="replace")
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"tallybox {' '.join(map(str, arguments))} ended with "
                                 f"{done.returncode} instead of {expect}\n{done.stdout[-3000:]}"
                                 f"{done.stderr[-3000:]}")
        return done

    def add_privileges(self, role, account):
        """Those of the role, for the account of another one."""
        grants = self.command(["migrate", "grants", "--role", role, "--account", f"{account}@%"],
                              {}).stdout
        for line in grants.splitlines():
            if line.startswith("GRANT "):
                self.sql(line.rstrip(";"))

    def role(self, name, sets=None, arguments=(), ready=True, env=None, program=BINARY):
        """Starts a role; who calls sees to its end."""
        account = self.accounts.sets([name, *arguments], sets or {})
        role = Role(self, name, {**account, **(sets or {})}, arguments)
        role.env = env or {}
        role.program = program
        self.roles.append(role.start())
        return role.wait_ready() if ready else role.wait_up()

    @contextlib.contextmanager
    def session(self, **options):
        """Several statements on one connection: a function that runs one and returns all its rows."""
        options.setdefault("name", self.name)
        if "database" in options:
            options["name"] = options.pop("database")
        connection = connect(**options)

        def run_statement(statement, arguments=()):
            with connection.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return list(cursor.fetchall())
        try:
            yield run_statement
        finally:
            connection.close()

    def sql(self, statement, arguments=(), **options):
        """All rows of one statement, on a connection of its own."""
        with self.session(**options) as run_statement:
            return run_statement(statement, arguments)

    def sql_all(self, statements):
        """Several statements without an answer, on one connection and in no database."""
        connection = connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def number(self, statement, arguments=()):
        """The first column of the first row; NotThere, for which wait_for() asks again, when there
        is none."""
        return self.row(statement, arguments)[0]

    def row(self, statement, arguments=()):
        """The first row; NotThere when there is none."""
        rows = self.sql(statement, arguments)
        if not rows:
            raise NotThere(f"no row: {statement} {arguments or ''}")
        return rows[0]

    def append(self, rows, table="outbox", connection=None):
        """Plain INSERTs of another application: dicts of columns."""
        mine = connection or connect(self.name)
        try:
            with mine.cursor() as cursor:
                for row in rows:
                    names = ", ".join(row)
                    marks = ", ".join(["%s"] * len(row))
                    cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})",
                                   list(row.values()))
        finally:
            if connection is None:
                mine.close()

    def drained(self, table="outbox"):
        return self.number(f"SELECT COUNT(*) FROM {table}") == 0

    def wait_drained(self, seconds=60, table="outbox"):
        wait_for(f"{table} to be empty", lambda: self.drained(table), seconds)

    def wait_rows(self, table, count, seconds=60):
        """Waits for exactly so many rows; more fail at once."""
        def look():
            found = self.number(f"SELECT COUNT(*) FROM {table}")
            if found > count:
                raise AssertionError(f"{table} has {found} rows, {count} were expected")
            return found == count
        try:
            wait_for(f"{count} rows in {table}", look, seconds)
        except AssertionError as reason:
            found = self.number(f"SELECT COUNT(*) FROM {table}")
            raise AssertionError(f"{reason}; {table} has {found} rows") from None

    def records(self, topic=None):
        return wire.read_topic(kafka().bootstrap, topic or self.topic)

    def verify(self, expect=DONE, arguments=()):
        """`verify --json`: the parsed report."""
        done = self.tallybox("verify", "--json", *arguments, expect=expect)
        return json.loads(done.stdout)

    def close(self):
        """Ends the roles and drops the database; says who did not go in peace."""
        troubles = []
        for role in self.roles:
            try:
                role.end()
            except AssertionError as reason:
                troubles.append(str(reason))
        try:
            self.sql(f"DROP DATABASE IF EXISTS `{self.name}`", database=None)
        except pymysql.MySQLError as reason:
            troubles.append(str(reason))
        if troubles:
            raise AssertionError("\n".join(troubles))

    def log_tails(self):
        return "".join(f"--- the end of {role.name}'s log ({role.log})\n{tail(role.log)}\n"
                       for role in self.roles)


class Case(unittest.TestCase):
    """A test class on an installation of its own."""

    settings = {}  # of the ini file, section.key: value
    roles = ()     # that run for all tests of the class, each as an attribute of its name
    stack = None

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(cls.__name__, cls.settings)
        cls.addClassCleanup(cls.stack.close)
        for name in cls.roles:
            # unittest has a run() of its own.
            setattr(cls, "one" if name == "run" else name, cls.stack.role(name))

    def start(self, name, **options):
        """A role for this test only."""
        role = self.stack.role(name, **options)
        self.addCleanup(role.end)
        return role

    def run(self, result=None):
        """A failed test is followed by the ends of the logs."""
        result = result if result is not None else self.defaultTestResult()
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if self.stack and len(result.failures) + len(result.errors) > before:
            print(f"\n{self.id()} failed\n{self.stack.log_tails()}", file=sys.stderr)
        return result
