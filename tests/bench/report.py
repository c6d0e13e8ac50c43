# SPDX-License-Identifier: MIT
"""What the bench says: a line per case for people, a JSON line per case for machines."""

import json
import statistics

# Columns of the table: key, heading, how it is printed.
COLUMNS = (
    ("rows_per_s", "rows/s", "{:,.0f}"),
    ("ceiling_rows_per_s", "ceiling", "{:,.0f}"),
    ("ratio", "ratio", "{:.2f}"),
    ("cpu_us_per_row", "CPU us/row", "{:.2f}"),
    ("rss_mib", "RSS MiB", "{:.0f}"),
    ("p50_ms", "p50 ms", "{:.2f}"),
    ("p99_ms", "p99 ms", "{:.2f}"),
    ("p999_ms", "p99.9 ms", "{:.2f}"),
    ("bytes_per_row", "bytes/row", "{:.0f}"),
    ("idle_cpu_pct", "idle CPU %", "{:.2f}"),
    ("insert_rows_per_s", "bare insert", "{:,.0f}"),
    ("of_insert", "of it", "{:.2f}"),
    ("of_small", "of 10 k's rate", "{:.2f}"),
    ("hot_ratio", "hot/spread", "{:.2f}"),
    ("writers_share", "writers keep", "{:.2f}"),
    ("votes_per_s", "votes/s beside", "{:,.0f}"),
    ("kept_share", "pages kept", "{:.2f}"),
    ("quiet_ms", "quiet ms", "{:.0f}"),
    ("kept_ms", "kept ms", "{:.0f}"),
    ("moved_ms", "moved ms", "{:.0f}"),
    ("spread", "spread", "{:.2f}"),
    ("rows_ratio", "of peer's rows/s", "{:.2f}"),
    ("of_ceiling", "of librdkafka's", "{:.2f}"),
    ("cpu_ratio", "of its CPU/row", "{:.3f}"),
    ("peer_rss_mib", "its RSS MiB", "{:.0f}"),
)

# What a case has to reach: at least HIGH values, at most others.
TARGETS = {
    "relay_binlog": {"ratio": 0.8, "rss_mib": 40},
    "relay_binlog_plain": {"ratio": 0.8, "rss_mib": 40},
    "relay_binlog_single": {"rss_mib": 40},
    "relay_exactly_once": {"ratio": 0.7},
    "latency_exactly_once_1000": {"p50_ms": 60},
    "relay_binlog_writers": {"writers_share": 0.8},
    "latency_binlog_1000": {"p50_ms": 2, "p99_ms": 10},
    "latency_binlog_log_1000": {"p50_ms": 25, "p99_ms": 100},
    "memory_binlog_transaction": {"rss_mib": 64},
    "memory_binlog_row": {"rss_mib": 40 + 3 * 16},
    "memory_binlog_refused_row": {"rss_mib": 40 + 3 * 16.2},
    "idle_relay_binlog": {"idle_cpu_pct": 0.2},
    "peers_binlog": {"rows_ratio": 4, "cpu_ratio": 0.25, "rss_mib": 40},
    "peers_binlog_single": {"rows_ratio": 4, "cpu_ratio": 0.167, "rss_mib": 40},
}
OF_CEILING = 0.8  # is enough beside a peer
HIGH = ("ratio", "rows_ratio", "writers_share")


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def spread(runs, key="rows_per_s"):
    """How far the runs lie apart: (largest - smallest) / median."""
    values = [run[key] for run in runs]
    return (max(values) - min(values)) / statistics.median(values)


def pair_ratio(runs, others, key="rows_per_s", digits=3):
    """Runs and others were taken in turns, so what drifts meets both of a pair: the median of the
    pairs' ratios."""
    return round(statistics.median(run[key] / other[key] for run, other in zip(runs, others)),
                 digits)


def of_rows(case, database, runs, ceilings=None, **more):
    """The line of a case that is measured in rows per second, from its runs."""
    line = {"case": case, "db": database, "rows_per_s": round(median(runs, "rows_per_s"), 1)}
    if ceilings:
        line["ceiling_rows_per_s"] = round(median(ceilings, "rows_per_s"), 1)
        line["ratio"] = pair_ratio(runs, ceilings)
    for key in ("cpu_us_per_row", "rss_mib", "p50_ms", "p99_ms", "p999_ms"):
        if key in runs[0]:
            line[key] = round(median(runs, key), 3)
    line["spread"] = round(spread(runs), 3)
    line["runs"] = len(runs)
    return {**line, **more}


def of_disk(table, database, size):
    """The line of a table whose rows take this many bytes each."""
    return {"case": f"disk_{table}", "db": database, "bytes_per_row": round(size, 1)}


def missed_of(line):
    """{key: target} of the targets that the line misses."""
    missed = {}
    for key, target in TARGETS.get(line["case"], {}).items():
        if line[key] < target if key in HIGH else line[key] > target:
            missed[key] = target
    # Nothing is asked for beyond what librdkafka alone can do.
    if line.get("of_ceiling", 0) >= OF_CEILING:
        missed.pop("rows_ratio", None)
    return missed


class Report:
    """Collects lines, prints and writes each as it comes."""

    def __init__(self, path):
        self.path = path
        self.lines = []
        if path:
            open(path, "w", encoding="utf-8").close()  # it must be possible, before hours of work

    def add(self, line):
        missed = missed_of(line)
        if missed:
            line = {**line, "missed": missed}
        self.lines.append(line)
        print(text_of(line), flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")

    def table(self):
        measured = [line for line in self.lines if line["case"] != "machine"]
        keys = [column for column in COLUMNS if any(column[0] in line for line in measured)]
        rows = [["case", "db", *(heading for _, heading, _ in keys)]]
        for line in measured:
            rows.append([" ".join([line["case"], *line.get("mode", "").split()]), line.get("db", ""),
                         *(form.format(line[key]) if key in line else "" for key, _, form in keys)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
                         for row in rows)


def text_of(line):
    if line["case"] == "machine":
        return "  " + ", ".join(f"{key} {line[key]}" for key in line if key != "case" and line[key])
    parts = [line["mode"]] if "mode" in line else []
    parts += [f"{heading} {form.format(line[key])}" for key, heading, form in COLUMNS if key in line]
    headings = {key: heading for key, heading, _ in COLUMNS}
    parts += [f"MISSED: {headings[key]} {target:g}"
              for key, target in line.get("missed", {}).items()]
    return f"  {line['case']} ({line.get('db', '-')}): {', '.join(parts)}"
