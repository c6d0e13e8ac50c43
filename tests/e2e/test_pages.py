# SPDX-License-Identifier: MIT
"""What the documents show works as it is printed: the programs of docs/python.md and its
neighbours, in five languages with the clients that their teams use, and the commands of README and
RETRY. scripts/page_files.py takes files and commands from the pages."""

import collections
import concurrent.futures
import configparser
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import accounts  # noqa: E402
import suite  # noqa: E402
import installation  # noqa: E402
import page_files  # noqa: E402
import wire  # noqa: E402

LANGUAGES = ("python", "go", "java", "node", "php")
TOPIC = "outbox.event.order"
# Other classes make the topic in the same Kafka; so all of them make it with the default.
PARTITIONS = 12
APPLICATION = "tallybox_application"
WRITER = "tallybox_application_insert"  # what the pages give to the shop
SECONDS = 180  # for a step of programs that start on a busy machine
# For every language an account of the shop in each test.
WRITERS, READERS, CANCELLERS = 100, 200, 300


def page(name):
    return (suite.ROOT / name).read_text(encoding="utf-8")


def statements(text):
    """SQL of a page without its comments; no statement has a semicolon inside."""
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [one.strip() for one in "\n".join(lines).split(";") if one.strip()]


def make_shop(stack, database, account):
    """The tables of docs/outbox.md, and the rights of the application's account on them."""
    files = page_files.files(page("docs/outbox.md"))
    for statement in statements(files["shop.sql"]):
        stack.sql(statement, name=database)
    stack.sql_all(one.replace("shop.", f"`{database}`.").replace("'shop'", f"'{account}'")
                  for one in statements(files["shop_rights.sql"]))


def fetched():
    """{language: folder}, by scripts/part_languages.sh."""
    return dict(word.split("=", 1) for word in os.environ["TALLYBOX_LANGUAGES"].split())


class Receiver:
    """The other side of the webhooks: refuses the first call for each order, accepts the others."""

    def __init__(self):
        self.lock = threading.Lock()
        self.calls = collections.defaultdict(list)  # number: [(Idempotency-Key, accepted)]
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One call."""

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                accepted = receiver.take(json.loads(body)["number"],
                                         self.headers["Idempotency-Key"])
                self.send_response(200 if accepted else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take(self, number, key):
        with self.lock:
            accepted = bool(self.calls[number])
            self.calls[number].append((key, accepted))
        return accepted

    def of(self, number):
        with self.lock:
            return list(self.calls[number])

    @property
    def host(self):
        return f"127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Language:
    """The files of one page in a folder, with what the page tells to fetch, built as it tells."""

    def __init__(self, name, folder, env):
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.env = dict(env)
        self.files = page_files.files(page(f"docs/{name}.md"))
        for file, content in self.files.items():
            (self.folder / file).write_text(content, encoding="utf-8")

    def use(self, part):
        """The clients that scripts/part_languages.sh fetched."""
        part = pathlib.Path(part)
        if self.name == "python":
            packages, = part.glob("venv/lib/python3*/site-packages")
            self.env["PYTHONPATH"] = str(packages)
        elif self.name == "go":
            # The sums were checked when the modules were fetched.
            self.env.update(GOMODCACHE=str(part / "modules"), GOCACHE=str(part / "build"),
                            GOFLAGS="-mod=mod -modcacherw -trimpath", GOPROXY="off", GOSUMDB="off",
                            GOTOOLCHAIN="local")
            for file in ("go.mod", "go.sum"):
                shutil.copy(part / file, self.folder / file)
        elif self.name == "java":
            (self.folder / "libs").symlink_to(part / "libs")
        elif self.name == "node":
            (self.folder / "node_modules").symlink_to(part / "node_modules")

    def build(self):
        if "build.sh" in self.files:
            done = subprocess.run(["sh", "-e", "build.sh"], cwd=self.folder, env=self.env,
                                  capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0:
                raise AssertionError(f"docs/{self.name}.md does not build\n"
                                     f"{done.stdout}{done.stderr}")

    def command(self, program, *arguments):
        """The page's command that runs a program, with other arguments."""
        for line in (self.files["run.sh"] + self.files["read.sh"]).splitlines():
            words = shlex.split(line)
            for at, word in enumerate(words):
                if program in word.lower().replace("_", ""):
                    interpreter = [sys.executable] if words[0] == "python3" else [words[0]]
                    return interpreter + words[1:at + 1] + [str(one) for one in arguments]
        raise AssertionError(f"docs/{self.name}.md does not tell how to run {program}")

    def start(self, program, *arguments, env=None, output=None):
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self.command(program, *arguments)],
            cwd=self.folder, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE, stderr=output or subprocess.PIPE, text=True)


