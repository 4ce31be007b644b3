"""Commands as a person types them: output, exit codes, Ctrl-C, pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import ragbench as rb
from ragbench import checks, cli

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = str(Path(sys.executable).with_name("ragbench"))


def run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )


def rows(count: int) -> dict[str, list[dict[str, object]]]:
    """A study of `count` answers under one rule, nothing judged yet."""
    return {
        "queries": [{"query_id": "q", "domain": "Legal", "language": "zh", "text": "问题"}],
        "constraints": [
            {
                "constraint_id": "q.c1",
                "query_id": "q",
                "dimension": "negative",
                "text": "不要使用感叹号",
                "rule": "forbidden_terms",
                "params": {"terms": ["!"]},
            }
        ],
        "instances": [{"instance_id": "q-gap", "query_id": "q", "context_mode": "gap"}],
        "instance_constraints": [{"instance_id": "q-gap", "ordinal": 1, "constraint_id": "q.c1"}],
        "responses": [
            {"instance_id": "q-gap", "model": "m", "trial": i, "text": "好！" if i % 2 else "好。"}
            for i in range(count)
        ],
    }


@pytest.fixture
def unjudged(tmp_path: Path) -> Path:
    path = tmp_path / "一 study.duckdb"
    rb.append(path, rows(10))
    return path


def test_judging_then_scoring_gives_the_share_of_answers_without_the_mark(unjudged: Path) -> None:
    assert run("judge", unjudged).returncode == 0
    done = run("scores", unjudged, "--metrics", "loose_rules", "--csv")
    assert done.returncode == 0, done.stderr
    frame = pl.read_csv(done.stdout.encode())
    assert frame["value"].to_list() == [0.5]
    assert frame["n"].to_list() == [10]


def test_pending_says_what_is_left_and_then_nothing(unjudged: Path) -> None:
    with rb.store.step(unjudged, "test") as writer:
        writer.add({"judges": {"judge": "rules/1", "kind": "rule"}})
    before = pl.read_csv(run("pending", unjudged, "--csv").stdout.encode())
    assert before.filter(pl.col("step") == "judge")["pending"].to_list() == [10]
    run("judge", unjudged)
    assert pl.read_csv(run("pending", unjudged, "--csv").stdout.encode()).is_empty()


def test_a_judged_study_checks_as_sound(unjudged: Path) -> None:
    run("judge", unjudged)
    done = run("check", unjudged)
    assert done.returncode == 0
    assert "sound" in done.stdout


def test_check_says_what_it_found_before_it_asks_for_a_panel(unjudged: Path) -> None:
    key = {"response_id": "q-gap/m/given_context/0", "criterion": "adherence", "score": 1.0}
    judges = ("one", "two")
    rb.append(
        unjudged,
        {
            "judges": [{"judge": name, "kind": "llm"} for name in judges],
            "judgments": [{**key, "target_id": "q.c1", "judge": name} for name in judges],
        },
    )
    done = run("check", unjudged)
    assert done.returncode == 1
    assert "sound" in done.stdout
    assert "--panel" in done.stderr


def test_a_verdict_out_of_range_makes_check_exit_with_3(unjudged: Path) -> None:
    key = {"response_id": "q-gap/m/given_context/0", "criterion": "adherence"}
    rb.append(
        unjudged,
        {
            "judges": [{"judge": "odd", "kind": "llm"}],
            "judgments": [{**key, "target_id": "q.c1", "judge": "odd", "score": 7.0}],
        },
    )
    done = run("check", unjudged)
    assert done.returncode == 3
    assert "range" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["scores", "absent.duckdb"], 1, "no study"),
        (["scores", "STUDY", "--by", "modle"], 1, "did you mean 'model'"),
        (["scores", "STUDY", "--where", "domain"], 1, "column=value"),
        (["scores", "STUDY", "--metrics", "strict_is"], 1, "strict_ias"),
        (["export", "STUDY", "out", "--relations", "judgements"], 1, "judgments"),
        (["rebuild", "figure99", "--study", "STUDY"], 1, "figure99"),
        (["judge", "STUDY", "--judge", "gpt"], 1, "gpt"),
        (["scores", "STUDY", "--nonsense"], 2, "nonsense"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_a_mistake_is_one_line_and_a_code(
    unjudged: Path, words: list[str], code: int, says: str
) -> None:
    run("judge", unjudged)
    typed = [str(unjudged) if word == "STUDY" else word for word in words]
    done = run(*typed, cwd=unjudged.parent)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    if code == 1:
        assert len(done.stderr.strip().splitlines()) == 1


def test_output_in_a_pipe_has_no_control_characters_and_no_progress(unjudged: Path) -> None:
    for words in (["judge"], ["scores"], ["check"], ["pending"]):
        done = run(words[0], unjudged)
        assert len(done.stdout.splitlines()) < 50
        assert not any(ord(c) < 32 and c not in "\n\t" for c in done.stdout + done.stderr)


def test_help_of_every_command_has_an_example() -> None:
    from ragbench.cli import COMMANDS

    for command in COMMANDS:
        assert f"ragbench {command} " in run(command, "--help").stdout


def test_head_closing_the_pipe_is_no_error(unjudged: Path) -> None:
    run("judge", unjudged)
    done = subprocess.run(
        f"'{PROGRAM}' scores '{unjudged}' | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_ctrl_c_keeps_what_is_judged_and_the_next_call_finishes(tmp_path: Path) -> None:
    path, whole = tmp_path / "stopped.duckdb", tmp_path / "whole.duckdb"
    for file in (path, whole):
        rb.append(file, rows(20_000))
    process = subprocess.Popen(
        [PROGRAM, "judge", str(path)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    journal = path.with_name(path.name + ".journal")
    limit = time.monotonic() + 60
    while not list(journal.glob("*.jsonl")) and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "call again" in errors.lower()
    assert run("judge", path).returncode == 0
    assert run("judge", whole).returncode == 0
    assert checks.content_hash(rb.connect(path)) == checks.content_hash(rb.connect(whole))


def test_exported_csv_is_inert_and_parquet_comes_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "study.duckdb"
    given = rows(1)
    given["responses"] = [
        {"instance_id": "q-gap", "model": "m", "trial": i, "text": text}
        for i, text in enumerate(["=1+1", "+cmd", "@x", "\t=1", "-2", "plain", "＝1"])
    ]
    rb.append(path, given)
    assert run("export", path, tmp_path / "csv", "--format", "csv").returncode == 0
    from ragbench.output import read_csv

    raw = (tmp_path / "csv" / "responses.csv").read_text(encoding="utf-8-sig")
    assert not any(f'"{mark}' in raw for mark in ("=", "+", "@", "\t", "-"))
    texts = read_csv(tmp_path / "csv" / "responses.csv").sort("trial")["text"].to_list()
    assert texts == ["=1+1", "+cmd", "@x", "\t=1", "-2", "plain", "＝1"]
    assert run("export", path, tmp_path / "parquet").returncode == 0
    rb.load_folder(tmp_path / "again.duckdb", tmp_path / "parquet")
    first, second = (checks.content_hash(rb.connect(p)) for p in (path, tmp_path / "again.duckdb"))
    assert first == second


def test_all_artifacts_of_which_some_cannot_be_made_exit_with_3_and_nothing_is_cut(
    unjudged: Path, tmp_path: Path
) -> None:
    run("judge", unjudged)
    done = run("rebuild", "all", "--study", unjudged, "--out", "out", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    report = rb.output.read_csv(tmp_path / "out" / unjudged.stem / "rebuilt.csv")
    lacking = report.filter(pl.col("status").str.starts_with("not made"))
    assert 0 < lacking.height < report.height
    assert lacking["status"].str.len_chars().max() > 120
    for status in lacking["status"]:
        assert status in done.stdout
    assert max(map(len, done.stdout.splitlines()[:20])) < 250, "a table that can still be read"


def test_long_texts_follow_the_table_in_full_once_and_act_as_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "很长的一句话。" * 40 + "\x1b[31mred\nend"
    frame = pl.DataFrame({"a": ["short", long, long, None], "b": [1, 2, 3, 4], "c": [long] * 4})
    cli._show(frame, False)
    said = capsys.readouterr().out
    assert said.count("很长的一句话。" * 40) == 1
    assert said.splitlines()[-1].startswith("[1] 很长")
    assert said.splitlines()[-1].endswith("red end")
    assert said.count("… [1] |") == 6
    cli._show(frame, True)
    assert capsys.readouterr().out.count("很长的一句话。" * 40) == 6


@pytest.mark.parametrize(("code", "passes"), [(0, True), (3, True), (1, False), (130, False)])
def test_make_rebuild_goes_on_where_artifacts_were_left_out_and_only_there(
    code: int, passes: bool, tmp_path: Path
) -> None:
    for name, ends in (("ragbench", code), ("python", 0)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$0"\nexit {ends}\n', encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["make", "rebuild", f"BIN={tmp_path}", "-o", ".venv/ready", "-o", ".venv/ready-local"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert (f"{tmp_path}/python\n" in done.stdout) == passes


def test_a_pack_without_a_picture_that_was_asked_for_exits_with_3(
    unjudged: Path, tmp_path: Path
) -> None:
    run("judge", unjudged)
    environment = {**os.environ, "BROWSER_PATH": "/nowhere/chromium"}
    for ending, code in (("html", 0), ("svg", 3)):
        done = subprocess.run(
            [PROGRAM, "pack", unjudged, tmp_path / f"{ending}.zip", "--formats", ending],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert (tmp_path / f"{ending}.zip").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["import", "typo/s.duckdb", "STUDY/verdicts.csv"],
        ["import", "typo/s.duckdb", "STUDY/verdicts.csv", "--dry-run"],
        ["sample", "typo/s.duckdb"],
        ["pack", "STUDY", "typo/p.zip"],
        ["pack", "STUDY", "typo/p"],
        ["scores", "typo/s.duckdb"],
        ["judge", "typo/s.duckdb"],
        ["run", "typo/s.duckdb", "--model", "local/smollm2"],
    ],
)
def test_a_typo_in_a_folder_makes_no_folder_and_is_named(
    words: list[str], unjudged: Path, tmp_path: Path
) -> None:
    run("judge", unjudged)
    (tmp_path / "verdicts.csv").write_text(
        "query,model,criterion,judge,score\nq,m,rejection,j,1\n", encoding="utf-8"
    )
    typed = [
        word.replace("STUDY/", f"{tmp_path}/").replace("STUDY", str(unjudged)) for word in words
    ]
    done = run(*typed, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert str(tmp_path / "typo") in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "typo").exists()


def test_what_the_readmes_commands_leave_is_no_change_of_the_checkout() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    made = set(re.findall(r"(?<![\w/])(?:example|mine)\.\w+|(?<= )exported(?= )", readme))
    assert made >= {"example.duckdb", "example.zip", "exported", "mine.duckdb"}
    made |= {"figures/out/x.html", "example.zip.0123456789ab/README.md", "exported/rows.csv"}
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *(made - {"exported"})],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1:
        pytest.skip("not a git checkout")
    assert set(done.stdout.split()) == made - {"exported"}


def test_rebuild_leaves_alone_what_has_not_changed(unjudged: Path, tmp_path: Path) -> None:
    run("judge", unjudged)
    out = tmp_path / "out"
    first = run("rebuild", "gap,strict,dimensions", "--study", unjudged, "--out", out)
    assert first.returncode == 0, first.stdout + first.stderr
    pictures = sorted(out.rglob("*.html"))
    stamps = [picture.stat().st_mtime_ns for picture in pictures]
    assert len(pictures) == 3
    again = run("rebuild", "gap,strict,dimensions", "--study", unjudged, "--out", out)
    assert again.stdout.count("unchanged") == 3
    assert [picture.stat().st_mtime_ns for picture in pictures] == stamps


def test_no_key_of_the_environment_is_in_an_error_message(unjudged: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "scores", str(unjudged), "--by", "modle"],
        env={**os.environ, "OPENAI_API_KEY": "sk-secret-of-a-test"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sk-secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "sk-secret-of-a-test", "--base-url", "http://127.0.0.1:9/v1"),
        ("--model", "new", "--base-url", "sk-secret-of-a-test"),
        ("--model", "new", "--key-env", "sk-secret-of-a-test"),
        ("--model", "new", "--parameters", "user=sk-secret-of-a-test"),
        ("--model", "new", "--prices", "input=sk-secret-of-a-test,output=1"),
        ("--model", "new", "--budget", "cost=sk-secret-of-a-test"),
    ],
)
def test_a_key_that_is_given_where_it_does_not_belong_is_refused_and_not_repeated(
    unjudged: Path, words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [PROGRAM, "run", str(unjudged), *words],
        env={**os.environ, "OPENAI_API_KEY": "sk-secret-of-a-test"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "sk-secret" not in done.stdout + done.stderr


def test_what_python_calls_an_argument_is_an_option_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "study.duckdb"
    given = rows(1)
    key = {"response_id": "q-gap/m/given_context/0", "criterion": "rejection"}
    key["target_id"] = key["response_id"]
    judges = [{"judge": name, "kind": "llm", "model": name} for name in ("a", "b")]
    given["judgments"] = [{**key, "judge": judge["judge"], "score": 1} for judge in judges]
    rb.append(path, given | {"judges": judges})
    done = run("scores", path)
    assert "several panels fit" in done.stderr
    assert "--panel …" in done.stderr
    assert "--by 'panel'" in done.stderr
    assert "panel=" not in done.stderr


def test_what_an_import_lacks_is_said_as_an_option(tmp_path):
    (tmp_path / "odd.csv").write_text("mine,theirs\n1,2\n", encoding="utf-8")
    done = run("import", tmp_path / "s.duckdb", tmp_path / "odd.csv")
    assert done.returncode == 1
    assert "--map 'score=my column'" in done.stderr
    assert "map={" not in done.stderr


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One judged answer to each of four queries that differ in what a slice can name."""
    path = tmp_path_factory.mktemp("varied") / "study.duckdb"
    given = rows(1)
    given["models"] = [
        {"model": model, "is_open": is_open}
        for model, is_open in (("a|b", True), ("a", False), ("b\\", None))
    ]
    domains = ("Legal", "Medical", None, "Legal")
    augmented = (True, False, None, None)
    models = ("a|b", "a", "b\\", "a")
    given["queries"] = [
        {"query_id": f"q{i}", "domain": domain, "text": "?"} for i, domain in enumerate(domains)
    ]
    given["constraints"] = [
        {**given["constraints"][0], "constraint_id": f"q{i}.c1", "query_id": f"q{i}"}
        for i in range(4)
    ]
    given["instances"] = [
        {"instance_id": f"i{i}", "query_id": f"q{i}", "context_mode": "gap"}
        | {"is_augmented": flag}
        for i, flag in enumerate(augmented)
    ]
    given["instance_constraints"] = [
        {"instance_id": f"i{i}", "ordinal": 1, "constraint_id": f"q{i}.c1"} for i in range(4)
    ]
    given["responses"] = [
        {"instance_id": f"i{i}", "model": model, "trial": i % 2, "text": "好。"}
        for i, model in enumerate(models)
    ]
    rb.append(path, given)
    rb.judge(path)
    return path


