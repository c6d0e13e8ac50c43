#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the dashboard for Grafana 11 and 12: dashboard.py PROGRAM

It is made from docker/grafana/panels.py. A query, a legend or an alert that names what PROGRAM
(`tallybox metrics`) or docs/alerts.yml does not have is an error."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "docker/grafana")]
import alerts_table  # noqa: E402
import panels  # noqa: E402
import promql  # noqa: E402

WIDTH = 24  # of a row, as Grafana counts
HEIGHTS = {"stat": 3, "table": 6, "graph": 8}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# name, title, the query for its values. Without allValue, All is the list of the values: for `up`
# and process_*, which other programs have, too, the jobs have to be those of tallybox.
VARIABLES = (
    ("job", "Job", "label_values(tallybox_build_info, job)", None),
    ("instance", "Process", 'label_values(tallybox_build_info{job=~"$job"}, instance)', ".+"),
    ("lane", "Lane", 'label_values(tallybox_relay_lease_held{job=~"$job"}, lane)', ".+"),
)
FILTERS = {"job": 'job=~"$job"', "instance": 'instance=~"$instance"', "lane": 'lane=~"$lane"'}
# A number tells whether the installation works, so a chosen process does not restrict it: a lane
# that another process holds is not a lane without service.
OF_NUMBERS = ("job", "lane")
# The labels of an alert are those that its rule keeps, so some have no job.
ALERTS_FILTER = 'job=~"$job|"'


def read_series(program):
    done = subprocess.run([program, "metrics"], capture_output=True, text=True, timeout=60,
                          check=True)
    return promql.Series(done.stdout)


def filtered(query, series, variables=tuple(FILTERS)):
    """The text of a promql.Query in which these variables restrict each metric that has them."""
    text = query.text
    for name, end, braces in reversed(query.ends):
        filters = [FILTERS[label] for label in variables if label in series.of(name)]
        if name == "ALERTS":
            filters = [ALERTS_FILTER]
        inner = ",".join(filters)
        text = text[:end] + (f"{{{inner}," + text[end + 1:] if braces
                             else f"{{{inner}}}" + text[end:])
    return text


def check_alerts(panel, rules, series):
    """Unknown if one of the alerts of a panel does not watch what the panel shows."""
    shown = set()
    for query in panel.queries:
        shown |= promql.Query(query.expr, series).names
    for alert in panel.alerts:
        if alert not in rules:
            raise promql.Unknown(f"docs/alerts.yml has no rule {alert}")
        if not promql.Query(rules[alert]["expr"], series).names & shown:
            raise promql.Unknown(f"{alert} watches none of the metrics that the panel shows")


def target(query, ref, kind, series):
    parsed = promql.Query(query.expr, series)
    unknown = set(re.findall(r"\{\{(\w+)\}\}", query.legend)) - (parsed.labels or set())
    if unknown:
        raise promql.Unknown(f"the series have no label {', '.join(sorted(unknown))} for "
                             f"{query.legend!r}")
    expr = filtered(parsed, series, OF_NUMBERS) if kind == "stat" else filtered(parsed, series)
    return {"refId": ref, "datasource": DATASOURCE, "expr": expr,
            "legendFormat": query.legend or "__auto", "editorMode": "code",
            "range": kind == "graph", "instant": kind != "graph"}


def steps(panel):
    """Thresholds: from which value on a number has which color."""
    found = [{"color": "green", "value": None}]
    for color, value in (("yellow", panel.warn), ("red", panel.bad), ("red", panel.limit)):
        if value is not None:
            found.append({"color": color, "value": value})
    return {"mode": "absolute", "steps": found}


def stat_parts(panel):
    return {
        "fieldConfig": {"defaults": {"unit": panel.unit, "decimals": 0, "noValue": panel.none,
                                     "thresholds": steps(panel),
                                     "color": {"mode": "thresholds"}},
                        "overrides": []},
        "options": {"colorMode": "background", "graphMode": "none", "justifyMode": "auto",
                    "orientation": "auto", "textMode": "auto", "wideLayout": True,
                    "showPercentChange": False, "percentChangeColorMode": "standard",
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}},
    }


