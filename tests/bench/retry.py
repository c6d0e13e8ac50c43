# SPDX-License-Identifier: MIT
"""The case `retry`: tasks that are claimed, run (by a handler that does nothing) and deleted, with 1,
2 and 4 processes, while few or many others wait for their time in the same classes. The ceiling: as
many connections that send the same statements in a bare loop. And how long after its COMMIT a new task
is tried first."""

import concurrent.futures
import time

import cases
import suite
import report

ROWS = 50000
BACKLOGS = (("10k", 10000), ("2m", 2000000))
SHARDS = 16  # TASK_SHARDS


def make_scene(stack):
    stack.sql("INSERT IGNORE INTO retry_group (name, handlers, scenes) VALUES ('bench', 'noop', '*')")
    stack.sql("INSERT IGNORE INTO retry_scene (task_group, scene, policy) VALUES ('bench', 'work', "
              "'{\"keep_done\": false}')")


def fill_tasks(stack, kind, rows):
    """Tasks for tomorrow, in transactions of 100,000; kind is their business number."""
    cases.make_numbers(stack)
    make_scene(stack)
    for first, count in cases.parts(rows):
        stack.sql("INSERT INTO retry_task (task_group, scene, handler, idempotency_key, biz_no, "
                  f"params, next_at) SELECT 'bench', 'work', 'noop', CONCAT('{kind}/', {first} + n), "
                  f"'{kind}', CONCAT('{{\"orderId\":', n, ',\"text\":\"', SHA2(n, 256), "
                  f"'\"}}'), UTC_TIMESTAMP(3) + INTERVAL 1 DAY FROM {cases.NUMBERS} "
                  f"WHERE n < {count}")


def fill_due(stack, rows):
    """As many that can become due all at once."""
    fill_tasks(stack, "due", rows)
    return lambda: stack.sql("UPDATE retry_task SET next_at = UTC_TIMESTAMP(3) "
                             "WHERE biz_no = 'due'")


def left(stack):
    return stack.number("SELECT COUNT(*) FROM retry_task WHERE biz_no = 'due'")


def attempts(roles):
    return sum(role.metric("tallybox_retry_attempts_total") for role in roles)


def lane_run(stack, rows, processes):
    make_due = fill_due(stack, rows)
    roles = [stack.role("retry", program=cases.PROGRAMS / "bench_retry_noop")
             for _ in range(processes)]
    suite.wait_for("the shards to be shared", lambda: all(
        role.metric("tallybox_retry_shards_held") == SHARDS // processes for role in roles), 120)
    make_due()
    cpu, began = sum(map(cases.cpu_seconds, roles)), time.monotonic()
    server_cpu = cases.cpu_seconds(suite.database())
    suite.wait_for("all tasks to be run", lambda: attempts(roles) >= rows, 900, 0.02)
    suite.wait_for("all tasks to be gone", lambda: left(stack) == 0, 60, 0.02)
    seconds = time.monotonic() - began
    cpu = sum(map(cases.cpu_seconds, roles)) - cpu
    run = {"rows_per_s": rows / seconds, "cpu_us_per_row": cpu * 1e6 / rows,
           "rss_mib": max(role.peak_rss_mib() for role in roles),
           "server_cpu_us": (cases.cpu_seconds(suite.database()) - server_cpu) * 1e6 / rows}
    for role in roles:
        role.end()
    return run


def loop_run(stack, rows, processes):
    fill_due(stack, rows)()
    share = SHARDS // processes
    cpu = cases.cpu_seconds(suite.database())
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        loops = list(pool.map(lambda number: cases.program(
            "ceiling_retry", first=number * share, shards=share, **cases.on_database(stack)),
            range(processes)))
    if sum(one["rows"] for one in loops) != rows:
        raise RuntimeError(f"the bare loops found {loops} of {rows} tasks")
    return {"rows_per_s": rows / max(one["seconds"] for one in loops),
            "server_cpu_us": (cases.cpu_seconds(suite.database()) - cpu) * 1e6 / rows}


def latency_run(bench, rate, seconds):
    with bench.stack("retry") as stack:
        make_scene(stack)
        share = stack.folder / "seen"
        share.write_bytes(bytes(8 * rate * seconds))
        role = stack.role("retry", program=cases.PROGRAMS / "bench_retry_noop",
                          env={"TALLYBOX_BENCH_SHARE": share})
        suite.wait_for("the shards to be held",
                       lambda: role.metric("tallybox_retry_shards_held") == SHARDS, 120)
        cpu = cases.cpu_seconds(role)
        run = cases.program("latency", see="retry", rate=rate, seconds=seconds, share=share,
                            **cases.on_database(stack))
        return {**run, "cpu_us_per_row": (cases.cpu_seconds(role) - cpu) * 1e6 / (rate * seconds),
                "rss_mib": role.peak_rss_mib()}


def measure_latency(bench):
    bench.warm_up(latency_run, bench, 1000, bench.seconds(2))
    for rate in (100, 1000):
        runs = [latency_run(bench, rate, bench.seconds(6)) for _ in range(bench.runs)]
        bench.lines.add(cases.latency_line(f"latency_retry_{rate}", rate, runs))


def case_retry(bench):
    measure_latency(bench)
    rows = bench.rows(ROWS)
    for name, backlog in BACKLOGS:
        with bench.stack("retry") as stack:
            fill_tasks(stack, "later", bench.rows(backlog))
            bench.warm_up(lane_run, stack, bench.rows(ROWS // 10), 1)
            bench.warm_up(loop_run, stack, bench.rows(ROWS // 10), 1)
            for processes in (1, 2, 4):
                runs, loops = [], []
                for _ in range(bench.runs):
                    runs.append(lane_run(stack, rows, processes))
                    loops.append(loop_run(stack, rows, processes))
                # What the database does for a task bounds both, whatever else takes the cores.
                bench.lines.add(report.of_rows(
                    f"retry_{processes}_{name}", suite.DATABASE, runs, loops,
                    server_cpu_us_per_row=round(report.median(runs, "server_cpu_us"), 1),
                    ceiling_server_cpu_us_per_row=round(report.median(loops, "server_cpu_us"), 1)))