@pytest.mark.parametrize(
    ("options", "queries"),
    [
        (["domain=Legal", "domain=Medical"], "q0 q1 q3"),
        (["domain=Legal|Medical"], "q0 q1 q3"),
        (["domain=Legal", "model=a"], "q3"),
        (["domain="], "q2"),
        (["domain=Medical|"], "q1 q2"),
        (["domain=Medical", "domain="], "q1 q2"),
        ([r"model=a\|b"], "q0"),
        (["model=a"], "q1 q3"),
        (["model=b\\"], "q2"),
        ([r"model=b\\|a\|b"], "q0 q2"),
        (["is_augmented=true"], "q0"),
        (["is_augmented=True|false"], "q0 q1"),
        (["is_augmented="], "q2 q3"),
        (["is_open=false"], "q1 q3"),
        (["trial=1"], "q1 q3"),
        (["trial=0", "trial=1"], "q0 q1 q2 q3"),
    ],
)
def test_where_names_every_value_and_adds_up(
    varied: Path, options: list[str], queries: str
) -> None:
    found = rb.scores(rb.connect(varied), "query_id", cli._where(options), metrics="loose_ias")
    assert found["query_id"].to_list() == queries.split()


def test_where_is_given_as_often_as_needed(varied: Path) -> None:
    words = ("--where", "domain=Legal", "--where", r"model=a\|b", "--where", "domain=Medical")
    done = run("scores", varied, "--by", "query_id", "--metrics", "loose_ias", "--csv", *words)
    assert pl.read_csv(done.stdout.encode())["query_id"].to_list() == ["q0"]


