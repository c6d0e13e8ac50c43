# SPDX-License-Identifier: MIT
"""What numbers of the bench were measured with: the first line of a run."""

import datetime
import os
import pathlib
import platform
import re
import subprocess

import cases
import suite


def memory_gib():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return round(int(re.search(r"^MemTotal:\s+(\d+)", text, re.MULTILINE).group(1)) / 1048576)


def database_version():
    connection = suite.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            version = re.match(r"[\d.]+", cursor.fetchone()[0]).group()
    finally:
        connection.close()
    return f"{'MariaDB' if suite.DATABASE == 'mariadb' else 'MySQL'} {version}"


def kafka_version():
    log = (suite.kafka().folder / "log").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"Kafka version: ([\w.-]+)", log)
    return found.group(1) if found else ""


def debezium_version():
    """Empty where it was not fetched."""
    folder = os.environ.get("TALLYBOX_DEBEZIUM")
    jars = pathlib.Path(folder, "libs").glob("debezium-core-*.jar") if folder else []
    return "".join(jar.stem[len("debezium-core-"):].removesuffix(".Final") for jar in jars)


def commit():
    done = subprocess.run(["git", "-C", suite.ROOT, "rev-parse", "--short=10", "HEAD"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip()


def line(runs, scale, command):
    return {"case": "machine", "db": suite.DATABASE,
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "cores": os.cpu_count(), "memory_gib": memory_gib(),
            "kernel": f"{platform.system()} {re.match(r'[0-9.]+[0-9]', platform.release()).group()}",
            "database": database_version(), "kafka": kafka_version(),
            "debezium": debezium_version(), **cases.program("versions"), "commit": commit(),
            "runs": runs, "scale": scale, "command": command}
