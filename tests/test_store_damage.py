"""The store when things go wrong: no room, no permission, damaged, foreign, old and new files.

Every case ends in one clear message, nothing that was stored is lost, and work goes on once the
cause is gone.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import duckdb
import pytest
from store_worker import content, skeleton, unit

import ragbench
from ragbench import files, folding, store
from ragbench.errors import BadRow, StoreError
from ragbench.files import ctrl_c
from ragbench.relations import SCHEMA_VERSION


def message(call, *arguments) -> str:
    """The one line that a call fails with."""
    with pytest.raises(StoreError) as caught:
        call(*arguments)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return text


def write_units(path: Path, *numbers: int) -> None:
    with store.step(path, "answer") as writer:
        for number in numbers:
            writer.add(unit(number))


def answers(path: Path) -> int:
    return ragbench.connect(path).sql("FROM responses").shape[0]


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """`code` in a process of its own, with this folder to import from."""
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


# ---------------------------------------------------------------- not a study


def test_no_file_says_how_to_make_one(tmp_path):
    text = message(ragbench.connect, tmp_path / "none.duckdb")
    assert f"no study at {tmp_path / 'none.duckdb'}" in text
    assert "ragbench import" in text
    assert list(tmp_path.iterdir()) == []


def _text_file(path: Path) -> None:
    path.write_text("query,model,score\n" * 1000)


def _sqlite_file(path: Path) -> None:
    with sqlite3.connect(path) as con:
        con.execute("CREATE TABLE study (schema_version)")
    con.close()


def _foreign_file(path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE mine AS SELECT 1 AS x")


def _odd_file(path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE study AS SELECT 'x' AS schema_version")


@pytest.mark.parametrize("make", [_text_file, _sqlite_file, _foreign_file, _odd_file, Path.mkdir])
def test_what_is_no_study_is_named_and_not_touched(make, tmp_path):
    path = tmp_path / "block lock.duckdb"  # a path that holds the words of other messages
    make(path)
    before = None if path.is_dir() else path.read_bytes()
    for call in (
        lambda: ragbench.connect(path),
        lambda: ragbench.append(path, "models", [{"model": "m"}]),
        lambda: write_units(path, 1),
    ):
        text = message(call)
        assert str(path) in text
        assert re.search("not a usable study|not a ragbench study|is a folder", text)
    if before is not None:
        assert path.read_bytes() == before


@pytest.mark.filterwarnings("ignore:rows in .* are not shown yet")
@pytest.mark.parametrize("keep", [0, 100, 0.5, -1])
def test_a_cut_file_is_named_and_its_journals_stay(keep, path):
    whole = path.read_bytes()
    size = int(len(whole) * keep) if isinstance(keep, float) else keep
    path.write_bytes(whole[:size])
    leave_journal(path, GOOD)
    for call in (
        lambda: ragbench.connect(path),
        lambda: ragbench.append(path, "models", [{"model": "m"}]),
        lambda: write_units(path, 1),
    ):
        text = message(call)
        assert "damaged, cut short" in text
        assert "Restore it from a copy" in text
        assert f"{path}.journal" in text
    assert path.read_bytes() == whole[:size]
    path.write_bytes(whole)
    assert ragbench.connect(path).sql("FROM models").fetchall() != []


def test_rows_written_before_the_file_was_damaged_come_back_with_a_copy_of_it(path):
    copy = path.read_bytes()
    with store.step(path, "answer") as writer:
        writer.add(unit(1))
        path.write_bytes(copy[:1000])
        with pytest.raises(StoreError), store.step(path, "other"):
            pass
        writer.add(unit(2))
        path.write_bytes(copy)
    assert answers(path) == 2


def test_rows_come_back_when_a_copy_from_before_their_fold_is_put_in_place(path):
    copy = path.read_bytes()
    with store.step(path, "answer") as writer:
        for number in range(1, 4):
            writer.add(unit(number))
            assert answers(path) == number
            path.write_bytes(copy)
            assert answers(path) == number
    assert answers(path) == 3


def test_a_study_that_went_away_during_a_step_is_said_and_its_rows_wait(path):
    kept = path.with_name("kept")

    def moved() -> None:
        with store.step(path, "answer") as writer:
            writer.add(unit(1))
            path.rename(kept)

    assert "moved or deleted while a step was running" in message(moved)
    assert not path.exists()
    kept.rename(path)
    assert answers(path) == 1
    with store.step(path, "answer"):  # of whose rows there is nothing to say
        path.rename(kept)


def test_ctrl_c_within_a_statement_is_ctrl_c():
    slow = "SELECT sum(hash(a.range * b.range)) FROM range(1000000) AS a, range(1000000) AS b"
    alarm = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        duckdb.connect().execute(slow)


def test_ctrl_c_while_rows_are_handed_to_a_fold_damages_nothing(path, monkeypatch):
    usual = folding._Stream.__arrow_c_stream__

    def interrupted(self: object, requested_schema: object = None) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return usual(self)

    with monkeypatch.context() as change:
        change.setattr(folding._Stream, "__arrow_c_stream__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_units(path, 1)
    assert answers(path) == 1


def test_a_connection_outlives_its_file_and_says_that_it_is_gone(path):
    write_units(path, 1)
    con = ragbench.connect(path)
    path.rename(path.with_name("moved.duckdb"))
    assert "moved or deleted" in message(ragbench.scores, con)
    assert con.sql("FROM responses").shape[0] == 1
    path.with_name("moved.duckdb").rename(path)
    assert ragbench.scores(con)["planned"].sum() == 1


def test_a_connection_keeps_what_it_has_when_the_file_is_replaced_by_nonsense(path):
    write_units(path, 1)
    con = ragbench.connect(path)
    good = path.with_name("good.duckdb")
    path.rename(good)
    path.write_text("nonsense")
    assert "not a usable study" in message(ragbench.scores, con)
    assert con.sql("FROM responses").shape[0] == 1
    good.rename(path)
    assert ragbench.scores(con)["planned"].sum() == 1


def test_a_connection_that_is_none_of_ours_is_refused(path):
    assert "ragbench.connect(path)" in message(ragbench.scores, duckdb.connect())
    assert "not PosixPath" in message(ragbench.scores, path)
    closed = ragbench.connect(path)
    closed.close()
    assert "was closed" in message(ragbench.scores, closed)


# ---------------------------------------------------------------- other programs


HOLD = """
    import duckdb
    con = duckdb.connect(sys.argv[1])
    con.execute("INSERT INTO models (model) VALUES ('by hand')")
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_file_open_for_writing_elsewhere_is_named_with_its_holder(path):
    con = ragbench.connect(path)
    copy = path.with_name("copy.duckdb")
    shutil.copy(path, copy)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys\n" + textwrap.dedent(HOLD), str(copy)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    text = message(ragbench.connect, copy)
    assert "open for writing in another program" in text
    assert f"PID {holder.pid}" in text
    assert "open for writing" in message(ragbench.append, copy, "models", [{"model": "m"}])
    assert ragbench.refresh(con) is False  # another study is not concerned
    holder.kill()
    holder.communicate()
    # What the other program had committed to its log is taken along.
    assert copy.with_name("copy.duckdb.wal").exists()
    ragbench.append(copy, "models", [{"model": "m"}])
    found = ragbench.connect(copy).sql("SELECT model FROM models ORDER BY 1").fetchall()
    assert found == [("by hand",), ("m",)]
    assert not copy.with_name("copy.duckdb.wal").exists()


