"""The store under real processes: killed, many at once, polled by notebooks, in threads."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import store_worker
from store_worker import content, response_id, skeleton, unit

import ragbench
from ragbench import folding, store

PATIENCE = 600
"""Seconds after which a process counts as stuck; slow machines get all of them."""


def start(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", store_worker.__file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return json.loads(out)


def leftovers(path: Path) -> set[str]:
    """What lies beside the study: nothing but the empty lock file is meant to stay."""
    return {entry.name for entry in path.parent.iterdir()} - {path.name, f"{path.name}.lock"}


def wait_until(condition: Any) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.02)


# ---------------------------------------------------------------- killed


@pytest.mark.slow
def test_a_writer_killed_fifty_times_ends_with_the_same_content(path, tmp_path):
    count = 1500
    calm = tmp_path / "calm" / "study.duckdb"
    ragbench.append(calm, skeleton())
    store_worker.fill(calm, range(count))
    acknowledged = tmp_path / "acknowledged"
    report = finish(start("survive", path, count, 50, 1, acknowledged))
    assert report["killed"] == 50
    assert report["in_fold"] > 5
    assert content(path) == content(calm)
    con = ragbench.connect(path)
    said = acknowledged.read_text().split()
    assert len(said) == len(set(said))  # nothing was lost, so nothing was done twice
    kept = con.sql("SELECT response_id FROM responses WHERE error IS NULL").fetchall()
    assert {response_id(int(number)) for number in said} <= {row[0] for row in kept}
    assert len(kept) == count
    assert ragbench.check(con).is_empty()
    assert leftovers(path) == {"calm", "acknowledged"}


def test_what_was_acknowledged_before_a_kill_is_there_after_it(path, tmp_path):
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    process = start("fill", path, 0, 100_000, acknowledged)
    wait_until(lambda: acknowledged.stat().st_size > 200 or process.poll() is not None)
    process.kill()
    process.communicate()
    said = {response_id(int(line)) for line in acknowledged.read_text().split()}
    con = ragbench.connect(path)
    kept = con.sql("SELECT response_id FROM responses WHERE error IS NULL").fetchall()
    assert said <= {row[0] for row in kept}
    assert len(kept) <= len(said) + 1  # the one it was about to say
    assert ragbench.check(con).is_empty()
    assert leftovers(path) == {"acknowledged"}


def test_an_interrupt_ends_a_step_at_once_and_keeps_its_rows(path, tmp_path):
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    process = start("fill", path, 0, 100_000, acknowledged)
    wait_until(lambda: acknowledged.stat().st_size > 200 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    said = len(acknowledged.read_text().split())
    kept = ragbench.connect(path).sql("FROM responses WHERE error IS NULL").shape[0]
    assert kept in (said, said + 1)
    assert leftovers(path) == {"acknowledged"}


def test_an_append_killed_at_any_instant_has_happened_or_has_not(path):
    before = content(path)
    choose = random.Random(3)
    folding = path.with_name(f"{path.name}.fold")
    for _ in range(4):
        process = start("append", path, 0, 1000, 1000)
        wait_until(lambda p=process: folding.exists() or p.poll() is not None)
        time.sleep(choose.uniform(0, 0.15))
        process.kill()
        process.communicate()
        count = ragbench.connect(path).sql("SELECT count(*) FROM judgments").fetchall()[0][0]
        assert count in (0, 2000)
        assert leftovers(path) == set()
        if count == 0:
            assert content(path) == before
    assert finish(start("append", path, 0, 1000, 1000))["added"] in (0, 1000 * 5)


# ---------------------------------------------------------------- many at once


def test_notebooks_see_rows_grow_while_two_writers_and_two_appenders_work(path, tmp_path):
    stop = tmp_path / "stop"
    readers = [start("read", path, stop) for _ in range(2)]
    first = ragbench.connect(path)
    writers = [start("fill", path, 0, 200), start("fill", path, 200, 400)]
    appenders = [start("append", path, 400, 460, 20), start("append", path, 430, 490, 20)]
    second = ragbench.connect(path)
    counts: dict[int, list[int]] = {0: [], 1: []}
    while any(process.poll() is None for process in (*writers, *appenders)):
        for number, con in enumerate((first, second)):
            ragbench.refresh(con)
            found = con.sql("SELECT count(*) FROM judgments").fetchall()
            counts[number].append(found[0][0])
        time.sleep(0.05)
    for process in writers:
        finish(process)
    added = [finish(process)["added"] for process in appenders]
    wait_until(lambda: store.connect(path).sql("FROM responses").shape[0] == 490)
    time.sleep(0.2)
    stop.touch()
    for reader in readers:
        report = finish(reader)
        assert report["falls"] == 0
        assert report["distinct"] >= 2
    assert sum(added) == 90 * 5  # rows that both had were added once
    for found in counts.values():
        assert store_worker.falls(found) == 0
        assert len(set(found)) >= 2
    calm = tmp_path / "calm" / "study.duckdb"
    ragbench.append(calm, skeleton())
    store_worker.fill(calm, range(400))
    store_worker.append(calm, 400, 490, 90)
    assert content(path) == content(calm)
    assert ragbench.check(second).is_empty()
    assert leftovers(path) == {"calm", "stop"}


def test_rows_of_a_running_step_show_up_before_it_ends(path):
    con = ragbench.connect(path)
    with store.step(path, "answer") as writer:
        for number in range(5):
            writer.add(unit(number))
        assert ragbench.connect(path).sql("FROM responses").shape[0] == 5
        wait_until(lambda: ragbench.refresh(con) or con.sql("FROM responses").shape[0] == 5)
        writer.add(unit(5))
    ragbench.refresh(con)
    assert con.sql("FROM responses").shape[0] == 6


def test_normal_use_gives_no_warning(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        con = ragbench.connect(path)
        with store.step(path, "answer") as writer:
            writer.add(unit(0))
            ragbench.refresh(con)
        ragbench.append(path, {"models": [{"model": "x"}]})
        ragbench.scores(con)


def test_a_writer_leaves_nineteen_twentieths_of_the_time_to_its_work(path, monkeypatch):
    """Copying a study that takes a second is not done more often than every twenty."""
    monkeypatch.setitem(folding._overhead, path, 1.0)
    before = path.stat().st_ino
    with store.step(path, "answer") as writer:
        for number in range(200):
            writer.add(unit(number))
        assert path.stat().st_ino == before
    assert path.stat().st_ino != before


def test_a_fold_counts_what_it_cost_apart_from_its_rows(path):
    store_worker.fill(path, range(3))
    assert 0 < folding._overhead[path] < PATIENCE
    assert store.pace(path) == max(1, 20 * folding._overhead[path])


# ---------------------------------------------------------------- threads


def test_one_writer_serves_eight_threads(path):
    with store.step(path, "answer") as writer:
        threads = [
            threading.Thread(target=lambda k=k: [writer.add(unit(n)) for n in range(k, 200, 8)])
            for k in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    con = ragbench.connect(path)
    assert con.sql("SELECT count(*), count(DISTINCT response_id) FROM judgments").fetchall() == [
        (400, 200)
    ]
    assert ragbench.check(con).is_empty()
    assert leftovers(path) == set()


def test_scores_in_four_threads_on_one_connection_while_rows_come_in(path):
    con = ragbench.connect(path)
    failures: list[BaseException] = []
    counts: list[list[int]] = [[], [], [], []]
    is_over = threading.Event()

    def look(number: int) -> None:
        own = con.cursor()
        try:
            while not is_over.is_set():
                table = ragbench.scores(own if number % 2 else con, by=(), metrics=["strict_ias"])
                counts[number].append(table["judged"].sum())
                own.execute("SELECT count(*) FROM response_scores").fetchall()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for start_at in (0, 10, 20):
        store_worker.append(path, start_at, start_at + 10, 10)
    wait_until(lambda: failures or all(found and found[-1] == 30 for found in counts))
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [store_worker.falls(found) for found in counts] == [0, 0, 0, 0]


def test_two_connections_of_one_process_each_see_the_newest_rows(path):
    first, second = ragbench.connect(path), ragbench.connect(path)
    for number in range(3):
        store_worker.append(path, number, number + 1, 1)
        for con in (first, second):
            assert ragbench.refresh(con)
            assert con.sql("FROM responses").shape[0] == number + 1
    assert not ragbench.refresh(first)


# ---------------------------------------------------------------- refresh


def test_refresh_keeps_tables_views_settings_and_an_open_transaction(path):
    con = ragbench.connect(path)
    con.execute("CREATE TABLE mine AS SELECT 1 AS x")
    con.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM responses")
    con.execute("SET threads = 1")
    con.execute("BEGIN")
    assert con.sql("FROM counted").fetchall() == [(0,)]
    con.execute("INSERT INTO mine VALUES (2)")
    for number in range(3):
        store_worker.append(path, number, number + 1, 1)
        assert ragbench.refresh(con)
    assert con.sql("FROM counted").fetchall() == [(0,)]  # the transaction sees what it saw
    con.execute("COMMIT")
    assert con.sql("FROM counted").fetchall() == [(3,)]
    assert con.sql("FROM mine").fetchall() == [(1,), (2,)]
    assert con.sql("SELECT current_setting('threads')").fetchall() == [(1,)]


def test_an_unread_result_blocks_nothing(path):
    con = ragbench.connect(path)
    open_result = con.execute("SELECT range FROM range(5000), instances")
    store_worker.append(path, 0, 5, 5)
    assert ragbench.refresh(con)
    assert ragbench.scores(con)["planned"].sum() == 5
    assert ragbench.check(con).is_empty()
    assert len(open_result.fetchmany(3)) == 3


def test_replaced_files_are_let_go(path):
    con = ragbench.connect(path)
    for number in range(4):
        store_worker.append(path, number, number + 1, 1)
        ragbench.refresh(con)

    def held() -> int:
        ragbench.refresh(con)
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(link.startswith(str(path)) for link in links)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    wait_until(lambda: held() == 1)


LATE = """
import sys, threading
import ragbench as rb
sys.path.insert(0, sys.argv[2])
from store_worker import unit
from ragbench import store
def work():
    threading.main_thread().join()
    with store.step(sys.argv[1], "answer") as writer:
        writer.add({"responses": unit(0)["responses"]})
    rb.judge(sys.argv[1])
    con = rb.connect(sys.argv[1])
    print(con.sql("FROM judgments").shape[0], rb.scores(con)["planned"].sum())
threading.Thread(target=work).start()
"""


def test_a_thread_that_outlives_the_main_one_can_still_make_rows_and_score_them(path):
    done = subprocess.run(
        [sys.executable, "-c", LATE, path, Path(__file__).parent], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("2 1\n", "")


FORKING = """
import os, sys
import ragbench as rb
rb.append(sys.argv[1], "judges", [{"judge": "j", "kind": "llm"}])
if (child := os.fork()) == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_process_that_has_stored_something_ends_as_it_means_to(path):
    """Threads are not forked: a connection that came along would crash it when it is closed."""
    words = [sys.executable, "-c", FORKING, path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("7\n", "")
