# SPDX-License-Identifier: MIT
"""serve with very many remarks: its memory is bounded by settings, not by the number of remarks, of
items, or of lists that are read."""

import functools
import http.client
import itertools
import math
import pathlib
import queue
import re
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

MIB = 1048576
CHUNK = 200000      # remarks of one INSERT, of which a class has a multiple or less
CLIENTS = 4
COLUMNS = "id, item_id, score, status, votes, rollup_due, header, content, user_name"
TEXT = "x" * 40
SIZING = suite.ROOT / "docs/sizing.md"
BOUND = re.compile(r"\*\*Memory of serve\.\*\* Plan for (\d+) MiB and ([\d.]+) times the sum")
GROWTH_MIB = 8      # buffers of threads and of connections, and blocks of other sizes
WAITING = 500       # items that wait for their lists at a time
PAGES = 500         # that are requested at a time


class ManyRemarks(suite.Case):
    """Remarks in items by Zipf's law, with ids in the order of their items."""

    remarks = 0
    cache_mib, lists_mib = 64, 3
    items, churn = 0, 1.5
    idle_mib = 0  # of serve, before the first read

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pages = itertools.count(1)
        cls.fill()
        cls.serve = cls.stack.role("serve", sets={
            "api.page_cache_bytes_max": int(cls.cache_mib * MIB),
            "api.recommended_bytes_max": int(cls.lists_mib * MIB),
            "api.recommended_items_max": cls.items})

    @classmethod
    def fill(cls):
        """Remark n of N is of item exp(n / N * ln(items)). An INSERT in the order of the indexes
        takes a third of the time that one in another order takes."""
        digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        places = [f"({digits}) AS d{place}" for place in range(6)]
        number = " + ".join(f"d{place}.d * {10 ** place}" for place in range(6))
        chunk = min(CHUNK, cls.remarks)
        cls.stack.sql("CREATE TABLE numbers (n INT PRIMARY KEY)")
        cls.stack.sql(f"INSERT INTO numbers SELECT n FROM (SELECT {number} AS n FROM "
                      f"{', '.join(places)}) AS all_of_them WHERE n < {chunk}")
        growth = math.log(cls.items) / cls.remarks
        connection = suite.connect(cls.stack.name)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION sql_log_bin = 0, unique_checks = 0")
                for first in range(0, cls.remarks, chunk):
                    cursor.execute(
                        f"INSERT INTO remark ({COLUMNS}) SELECT {first} + n + 1, FLOOR(EXP(({first}"
                        f" + n) * {growth!r})), n % 11, 1, n % 7, NULL, 'header', '{TEXT}', 'user' "
                        "FROM numbers ORDER BY n")
        finally:
            connection.close()

    def get_all(self, paths):
        """Requests all of them on a few connections; each must be answered with status 200. The
        number of lists that are being built."""
        todo, faults, building = queue.SimpleQueue(), [], []
        for path in paths:
            todo.put(path)
        threads = [threading.Thread(target=self.get_some, args=(todo, faults, building))
                   for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])
        return len(building)

    def get_some(self, todo, faults, building):
        connection = http.client.HTTPConnection("127.0.0.1", self.serve.api_port, timeout=60)
        try:
            while not faults:
                path = todo.get_nowait()
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    faults.append(f"{path}: {answer.status} {body[:300]}")
                elif b'"building":true' in body:
                    building.append(path)
        except queue.Empty:
            pass
        except (OSError, http.client.HTTPException) as reason:
            faults.append(repr(reason))
        finally:
            connection.close()

    def rank_all(self):
        """The list of each item is built; not more items may wait than serve lets wait."""
        for first in range(1, self.items + 1, WAITING):
            items = range(first, min(first + WAITING, self.items + 1))
            built = self.serve.metric("tallybox_recommended_builds_total")
            built += self.get_all(f"/v1/items/{item}/recommended?stop=1" for item in items)
            suite.wait_for("lists to be built", functools.partial(self.are_built, built), 300,
                           every=0.02)

    def are_built(self, count):
        return self.serve.metric("tallybox_recommended_builds_total") >= count

    def read_pages(self, rows_max):
        """Different pages of so many remarks until the cache is full, and `churn` times as many."""
        needed = None
        for block in itertools.count(1):
            self.get_all(self.page_path(next(self.pages), rows_max) for _ in range(PAGES))
            if needed is None and self.mib("tallybox_remark_cache_bytes") > 0.95 * self.cache_mib:
                needed = block * self.churn
            if needed is not None and block >= needed:
                return

    def page_path(self, number, rows_max):
        """A page in the middle of one of the larger items; each number is another page."""
        item = 1 + number % (self.items // 20)
        return (f"/v1/remarks?itemId={item}&limit={rows_max}"
                f"&cursor=n1.{item}.{self.remarks + 1 + number}")

    def mib(self, name):
        return self.serve.metric(name) / MIB

    def check(self, what):
        base_mib, factor = map(float, BOUND.search(SIZING.read_text()).groups())
        limit = (min(base_mib, self.idle_mib + GROWTH_MIB)
                 + factor * (self.cache_mib + self.lists_mib))
        found = self.mib("process_resident_memory_bytes")
        pages = self.mib("tallybox_remark_cache_bytes")
        lists = self.mib("tallybox_recommended_bytes")
        print(f"{self.remarks} remarks, {what}: {found:.1f} MiB of {limit:.1f}; pages {pages:.1f} of "
              f"{self.cache_mib}, lists {lists:.2f} of {self.lists_mib}", file=sys.stderr)
        self.assertLess(found, limit)
        self.assertLessEqual(pages, self.cache_mib)
        self.assertLessEqual(lists, self.lists_mib)
        return lists

    def check_reads(self):
        """Small pages, large ones in their place, and lists of all items."""
        self.idle_mib = self.mib("process_resident_memory_bytes")
        self.check("nothing read")
        for rows_max in (1, 100, 7, 100):
            self.read_pages(rows_max)
            self.check(f"pages of {rows_max} read")
        for round_ in (1, 2):
            self.rank_all()
            self.assertGreater(self.check(f"all items ranked, round {round_}"),
                               0.9 * self.lists_mib)


class SomeRemarks(ManyRemarks):
    """The same with small caches, at every run."""

    seconds = 40
    remarks, items = 50000, 100
    cache_mib, lists_mib = 4, 0.125
    churn = 3

    def test_memory_is_bounded_by_the_settings(self):
        self.check_reads()


class MillionRemarks(ManyRemarks):
    long = True
    seconds = 90
    remarks, items = 1000000, 2000

    def test_memory_is_bounded_by_the_settings(self):
        self.check_reads()


class TenMillionRemarks(ManyRemarks):
    """The bound is that of a million."""

    long = True
    seconds = 600
    remarks, items = 10000000, 20000

    def test_memory_is_bounded_by_the_settings(self):
        self.check_reads()


if __name__ == "__main__":
    unittest.main()
