# SPDX-License-Identifier: MIT
"""docs/scale.md has the tables that tests/bench/scale.py computes, and they follow the
measurements: other rows give other tables, and a row that is missing gives none."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]
import suite  # noqa: E402
from installation import page  # noqa: E402
import scale  # noqa: E402
import table  # noqa: E402

SCRIPT = suite.ROOT / "tests/bench/scale.py"
# Of a machine that is no real one: a thousand rows a second where nothing else is said.
MACHINE = {"case": "machine", "database": "MariaDB 10.11", "kafka": "4.1", "librdkafka": "2.14",
           "date": "2026-11-22", "cores": 2, "memory_gib": 4, "kernel": "Linux", "runs": 1,
           "scale": 100, "command": "./dev bench"}
CASES = ("relay", "relay_2_lanes", "relay_4_lanes", "serve_16", "serve_64", "serve_256",
         "serve_64_hot", "serve_64_arrays", "consume_uniform", "pipeline", "rollup_1",
         "latency_kafka_10000", "latency_log_10000")


def rows_of(**rates):
    """What ./dev bench --json writes, and --table prints."""
    lines = [json.dumps(MACHINE)]
    for case in CASES:
        line = {"case": case, "db": "mariadb", "rows_per_s": rates.get(case, 1000),
                "ceiling_rows_per_s": 2000, "ratio": 0.5, "cpu_us_per_row": 10, "rss_mib": 20}
        if case.startswith("relay"):
            line["rss_mib"] = 20 + 5 * int((re.findall(r"\d", case) or [1])[0])
        if case == "consume_uniform":
            line.update(insert_rows_per_s=3000, of_insert=0.33)
        if case == "serve_64_arrays":
            line["ceiling_rows_per_s"] = 50000
        lines.append(json.dumps(line))
    return table.table_of(lines)


def model_of(**rates):
    model, = (scale.Model(rows, scale.Sizing(page("docs/sizing.md")))
              for rows in scale.read_rows(rows_of(**rates)))
    return model


class Page(unittest.TestCase):
    """The page."""

    any_database = True

    def test_it_has_the_tables_of_the_script(self):
        models = scale.read_models()
        text = page("docs/scale.md")
        for name in scale.TABLES:
            self.assertIn(f"<!-- scale-{name}: made by tests/bench/scale.py -->\n"
                          f"{scale.text_of(name, models)}<!-- /scale-{name} -->\n", text,
                          "run scripts/reference")

    def test_the_rest_has_no_rate_of_its_own(self):
        rest = re.sub(r"<!-- scale-.*?<!-- /scale-\w+ -->", "", page("docs/scale.md"), flags=re.S)
        self.assertEqual(re.findall(r"\d[\d.,]* ?(?:k/s|/s|votes/s|MiB|GB|TB)\b", rest), [])

    def test_its_assumptions_are_those_of_the_script(self):
        text = page("docs/scale.md")
        self.assertIn(f"at {scale.BUSY:.0%} of its rate".replace("%", " %"), text)
        self.assertIn("three replicas", text)
        self.assertEqual(scale.REPLICAS, 3)
        self.assertIn(f"a topic with {scale.PARTITIONS} partitions", text)
        settings = page("docs/settings.md")
        self.assertIn(f"| `relay.topic_partitions` | `{scale.PARTITIONS}` |", settings)
        self.assertIn(f"| `api.batch_votes_max` | `{scale.BATCH}` |", settings)
        self.assertIn(f"| `consumer.batch_rows_max` | `{scale.APPLIED_BATCH}` |", settings)
        self.assertIn("| `api.lane_count` | `1` | 1..64 |", settings)
        committers = int(re.search(r"\| `api.committers` \| `(\d+)` \|", settings)[1])
        self.assertEqual(scale.HOT_BATCH, 64 // committers)
        law = re.search(r"#define ZIPF_S ([\d.]+)", page("tests/bench/bench.c"))[1]
        self.assertEqual(float(law), scale.ZIPF_S)


class Rows(unittest.TestCase):
    """From rows to tables."""

    any_database = True

    def run_script(self, text, *words):
        with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            return subprocess.run([sys.executable, "-B", str(SCRIPT), "--rows", file.name, *words],
                                  capture_output=True, text=True, timeout=60, check=False)

    def test_rows_of_another_machine_give_its_tables(self):
        done = self.run_script(rows_of(pipeline=2500))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 2,500/s | 1.0 | one machine for all roles and servers (measured) |",
                      done.stdout)
        self.assertNotIn("MySQL 9", done.stdout)

    def test_a_missing_row_is_an_error(self):
        for case in CASES:
            name = table.place_of(case)[1]
            lines = rows_of().splitlines(keepends=True)
            less = [line for line in lines if not line.startswith(f"| {name} |")]
            self.assertEqual(len(less), len(lines) - 1)
            done = self.run_script("".join(less))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"has no row '{name}'", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_several_tables_of_a_database_count_together(self):
        first = "**A 1**, x\n\n| what | tallybox |\n|---|---|\n| one | 1/s |\n"
        second = "**A 1**, y\n\n| what | tallybox |\n|---|---|\n| two | 2/s |\n"
        rows, = scale.read_rows(first + "\n" + second)
        self.assertEqual(rows.database, "A 1")
        self.assertEqual(set(rows.cells), {"one", "two"})

    def test_a_page_without_tables_is_an_error(self):
        self.assertIn("no table of ./dev bench", self.run_script("# Nothing\n").stderr)

    def test_numbers_are_read_with_their_unit(self):
        self.assertEqual([scale.number(text) for text in (
            "105 k/s", "9,958/s, 6.3 / 12.2 / 17.6 ms", "46.9 k/s", "37.1", "1,103/s; spread")],
            [105000, 9958, 46900, 37.1, 1103])

    def test_sizes_are_read_from_the_page(self):
        sizing = scale.Sizing(page("docs/sizing.md"))
        cell = re.search(r"^\| `vote_count`, `vote_tally` \| (\d+) and (\d+) MB",
                         page("docs/sizing.md"), re.M)
        self.assertEqual([sizing.row_bytes("vote_count"), sizing.row_bytes("vote_tally")],
                         [int(cell[1]), int(cell[2])])
        self.assertRaises(scale.Missing, sizing.row_bytes, "vote_nothing")


class Model(unittest.TestCase):
    """The arithmetic."""

    any_database = True

    def test_work_in_turns_adds_up_and_is_corrected_by_the_measured_whole(self):
        model = model_of(serve_64=3000, serve_256=6000, relay=3000, consume_uniform=3000,
                         pipeline=500)
        self.assertAlmostEqual(model.stages, 1000)
        self.assertAlmostEqual(model.trust, 0.5)
        self.assertAlmostEqual(model.writers, 0.5 * 2000)
        self.assertAlmostEqual(model.together, 0.5 * 1200)
        self.assertAlmostEqual(model.installation, 0.5 * 2000)

    def test_a_slow_log_bounds_an_installation(self):
        model = model_of(serve_64=9000, serve_256=9000, relay=9000, consume_uniform=100,
                         pipeline=100)
        self.assertEqual(model.installation, 100)

    def test_a_faster_database_needs_fewer_installations(self):
        # The server of [mysql] takes 750 votes a second, of which 70 % are planned.
        model = model_of(serve_64=3000, serve_256=3000, relay=3000, consume_uniform=3000,
                         pipeline=500)
        self.assertAlmostEqual(model.writers, 750)
        self.assertEqual([scale.installations(model, factor) for factor in (1, 100)], [1, 96])
        self.assertEqual(scale.growth_column(model, 100)[
            "database servers, for `[mysql]` and `[sink]`"], 192)
        fast = model_of(serve_64=3000, serve_256=6000, relay=3000, consume_uniform=3000,
                        pipeline=500)
        self.assertAlmostEqual(fast.writers, 1000)
        self.assertEqual(scale.installations(fast, 100), 72)

    def test_a_content_gains_by_larger_transactions_up_to_the_time_of_a_vote(self):
        model = model_of()
        self.assertAlmostEqual(model.transactions(1), 2000)
        self.assertAlmostEqual(model.transactions(100), 50000)
        self.assertLess(model.transactions(10 ** 6), 1 / model.vote_s)
        self.assertAlmostEqual(model.hot_content(scale.HOT_BATCH), model.one_content)
        self.assertAlmostEqual(model.hot_content(100), 50000 * model.hot_trust)

    def test_a_slower_commit_adds_its_time_to_each_transaction(self):
        model = model_of(consume_uniform=10000)
        self.assertAlmostEqual(1 / model.hot_content(1, 0.02), 1 / model.hot_content(1) + 0.02)
        self.assertAlmostEqual(model.one_consumer(100, 0.01), 5000)
        self.assertAlmostEqual(model.one_consumer(100, 0), 10000)

    def test_a_role_gets_the_cores_that_it_needs(self):
        model = model_of()
        self.assertEqual(model.processes("serve", 1000), scale.INSTANCES["serve"])
        self.assertEqual(model.processes("serve", 700000), 10)
        self.assertEqual(model.processes("rollup", 700000), 1)

    def test_murmur2_is_that_of_kafka(self):
        # org.apache.kafka.common.utils.UtilsTest
        for text, expect in ((b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107),
                             (b"a-little-bit-long-string", -985981536),
                             (b"a-little-bit-longer-string", -1486304829),
                             (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971)):
            self.assertEqual(scale.murmur2(text), expect & 0xffffffff, text)

    def test_a_hot_content_makes_its_part_the_busiest(self):
        keys = scale.hashes(1000)
        self.assertLess(scale.busiest(keys, scale.shares(1000, "alike"), 4), 1.2)
        self.assertAlmostEqual(sum(scale.shares(1000, "zipf")), 1)
        largest = max(scale.shares(1000, "zipf"))
        self.assertGreater(scale.busiest(keys, scale.shares(1000, "zipf"), 50), 50 * largest)

    def test_the_line_of_least_squares_goes_through_points_of_a_line(self):
        up, start = scale.slope([(1, 29), (2, 37), (4, 53)])
        self.assertAlmostEqual(up, 8)
        self.assertAlmostEqual(start, 21)


if __name__ == "__main__":
    unittest.main()
