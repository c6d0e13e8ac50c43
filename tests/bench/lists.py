# SPDX-License-Identifier: MIT
"""The case of lists of remarks: pages over HTTP while votes arrive."""

import contextlib
import itertools
import random
import statistics
import subprocess

import cases
import report
import suite
import votes

REMARKS = 1000000
REMARKS_PER_ITEM = 100
ZIPF_S = 1.1       # as the contents of bench.c
PLACES = 50000     # of pages that are asked for
PAGE = 20          # remarks
PAGES_DEEP = 0.5   # this part of the readers goes on to the next page
PAGES_MAX = 10
VOTERS = 1000000
WINDOW = 1         # the roll-up that the remarks' votes are of
CONNECTIONS = 64
VOTES_RATE = 1000  # a second, one in a request
VOTE_CONNECTIONS = 32
COMMITTERS = 2     # api.committers: as many connections read pages, and so many are in the ceiling
LIST_RUNS = itertools.count(1)

# Name: (settings of serve, whether a voter's own votes are asked for, pages a second at most).
KINDS = {"lists_cached": ({"api.totals_max_age_ms": 5000}, False, 0),
         "lists_cached_10k": ({"api.totals_max_age_ms": 5000}, False, 10000),
         "lists_live": ({}, False, 0),
         "lists_live_3k": ({}, False, 3000),
         "lists_voter": ({}, True, 0)}