class Languages(suite.Case):
    """The shop of docs/applications.md in each language, at the same time. The outbox has a database
    of its own."""

    needs = "languages"
    seconds = 45
    settings = {"relay.topic_prefix": None, "relay.topic_partitions": PARTITIONS}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.receiver = Receiver()
        cls.addClassCleanup(cls.receiver.close)
        cls.shared = page("docs/applications.md")
        cls.files = page_files.files(cls.shared)
        env = suite.clean_environment(
            DB_HOST=suite.database().host, DB_PORT=str(suite.database().port),
            DB_NAME=cls.shop_database(), OUTBOX_DB=cls.stack.name, DB_USER=WRITER,
            DB_PASSWORD=accounts.PASSWORD,
            KAFKA_BROKERS=suite.kafka().bootstrap,
            WEBHOOK_URL=f"http://{cls.receiver.host}/cancelled")
        cls.languages = [Language(name, cls.stack.folder, env) for name in LANGUAGES]
        for language in cls.languages:
            if language.name in fetched():
                language.use(fetched()[language.name])
        cls.make_shop()
        cls.stack.role("run", sets={"retry.http_hosts": cls.receiver.host})
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(Language.build, cls.languages))
        line = next(line for line in cls.shared.splitlines() if line.startswith("tallybox retry"))
        cls.stack.tallybox(*shlex.split(line)[1:])

    @classmethod
    def make_shop(cls):
        """The tables of the pages; a database for each reader."""
        shop = cls.shop_database()
        cls.stack.sql_all([f"CREATE DATABASE `{shop}`"])
        cls.addClassCleanup(cls.stack.sql_all, [f"DROP DATABASE `{shop}`"])
        make_shop(cls.stack, shop, WRITER)
        for base in (WRITERS, CANCELLERS):
            cls.stack.sql("INSERT INTO account (id) VALUES " + ", ".join(
                f"({base + at})" for at in range(len(LANGUAGES))), name=shop)
        for language in cls.languages:
            name = cls.reader_database(language)
            cls.stack.sql_all([f"CREATE DATABASE `{name}`"])
            cls.addClassCleanup(cls.stack.sql_all, [f"DROP DATABASE `{name}`"])
            for statement in statements(cls.files["invoices.sql"]
                                        + language.files.get("position.sql", "")):
                cls.stack.sql(statement.replace("'shop'", f"'{WRITER}'"), name=name)

    @classmethod
    def shop_database(cls):
        return f"{cls.stack.name}_shop"

    @classmethod
    def reader_database(cls, language):
        return f"{cls.stack.name}_{language.name}"

    def run_all(self, program, arguments):
        """Runs a program of all languages at once; {language: what ended() tells}."""
        running = {language.name: self.started(language, program, *arguments(at))
                   for at, language in enumerate(self.languages)}
        return {name: self.ended(process) for name, process in running.items()}

    def started(self, language, program, *arguments, **more):
        process = language.start(program, *arguments, **more)
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    @staticmethod
    def ended(process):
        """Its exit code, and what it printed on both outputs."""
        output, errors = process.communicate(timeout=SECONDS)
        return process.returncode, output.strip(), errors.strip()

    def expect(self, results, code, output):
        self.assertEqual({name: result[:2] for name, result in results.items()},
                         dict.fromkeys(LANGUAGES, (code, output)), results)

    def test_an_order_and_its_event_are_committed_together_and_in_order(self):
        def order(at):
            return WRITERS + at, f"W-{at}", 1990

        # A busy machine may start the last program long after the first.
        before = self.stack.number("SELECT @@global.innodb_lock_wait_timeout")
        self.stack.sql("SET GLOBAL innodb_lock_wait_timeout = 300")
        self.addCleanup(self.stack.sql, f"SET GLOBAL innodb_lock_wait_timeout = {before}")
        holder = suite.connect(self.shop_database(), autocommit=False)
        self.addCleanup(holder.close)
        with holder.cursor() as cursor:
            # It stops FOR UPDATE, but not the shared lock that a foreign key takes.
            cursor.execute("SELECT id FROM account LOCK IN SHARE MODE")
        running = {language.name: self.started(language, "placeorder", *order(at))
                   for at, language in enumerate(self.languages)}
        # The servers renew this table only when it was not read for 0.1 s.
        suite.wait_for("every program to wait for its account", lambda: self.stack.number(
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
            == len(LANGUAGES), SECONDS, every=0.3)
        with holder.cursor() as cursor:
            for at in range(len(LANGUAGES)):
                cursor.execute(f"INSERT INTO {self.stack.name}.outbox (id, aggregatetype, aggregateid,"
                               " type) VALUES (UUID(), 'order', %s, 'AccountOpened')", [str(WRITERS + at)])
        holder.commit()
        self.expect({name: self.ended(process) for name, process in running.items()}, 0, "placed")
        self.expect(self.run_all("placeorder", order), 0, "placed before")
        for name, (code, *output) in self.run_all(
                "placeorder", lambda at: (999999, f"X-{at}", 1)).items():
            self.assertNotEqual(code, 0, f"{name}: an order without an account: {output}")
        self.assertEqual(
            self.stack.sql("SELECT number, account_id, cents FROM orders WHERE number REGEXP "
                           "'^[WX]-' ORDER BY number", name=self.shop_database()),
            [(f"W-{at}", WRITERS + at, 1990) for at in range(len(LANGUAGES))])
        self.stack.wait_drained()
        events = collections.defaultdict(list)
        for record in self.stack.records(TOPIC):
            if record.headers["id"].startswith("bad-"):
                continue
            body = json.loads(record.value) if record.value else None
            events[record.key.decode()].append((record.headers["ce_type"], body))
        for at, name in enumerate(LANGUAGES):
            self.assertEqual(events[str(WRITERS + at)],
                             [("AccountOpened", None),
                              ("OrderPlaced", {"number": f"W-{at}", "cents": 1990})], name)
        self.assertNotIn("999999", events)

    def append_orders(self):
        """Events of the kind that the programs write; their ids."""
        rows = [{"id": f"r-{at}-{number}", "aggregatetype": "order", "type": "OrderPlaced",
                 "aggregateid": str(READERS + at),
                 "payload": json.dumps({"number": f"R-{at}-{number}", "cents": 5, "note": "\u2713"},
                                       ensure_ascii=False)}
                for number in range(4) for at in range(len(LANGUAGES))]
        rows[7:7] = [{"id": "r-cancelled", "aggregatetype": "order", "type": "OrderCancelled",
                      "aggregateid": str(READERS), "payload": "{}"}]
        # Each is bad in another way; the orders of account READERS follow some of them.
        rows[9:9] = [{"id": f"bad-{at}", "aggregatetype": "order", "type": "OrderPlaced",
                      "aggregateid": key, "payload": payload}
                     for at, (key, payload) in enumerate([
                         ("A-1001", "{}"), (str(READERS), None), (str(READERS), "{"),
                         (str(READERS), "null"), (str(READERS), b"\xff"), ("9" * 30, "{}"),
                         (str(READERS), "")])]
        self.stack.append(rows)
        self.stack.wait_drained()
        return [row["id"] for row in rows]

    def start_readers(self):
        """The readers of all languages; {name: processes}."""
        running = collections.defaultdict(list)
        for language in self.languages:
            places = range(PARTITIONS) if "position.sql" in language.files else [None]
            for place in places:
                log = self.stack.folder / f"reader-{language.name}-{place}.log"
                with open(log, "w", encoding="utf-8") as output:
                    running[language.name].append(self.started(
                        language, "readorders", *([] if place is None else [place]),
                        env={"DB_NAME": self.reader_database(language)}, output=output))
        return running

    def reader_log(self, language):
        return "".join(f"{log.name}: {log.read_text()[-3000:]}\n"
                       for log in self.stack.folder.glob(f"reader-{language.name}-*.log"))

    def invoices(self, language):
        """The orders that a reader has seen, per account in the order of their invoices."""
        rows = self.stack.sql("SELECT account_id, placed FROM invoice ORDER BY id",
                              name=self.reader_database(language))
        found = collections.defaultdict(list)
        for account, placed in rows:
            found[account].append(json.loads(placed)["number"])
        return found

    def bad_events(self, language):
        """Keys and values of those that a reader has refused, each once."""
        return set(self.stack.sql("SELECT DISTINCT record_key, record_value FROM bad_event WHERE "
                                  "reason <> ''", name=self.reader_database(language)))

    def has_read(self, language, processes, last):
        """Whether the last orders have their invoices; a reader that ended is a failure at once."""
        if any(process.poll() is not None for process in processes):
            raise AssertionError(f"a reader of {language.name} has ended")
        return sorted(self.invoices(language)[1]) == last

    def test_a_reader_drops_repeated_ids(self):
        ids = self.append_orders()
        mine = [record for record in self.stack.records(TOPIC) if record.headers["id"] in ids]
        self.assertEqual(len(mine), len(ids))
        running = self.start_readers()
        # The same records once more, as after a failure, and a last one in each partition.
        for record in mine:
            wire.produce(suite.kafka().bootstrap, TOPIC, record.value, record.key.decode(),
                         record.headers, record.partition)
        last = [f"last-{partition:02}" for partition in range(PARTITIONS)]
        for partition, number in enumerate(last):
            wire.produce(suite.kafka().bootstrap, TOPIC, json.dumps({"number": number}).encode(),
                         "1", {"id": number, "ce_type": "OrderPlaced"}, partition)
        for language in self.languages:
            with self.subTest(language=language.name):
                try:
                    suite.wait_for(f"the last invoices of {language.name}", lambda: self.has_read(
                        language, running[language.name], last), SECONDS)
                except AssertionError as reason:
                    raise AssertionError(f"{reason}\n{self.reader_log(language)}") from None
                found = self.invoices(language)
                for at in range(len(LANGUAGES)):
                    self.assertEqual(found[READERS + at], [f"R-{at}-{n}" for n in range(4)])
                self.assertLessEqual(
                    {(record.key, record.value) for record in mine
                     if record.headers["id"].startswith("bad-") and record.value != b"\xff"},
                    self.bad_events(language), self.reader_log(language))

    def test_a_webhook_is_handed_over_and_tried_until_it_is_accepted(self):
        self.stack.sql("INSERT INTO orders (number, account_id, cents) VALUES " + ", ".join(
            f"('C-{at}', {CANCELLERS + at}, 5)" for at in range(len(LANGUAGES))),
            name=self.shop_database())
        for _ in range(2):
            self.expect(self.run_all("cancelorder", lambda at: [f"C-{at}"]), 0, "")
        for at, name in enumerate(LANGUAGES):
            suite.wait_for(f"the call of {name} to be accepted",
                           lambda: len(self.receiver.of(f"C-{at}")) > 1, SECONDS)
        self.stack.wait_drained(table="retry_task")
        for at, name in enumerate(LANGUAGES):
            calls = self.receiver.of(f"C-{at}")
            self.assertEqual([accepted for _, accepted in calls], [False, True], name)
            self.assertEqual(len({key for key, _ in calls}), 1, name)


class Story(installation.Installation):
    """docs/outbox.md, then docs/applications.md, then the page of each language: its commands as they
    are printed, in their order. Only the order's number differs between the languages."""

    needs = "languages"
    seconds = 60

    def settings_of_page(self):
        """The environment of docs/applications.md, with the addresses of this test."""
        text = page_files.files(page("docs/applications.md"))["environment.sh"]
        for printed, here in (("=3306", f"={self.server.port}"),
                              ("127.0.0.1:9092", suite.kafka().bootstrap),
                              ("DB_PASSWORD=secret", f"DB_PASSWORD={self.shop_login['password']}"),
                              ("https://billing.example.org:8443", f"http://{self.receiver.host}")):
            self.assertEqual(text.count(printed), 1, printed)
            text = text.replace(printed, here)
        return text

    def allow_host(self):
        """The settings for `tallybox retry`, and its rule."""
        text = page("docs/applications.md")
        settings = installation.block(text, "ini").replace("billing.example.org:8443",
                                                           self.receiver.host)
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(f"\n{settings}")
        self.restart(installation.role_command("retry"))
        self.shell(next(line for line in text.splitlines() if line.startswith("tallybox retry")))

    def play(self, language, at):
        """run.sh to its end, then read.sh until it has written the invoice."""
        number = f"A-{self.server.port}-{at}"
        (language.folder / "environment.sh").write_text(self.settings_of_page())
        run = language.files["run.sh"].replace("A-1002", number)
        if language.name == "python":
            run = run.replace("python3", sys.executable)
        done = subprocess.run(["sh", "-ec", f". ./environment.sh\n{run}"], cwd=language.folder,
                              env=language.env, capture_output=True, text=True, timeout=SECONDS,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "placed\n"), done.stderr)
        suite.wait_for("the call to be accepted", lambda: len(self.receiver.of(number)) > 1, SECONDS)
        read = language.files["read.sh"].strip()
        if language.name == "python":
            read = read.replace("python3", sys.executable)
        with open(self.work / f"read-{language.name}.log", "wb") as log:
            reader = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-ec",
                                       f". ./environment.sh\n{read}"], cwd=language.folder,
                                      env=language.env, stdout=log, stderr=log, start_new_session=True)
        try:
            suite.wait_for("the invoice\n", lambda: self.has_invoice(language, reader, number), SECONDS)
        finally:
            os.killpg(reader.pid, signal.SIGKILL)
            reader.wait()
        # All languages write into one table: the readers after the first find every id in it.
        self.sql("DELETE FROM processed_event", database="shop")

    def has_invoice(self, language, reader, number):
        text = (self.work / f"read-{language.name}.log").read_text()
        self.assertIsNone(reader.poll(), text)
        return re.search(rf'^invoice for account 7: .*"{number}"', text, re.M)

    def check_partitions(self):
        """The page of PHP starts a reader for each partition that the relay makes."""
        count = re.search(r"`relay.topic_partitions` \| `(\d+)`", page("docs/settings.md"))[1]
        self.assertIn(f"by default there are {count}:", page("docs/php.md"))
        self.assertIn(f"$(seq 0 {int(count) - 1})", page("docs/php.md"))

    def test_from_the_outbox_to_the_reader_of_each_language(self):
        self.check_partitions()
        self.receiver = Receiver()
        self.addCleanup(self.receiver.close)
        files = page_files.files(page("docs/outbox.md"))
        languages = [Language(name, self.work, suite.clean_environment()) for name in LANGUAGES]
        try:
            self.make_outbox()
            self.sql("CREATE DATABASE shop")
            self.sql(files["shop.sql"], database="shop")
            self.sql(files["shop_rights.sql"])
            self.sql(files["order.sql"], database="shop", **self.shop_login)
            self.sql(page_files.files(page("docs/applications.md"))["invoices.sql"], database="shop")
            self.allow_host()
            for at, language in enumerate(languages):
                if language.name in fetched():
                    language.use(fetched()[language.name])
                language.build()
                if "position.sql" in language.files:
                    self.sql(language.files["position.sql"], database="shop")
                self.play(language, at)
        except BaseException:
            print(self.logs(), file=sys.stderr)
            raise