def graph_parts(panel):
    custom = {
        "drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1,
        "fillOpacity": 20 if panel.stacked else 5, "showPoints": "never", "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if panel.limit is not None else "off"},
    }
    return {
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom,
                                     "thresholds": steps(panel),
                                     "color": {"mode": "palette-classic"}},
                        "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True,
                               "calcs": []},
                    "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def table_parts(panel):
    hidden = {"Time": True, "Value": True, "__name__": True, "alertstate": True}
    return {
        "fieldConfig": {"defaults": {"noValue": "no alert fires",
                                     "custom": {"align": "auto", "inspect": False}},
                        "overrides": []},
        "options": {"showHeader": True, "cellHeight": "sm", "frameIndex": 0},
        "transformations": [{"id": "organize", "options": {"excludeByName": hidden,
                                                           "indexByName": {"alertname": 0},
                                                           "renameByName": {}}}],
    }


PARTS = {"stat": stat_parts, "graph": graph_parts, "table": table_parts}
TYPES = {"stat": "stat", "graph": "timeseries", "table": "table"}


def panel_json(panel, series):
    """One panel without its place."""
    text = panel.text
    if panel.alerts:
        text += " Alerts: " + ", ".join(panel.alerts) + "."
    targets = [target(query, chr(ord("A") + number), panel.kind, series)
               for number, query in enumerate(panel.queries)]
    if panel.kind == "table":
        targets[0]["format"] = "table"
    return {"type": TYPES[panel.kind], "title": panel.title, "description": text,
            "datasource": DATASOURCE, "targets": targets, **PARTS[panel.kind](panel)}


def placed(rows, rules, series):
    """All panels, each with an id and a place: from left to right, then the next line."""
    made, y = [], 0
    for title, inside in rows:
        made.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                     "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})
        y, x, height = y + 1, 0, 0
        for panel in inside:
            try:
                check_alerts(panel, rules, series)
                one = panel_json(panel, series)
            except promql.Unknown as reason:
                raise promql.Unknown(f"{title}: {panel.title}: {reason}") from None
            if x + panel.width > WIDTH:
                y, x, height = y + height, 0, 0
            height = max(height, HEIGHTS[panel.kind])
            one["gridPos"] = {"h": HEIGHTS[panel.kind], "w": panel.width, "x": x, "y": y}
            x += panel.width
            made.append(one)
        y += height
    return [{"id": number, **one} for number, one in enumerate(made, 1)]


def variable(name, label, query, every):
    made = {"name": name, "label": label, "type": "query", "datasource": DATASOURCE,
            "definition": query, "query": {"query": query, "refId": name}, "regex": "",
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "hide": 0,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "options": []}
    return {**made, "allValue": every} if every else made


def dashboard(rows, rules, series):
    """The dashboard as Grafana's JSON model; Unknown names the panel that is wrong."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource",
              "query": "prometheus", "regex": "", "refresh": 1, "hide": 0, "multi": False,
              "includeAll": False, "options": [],
              "current": {"selected": False, "text": "default", "value": "default"}}
    return {
        "uid": "tallybox", "title": "tallybox",
        "description": "Made by scripts/dashboard.py from the metrics of the program.",
        "tags": ["tallybox"], "schemaVersion": 39, "version": 1, "editable": True,
        "graphTooltip": 1, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "timezone": "", "timepicker": {}, "links": [], "annotations": {"list": []},
        "fiscalYearStartMonth": 0, "weekStart": "", "liveNow": False,
        "templating": {"list": [source, *(variable(*one) for one in VARIABLES)]},
        "panels": placed(rows, rules, series),
    }


def made(program):
    """The text of docker/grafana/tallybox.json."""
    rules = alerts_table.read((ROOT / "docs/alerts.yml").read_text(encoding="utf-8"))
    page = dashboard(panels.ROWS, {rule["alert"]: rule for rule in rules}, read_series(program))
    return json.dumps(page, indent=2) + "\n"


def main():
    try:
        print(made(sys.argv[1]), end="")
    except ValueError as reason:
        sys.exit(f"error: {reason}")


if __name__ == "__main__":
    main()
