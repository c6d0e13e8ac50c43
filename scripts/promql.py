# SPDX-License-Identifier: MIT
"""Checks queries for Prometheus against the metrics that `tallybox metrics` lists.

This is a parser for the part of the language that docs/alerts.yml and docker/grafana/panels.py use.
It knows which labels each part of a query has, so a query cannot name a metric, a label or a value
of a label that the program does not have."""

import re

TOKEN = re.compile(r"""\s*(?:
    (?P<string>"[^"]*") | (?P<number>\d+(?:\.\d+)?(?:ms|[smhdwy])?) | (?P<variable>\$\w+) |
    (?P<name>[A-Za-z_][\w:]*) | (?P<symbol>=~|!~|!=|==|>=|<=|[-+*/%^(){}\[\],:=<>]))""", re.X)

AGGREGATIONS = ("sum", "min", "max", "avg", "count", "topk", "bottomk")
KEEPING = ("topk", "bottomk")  # they choose series and change no label
FUNCTIONS = ("absent", "changes", "clamp_min", "delta", "deriv", "histogram_quantile", "increase",
             "last_over_time", "max_over_time", "min_over_time", "rate", "scalar", "time", "vector")
WITHOUT_LABELS = ("absent", "vector")
SCALARS = ("scalar", "time")
LEVELS = (("or",), ("and", "unless"), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"),
          ("*", "/", "%"))
SET_OPERATORS = ("or", "and", "unless")
MACROS = ("$__interval", "$__rate_interval", "$__range")  # of Grafana

# What Prometheus adds to each series of the program, and its own series.
TARGET = ("job", "instance")
OWN = {"up": {},
       "ALERTS": {"alertname": None, "alertstate": {"pending", "firing"}, "severity": None}}

# Labels whose values an installation chooses.
FREE = ("lane", "group", "scene", "handler", "version")


class Unknown(ValueError):
    """A query that names something that does not exist, or that cannot be read."""


class Series:
    """The series of the program: their labels, and the values that each label may have."""

    def __init__(self, exposition):
        self.kinds = {}
        self.labels = {name: dict(labels) for name, labels in OWN.items()}
        for line in exposition.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.kinds[name] = kind
            elif line and not line.startswith("#"):
                self._add(line.rsplit(" ", 1)[0])

    def _add(self, key):
        name, _, labels = key.partition("{")
        mine = self.labels.setdefault(name, {})
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            if label in FREE or label == "le":
                mine[label] = None
            else:
                mine.setdefault(label, set()).add(value)

    def of(self, name):
        """{label: its values, or None for any}; Unknown for a name that is no series."""
        if name not in self.labels:
            histogram = self.kinds.get(name) == "histogram"
            raise Unknown(f"{name} is a histogram: add _bucket, _sum or _count" if histogram
                          else f"no metric has the name {name}")
        return {**self.labels[name], **dict.fromkeys(TARGET)}


def tokens(text):
    """[(kind, text, where it begins)]"""
    found, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if not match:
            raise Unknown(f"cannot read the query at {text[at:at + 20]!r}")
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        at = match.end()
    return found