@pytest.mark.parametrize(
    "option",
    [
        *("is_augmented=yes", "is_open=1", "is_open=flase", "is_augmented=true|abc"),
        *("trial=abc", "trial=1.0", "trial=0|abc", "trial=-", "params_b=big", "has_protocol=x"),
        *("domain=none", "domain=legal", "variant= ", "model=nosuch"),
    ],
)
def test_where_refuses_a_word_that_its_column_cannot_have(varied: Path, option: str) -> None:
    con = rb.connect(varied)
    for ask in (rb.scores, checks.outstanding):
        with pytest.raises(rb.errors.RagbenchError, match=option.split("=")[0]):
            ask(con, where=cli._where([option]))


def test_where_is_read_alike_by_the_steps_that_make_rows(varied: Path) -> None:
    for words in (["run", varied, "--model", "m"], ["judge", varied], ["scores", varied]):
        done = run(*words, "--where", "is_augmented=nonsense")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "is_augmented is true or false" in done.stderr


def test_rows_without_a_value_are_named_as_the_message_and_the_help_say(varied: Path) -> None:
    done = run("scores", varied, "--where", "domain=none")
    assert done.stderr.rstrip().endswith("Rows without one: --where domain=.")
    assert "`column=` is no value" in " ".join(run("scores", "--help").stdout.split())


def test_a_panel_that_contradicts_where_is_refused(varied: Path) -> None:
    rb.append(varied, "judges", [{"judge": "ann", "kind": "human"}])
    done = run("scores", varied, "--where", "panel=ann", "--panel", "rules/1")
    assert done.returncode == 1
    assert "no verdict is by both" in done.stderr


def test_an_import_that_would_lose_verdicts_names_the_options_that_help(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("query,model,instruction,ok\nq,m,no lists,1\n", "utf-8")
    done = run("import", tmp_path / "s.duckdb", tmp_path / "v.csv")
    assert done.returncode == 1
    assert "--map 'score=ok'" in done.stderr
    assert "--kind constraints" in done.stderr
    done = run("import", tmp_path / "s.duckdb", tmp_path / "v.csv", "--kind", "constraints")
    assert done.returncode == 0, done.stderr


SLOW = """
import os, signal, threading
import duckdb
from ragbench import cli
def slow(**_):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    duckdb.sql("SELECT count(*) FROM range(3000000) AS a, range(3000) AS b").fetchall()
cli.app = slow
cli.main()
"""


def test_ctrl_c_within_a_statement_of_sql_stops_as_anywhere() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
    assert done.stderr == "stopped; what was finished is stored. Call again to go on.\n"