def test_a_log_left_beside_a_file_that_holds_it_already_is_harmless(path):
    code = HOLD.replace("sys.stdin.read()", "import os; os._exit(0)")
    assert run(code, path).stdout == "open\n"
    log = path.with_name("study.duckdb.wal")
    left = log.read_bytes()
    ragbench.append(path, "models", [{"model": "m"}])
    log.write_bytes(left)  # as after a kill between the rename and the removal
    assert ragbench.connect(path).sql("FROM models").shape[0] == 2
    assert not log.exists()


# ---------------------------------------------------------------- layouts


def change(path: Path, *statements: str) -> bytes:
    """Change the study by hand, as another version might have made it."""
    copy = path.with_name("copy.duckdb")
    shutil.copy(path, copy)
    with duckdb.connect(str(copy)) as con:
        for statement in statements:
            con.execute(statement)
    copy.replace(path)
    return path.read_bytes()


def make_older(path: Path) -> bytes:
    """Turn the study into one of an older layout, which lacked a column and a relation."""
    return change(
        path,
        "UPDATE study SET schema_version = 0, name = 'an old study'",
        "ALTER TABLE responses DROP COLUMN endpoint",
        "DROP TABLE criterion_summary",
        "CREATE TABLE forgotten (x INTEGER)",
    )


