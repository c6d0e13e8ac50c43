#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of docs/scale.md, computed from rows of docs/performance.md and docs/sizing.md:
scale.py [--rows FILE] [NAME...]

NAME is one of TABLES below; without one all are printed.
--rows takes the rows of another machine, as `./dev bench --table` prints them. A row that is
missing is an error: no table has a number without a measurement behind it."""

import argparse
import math
import pathlib
import re
import sys

import table

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Assumptions, which docs/scale.md names.
BUSY = 0.7           # what is planned for a resource, of the rate that was measured
REPLICAS = 3         # of each partition in Kafka
PARTITIONS = 12      # of the topic of an installation: the default of relay.topic_partitions
BATCH = 1000         # votes in a transaction: the default of api.batch_votes_max
# Votes on one content with 64 connections: each of two committers (the default of api.committers)
# has half of them in its transaction. Counted: 31 to 33.
HOT_BATCH = 32
APPLIED_BATCH = 5000  # records in a transaction: the default of consumer.batch_rows_max
DELAYS_MS = (0, 1, 5, 20)  # of a COMMIT
FACTORS = (1, 3, 10, 30, 100)
LIMIT_MIB = 128      # of a container of docker/kubernetes
HOUR_S, DAY_S = 3600, 86400
# Instances of a role, at least: two where another one should take over at once.
INSTANCES = {"serve": 2, "relay": 2, "consume": 2, "retry": 2, "rollup": 1, "housekeep": 1}
# Contents of the simulation, and the exponent of Zipf's law: that of tests/bench/bench.c.
CONTENTS = 100000
ZIPF_S = 1.1


class Missing(Exception):
    """A row that the tables need is not there."""


# --- what was measured ---

def number(text):
    """23,456 or 105 k, in front of a unit."""
    found = re.match(r"([\d,]+(?:\.\d+)?)( k)?", text)
    if not found:
        raise Missing(f"'{text}' is not a number")
    return float(found[1].replace(",", "")) * (1000 if found[2] else 1)


class Rows:
    """The rows of one database: what is looked up by the name of its case."""

    def __init__(self, database, lines):
        self.database = database
        self.cells = {}
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            self.cells.setdefault(cells[0], dict(zip(table.HEAD, cells)))

    def name(self, case):
        return table.place_of(case)[1]

    def row(self, case):
        if self.name(case) not in self.cells:
            raise Missing(f"{self.database} has no row '{self.name(case)}'")
        return self.cells[self.name(case)]

    def rate(self, case):
        """Rows a second of tallybox."""
        return number(self.row(case)["tallybox"])

    def ceiling(self, case):
        """Rows a second of what the case is compared with."""
        return number(self.row(case)["compared with"].split(": ", 1)[1])

    def cpu_us(self, case):
        return number(self.row(case)["CPU us/row"])

    def rss_mib(self, case):
        return number(self.row(case)["RSS MiB"])


def read_rows(text):
    """[Rows] of the generated block of docs/performance.md, or of the same without the page."""
    inside = re.search(r"<!-- bench: .*?-->\n(.*?)<!-- /bench -->", text, re.S)
    parts = re.split(r"^\*\*(.+?)\*\*,", inside[1] if inside else text, flags=re.M)
    found = {}  # the rows of a database may be in several tables
    for name, part in zip(parts[1::2], parts[2::2]):
        found.setdefault(name, []).extend(re.findall(r"^\|.*\|$", part, re.M)[2:])
    if not found:
        raise Missing("there is no table of ./dev bench")
    return [Rows(name, lines) for name, lines in found.items()]


class Sizing:
    """The figures of docs/sizing.md."""

    def __init__(self, text):
        self.text = text
        line = self.find(r"\*\*Connections\*\*[^:]*:(.*)\n")[1]
        self.connections = {role: int(count)
                            for role, count in re.findall(r"`(\w+)` (\d+)", line)}
        self.payload = int(self.find(r"with the payloads of votes, (\d+) bytes")[1])
        self.headers = int(self.find(r"its payload and about (\d+) bytes of headers")[1])

    def find(self, pattern):
        found = re.search(pattern, self.text)
        if not found:
            raise Missing(f"docs/sizing.md has no '{pattern}'")
        return found

    def row_bytes(self, name):
        """A million rows take so many MB, so a row takes as many bytes."""
        for tables, sizes in re.findall(r"^\| (`\w+`.*?) \| (\d+(?: and \d+)?) MB", self.text,
                                        re.M):
            found = dict(zip(re.findall(r"`(\w+)`", tables), sizes.split(" and ")))
            if name in found:
                return int(found[name])
        raise Missing(f"docs/sizing.md has no size of `{name}`")


# --- the model ---

class Model:
    """Rates in votes a second, times in seconds."""

    def __init__(self, rows, sizing):
        self.rows = rows
        self.sizing = sizing
        self.serve = max(("serve_16", "serve_64", "serve_256"), key=rows.rate)
        self.committed = rows.rate(self.serve)
        self.published = rows.rate("relay")
        self.applied = rows.rate("consume_uniform")
        self.broker = rows.ceiling("relay")
        self.one_content = rows.rate("serve_64_hot")
        self.all_roles = rows.rate("pipeline")
        # On one machine, with the connections of the case pipeline.
        self.stages = self.in_turns(rows.rate("serve_64"), self.published, self.applied)
        # While events arrive steadily, batches are smaller than those of a backlog.
        self.relay_us = rows.cpu_us("latency_kafka_10000")
        self.consume_us = rows.cpu_us("latency_log_10000") - self.relay_us
        # A transaction of one vote and one of 100: a fixed part, and a part of each vote.
        one, hundred = 1 / rows.ceiling("serve_64"), 100 / rows.ceiling("serve_64_arrays")
        self.vote_s = (hundred - one) / 99
        self.fixed_s = one - self.vote_s

    def in_turns(self, *rates):
        """The rate of a server that does all of this work for each vote."""
        return 1 / sum(1 / rate for rate in rates)

    @property
    def trust(self):
        """What was measured of the whole, over what the stages promise."""
        return self.all_roles / self.stages

    @property
    def writers(self):
        """A database of [mysql]: it commits votes, and the relay reads and deletes their events."""
        return self.trust * self.in_turns(self.committed, self.published)

    @property
    def installation(self):
        """An installation with a server for each of [mysql] and [sink]."""
        return min(self.writers, self.applied)

    @property
    def together(self):
        """[mysql] and [sink] on one server."""
        return self.trust * self.in_turns(self.committed, self.published, self.applied)

    def transactions(self, batch):
        """Votes of transactions of so many, one after the other, without HTTP."""
        return batch / (self.fixed_s + batch * self.vote_s)

    @property
    def hot_trust(self):
        """As trust, of one content, whose transactions wait for its row."""
        return self.one_content / self.transactions(HOT_BATCH)

    def hot_content(self, batch, delay_s=0):
        """One content, where a COMMIT takes longer by a delay."""
        return 1 / (1 / (self.hot_trust * self.transactions(batch)) + delay_s / batch)

    def one_consumer(self, batch, delay_s):
        """A consumer whose COMMITs take longer than those of the bench."""
        return batch / (batch / self.applied + delay_s)

    def processes(self, role, rate):
        """Instances of a role for the rate of one installation."""
        cpu_us = {"serve": self.rows.cpu_us(self.serve), "relay": self.relay_us,
                  "consume": self.consume_us}.get(role, 0)
        return max(INSTANCES[role], math.ceil(rate * cpu_us / 1e6 / BUSY))


# --- how evenly contents spread ---

def murmur2(data):
    """As Kafka's producers compute it."""
    mask, m = 0xffffffff, 0x5bd1e995
    h = 0x9747b28c ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at:at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    tail = data[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def hashes(contents):
    return [murmur2(str(content).encode()) & 0x7fffffff for content in range(1, contents + 1)]


def shares(contents, law):
    """The share of each content in the votes."""
    if law == "alike":
        return [1 / contents] * contents
    weights = [n ** -ZIPF_S for n in range(1, contents + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def busiest(keys, weights, parts):
    """The share of the busiest part over the mean of all parts."""
    loads = [0.0] * parts
    for key, weight in zip(keys, weights):
        loads[key % parts] += weight
    return max(loads) * parts


# --- tables ---

def rate_text(value):
    return table.per_second(value)


def line(*cells):
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def head(*cells):
    return [line(*cells), f"|{'|'.join('---' for _ in cells)}|"]


def coefficients(models):
    """What each number of the page stands on."""
    def of(what, case, value, end=""):
        case = case(models[0]) if callable(case) else case
        return line(what, f"*{models[0].rows.name(case)}*{end}", *map(value, models))

    yield from head("coefficient", "row of docs/performance.md",
                    *(model.rows.database for model in models))
    yield of("votes committed by `serve`", lambda m: m.serve, lambda m: rate_text(m.committed))
    yield of("votes on one content", "serve_64_hot", lambda m: rate_text(m.one_content))
    yield of("events published and deleted", "relay", lambda m: rate_text(m.published))
    yield of("votes applied by one consumer", "consume_uniform", lambda m: rate_text(m.applied))
    yield of("the same, of what a bare loop reaches", "consume_uniform",
             lambda m: m.rows.row("consume_uniform")["ratio"].split("; ")[0], ", ratio")
    yield of("records that one broker takes from one producer", "relay",
             lambda m: rate_text(m.broker), ", compared with")
    yield of("votes through all roles, on one machine", "pipeline",
             lambda m: rate_text(m.all_roles))
    yield of("remarks that a roll-up updates", "rollup_1",
             lambda m: rate_text(m.rows.rate("rollup_1")))
    yield of("CPU of `serve` for a vote", lambda m: m.serve,
             lambda m: f"{m.rows.cpu_us(m.serve):.1f} us")
    yield of("CPU of `relay` for an event of a backlog", "relay",
             lambda m: f"{m.rows.cpu_us('relay'):.1f} us")
    yield of("CPU of `relay` for an event that arrives steadily", "latency_kafka_10000",
             lambda m: f"{m.relay_us:.1f} us")
    yield of("CPU of `relay` and `consume` for a vote that arrives steadily", "latency_log_10000",
             lambda m: f"{m.relay_us + m.consume_us:.1f} us")
    yield of("a transaction with one vote", "serve_64",
             lambda m: f"{(m.fixed_s + m.vote_s) * 1e3:.2f} ms", ", compared with")
    yield of("each further vote in it", "serve_64_arrays", lambda m: f"{m.vote_s * 1e6:.1f} us",
             ", compared with")


def model_check(models):
    """The stages in turns on one machine, against all roles on one machine."""
    yield from head("on one machine", *(model.rows.database for model in models))
    yield line("computed from the stages", *(rate_text(model.stages) for model in models))
    yield line("measured, all roles", *(rate_text(model.all_roles) for model in models))
    yield line("measured / computed", *(f"{model.trust:.2f}" for model in models))
    yield ""
    yield from head(f"one content, {HOT_BATCH} votes in a transaction",
                    *(model.rows.database for model in models))
    yield line("computed from its transactions",
               *(rate_text(model.transactions(HOT_BATCH)) for model in models))
    yield line("measured, 64 connections", *(rate_text(model.one_content) for model in models))
    yield line("measured / computed", *(f"{model.hot_trust:.2f}" for model in models))


def limit_rows(model):
    """(rate, what is at its limit, what raises it)"""
    core = 1e6 / model.rows.cpu_us(model.serve)
    relay_core = 1e6 / model.rows.cpu_us("relay")
    rows = [
        (model.all_roles, "one machine for all roles and servers (measured)",
         "servers of their own for MySQL and Kafka"),
        (model.together, "one database server for `[mysql]` and `[sink]`",
         "`[sink]` on a server of its own"),
        (model.writers, "the database server of `[mysql]`",
         "a faster server, or another installation"),
        (model.one_content, "one content, in one `serve` with 64 connections (measured)",
         "more votes in a transaction"),
        (model.hot_content(BATCH), f"one content, in transactions of {BATCH:,} votes "
         "(`api.batch_votes_max`; computed)",
         "the application, which divides the content"),
        (model.applied, "the database server of `[sink]`, by one consumer",
         "a faster server, or another installation"),
        (core, "one core of `serve`", "another `serve`"),
        (relay_core, "one core of `relay`, with a backlog", "another lane and another `relay`"),
        (model.broker, "one broker with one replica", "brokers"),
    ]
    return sorted(rows, key=lambda row: row[0])


def limits(models):
    """What is reached first, next, and so on."""
    for model in models:
        yield f"**{model.rows.database}**"
        yield ""
        yield from head("votes a second", "times the first", "at its limit", "what raises it")
        for rate, what, remedy in limit_rows(model):
            yield line(rate_text(rate), f"{rate / model.all_roles:.1f}", what, remedy)
        yield ""


def installations(model, factor):
    return math.ceil(factor * model.all_roles / (BUSY * model.installation))


def growth_column(model, factor):
    """The cells of one factor."""
    rate, count = factor * model.all_roles, installations(model, factor)
    each = rate / count
    processes = {role: model.processes(role, each) for role in INSTANCES}
    sizing, total = model.sizing, count * sum(processes.values())
    connections = sum(sizing.connections[role] * n for role, n in processes.items())
    log_bytes, record = sizing.row_bytes("vote_document"), sizing.payload + sizing.headers
    brokers = max(REPLICAS, math.ceil(rate * REPLICAS / (BUSY * model.broker)))
    roll_up = BUSY * model.rows.rate("rollup_1") * HOUR_S
    return {
        "votes a second": rate_text(rate),
        "installations": count,
        "database servers, for `[mysql]` and `[sink]`": 2 * count,
        "partitions of all topics": count * PARTITIONS,
        "lanes that an installation needs": math.ceil(each / (BUSY * model.published)),
        "brokers": brokers,
        "replicas of partitions on a broker": math.ceil(count * PARTITIONS * REPLICAS / brokers),
        "`serve`, `relay`, `consume` of an installation": ", ".join(
            str(processes[role]) for role in ("serve", "relay", "consume")),
        "processes of tallybox": total,
        f"their memory, at {LIMIT_MIB} MiB each": f"{total * LIMIT_MIB / 1024:.1f} GiB",
        "database connections of an idle installation": connections,
        "largest possible share of one content": f"{min(1, BUSY * model.one_content / rate):.1%}",
        "into Kafka, all replicas, before compression":
            f"{rate * record * REPLICAS / 1e6:,.0f} MB/s",
        "`vote_state` grows by at most":
            f"{rate * DAY_S * sizing.row_bytes('vote_state') / 1e12:,.2f} TB a day",
        "`vote_document` grows by": f"{rate * DAY_S * log_bytes / 1e12:,.2f} TB a day",
        "the same, of one installation": f"{each * DAY_S * log_bytes / 1e9:,.0f} GB a day",
        "remarks that an hourly roll-up can update, each installation": f"{roll_up / 1e6:,.0f} M",
    }


def growth(models):
    """A hundred times the measured machine."""
    for model in models:
        columns = [growth_column(model, factor) for factor in FACTORS]
        yield f"**{model.rows.database}**"
        yield ""
        yield from head("", *(f"x {factor}" for factor in FACTORS))
        for name in columns[0]:
            yield line(name, *(column[name] for column in columns))
        yield ""


def spread(models):
    """The simulation."""
    keys = hashes(CONTENTS)
    counts = sorted({4, PARTITIONS, *(installations(model, factor) for model in models
                                      for factor in (10, 100))})
    yield from head(f"{CONTENTS:,} contents", "largest share of one content",
                    *(f"{count} parts" for count in counts))
    for law, name in (("alike", "all alike"), ("zipf", f"Zipf's law, exponent {ZIPF_S}")):
        weights = shares(CONTENTS, law)
        yield line(name, f"{max(weights):.3%}" if law == "alike" else f"{max(weights):.1%}",
                   *(f"{busiest(keys, weights, count):.2f}" for count in counts))
    yield ""
    largest = max(shares(CONTENTS, "zipf"))
    yield from head("by Zipf's law", *(model.rows.database for model in models))
    yield line("the hottest content is at its measured limit with, of all contents",
               *(rate_text(model.one_content / largest) for model in models))
    yield line("times the measured load",
               *(f"{model.one_content / largest / model.all_roles:.0f}" for model in models))


def writes(models):
    """What a vote writes."""
    sizing = models[0].sizing
    yield from head("for each vote", "on the server of `[mysql]`", "on the server of `[sink]`")
    yield line("rows", "`vote_state`, `vote_count`; `outbox`, inserted and deleted",
               "`vote_document`; `vote_tally` and `consumer_progress`, once in a transaction")
    yield line("bytes that stay", f"{sizing.row_bytes('vote_state')} in `vote_state` for the first "
               "vote of a voter on a content, then none", f"{sizing.row_bytes('vote_document')} in "
               "`vote_document`")
    yield line("bytes for a new content", f"{sizing.row_bytes('vote_count')} in `vote_count`",
               f"{sizing.row_bytes('vote_tally')} in `vote_tally`")
    yield line("bytes that are deleted again", f"{sizing.row_bytes('outbox')} in `outbox`", "none")
    yield line("COMMITs", f"one for the votes that wait, up to {BATCH:,}, and one for each round "
               "of deletions", f"one for the records of a partition that were fetched, up to "
               f"{APPLIED_BATCH:,}")


def commit(models):
    """What a slower COMMIT costs where transactions wait for each other."""
    for model in models:
        yield from head(f"{model.rows.database}, a COMMIT takes longer by",
                        *(f"{delay} ms" for delay in DELAYS_MS))
        for batch in (1, HOT_BATCH, BATCH):
            yield line(f"one content, {batch:,} vote{'s' if batch > 1 else ''} in a transaction",
                       *(rate_text(model.hot_content(batch, delay / 1000)) for delay in DELAYS_MS))
        yield line(f"one applier of a consumer, {APPLIED_BATCH:,} records in a transaction",
                   *(rate_text(model.one_consumer(APPLIED_BATCH, delay / 1000))
                     for delay in DELAYS_MS))
        yield ""


def slope(points):
    """(slope, value at 0) of the line of least squares."""
    xs, ys = zip(*points)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    up = sum((one - x) * (other - y) for one, other in points) / sum((one - x) ** 2 for one in xs)
    return up, y - up * x


def lanes(models):
    """What a lane costs."""
    cases = ((1, "relay"), (2, "relay_2_lanes"), (4, "relay_4_lanes"))
    yield from head("", *(model.rows.database for model in models))
    for count, case in cases:
        yield line(f"{count} lane{'s' if count > 1 else ''} on one database",
                   *(rate_text(model.rows.rate(case)) for model in models))
    fits = [slope([(count, model.rows.rss_mib(case)) for count, case in cases])
            for model in models]
    yield line("memory of a relay for each lane", *(f"{up:.1f} MiB" for up, _ in fits))
    yield line(f"lanes of one relay within {LIMIT_MIB} MiB",
               *(int((LIMIT_MIB - base) / up) for up, base in fits))


TABLES = {"coefficients": coefficients, "model": model_check, "limits": limits, "spread": spread,
          "growth": growth, "writes": writes, "commit": commit, "lanes": lanes}


def text_of(name, models):
    return "\n".join(TABLES[name](models)).rstrip("\n") + "\n"


def read_models(rows=None):
    """[Model] of the pages, or of the rows of another machine."""
    path = pathlib.Path(rows) if rows else ROOT / "docs/performance.md"
    sizing = Sizing((ROOT / "docs/sizing.md").read_text(encoding="utf-8"))
    return [Model(one, sizing) for one in read_rows(path.read_text(encoding="utf-8"))]


def main():
    parser = argparse.ArgumentParser(description="Prints the tables of docs/scale.md.")
    parser.add_argument("--rows", metavar="FILE", help="rows of ./dev bench --table")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TABLES))
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in TABLES]
    if unknown:
        parser.error(f"there is no table '{unknown[0]}'; there are {', '.join(TABLES)}")
    try:
        models = read_models(options.rows)
        print("\n".join(text_of(name, models) for name in options.names or TABLES), end="")
    except (OSError, Missing) as reason:
        print(f"error: no table: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
