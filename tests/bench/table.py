#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of docs/performance.md: table.py FILE..., files of ./dev bench --json. Of a case that
is in several of them, with one database, the last counts."""

import json
import re
import sys

SERVE_ONE = "one vote a commit on one connection"
SERVE_MANY = "100 votes a commit on one connection"
TWO_QUERIES = "the two queries of each page on two connections"

# What a case is called, and what it is compared with. Cases of a name are printed in this order.
NAMES = (
    (r"relay", "relay: 1 M rows published and deleted", "librdkafka alone"),
    (r"relay_plain", "the same, and its ceiling, without CloudEvents headers", "librdkafka alone"),
    (r"relay_(\d)_lanes", "the first in {} lanes", "librdkafka alone"),
    (r"relay_scale_10k", "relay: backlogs of 10 k rows", ""),
    (r"relay_scale_(\d)m", "relay: a backlog of {} M rows", "backlogs of 10 k"),
    (r"relay_binlog", "relay, `source = binlog`: 1 M rows published", "librdkafka alone"),
    (r"relay_binlog_plain", "the same, and its ceiling, without CloudEvents headers",
     "librdkafka alone"),
    (r"relay_binlog_single", "relay, `source = binlog`: 250 k rows, one in each transaction",
     "librdkafka alone"),
    (r"relay_exactly_once", "relay, `source = binlog`, `exactly_once = yes`: 1 M rows published",
     "the same at least once"),
    (r"relay_writers", "relay, while 8 connections write", ""),
    (r"relay_binlog_writers", "relay, `source = binlog`, while 8 connections write", ""),
    (r"latency_kafka_(\d+)", "COMMIT until read from Kafka, {} a second", ""),
    (r"latency_binlog_(\d+)", "COMMIT until read from Kafka, {} a second, `source = binlog`", ""),
    (r"latency_exactly_once_(\d+)", "COMMIT until read from Kafka, {} a second, `source = binlog`, "
     "`exactly_once = yes`", ""),
    (r"latency_log_(\d+)", "COMMIT until in `vote_document`, {} a second", ""),
    (r"latency_binlog_log_(\d+)", "COMMIT until in `vote_document`, {} a second, "
     "`source = binlog`", ""),
    (r"memory_binlog_transaction", "relay, `source = binlog`: 1 M rows in one transaction", ""),
    (r"memory_binlog_row", "relay, `source = binlog`: a row of 16 MiB, published", ""),
    (r"memory_binlog_refused_row", "relay, `source = binlog`: a row of 17 MB, moved into the retry "
     "queue", ""),
    (r"consume_uniform", "consume: 1 M votes, 20 k contents alike", "its transactions in a bare loop"),
    (r"consume_duplicates", "the same, each 100th record twice", "the same"),
    (r"consume_zipf", "consume: 1 M votes, contents by Zipf's law", "its transactions in a bare loop"),
    (r"serve_(\d+)", "serve: {} connections", SERVE_ONE),
    (r"serve_64_hot", "serve: 64 connections, one content", SERVE_ONE),
    (r"serve_(\d+)_arrays", "serve: {} connections, arrays of 100", SERVE_MANY),
    (r"lists_cached", "lists: pages of 20 of 1 M remarks, 64 connections, 1,000 votes/s beside; "
     "totals up to 5 s old", TWO_QUERIES),
    (r"lists_cached_10k", "the same, 10,000 pages a second asked for", TWO_QUERIES),
    (r"lists_live", "the first, totals read for each page", TWO_QUERIES),
    (r"lists_live_3k", "the same, 3,000 pages a second asked for", TWO_QUERIES),
    (r"lists_voter", "the first, totals read for each page, and the votes of `voterId`", TWO_QUERIES),
    (r"pipeline", "HTTP to `vote_document`, all roles", ""),
    (r"rollup_(\d+)", "roll-up of 1 M remarks, {} % changed", ""),
    (r"latency_retry_(\d+)", "INSERT of a task until its first attempt, {} a second", ""),
    (r"retry_(\d)_(\w+)", "retry: {} processes, {} tasks wait", "their SQL in a bare loop"),
    (r"rebalance_(\w+)", "1, 3, 6, 12 and 3 consumers of 12 partitions, {}: longest pause of a "
     "partition", "without a rebalance"),
    (r"idle_relay_binlog", "relay, `source = binlog`, idle", ""),
    (r"idle_(\w+)", "{}, idle", ""),
    (r"disk_(\w+)", "a row of `{}` on disk", ""),
    (r"peers_relay", "relay, 500 k rows", "Debezium's outbox router"),
    (r"peers_binlog", "relay, `source = binlog`, `relay.ce_source=`, 500 k rows",
     "Debezium's outbox router"),
    (r"peers_binlog_single", "relay, `source = binlog`, `relay.ce_source=`, 200 k rows, one in each "
     "transaction", "Debezium's outbox router"),
    (r"peers_consume", "consume, 500 k votes by Zipf's law", "Debezium's JDBC sink, without totals"),
)
HEAD = ("what", "tallybox", "compared with", "ratio", "CPU us/row", "RSS MiB")


def place_of(case):
    """(where it stands, its name, what it is compared with); None for what is not known."""
    for place, (pattern, name, against) in enumerate(NAMES):
        found = re.fullmatch(pattern, case)
        if found:
            words = [f"{int(word):,}" if word.isdigit() else word for word in found.groups()]
            number = int(found.group(1)) if found.groups() and found.group(1).isdigit() else 0
            name = name.format(*words).replace(" 1 connections", " 1 connection")
            return (place, number), name.replace(" 1 processes", " 1 process"), against
    return None


def per_second(value):
    if value < 10000:
        return f"{value:,.0f}/s"
    return f"{value / 1000:,.0f} k/s" if value >= 100000 else f"{value / 1000:.1f} k/s"


def short(value, digits):
    """0.0123 with two digits is 0.012: what is small keeps its first two."""
    return f"{value:.{digits}f}" if value >= 0.1 or value == 0 else f"{value:.2g}"


def ours_of(line):
    if "idle_cpu_pct" in line:
        return f"{line['idle_cpu_pct']:.1f} % of a core"
    if "kept_ms" in line:
        kept = f"kept {line['kept_ms']:.0f} ms, " if line["kept_ms"] else ""
        return f"{kept}moved {line['moved_ms'] / 1000:.1f} s"
    if "bytes_per_row" in line:
        return f"{line['bytes_per_row']:.0f} bytes"
    text = per_second(line["rows_per_s"]) if "rows_per_s" in line else ""
    if "p99_ms" in line:
        waits = " / ".join(f"{line[key]:.1f}" for key in ("p50_ms", "p99_ms", "p999_ms"))
        text += f"{', ' if text else ''}{waits} ms"
    return text


def against_of(line, against):
    """(text, ratio)"""
    if "peer" in line:
        ratio = f"{line['rows_ratio']:.1f}; CPU {short(line['cpu_ratio'], 2)}"
        if "of_ceiling" in line:
            ratio += f"; {line['of_ceiling']:.2f} of librdkafka alone"
        return f"{against}, {line['mode']}: {per_second(line['peer_rows_per_s'])}", ratio
    if "ceiling_rows_per_s" in line:
        text, ratio = f"{against}: {per_second(line['ceiling_rows_per_s'])}", f"{line['ratio']:.2f}"
        if "insert_rows_per_s" in line:
            text += f"; bare insert: {per_second(line['insert_rows_per_s'])}"
            ratio += f"; {line['of_insert']:.2f}"
        if "hot_ratio" in line:
            text += "; spread contents"
            ratio += f"; {line['hot_ratio']:.2f}"
        return text, ratio
    if "quiet_ms" in line:
        return f"{against}: {line['quiet_ms']:.0f} ms", ""
    if "of_small" in line:
        return against, f"{line['of_small']:.2f}"
    if "writers_share" in line:
        return "what the writers keep of their rate", f"{line['writers_share']:.2f}"
    return against, ""


# How the page calls what a target is about.
MEASURES = {"ratio": "ratio", "rows_ratio": "ratio", "cpu_ratio": "CPU", "rss_mib": "RSS MiB",
            "p50_ms": "p50 ms", "p99_ms": "p99 ms", "idle_cpu_pct": "CPU %",
            "writers_share": "ratio"}


def missed_of(line):
    missed = [f"{MEASURES[key]} {target:g}" for key, target in line.get("missed", {}).items()]
    return f"misses its target: {', '.join(missed)}" if missed else ""


def row_of(line):
    _, name, against = place_of(line["case"])
    text, ratio = against_of(line, against)
    ratio = "; ".join(part for part in (ratio, missed_of(line)) if part)
    cpu = short(line["cpu_us_per_row"], 1) if "cpu_us_per_row" in line else ""
    rss = f"{line['rss_mib']:.0f}" if "rss_mib" in line else ""
    if "peer" in line:
        cpu += f" against {short(line['peer_cpu_us_per_row'], 1)}"
        rss += f" against {line['peer_rss_mib']:,.0f}"
    return f"| {' | '.join((name, ours_of(line), text, ratio, cpu, rss))} |"


def sections_of(texts):
    """{database: (machine, command lines, {key: line})}, in the order of the files."""
    sections, section = {}, None
    for text in texts:
        line = json.loads(text)
        if line["case"] == "machine":
            section = sections.setdefault(line["database"], {"commands": [], "lines": {}})
            section["machine"] = {**section.get("machine", {}),
                                  **{key: value for key, value in line.items() if value}}
            section["commands"].append(line["command"])
        elif section is None:
            raise ValueError("a file of results begins with the case \"machine\"")
        elif place_of(line["case"]):
            section["lines"][(line["case"], line.get("mode", ""))] = line
        else:
            raise ValueError(f"the case {line['case']} has no name here")
    return sections


def heading_of(database, section):
    machine = section["machine"]
    with_what = [f"Kafka {machine['kafka']}", f"librdkafka {machine['librdkafka']}"]
    if machine.get("debezium"):
        with_what.append(f"Debezium {machine['debezium']}")
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(section["commands"]))
    runs = "one run" if machine["runs"] == 1 else f"medians of {machine['runs']} runs"
    part = "" if machine["scale"] == 100 else f" with {machine['scale']:g} % of the rows and seconds"
    return (f"**{database}**, {', '.join(with_what)}; {machine['date']}, {machine['cores']} cores and "
            f"{machine['memory_gib']} GiB shared with the servers and the load, {machine['kernel']}; "
            f"{runs}{part}; {commands}")


def table_of(texts):
    sections = sections_of(texts)
    out = []
    for database, section in sections.items():
        out += [heading_of(database, section), "", f"| {' | '.join(HEAD)} |",
                f"|{'|'.join('---' for _ in HEAD)}|"]
        # Modes of a peer stay as they were measured.
        out += [row_of(line) for line in sorted(section["lines"].values(),
                                                key=lambda line: place_of(line["case"])[0])]
        out.append("")
    # They are the same for all databases but for what the driver calls its batches.
    tuned = sorted({line["tuning"] for section in sections.values()
                    for line in section["lines"].values() if "tuning" in line})
    if tuned:
        out.append("Tuned, tallybox: `relay.ce_source=`; no CloudEvents headers, as Debezium sends none.")
    out += [f"Tuned, Debezium: `{text}`" for text in tuned]
    return "\n".join(out).rstrip("\n") + "\n"


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("usage: ./dev bench --table FILE...", file=sys.stderr)
        return 2
    try:
        texts = []
        for path in sys.argv[1:]:
            with open(path, encoding="utf-8") as file:
                texts += file.read().splitlines()
        print(table_of(texts), end="")
    except (OSError, ValueError, KeyError) as reason:
        print(f"error: no table: {reason!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