def test_a_newer_layout_is_refused_and_not_touched(path):
    before = change(path, "UPDATE study SET schema_version = 99")
    for call in (
        lambda: ragbench.connect(path),
        lambda: ragbench.append(path, "models", [{"model": "m"}]),
        lambda: write_units(path, 1),
    ):
        text = message(call)
        assert f"newer ragbench (layout 99; this one knows {SCHEMA_VERSION})" in text
        assert "Install a newer ragbench" in text
    assert path.read_bytes() == before


@pytest.mark.parametrize("first", ["connect", "append", "refresh"])
def test_an_older_layout_becomes_a_new_file_and_the_old_one_is_kept(first, path):
    write_units(path, 1, 2)
    expected = content(path)
    con = ragbench.connect(path)
    older = make_older(path)
    call = {
        "connect": lambda: ragbench.connect(path),
        "append": lambda: ragbench.append(path, "models", [{"model": "m0"}]),
        "refresh": lambda: ragbench.refresh(con),
    }[first]
    with pytest.warns(UserWarning, match=r"from layout 0 to 2; the old file is .*layout0"):
        call()
    assert path.with_name("study.layout0.duckdb").read_bytes() == older
    fresh = ragbench.connect(path)
    assert fresh.sql("SELECT name FROM study").fetchall() == [("an old study",)]
    ragbench.append(path, "study", {"name": "study"})
    assert content(path) == expected
    assert ragbench.check(fresh).is_empty()
    assert ragbench.scores(con)["planned"].sum() == 2


def test_a_second_old_file_is_kept_beside_the_first(path):
    older = make_older(path)
    with pytest.warns(UserWarning, match="layout0.duckdb"):
        ragbench.connect(path)
    other = bytes(older)
    path.write_bytes(other)  # someone restored a copy
    with pytest.warns(UserWarning, match="layout0.2"):
        ragbench.connect(path)
    assert path.with_name("study.layout0.duckdb").read_bytes() == older
    assert path.with_name("study.layout0.2.duckdb").read_bytes() == other


# ---------------------------------------------------------------- no room, no permission


def test_a_fold_goes_on_after_its_memory_was_too_small_for_all(path):
    with files.in_memory() as con:
        con.execute("SET memory_limit = '60MB'")
        con.execute("CREATE TABLE much AS SELECT md5(i::VARCHAR) AS x FROM range(4000000) AS t(i)")
        assert con.execute("FROM duckdb_temporary_files()").fetchall() != []
        con.execute("DROP TABLE much")
        leave_journal(path, GOOD)
        store.fold(path, con)
    assert ragbench.connect(path).sql("SELECT model FROM models").fetchall() == [("good",)]


def test_too_little_memory_is_said_and_loses_nothing(path):
    leave_journal(path, GOOD)
    with files.in_memory() as con:
        con.execute("SET memory_limit = '300KB'")
        assert "not enough memory" in message(store.fold, path, con)
    assert ragbench.connect(path).sql("SELECT model FROM models").fetchall() == [("good",)]


