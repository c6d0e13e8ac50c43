#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the upper rows of the dashboard from what a Prometheus holds, where no Grafana can be had:
dashboard_picture.py PROMETHEUS_URL OUT.png [MINUTES]

The panels, their queries and their places are those of docker/grafana/tallybox.json. Needs
python3-matplotlib. docs/dashboard.png was made with it, during `./dev cluster test`."""

import datetime
import json
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use("Agg")
from matplotlib import dates, pyplot, ticker  # noqa: E402

DASHBOARD = pathlib.Path(__file__).resolve().parents[1] / "docker/grafana/tallybox.json"
BELOW = 50            # grid units from the top that are drawn
UNIT = 0.62, 0.32     # inches of a grid unit
STEPS = 240
COLORS = {"green": "#2e8b57", "yellow": "#d9a400", "orange": "#d9a400", "red": "#c0392b"}
SERIES_MAX = 8        # of a legend


class Prometheus:
    """Answers of one server, for a span of time that ends now."""

    def __init__(self, url, minutes):
        self.url = url.rstrip("/")
        self.end = time.time()
        self.start = self.end - 60 * minutes
        self.step = max(5, (self.end - self.start) / STEPS)
        self.words = {"$job": ".+", "$instance": ".+", "$lane": ".+", "$__range": f"{minutes}m",
                      "$__rate_interval": "1m"}

    def get(self, path, expr, **more):
        for word, value in self.words.items():
            expr = expr.replace(word, value)
        query = urllib.parse.urlencode({"query": expr, **more})
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
            return json.load(answer)["data"]["result"]

    def now(self, expr):
        """[(labels, value)]"""
        return [(one["metric"], float(one["value"][1]))
                for one in self.get("query", expr, time=self.end)]

    def line(self, expr):
        """[(labels, [(time, value)])]"""
        return [(one["metric"], [(float(at), float(value)) for at, value in one["values"]])
                for one in self.get("query_range", expr, start=self.start, end=self.end,
                                    step=self.step)]


def legend_of(form, labels):
    if form == "__auto":
        return ", ".join(f"{value}" for name, value in sorted(labels.items()) if name != "__name__")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form).strip()


def text_of(value, unit):
    if unit == "s":
        for limit, scale, name in ((1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min")):
            if value < limit:
                return f"{value / scale:.3g} {name}" if value else "0 s"
        return f"{value / 3600:.3g} h"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    text = f"{value / 1000:,.0f} k" if value >= 10000 else f"{value:,.0f}" if value >= 100 \
        else f"{value:.3g}"
    return text + {"rowsps": " rows/s", "reqps": " req/s", "ops": " /s"}.get(unit, "")


def color_of(panel, value):
    color = "green"
    for step in panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", []):
        if step.get("value") is None or value >= step["value"]:
            color = step["color"]
    return COLORS.get(color, "#444444")


def draw_stat(axes, panel, prometheus):
    defaults = panel["fieldConfig"]["defaults"]
    found = [(legend_of(target.get("legendFormat", ""), labels), value)
             for target in panel["targets"] for labels, value in prometheus.now(target["expr"])]
    axes.set_xticks([])
    axes.set_yticks([])
    if not found:
        axes.text(0.5, 0.4, defaults.get("noValue", "none"), ha="center", va="center", fontsize=13,
                  color=COLORS["green"], transform=axes.transAxes)
    for number, (name, value) in enumerate(found):
        place = (number + 0.5) / len(found)
        axes.text(place, 0.42, text_of(value, defaults.get("unit")), ha="center", va="center",
                  fontsize=13, color=color_of(panel, value), transform=axes.transAxes)
        axes.text(place, 0.1, name, ha="center", va="center", fontsize=6, color="#666666",
                  transform=axes.transAxes)


def draw_lines(axes, panel, prometheus):
    unit = panel["fieldConfig"]["defaults"].get("unit")
    names = 0
    for target in panel["targets"]:
        for labels, points in prometheus.line(target["expr"]):
            if not any(value == value for _, value in points):
                continue
            times = [datetime.datetime.fromtimestamp(at, datetime.timezone.utc) for at, _ in points]
            name = legend_of(target.get("legendFormat", ""), labels)
            axes.plot(times, [value for _, value in points], linewidth=0.9,
                      label=name if names < SERIES_MAX else None)
            names += 1
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: text_of(value, unit)))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.xaxis.set_major_locator(dates.AutoDateLocator(maxticks=5))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
    axes.tick_params(labelsize=6, length=2)
    axes.grid(color="#e6e6e6", linewidth=0.5)
    if names:
        axes.legend(fontsize=5, ncol=2, loc="upper left", frameon=False)


def draw_table(axes, panel, prometheus):
    rows = [legend_of("__auto", labels) for labels, _ in prometheus.now(panel["targets"][0]["expr"])]
    axes.set_xticks([])
    axes.set_yticks([])
    text = "\n".join(rows[:6]) or panel["fieldConfig"]["defaults"].get("noValue", "none")
    axes.text(0.01, 0.75, text, fontsize=7, va="top", transform=axes.transAxes)


DRAW = {"stat": draw_stat, "timeseries": draw_lines, "table": draw_table}


def main():
    if not 3 <= len(sys.argv) <= 4:
        print("usage: dashboard_picture.py PROMETHEUS_URL OUT.png [MINUTES]", file=sys.stderr)
        return 2
    prometheus = Prometheus(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 30)
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"]
              if panel["gridPos"]["y"] < BELOW]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = pyplot.figure(figsize=(24 * UNIT[0], height * UNIT[1]), facecolor="#f4f5f5")
    for panel in panels:
        place = panel["gridPos"]
        left, bottom = place["x"] / 24, 1 - (place["y"] + place["h"]) / height
        if panel["type"] == "row":
            figure.text(left + 0.005, bottom + 0.3 / height, panel["title"], fontsize=10,
                        fontweight="bold")
            continue
        # A legend of the y axis stands left of a graph.
        inset = 0.046 if panel["type"] == "timeseries" else 0.004
        axes = figure.add_axes([left + inset, bottom + (0.9 if inset > 0.01 else 0.2) / height,
                                place["w"] / 24 - inset - 0.006,
                                (place["h"] - (2 if inset > 0.01 else 0.4)) / height])
        axes.set_title(panel["title"], fontsize=7.5, loc="left", pad=-9 if inset < 0.01 else 4,
                       x=0.02 if inset < 0.01 else 0)
        for spine in axes.spines.values():
            spine.set_color("#cccccc")
        DRAW[panel["type"]](axes, panel, prometheus)
    figure.savefig(sys.argv[2], dpi=75)
    return 0


if __name__ == "__main__":
    sys.exit(main())