class Query:
    """One query, parsed. labels: the labels of its result, None for a number. names: its series.
    ends: [(the series, where its name ends in the text, whether braces follow)]."""

    def __init__(self, text, series):
        self.text = text
        self.series = series
        self.list = tokens(text)
        self.at = 0
        self.names = set()
        self.ends = []
        self.labels = self._operation(0)
        if self.at < len(self.list):
            raise Unknown(f"cannot read the query at {text[self.list[self.at][2]:]!r}")

    def _peek(self):
        return self.list[self.at][1] if self.at < len(self.list) else ""

    def _take(self, *wanted):
        """The next token; Unknown if it is none of those wanted."""
        if self.at >= len(self.list):
            raise Unknown(f"the query ends too early: {self.text}")
        kind, text, _ = self.list[self.at]
        if wanted and text not in wanted and kind not in wanted:
            raise Unknown(f"expected {' or '.join(wanted)}, found {text!r}")
        self.at += 1
        return text

    def _skips(self, text):
        """Whether the next token was this one, which is taken then."""
        found = self._peek() == text
        self.at += found
        return found

    def _names_in_brackets(self):
        names = []
        self._take("(")
        while not self._skips(")"):
            names.append(self._take("name"))
            if self._peek() != ")":
                self._take(",")
        return set(names)

    @staticmethod
    def _need(labels, wanted, where):
        missing = wanted - set(labels or ())
        if missing:
            raise Unknown(f"{where} has no label {', '.join(sorted(missing))}")

    def _operation(self, level):
        if level == len(LEVELS):
            return self._operand()
        left = self._operation(level + 1)
        while self._peek() in LEVELS[level]:
            left = self._join(left, self._take(), level)
        return left

    def _join(self, left, operator, level):
        """The labels of `left operator right`."""
        begin = self.list[self.at - 1][2]
        self._skips("bool")
        on = grouped = None
        if self._skips("on"):
            on = self._names_in_brackets()
        if self._peek() in ("group_left", "group_right"):
            grouped = self._take()
            if self._peek() == "(" and self.list[self.at + 1][1] == ")":
                self._names_in_brackets()
        right = self._operation(level + 1)
        if on:
            self._need(left, on, f"the left side of {self.text[begin:]!r}")
            self._need(right, on, f"the right side of {self.text[begin:]!r}")
        if left is None or right is None:
            return left if right is None else right
        if operator == "or":
            return left | right
        if operator in SET_OPERATORS or grouped == "group_left":
            return left
        if grouped:
            return right
        return on or left & right

    def _operand(self):
        if self._skips("-"):
            return self._operand()
        kind, text, _ = self.list[self.at] if self.at < len(self.list) else ("", "", 0)
        if text == "(":
            self._take("(")
            labels = self._operation(0)
            self._take(")")
        elif kind in ("number", "string"):
            self._take()
            return None
        elif kind == "name":
            labels = self._named()
        else:
            raise Unknown(f"expected a query, found {text!r} in {self.text!r}")
        self._range()
        return labels

    def _named(self):
        name = self._take("name")
        if name in AGGREGATIONS and self._peek() in ("(", "by"):
            return self._aggregation(name)
        if self._peek() == "(":
            return self._call(name)
        return self._selector(name)

    def _arguments(self):
        found = []
        self._take("(")
        while not self._skips(")"):
            found.append(self._operation(0))
            if self._peek() != ")":
                self._take(",")
        return [one for one in found if one is not None]

    def _aggregation(self, name):
        by = self._names_in_brackets() if self._skips("by") else set()
        arguments = self._arguments()
        if len(arguments) != 1:
            raise Unknown(f"{name} needs one query in brackets, after its labels")
        self._need(arguments[0], by, f"what {name} adds up")
        return arguments[0] if name in KEEPING else by

    def _call(self, name):
        if name not in FUNCTIONS:
            raise Unknown(f"no function that is known here has the name {name}")
        arguments = self._arguments()
        if name in SCALARS:
            return None
        if name in WITHOUT_LABELS:
            return set()
        if len(arguments) != 1:
            raise Unknown(f"{name} needs one query")
        if name == "histogram_quantile":
            self._need(arguments[0], {"le"}, "what histogram_quantile reads")
            return arguments[0] - {"le"}
        return arguments[0]

    def _selector(self, name):
        labels = self.series.of(name)
        self.names.add(name)
        self.ends.append((name, self.list[self.at - 1][2] + len(name), self._peek() == "{"))
        if self._skips("{"):
            while not self._skips("}"):
                self._matcher(name, labels)
                if self._peek() != "}":
                    self._take(",")
        return set(labels)

    def _matcher(self, name, labels):
        label = self._take("name")
        self._take("=", "!=", "=~", "!~")
        values = self._take("string").strip('"')
        self._need(labels, {label}, name)
        if labels[label] is None or "$" in values:
            return
        unknown = set(values.split("|")) - labels[label]
        if unknown:
            raise Unknown(f"{label} of {name} is never {', '.join(sorted(unknown))}")

    def _range(self):
        if not self._skips("["):
            return
        while not self._skips("]"):
            text = self._take("number", "variable", ":")
            if text.startswith("$") and text not in MACROS:
                raise Unknown(f"{text} is no range of Grafana")
