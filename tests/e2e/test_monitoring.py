# SPDX-License-Identifier: MIT
"""The rules of docs/alerts.yml and the dashboard of docker/grafana: they name only what the program
has, each guarantee has a panel and a rule, and a Prometheus that scrapes the program answers all of
their queries."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import alerts_table  # noqa: E402
import dashboard  # noqa: E402
import page_files  # noqa: E402
import promql  # noqa: E402
import suite  # noqa: E402

# What Grafana puts in for its variables. Prometheus scrapes each second.
VARIABLES = {"$job": "tallybox", "$instance": ".+", "$lane": ".+", "$__rate_interval": "1m",
             "$__range": "5m"}


def page(name):
    return (suite.ROOT / name).read_text(encoding="utf-8")


def program_series():
    done = subprocess.run([suite.BINARY, "metrics"], capture_output=True, text=True, timeout=60,
                          check=True, env=suite.clean_environment())
    return promql.Series(done.stdout)


def read_rules():
    return alerts_table.read(page("docs/alerts.yml"))


class Queries(unittest.TestCase):
    """What scripts/promql.py refuses."""

    any_database = True

    @classmethod
    def setUpClass(cls):
        cls.series = program_series()

    def refused(self, text, reason):
        with self.subTest(query=text), self.assertRaisesRegex(promql.Unknown, reason):
            promql.Query(text, self.series)

    def test_the_labels_of_a_query_are_those_of_its_result(self):
        for text, labels in (
                ("tallybox_relay_lease_held", {"job", "instance", "lane"}),
                ("sum by (job, lane) (tallybox_relay_lease_held) != 1", {"job", "lane"}),
                ("time() - max by (job) (tallybox_outbox_rows > 0)", {"job"}),
                ("absent(tallybox_ready)", set()),
                ("(count(up == 0) or vector(0)) + 1", set()),
                ("up and on (job) tallybox_ready", {"job", "instance"}),
                ("tallybox_ready * on (job, instance) group_left () tallybox_build_info",
                 {"job", "instance"}),
                ("tallybox_outbox_rows + on (job) tallybox_ready", {"job"}),
                ("topk(3, tallybox_outbox_rows)", {"job", "instance", "lane"}),
                ("deriv(sum by (job) (tallybox_outbox_rows)[15m:1m]) > 0", {"job"}),
                ('histogram_quantile(0.9, sum by (le, lane) '
                 '(rate(tallybox_relay_send_seconds_bucket{lane="x"}[5m])))', {"lane"})):
            with self.subTest(query=text):
                self.assertEqual(promql.Query(text, self.series).labels, labels)

    def test_a_metric_that_the_program_does_not_have_is_refused(self):
        self.refused("sum(tallybox_outbox_row)", "no metric has the name tallybox_outbox_row$")
        self.refused("rate(tallybox_commit_seconds[5m])", "is a histogram: add _bucket")

    def test_a_label_that_the_metric_does_not_have_is_refused(self):
        self.refused('tallybox_outbox_rows{scene="a"}', "tallybox_outbox_rows has no label scene")
        self.refused("sum by (job, dep) (tallybox_outbox_rows)", "has no label dep")
        self.refused("sum by (lane) (sum by (job) (tallybox_outbox_rows))", "has no label lane")
        self.refused("tallybox_ready and on (lane) tallybox_outbox_rows", "left side .* label lane")
        self.refused("tallybox_outbox_rows / on (lane) tallybox_ready", "right side .* label lane")
        self.refused("histogram_quantile(0.9, sum(rate(tallybox_commit_seconds_bucket[5m])))",
                     "has no label le")

    def test_a_value_that_the_label_never_has_is_refused(self):
        self.refused('tallybox_http_answers_total{class="500"}', "class of .* is never 500")
        self.refused('tallybox_retry_tasks{state=~"blocked|stuck"}', "is never stuck")

    def test_what_cannot_be_read_is_refused(self):
        for text in ("sum(up", "up)", "up +", "up up", "sum(up) by (job)", "quantile(0.5, up)",
                     "up[$lane]", "up{job}", "", "sum by job (up)", "up @ 5"):
            self.refused(text, "")


class Alerts(unittest.TestCase):
    """The rules of docs/alerts.yml use what the program has, and OPERATIONS has their table."""

    any_database = True

    @classmethod
    def setUpClass(cls):
        cls.rules = read_rules()
        cls.series = program_series()

    def test_each_metric_and_label_of_a_rule_is_one_of_the_program(self):
        self.assertGreater(len(self.rules), 20)
        for rule in self.rules:
            with self.subTest(alert=rule["alert"]):
                query = promql.Query(rule["expr"], self.series)
                used = set(re.findall(r"\$labels\.(\w+)", rule["summary"] + rule["action"]))
                self.assertLessEqual(used, query.labels)

    def cases(self):
        """{name: text} of the cases for promtool."""
        return {case.split("\n", 1)[0]: case for case in
                page("tests/data/alerts_test.yml").split("\n    name: ")[1:]}

    def test_each_rule_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent(self):
        cases = self.cases()
        silent = cases.pop("silent")
        self.assertIn("exp_samples: []}", silent)
        self.assertEqual(list(cases), [rule["alert"] for rule in self.rules])
        for rule in self.rules:
            query = promql.Query(rule["expr"], self.series)
            with self.subTest(alert=rule["alert"]):
                self.assertLessEqual(query.names, set(re.findall(r"series: '(\w+)", silent)))
                self.check_case(rule, query, cases[rule["alert"]])

    def check_case(self, rule, query, case):
        """The rule does not fire at one minute, and does at the next one, with all its labels."""
        firing = f'ALERTS{{alertname="{rule["alert"]}",alertstate="firing"'
        quiet = re.search(rf"expr: '{firing}}}', eval_time: (\d+)m, exp_samples: \[\]}}", case)
        fires = re.search(rf"expr: '{firing}}}'\n +eval_time: (\d+)m\n +exp_samples:\n", case)
        self.assertEqual(int(quiet[1]) + 1, int(fires[1]))
        samples = re.findall(rf"labels: '{firing},severity=\"{rule['severity']}\"([^}}]*)}}', "
                             "value: 1}", case)
        self.assertTrue(samples)
        for labels in samples:
            self.assertEqual(set(re.findall(r"(\w+)=", labels)), query.labels)

    def test_each_series_of_a_case_is_one_of_the_program(self):
        found = re.findall(r"series: '([^']+)'", page("tests/data/alerts_test.yml"))
        for series in found:
            with self.subTest(series=series):
                query = promql.Query(series, self.series)
                self.assertEqual(set(re.findall(r'(\w+)="', series)), query.labels)

    def test_the_table_of_operations_has_the_rules(self):
        table = "\n".join(alerts_table.table(self.rules))
        self.assertIn(f"<!-- alerts: made by scripts/alerts_table.py -->\n{table}\n<!--",
                      page("OPERATIONS.md"), "run scripts/reference")


class Promtool(unittest.TestCase):
    """The rules in the eyes of Prometheus."""

    any_database = True
    needs = "prometheus"
    seconds = 20

    def promtool(self, *words):
        done = subprocess.run([f"{os.environ['TALLYBOX_PROMETHEUS']}/promtool", *map(str, words)],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_rules_are_valid(self):
        self.promtool("check", "rules", suite.ROOT / "docs/alerts.yml")

    def test_the_configuration_of_operations_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (*page_files.files(page("OPERATIONS.md")).items(),
                               ("alerts.yml", page("docs/alerts.yml")), ("token", "secret")):
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            self.promtool("check", "config", f"{folder}/prometheus.yml")

    def test_the_rules_fire_when_they_should_and_only_then(self):
        self.promtool("test", "rules", suite.ROOT / "tests/data/alerts_test.yml")


class Dashboard(unittest.TestCase):
    """docker/grafana/tallybox.json, without a server."""

    any_database = True

    @classmethod
    def setUpClass(cls):
        cls.series = program_series()
        cls.rules = {rule["alert"]: rule for rule in read_rules()}
        cls.panels = [panel for _, inside in dashboard.panels.ROWS for panel in inside]

    def test_the_file_is_what_the_script_makes(self):
        self.assertEqual(page("docker/grafana/tallybox.json"), dashboard.made(suite.BINARY),
                         "run scripts/reference")

    def test_each_guarantee_of_readme_has_a_panel_with_an_alert(self):
        text = page("README.md")
        begin = text.index("\n## Guarantees\n")
        rows = re.findall(r"^\| ([a-z ]+) \|", text[begin:text.index("\n## ", begin + 1)], re.M)
        self.assertGreater(len(rows), 5)
        shown = [panel.guarantee for panel in self.panels if panel.guarantee]
        self.assertEqual(shown, [row for row in rows if row != "guarantee"])
        for panel in self.panels:
            if panel.guarantee:
                self.assertTrue(panel.alerts, panel.title)

    def test_each_alert_is_named_by_a_panel_that_shows_what_it_watches(self):
        self.assertEqual({alert for panel in self.panels for alert in panel.alerts},
                         set(self.rules))

    def test_the_limit_in_a_graph_is_that_of_its_alert(self):
        for panel in self.panels:
            if panel.limit is not None:
                self.assertTrue(self.rules[panel.alerts[0]]["expr"].endswith(f" > {panel.limit}"))

    def test_panels_do_not_overlap(self):
        taken = set()
        for one in json.loads(page("docker/grafana/tallybox.json"))["panels"]:
            at = one["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], dashboard.WIDTH)
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    self.assertNotIn((x, y), taken, f"{one['title']} is on another panel")
                    taken.add((x, y))

    def wrong(self, panel, reason):
        with self.assertRaisesRegex(promql.Unknown, f"a row: {panel.title}: .*{reason}"):
            dashboard.dashboard([("a row", [panel])], self.rules, self.series)

    def test_what_the_program_or_the_rules_do_not_have_is_refused(self):
        graph = dashboard.panels.graph
        self.wrong(graph("name", "", ("sum(tallybox_nothing)", "")), "no metric has the name")
        self.wrong(graph("legend", "", ("sum(up)", "{{lane}}")), "no label lane")
        self.wrong(graph("alert", "", ("up", ""), alerts=("TallyboxNothing",)), "no rule")
        self.wrong(graph("other", "", ("up", ""), alerts=("TallyboxNotReady",)), "watches none")

    def test_each_metric_is_restricted_by_the_variables_that_fit(self):
        for text, want in (
                ("up == 0", 'up{job=~"$job",instance=~"$instance"} == 0'),
                ('sum(tallybox_outbox_rows{lane!="a"})',
                 'sum(tallybox_outbox_rows{job=~"$job",instance=~"$instance",lane=~"$lane",'
                 'lane!="a"})'),
                ('ALERTS{alertstate="firing"}', 'ALERTS{job=~"$job|",alertstate="firing"}')):
            self.assertEqual(
                dashboard.filtered(promql.Query(text, self.series), self.series), want)


class Prometheus:
    """A server with the rules of docs/alerts.yml that scrapes a role."""

    def __init__(self, folder, role):
        self.folder = folder
        self.port = suite.free_port()
        folder.mkdir()
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s",
                       "evaluation_interval": "1s"},
            "rule_files": [str(suite.ROOT / "docs/alerts.yml")],
            "scrape_configs": [{"job_name": "tallybox", "static_configs": [
                {"targets": [f"127.0.0.1:{role.admin_port}"]}]}]}))
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with # see end()
                ["setpriv", "--pdeathsig", "KILL",
                 f"{os.environ['TALLYBOX_PROMETHEUS']}/prometheus",
                 f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self):
        self.process.terminate()
        self.process.wait(60)

    def api(self, path, **parameters):
        """The data of an answer; AssertionError with the reason of an error."""
        query = urllib.parse.urlencode(parameters)
        answer = suite.http_call(self.port, "GET", f"/api/v1/{path}?{query}")
        found = json.loads(answer.body)
        if found["status"] != "success":
            raise AssertionError(f"{path} {parameters}: {found}")
        return found["data"]

    def up(self):
        if self.process.poll() is not None:
            raise AssertionError(f"Prometheus ended\n{suite.tail(self.log)}")
        try:
            return suite.http_call(self.port, "GET", "/-/ready").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def query(self, text):
        """{the labels of a series: its value}; the labels without those of the target."""
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        found = {}
        for one in self.api("query", query=text)["result"]:
            labels = {key: value for key, value in one["metric"].items()
                      if key not in (*promql.TARGET, "__name__")}
            found[tuple(sorted(labels.items()))] = float(one["value"][1])
        return found


class Scraped(suite.Case):
    """All queries of dashboard and rules, in a Prometheus that scrapes a whole system."""

    roles = ("run",)
    needs = "prometheus"
    any_database = True
    seconds = 30
    settings = {"rollup.interval_ms": 1000, "retry.poll_ms": 100}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.sql("INSERT INTO remark (id) VALUES (1)")
        cls.prometheus = Prometheus(cls.stack.folder / "prometheus", cls.one)
        cls.addClassCleanup(cls.prometheus.end)
        suite.wait_for("Prometheus", cls.prometheus.up)
        cls.voter = 0
        cls.make_work()
        suite.wait_for("a scrape", lambda: cls.prometheus.query("up == 1"))

    @classmethod
    def make_work(cls):
        """Something for each role: a vote, an event, a task that is done, a wrong record."""
        cls.voter += 1
        cls.one.vote((cls.voter, 1, 1))
        name = f"e-{cls.voter}"
        cls.stack.append([{"id": name, "aggregatetype": "order", "aggregateid": "7",
                           "type": "Placed", "payload": "{}"},
                          {"id": f"{name}-bad", "aggregatetype": "vote", "aggregateid": "7",
                           "type": "x", "payload": "no vote"}])
        cls.stack.sql("INSERT INTO retry_task (scene, handler, idempotency_key, options) VALUES "
                      "('publish', 'kafka', %s, %s)",
                      [name, json.dumps({"topic": f"event.{cls.stack.name}.order", "key": "7"})])

    def targets(self):
        """(title of the panel, query)"""
        return [(panel["title"], target["expr"])
                for panel in json.loads(page("docker/grafana/tallybox.json"))["panels"]
                for target in panel.get("targets", ())]

    def test_each_query_of_the_dashboard_finds_series(self):
        left = self.targets()
        self.assertGreater(len(left), 50)

        def look():
            self.make_work()
            left[:] = [(title, text) for title, text in left if not self.prometheus.query(text)]
            return not left
        try:
            suite.wait_for("an answer to each query", look, every=1)
        except AssertionError as reason:
            raise AssertionError(f"{reason}: {left}") from None

    def numbers(self, title):
        """The values of a panel, one dict for each of its queries."""
        return [self.prometheus.query(text) for name, text in self.targets() if name == title]

    def test_the_panels_show_what_the_system_does(self):
        def look():
            self.make_work()
            published = self.numbers("Events published and deleted")
            return (published[0][("lane", "outbox"),] > 0 and published[1][("lane", "outbox"),] > 0
                    and self.numbers("Votes applied")[0][()] > 0
                    and self.numbers("Votes over HTTP")[0][("result", "changed"),] > 0
                    and 0 < self.numbers("Kafka: time to the acknowledgement")[0]
                    [("lane", "outbox"),] < 10
                    and 0 < self.numbers("Database: time of a commit")[1][()] < 10
                    and self.numbers("Attempts by outcome")[0][("outcome", "done"),] > 0
                    and self.numbers("Isolation of records: dead records")[0][()] > 0
                    and "TallyboxDeadRecords" in str(self.numbers("Alerts that fire"))
                    and self.numbers("Totals: age of the last roll-up")[0][()] < 60)
        suite.wait_for("the numbers", lambda: self.has(look), every=1)
        self.assertGreater(self.numbers("Memory")[0][()], 1 << 20)

    def test_the_numbers_of_a_system_that_works_are_zero(self):
        for title in ("Processes without an answer", "Processes that are not ready",
                      "Durability: databases that changed", "No loss: lanes and partitions without service"):
            suite.wait_for(title, lambda one=title: self.numbers(one) == [{(): 0}])
        suite.wait_for("no server that fails", lambda: self.numbers("Servers that fail") == [
            {(("dep", dep),): 0 for dep in ("kafka", "mysql", "sink")}])

    @staticmethod
    def has(look):
        """A series that is not there yet is no error."""
        try:
            return look()
        except KeyError:
            return False

    def test_each_variable_has_values(self):
        for name, _, query, _ in dashboard.VARIABLES:
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
            found = self.prometheus.api(f"label/{match[2]}/values",
                                        **{"match[]": match[1].replace("$job", "tallybox")})
            self.assertEqual(match[2], name)
            self.assertEqual(found, {"job": ["tallybox"], "lane": ["outbox"],
                                     "instance": [f"127.0.0.1:{self.one.admin_port}"]}[name])

    def test_prometheus_evaluates_each_rule(self):
        def look():
            rules = [rule for group in self.prometheus.api("rules")["groups"]
                     for rule in group["rules"]]
            for rule in rules:
                self.assertNotEqual(rule["health"], "err", rule)
            return sorted(rule["name"] for rule in rules if rule["health"] == "ok")
        names = sorted(rule["alert"] for rule in read_rules())
        suite.wait_for("all rules", lambda: look() == names)

    def test_the_program_serves_no_series_that_its_list_does_not_have(self):
        listed = program_series()
        for key in self.one.metrics():
            promql.Query(key, listed)


if __name__ == "__main__":
    unittest.main()