class Examples(suite.Case):
    """The commands of README and RETRY, through a shell, with the answers printed below them. Where
    a page prints "...", the answer may have anything; ids that the server chose may differ."""

    seconds = 10

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = cls.stack.folder / "shell"
        cls.work.mkdir()
        program = cls.work / "tallybox"
        program.write_text(f'#!/bin/sh\ncommand=$1\nshift\nexec "{suite.BINARY}" "$command" '
                           f'--config "{cls.stack.ini}" "$@"\n')
        program.chmod(0o700)

    def serve(self, **sets):
        """A server that curl takes for the one of the pages."""
        serve = self.start("serve", sets=sets)
        (self.work / ".curlrc").write_text(
            f'silent\nconnect-to = "127.0.0.1:8080:127.0.0.1:{serve.api_port}"\n')
        return serve

    def shell(self, command, **env):
        done = subprocess.run(
            ["sh", "-ec", command], cwd=self.work, capture_output=True, text=True, timeout=120,
            check=False, env=suite.clean_environment(
                PATH=f"{self.work}:{os.environ['PATH']}", CURL_HOME=str(self.work), **env))
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def compare(self, printed, answer):
        pattern = re.escape(printed).replace(re.escape("..."), ".*")
        pattern = re.sub(r'"id":\d+', r'"id":\\d+', pattern)
        self.assertRegex(answer, f"^{pattern}$")

    def section(self, name, heading):
        """The text of a page from a heading to the next one of its level."""
        text = page(name)
        start = text.index(f"{heading}\n")
        level = heading.split(" ")[0] + " "
        end = text.find(f"\n{level}", start + 1)
        return text[start:] if end < 0 else text[start:end]

    def examples(self, text):
        """(command, answer) of each curl of a page that is followed by its answer."""
        lines = [line.strip() for line in text.splitlines()]
        found = [(line, after) for line, after in zip(lines, lines[1:])
                 if line.startswith("curl ") and after.startswith("{")]
        self.assertTrue(found)
        return found

    def run_sql(self, text):
        """The SQL blocks of a page, as an application; the rows of the last statement."""
        connection = suite.connect(self.stack.name, user=APPLICATION, password=accounts.PASSWORD)
        try:
            with connection.cursor() as cursor:
                for language, _, content in page_files.blocks(text):
                    for statement in statements(content) if language == "sql" else ():
                        cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def test_readme_is_read_in_one_go(self):
        self.assertLessEqual(len(page("README.md").splitlines()), 250)

    def test_a_vote_over_http_answers_what_readme_prints(self):
        self.serve()
        for command, answer in self.examples(self.section("README.md", "### Votes over HTTP")):
            self.compare(answer, self.shell(command))

    def test_an_event_by_the_insert_of_readme_is_in_the_outbox(self):
        make_shop(self.stack, self.stack.name, APPLICATION)
        self.run_sql(self.section("README.md", "## Write an event"))
        self.assertEqual(self.stack.sql("SELECT number, aggregatetype, aggregateid, type FROM "
                                        "outbox JOIN orders ON aggregateid = account_id"),
                         [("A-1001", "order", "7", "OrderPlaced")])

    def test_a_task_by_the_insert_of_retry_is_found_by_its_key(self):
        rows = self.run_sql(self.section("RETRY.md", "## One INSERT from SQL"))
        self.assertEqual(rows, self.stack.sql("SELECT id FROM retry_task WHERE biz_no = '815'"))

    def test_a_task_over_http_is_accepted_as_retry_prints_it(self):
        text = self.section("RETRY.md", "## Tasks over HTTP")
        text = text.replace("/etc/tallybox", str(self.work))
        blocks = page_files.blocks(text)
        for content in (content for language, _, content in blocks if language == "sh"):
            token = self.shell(f"{content}echo $TOKEN").splitlines()[-1]
        settings = configparser.ConfigParser()
        settings.read_string(next(content for language, _, content in blocks if language == "ini"))
        self.serve(**{f"{name}.{key}": value for name in settings.sections()
                      for key, value in settings[name].items()})
        for command, answer in self.examples(text):
            self.compare(answer, self.shell(command, TOKEN=token))
        self.assertEqual(self.stack.sql("SELECT handler, biz_no FROM retry_task WHERE "
                                        "idempotency_key IS NULL"), [("http", "816")])


if __name__ == "__main__":
    unittest.main()