class Data:
    """Remarks of items by Zipf's law, mixed as they would have been written, and places of pages that
    readers ask for, items by the same law."""

    def __init__(self, remarks):
        rng = random.Random(1)
        items = max(10, remarks // REMARKS_PER_ITEM)
        weights = list(itertools.accumulate((n + 1) ** -ZIPF_S for n in range(items)))
        self.items = rng.choices(range(1, items + 1), cum_weights=weights, k=remarks)
        self.newest = {}  # item: ids, the highest first
        for number in range(remarks, 0, -1):
            self.newest.setdefault(self.items[number - 1], []).append(number)
        self.by_votes = {}
        wanted = rng.choices(range(1, items + 1), cum_weights=weights, k=PLACES)
        self.places = [self.place(rng, item) for item in wanted]
        self.voters = [rng.randint(1, VOTERS) for _ in self.places]

    @staticmethod
    def votes_of(number):
        """As SQL of fill() says."""
        return number * 7919 % 97

    def place(self, rng, item):
        """(item, sort, id and votes of the remark before the page)"""
        sort = rng.choice("nv")
        remarks = self.newest.get(item, [])
        if sort == "v" and item not in self.by_votes:
            self.by_votes[item] = sorted(remarks, key=lambda number: (-self.votes_of(number), -number))
        page = 0
        while page + 1 < PAGES_MAX and (page + 1) * PAGE < len(remarks) and rng.random() < PAGES_DEEP:
            page += 1
        if page == 0:
            return item, sort, 0, 0
        before = (self.by_votes[item] if sort == "v" else remarks)[page * PAGE - 1]
        return item, sort, before, self.votes_of(before)

    def path(self, number, voter):
        item, sort, before, count = self.places[number]
        path = f"/v1/remarks?itemId={item}&limit={PAGE}&sort={'newest' if sort == 'n' else 'votes'}"
        if before and sort == "n":
            path += f"&cursor=n1.{item}.{before}"
        elif before:
            path += f"&cursor=v1.{item}.{before}.{count}.{WINDOW}"
        return path + (f"&voterId={self.voters[number]}" if voter else "")

    def write(self, folder):
        """The files of wrk, with and without voters, and that of the ceiling."""
        for voter in (False, True):
            (folder / f"paths-{voter}").write_text(
                "".join(f"{self.path(n, voter)}\n" for n in range(len(self.places))))
        (folder / "places").write_text(
            "".join(" ".join(map(str, place)) + "\n" for place in self.places))


def fill(stack, data):
    """Remarks of about 400 bytes, and their totals; one vote of some voter on each."""
    cases.make_numbers(stack)
    stack.sql("CREATE TABLE bench_items (id BIGINT PRIMARY KEY, item_id BIGINT NOT NULL)")
    for first, count in cases.parts(len(data.items)):
        values = ",".join(f"({first + n + 1},{data.items[first + n]})" for n in range(count))
        stack.sql(f"INSERT INTO bench_items VALUES {values}")
        some = f"WHERE i.id BETWEEN {first + 1} AND {first + count}"
        stack.sql("INSERT INTO remark (id, item_id, consumer_id, score, header, content, user_name, "
                  "status, votes, votes_seq, votes_window, rollup_due) SELECT i.id, i.item_id, "
                  "i.id % 100000, i.id % 5, LEFT(n.payload, 40), n.payload, CONCAT('user ', i.id), 1, "
                  f"i.id * 7919 % 97, 1, {WINDOW}, NULL FROM bench_items i JOIN {cases.NUMBERS} n "
                  f"ON n.n = i.id % {cases.NUMBERS_COUNT} {some}")
        stack.sql("INSERT INTO vote_count (content_id, votes) SELECT i.id, i.id * 7919 % 97 "
                  f"FROM bench_items i {some}")
        stack.sql("INSERT INTO vote_state (voter_id, content_id, voting, version, event_id) "
                  f"SELECT 1 + i.id * 7919 % {VOTERS}, i.id, 1, 1, "
                  "UNHEX(LEFT(SHA2(i.id, 256), 32)) "
                  f"FROM bench_items i {some}")
    stack.sql("DROP TABLE bench_items")
    stack.sql("INSERT INTO rollup_state (name, rolled_until, finished_window, started_window, "
              "finished_at, owner, epoch, lease_until) VALUES ('remark', UTC_TIMESTAMP(3), "
              f"{WINDOW}, {WINDOW}, UTC_TIMESTAMP(3), '', 1, '1970-01-01')")
    stack.sql("ANALYZE TABLE remark, vote_count, vote_state")


@contextlib.contextmanager
def voting(role, contents, seconds):
    """Votes arrive meanwhile. Yields a list that gets their number a second."""
    words = votes.wrk_words(role, VOTE_CONNECTIONS, 1, contents, seconds, VOTES_RATE)
    got = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield got
        finally:
            if not got:
                out, trouble = process.communicate(timeout=seconds + 60)
        found = votes.result_of(words, process.returncode, out, trouble)
        got.append(found["requests"] / found["seconds"])


def read_pages(role, path, seconds, rate=0):
    words = ["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "20s", "-s",
             str(cases.HERE / "lists.lua"), f"http://127.0.0.1:{role.api_port}", "--", str(path),
             str(next(LIST_RUNS)), str(rate / 2)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 60, check=False)
    return votes.result_of(words, done.returncode, done.stdout, done.stderr)


def list_run(bench, stack, sets, path, rate):
    """Its caches are filled for a while, then it is measured."""
    role = stack.role("serve", sets={"api.committers": COMMITTERS, **sets})
    try:
        bench.warm_up(read_pages, role, path, bench.seconds(4))
        seconds = bench.seconds(8)
        with voting(role, bench.rows(REMARKS), seconds) as votes_per_s:
            cpu = cases.cpu_seconds(role)
            got = read_pages(role, path, seconds, rate)
            cpu = cases.cpu_seconds(role) - cpu
        kept = role.metric('tallybox_remark_pages_total{result="kept"}')
        return {"rows_per_s": got["requests"] / got["seconds"],
                "cpu_us_per_row": cpu * 1e6 / got["requests"], "rss_mib": role.peak_rss_mib(),
                "p50_ms": got["p50_us"] / 1000, "p99_ms": got["p99_us"] / 1000,
                "p999_ms": got["p999_us"] / 1000, "votes_per_s": votes_per_s[0],
                "kept_share": kept / max(1, role.metric("tallybox_remark_pages_total"))}
    finally:
        role.end()


def ceiling_run(bench, stack, voter):
    return cases.program("ceiling_lists", pages=stack.folder / "places", count=bench.rows(60000),
                         connections=COMMITTERS, voter=int(voter), **cases.on_database(stack))


def case_lists(bench):
    """Rows are pages. Ceiling: the queries of a page in a bare loop, without votes beside it; it has
    no cache, so that pages which are kept may pass it."""
    with bench.stack("lists") as stack:
        data = Data(bench.rows(REMARKS))
        data.write(stack.folder)
        fill(stack, data)
        bench.warm_up(ceiling_run, bench, stack, False)
        runs = {name: [] for name in KINDS}
        ceilings = {voter: [] for voter in (False, True)}
        for _ in range(bench.runs):
            for voter, measured in ceilings.items():
                measured.append(ceiling_run(bench, stack, voter))
            for name, (sets, voter, rate) in KINDS.items():
                runs[name].append(list_run(bench, stack, sets, stack.folder / f"paths-{voter}",
                                           rate))
    for name, (_, voter, _) in KINDS.items():
        bench.lines.add(report.of_rows(
            name, suite.DATABASE, runs[name], ceilings[voter],
            votes_per_s=round(statistics.median(run["votes_per_s"] for run in runs[name]), 1),
            kept_share=round(statistics.median(run["kept_share"] for run in runs[name]), 3)))