def test_a_full_disk_stops_everything_cleanly_and_room_lets_it_go_on(path, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount")
    if (
        not mounted
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], capture_output=True
        ).returncode
    ):
        pytest.skip("needs the right to mount a small disk")
    try:
        small = disk / "study.duckdb"
        shutil.copy(path, small)
        write_units(small, 1)
        ballast = disk / "ballast"
        with store.step(small, "answer") as writer:
            writer.add(unit(2))
            fill_disk(ballast)
            text = message(lambda: [writer.add(unit(number)) for number in range(3, 500)])
            assert "no room left on the disk" in text
            assert "what was stored before is safe" in text
            assert "no room" in message(ragbench.append, small, "models", [{"model": "m"}])
            with pytest.warns(UserWarning, match=r"not shown yet: no room left"):
                con = ragbench.connect(small)  # reading goes on
            assert con.sql("FROM responses").shape[0] == 1
            ballast.unlink()
            for number in range(2, 6):
                writer.add(unit(number))
        assert answers(small) >= 5
        assert ragbench.check(ragbench.connect(small)).is_empty()
        assert "no room" not in str(ragbench.append(small, "models", [{"model": "m"}]))
        fill_disk(ballast)
        with pytest.raises(StoreError, match="no room"), store.step(small, "answer") as writer:
            writer.add(unit(700))
        ballast.unlink()
        assert {entry.name for entry in disk.iterdir()} <= {
            "study.duckdb",
            "study.duckdb.lock",
            "study.duckdb.journal",
        }
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill_disk(file: Path) -> None:
    with file.open("wb", buffering=0) as handle:
        for size in (65536, 512, 1):
            try:
                while handle.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


LIMITED = """
    import resource, signal
    import ragbench, store_worker
    from ragbench import store
    from ragbench.errors import StoreError
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path, most = sys.argv[1], int(sys.argv[2])
    with store.step(path, "answer") as writer:
        writer.add(store_worker.unit(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        for number in range(2, 40):
            try:
                writer.add(store_worker.unit(number))
            except StoreError as error:
                print(error)
                break
        for call in (lambda: ragbench.append(path, "models", [{"model": "m"}]),):
            try:
                call()
            except StoreError as error:
                print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        writer.add(store_worker.unit(50))
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on file size")
def test_a_line_cut_by_a_limit_is_taken_back_and_the_next_one_counts(path):
    done = run(LIMITED, path, 20_000)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("no room left" in line for line in lines)
    con = ragbench.connect(path)
    found = con.sql("SELECT count(*), bool_or(response_id LIKE 'i10/m1/%') FROM responses")
    count, has_last = found.fetchall()[0]
    assert has_last  # unit 50
    assert 3 <= count < 39
    assert ragbench.check(con).is_empty()
    assert not path.with_name("study.duckdb.rejected.jsonl").exists()


AS_NOBODY = """
    import os
    import ragbench, store_worker
    from ragbench import checks, metrics, store
    from ragbench.errors import StoreError
    path = sys.argv[1]
    ragbench.scores(ragbench.connect(sys.argv[2]))  # loads what may lie where others cannot read
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    def attempt(call):
        try:
            call()
            print("fine")
        except StoreError as error:
            print(error)
    def write():
        with store.step(path, "answer") as writer:
            writer.add(store_worker.unit(2))
    attempt(lambda: ragbench.scores(ragbench.connect(path)))
    attempt(lambda: ragbench.append(path, "models", [{"model": "m"}]))
    attempt(write)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to become another user")
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "expected"),
    [
        (0o755, 0o644, ["fine", "Its folder must be", "Its folder must be"]),
        (0o777, 0o600, ["may not be read", "may not be read", "may not be read"]),
        (0o777, 0o444, ["fine", "is write-protected", "is write-protected"]),
    ],
    ids=["folder read-only", "file not readable", "file write-protected"],
)
def test_another_user_without_permission_gets_one_clear_line(
    folder_mode, file_mode, expected, path
):
    write_units(path, 1)
    other = path.parent / "other" / "study.duckdb"
    other.parent.mkdir()
    shutil.copy(path, other)
    path.with_name("study.duckdb.lock").unlink()
    for folder in path.parents:
        if folder.name.startswith(("pytest-", "popen-")):  # the second with several workers
            folder.chmod(0o755)
    path.parent.chmod(folder_mode)
    path.chmod(file_mode)
    before = path.read_bytes()
    done = run(AS_NOBODY, path, other)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line, part in zip(lines, expected, strict=True):
        assert part in line
        assert part == "fine" or str(path) in line
    assert path.read_bytes() == before


