# SPDX-License-Identifier: MIT
"""The rules of docs/alerts.yml: they name only what the program has, and each one fires when it
should."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import alerts_table  # noqa: E402
import page_files  # noqa: E402
import promql  # noqa: E402
import suite  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