def test_a_fold_keeps_the_permissions_of_the_file(path):
    path.chmod(0o660)
    write_units(path, 1)
    assert path.stat().st_mode & 0o777 == 0o660


# ---------------------------------------------------------------- journals


def journal_line(**relations: object) -> bytes:
    return json.dumps(relations, ensure_ascii=False).encode() + b"\n"


def leave_journal(path: Path, *lines: bytes) -> Path:
    """A journal of a process that has ended."""
    folder = path.with_name(f"{path.name}.journal")
    folder.mkdir()
    journal = folder / "20260101T000000000000-abcdef.jsonl"
    journal.write_bytes(b"".join(lines))
    return journal


GOOD = journal_line(models=[{"model": "good"}])
BAD = {
    "garbage": bytes(range(256)).replace(b"\n", b"") * 3 + b"\n",
    "half a line in the middle": GOOD[:20] + b"\n",
    "no mapping": b"[1, 2]\n",
    "another relation": journal_line(nonsense=[{"x": 1}]),
    "a table that is no relation": journal_line(folded=[{"journal": "x", "bytes": 1}]),
    "an unknown column": journal_line(models=[{"model": "m", "colour": "red"}]),
    "rows that are none": journal_line(models=["m", 3]),
    "a value that does not fit": journal_line(models=[{"model": "m", "params_b": "big"}]),
    "a number beyond all bounds": b'{"wanted": [{"instance_id": "i0", "model": "m", "trial": 1'
    + b"0" * 400
    + b', "run_id": "r"}]}\n',
    "too deep": b'{"queries": [{"query_id": "q", "answers": '
    + b"[" * 5000
    + b"]" * 5000
    + b"}]}\n",
    "a date that is none": journal_line(documents=[{"doc_id": "d", "published_on": "2026-13-45"}]),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_line_that_cannot_be_read_is_set_aside_and_the_others_are_taken(bad, path):
    journal = leave_journal(path, journal_line(models=[{"model": "first"}]), bad, GOOD)
    with pytest.warns(UserWarning, match="1 journal line of .* could not be read") as caught:
        con = ragbench.connect(path)
    assert len(str(caught[0].message).splitlines()) == 1
    assert caught[0].filename == __file__  # the line that the reader of the warning wrote
    assert con.sql("SELECT model FROM models ORDER BY 1").fetchall() == [("first",), ("good",)]
    assert path.with_name("study.duckdb.rejected.jsonl").read_bytes() == bad
    assert not journal.parent.exists()
    assert ragbench.check(con).is_empty()


@pytest.mark.parametrize("end", [GOOD[:-1], GOOD[:10], b"\xe4\xb8", b""])
def test_a_torn_last_line_never_counted(end, path):
    leave_journal(path, GOOD, end)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        con = ragbench.connect(path)
    assert con.sql("FROM models").shape[0] == 1
    assert not path.with_name("study.duckdb.journal").exists()


def test_lines_set_aside_twice_are_kept_once(path):
    journal = leave_journal(path, b"nonsense\n", GOOD)
    for _ in range(2):
        with pytest.warns(UserWarning, match="could not be read"):
            ragbench.connect(path)
        journal.parent.mkdir(exist_ok=True)
        journal.write_bytes(b"nonsense\n")
    assert path.with_name("study.duckdb.rejected.jsonl").read_bytes() == b"nonsense\n"


def test_a_journal_is_enough_to_make_the_study_again(path):
    with store.step(path, "answer") as writer:
        writer.add(skeleton())
        writer.add(unit(1))
        path.unlink()
        again = ragbench.connect(path)
    assert again.sql("FROM responses").shape[0] == 1


def test_a_step_whose_journal_is_taken_away_says_so_instead_of_writing_into_nothing(path):
    with store.step(path, "answer") as writer:
        writer.add(unit(1))
        shutil.rmtree(path.with_name("study.duckdb.journal"))
        assert "was deleted while its step was running" in message(writer.add, unit(2))


def test_a_step_that_has_ended_takes_no_more_rows(path):
    with store.step(path, "answer") as writer:
        writer.add(unit(1))
    assert "this step has ended" in message(writer.add, unit(2))
    assert answers(path) == 1


def test_an_error_in_a_step_reaches_the_caller_and_the_rows_before_it_stay(path):
    def work() -> None:
        with store.step(path, "answer") as writer:
            writer.add(unit(1))
            half = {**unit(2), "judgments": [*unit(2)["judgments"], {"response_id": "r"}]}
            with pytest.raises(BadRow):
                writer.add(half)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert answers(path) == 1


def test_what_a_killed_fold_left_is_removed(path):
    half = path.with_name("study.duckdb.fold")
    half.write_bytes(path.read_bytes()[:5000])
    half.with_name(f"{half.name}.wal").write_bytes(b"half")
    ragbench.connect(path)
    assert {entry.name for entry in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


def test_a_journal_larger_than_one_batch_is_folded_in_parts(path, monkeypatch):
    from ragbench import folding

    monkeypatch.setattr(folding, "_BATCH_BYTES", 3000)
    with store.step(path, "answer") as writer:
        for number in range(20):
            writer.add(unit(number))
        writer.add({"documents": {"doc_id": "long", "text": "长" * 10_000}})
    con = ragbench.connect(path)
    assert con.sql("FROM responses").shape[0] == 20
    assert con.sql("SELECT length(text) FROM documents").fetchall() == [(10_000,)]
    assert ragbench.check(con).is_empty()


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize("name", ["a b", "it's", 'say "x"', "研究 一号", "100%_[x]*", "$HOME;--"])
def test_any_path_will_do(name, tmp_path):
    path = tmp_path / name / ".." / name / f"{name}.duckdb"
    ragbench.append(path, skeleton())
    con = ragbench.connect(path)
    write_units(path, 1)
    assert ragbench.refresh(con)
    assert con.sql("FROM responses").shape[0] == 1
    assert str(tmp_path / name / f"{name}.duckdb") in message(
        ragbench.connect, path.with_name("none")
    ).replace("none", f"{name}.duckdb")


@pytest.mark.parametrize("name", ["what?.duckdb", "what?/study.duckdb", "nul\0.duckdb"])
def test_a_path_that_duckdb_cannot_manage_is_refused(name, tmp_path):
    for call in (
        lambda: ragbench.connect(tmp_path / name),
        lambda: ragbench.append(tmp_path / name, skeleton()),
        lambda: write_units(tmp_path / name, 1),
    ):
        assert "Choose another name" in message(call)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_the_same_after_a_change_of_folder(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    con = ragbench.connect("study.duckdb")
    with store.step("study.duckdb", "answer") as writer:
        writer.add(unit(1))
        other = path.parent / "elsewhere"
        other.mkdir()
        monkeypatch.chdir(other)
        writer.add(unit(2))
    ragbench.refresh(con)
    assert con.sql("FROM responses").shape[0] == 2
    assert list(other.iterdir()) == []


def test_a_link_to_a_study_stays_a_link(path):
    link = path.with_name("link.duckdb")
    link.symlink_to(path)
    write_units(link, 1)
    assert link.is_symlink()
    assert answers(path) == 1
