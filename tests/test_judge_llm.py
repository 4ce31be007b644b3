"""Judging by models, against a server on loopback that answers like a judge.

Its verdicts follow from the texts (`judge_server`), so what must come out is known beforehand:
a response with GOOD or 好 keeps its constraints, another does not.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import judge_server
import polars as pl
import pytest

import ragbench as rb
from ragbench.checks import content_hash
from ragbench.errors import AmbiguousPanel, ModelUnavailable, RagbenchError, StoreError, UnknownName
from ragbench.judging.stability import flip_rates

KEY = "sk-fake-0123456789abcdef"
ANSWERS = {
    ("law-gap", "model-a"): "很好：资料没有说明生效日期。",
    ("law-gap", "model-b"): "资料没有说明，不过合同签字即生效。anyway",
    ("law-conflict", "model-a"): "好，两份资料说法不一。",
    ("law-conflict", "model-b"): "签字之日生效。",
    ("med-gap", "model-a"): "GOOD: the leaflet does not say.",
    ("med-gap", "model-b"): "Four tablets.",
}
LLM = [
    ("law.c2", "写给没有法律知识的读者。"),
    ("law.c3", "资料相互矛盾时请指出；不适用时不管。"),
    ("med.c2", "Write for patients."),
    ("med.c3", "OTHERWISE say so."),
]


def rows() -> dict[str, list[dict[str, Any]]]:
    modes = {"law-gap": "gap", "law-conflict": "conflict", "med-gap": "gap"}
    asked = {"law": "合同何时生效？", "med": "How many tablets may an adult take?"}
    length = {"unit": "characters", "at_most": 12}
    return {
        "queries": [
            {"query_id": q, "language": "zh" if q == "law" else "en", "text": text, "domain": q}
            for q, text in asked.items()
        ],
        "documents": [
            {
                "doc_id": "d1",
                "text": "合同自签字之日起生效。好。",
                "title": "合同",
                "source": "法规",
            },
            {"doc_id": "d2", "text": "Keep the box dry."},
        ],
        "constraints": [
            {"constraint_id": "law.c1", "query_id": "law", "dimension": "content", "rule": "length"}
            | {"text": "不超过12字。", "params": length},
            *(
                {"constraint_id": c, "query_id": c[:3], "dimension": "audience", "text": text}
                for c, text in LLM
            ),
        ],
        "instances": [
            {"instance_id": i, "query_id": i[:3], "context_mode": mode} for i, mode in modes.items()
        ],
        "instance_constraints": [
            {"instance_id": i, "ordinal": n, "constraint_id": f"{i[:3]}.c{n}"}
            for i in modes
            for n in ((1, 2, 3) if i.startswith("law") else (2, 3))
        ],
        "contexts": [
            {"instance_id": i, "rank": 1, "doc_id": "d1" if i.startswith("law") else "d2"}
            for i in modes
        ],
        "responses": [
            {"instance_id": i, "model": m, "text": text} for (i, m), text in ANSWERS.items()
        ],
    }


@pytest.fixture(scope="module")
def server() -> Iterator[judge_server.Server]:
    with judge_server.serve() as running:
        yield running


@pytest.fixture(scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unjudged") / "study.duckdb"
    rb.append(path, rows())
    return path


@pytest.fixture
def path(_built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(_built, tmp_path / "study.duckdb"))


def judged(path: Path, model: str, server: judge_server.Server, **given: Any) -> pl.DataFrame:
    return rb.judge(path, model, base_url=server.base_url, **given)


def verdicts(path: Path, like: str) -> pl.DataFrame:
    return (
        rb.connect(path)
        .sql(
            "SELECT j.*, e.reason, e.raw, e.parse_path FROM judgments AS j LEFT JOIN evidence AS e "
            "USING (response_id, criterion, target_id, judge, repeat) "
            "WHERE judge LIKE ? ORDER BY response_id, criterion, target_id, repeat",
            params=[like],
        )
        .pl()
    )


def test_a_model_judges_what_no_rule_checks_and_the_reasons_are_kept(
    path: Path, server: judge_server.Server
) -> None:
    report = judged(path, "honest", server)
    assert report.select("criterion", "rule", "judged", "met", "errors", "left").rows() == [
        ("adherence", None, 12, 9, 0, 0),
        ("adherence", "length", 4, 3, 0, 0),
        ("conflict", None, 2, 1, 0, 0),
        ("rejection", None, 4, 2, 0, 0),
    ]
    found = verdicts(path, "honest@%")
    for row in found.iter_rows(named=True):
        instance, model, *_ = row["response_id"].split("/")
        is_good = any(word in ANSWERS[instance, model] for word in judge_server.GOOD)
        is_conditional = row["target_id"].endswith("c3")
        if row["criterion"] == "disclaimer":
            assert row["score"] == ("anyway" in ANSWERS[instance, model])
            continue
        assert row["score"] == (is_good or (is_conditional and row["criterion"] == "adherence"))
        if row["criterion"] == "adherence":
            assert row["is_triggered"] is not is_conditional
        assert row["parse_path"] == "strict"
        assert row["raw"].startswith('{"code": "c')
        assert row["reason"]
    assert found.height == 12 + 2 + 4 + 4
    con = rb.connect(path)
    assert rb.check(con).is_empty()
    assert con.sql("SELECT kind FROM judges WHERE judge LIKE 'honest@%'").fetchall() == [("llm",)]
    scores = rb.scores(con, by=(), metrics=["rejection", "disclaimer", "conflict"]).row(
        0, named=True
    )
    assert (scores["rejection"], scores["disclaimer"], scores["conflict"]) == (0.5, 0.25, 0.5)
    assert scores["panel"].endswith(" + rules/1")
    assert rb.scores(con, by=(), panel="honest")["panel"].to_list() == [scores["panel"]]
    assert scores["rejection_n"] == 4

    asked, before = server.count("honest"), path.stat().st_mtime_ns
    assert judged(path, "honest", server).is_empty()
    assert server.count("honest") == asked
    assert path.stat().st_mtime_ns == before


def test_prompts_follow_the_language_of_the_query_and_fence_what_others_wrote(
    path: Path, server: judge_server.Server
) -> None:
    judged(path, "plain", server, where={"model": "model-a"}, criteria=["adherence"])
    seen = [entry["messages"] for entry in server.log() if entry["model"] == "plain"]
    assert len(seen) == 6
    chinese = [m for m in seen if m[0]["content"].startswith("你负责")]
    assert len(chinese) == 4
    for system, user in seen:
        response = judge_server.fenced(user["content"], "RESPONSE")
        assert response in ANSWERS.values()
        assert judge_server.fenced(user["content"], "DOCUMENT 1")
        assert response not in system["content"]
    # What comes first is the same for all requirements on one response: endpoints remember it.
    assert len({user["content"].split("<<<REQUIREMENT")[0] for _, user in seen}) == 3
    assert len({system["content"] for system, _ in seen}) == 2
    assert "title: 合同" in chinese[0][1]["content"]


@pytest.mark.parametrize(
    ("model", "path_read", "error", "calls"),
    [
        ("fence", "fence", None, 1),
        ("prose", "object", None, 1),
        ("python", "repair", None, 1),
        ("plain", "strict", None, 1),
        ("first-broken", "strict", None, 2),
        ("busy/honest", "strict", None, 1),
        ("down/honest", "strict", None, 1),
        ("truncated", None, "truncated", 1),
        ("menu", None, "unparsed", 3),
        ("broken", None, "unparsed", 3),
        ("empty", None, "empty", 1),
        ("refused", None, "filtered", 1),
    ],
)
def test_every_kind_of_reply_becomes_a_verdict_or_an_error_that_says_why(
    path: Path,
    server: judge_server.Server,
    model: str,
    path_read: str | None,
    error: str | None,
    calls: int,
) -> None:
    before = server.count(model)
    report = judged(path, model, server, criteria=["rejection"])
    found = verdicts(path, f"{model}@%").filter(criterion="rejection")
    assert found["parse_path"].to_list() == [path_read] * 4
    assert server.count(model) - before == 4 * calls
    # What the calls took is told once, with all tries, also where one call gave two verdicts.
    sent = [entry["messages"] for entry in server.log() if entry["model"] == model][-4 * calls :]
    used = rb.connect(path).sql("SELECT sum(input_tokens), list(DISTINCT endpoint) FROM evidence")
    tokens, endpoints = used.fetchall()[0]
    assert tokens == sum(len(str(messages)) // 4 for messages in sent)
    assert all(f"{model}-0001" in endpoint for endpoint in endpoints if endpoint)
    if error is None:
        assert found["score"].to_list() == [1, 0, 1, 0]
        assert report["repaired"].to_list() == [4 if path_read == "repair" else 0]
        return
    assert report.select("judged", "errors").rows() == [(0, 4)]
    assert found["score"].null_count() == 4
    assert all(error in text for text in found["error"])
    scores = rb.scores(rb.connect(path), by=(), panel=found["judge"][0], metrics=["rejection"])
    row = scores.row(0, named=True)
    assert row["rejection"] is None
    assert (row["rejection_n"], row["rejection_planned"]) == (0, 4)
    assert (row["rejection_lowest"], row["rejection_highest"]) == (0, 1)
    if model in ("menu", "broken", "refused"):
        assert found["raw"].null_count() == 0


def test_errors_are_asked_again_when_told_and_only_they(
    path: Path, server: judge_server.Server
) -> None:
    judged(path, "sick", server, criteria=["rejection"], where={"model": "model-a"})
    assert verdicts(path, "sick@%")["error"].null_count() == 0
    server.heal()
    asked = server.count("sick")
    report = judged(path, "sick", server, criteria=["rejection"])
    assert report["judged"].to_list() == [2]  # those of the other model
    assert server.count("sick") - asked == 2
    report = judged(path, "sick", server, criteria=["rejection"], retry_errors=True)
    assert report["judged"].to_list() == [2]
    assert server.count("sick") - asked == 4
    found = verdicts(path, "sick@%")
    assert found["error"].null_count() == found.height == 8
    assert all(raw.startswith("{") for raw in found["raw"])


def test_repeats_are_asked_one_by_one_and_give_flip_rates(
    path: Path, server: judge_server.Server
) -> None:
    given = {"criteria": ["adherence"], "repeats": 3, "where": {"model": "model-a"}}
    given |= {"concurrency": 1}
    judged(path, "moody", server, **given)
    asked = server.count("moody")
    assert asked == 18
    assert judged(path, "moody", server, **given).is_empty()
    assert server.count("moody") == asked
    found = verdicts(path, "moody@%")
    groups = found.group_by("response_id", "target_id").agg("score", "repeat")
    assert all(sorted(repeats) == [0, 1, 2] for repeats in groups["repeat"])
    readable = [[s for s in scores if s is not None] for scores in groups["score"]]
    flipped = sum(len(set(scores)) > 1 for scores in readable)
    pairs = [(a, b) for s in readable for i, a in enumerate(s) for b in s[i + 1 :]]
    row = flip_rates(rb.connect(path)).row(0, named=True)
    assert flipped > 0
    assert row["n"] == sum(len(scores) > 1 for scores in readable)
    assert row["flipped"] == flipped
    assert row["flip_rate"] == pytest.approx(flipped / row["n"])
    assert row["pair_disagreement"] == pytest.approx(sum(a != b for a, b in pairs) / len(pairs))
    by = flip_rates(rb.connect(path), by=["dimension", "domain"])
    assert by.select("dimension", "domain").rows() == [("audience", "law"), ("audience", "med")]
    assert by["n"].sum() == row["n"]


def test_another_parameter_or_address_is_another_judge(
    path: Path, server: judge_server.Server
) -> None:
    given = {"criteria": ["conflict"]}
    judged(path, "honest", server, **given)
    judged(path, "honest", server, **given, parameters={"temperature": 0.7})
    rb.judge(path, "honest", base_url=server.base_url.replace("127.0.0.1", "localhost"), **given)
    names = verdicts(path, "honest@%")["judge"].unique()
    assert len(names) == 3
    assert verdicts(path, "honest@%").height == 6
    with pytest.raises(AmbiguousPanel, match="honest@"):
        rb.scores(rb.connect(path), panel="honest")
    found = rb.agreement(rb.connect(path), "conflict")
    assert found["agreement"].to_list() == [1.0, 1.0, 1.0]
    sent = [e["parameters"] for e in server.log() if e["model"] == "honest"]
    assert {"temperature": 0.7} in sent
    assert {"temperature": 0} in sent


OWN = """---
description: how polite the response is
scale: 1 5
---
How polite is this? $response
Reply {"code": "$code", "reason": "…", "score": 1 to 5}
"""


def test_a_criterion_of_your_own_stands_beside_the_others(
    path: Path, server: judge_server.Server, tmp_path: Path
) -> None:
    prompt = tmp_path / "politeness.md"
    prompt.write_text(OWN, encoding="utf-8")
    judged(path, "honest", server)
    report = judged(path, "honest", server, prompt=prompt)
    assert report.select("criterion", "judged", "met").rows() == [("politeness", 6, 3)]
    con = rb.connect(path)
    row = rb.scores(con, by=(), metrics=["politeness", "strict_ias"]).row(0, named=True)
    assert row["politeness"] == 3.5  # three times 5, three times 2
    assert row["politeness_n"] == 6
    assert row["strict_ias_n"] == 6
    assert "criterion" in con.sql("SELECT criterion FROM criteria").columns
    judged(path, "prose", server, prompt=prompt)
    assert rb.agreement(con, "politeness")["n"].to_list() == [6]
    assert judged(path, "honest", server, prompt=prompt).is_empty()
    # Edited, it is another judge, and the first one's verdicts stay.
    prompt.write_text(OWN.replace("How polite", "How very polite"), encoding="utf-8")
    assert judged(path, "honest", server, prompt=prompt)["judged"].to_list() == [6]
    names = verdicts(path, "honest@%").filter(criterion="politeness")["judge"].unique()
    assert len(names) == 2
    with pytest.raises(RagbenchError, match="prompt="):
        judged(path, "honest", server, criteria=["politeness"])
    prompt.write_text(OWN.replace("1 5", "1 7"), encoding="utf-8")
    with pytest.raises(RagbenchError, match="from 1 to 5"):
        judged(path, "honest", server, prompt=prompt)
    rb.refresh(con)
    runs = con.sql("SELECT config FROM runs WHERE step = 'judge'").fetchall()
    assert any("How very polite is this?" in (config or "") for (config,) in runs)


def test_a_prompt_of_the_package_may_be_put_another_way(
    path: Path, server: judge_server.Server, tmp_path: Path
) -> None:
    import ragbench.prompts

    text = (Path(ragbench.prompts.__file__).parent / "conflict.en.md").read_text(encoding="utf-8")
    mine = tmp_path / "conflict.md"
    mine.write_text(text.replace("contradict each other", "disagree"), encoding="utf-8")
    judged(path, "honest", server, criteria=["conflict"])
    judged(path, "honest", server, prompt=mine)
    assert verdicts(path, "honest@%")["judge"].n_unique() == 2
    assert rb.check(rb.connect(path)).is_empty()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("---\nscale: 5 1\n---\nRate $response", "scale '5 1'"),
        ("---\ntarget: claim\n---\nRate $response", "target 'claim'"),
        ("Rate $answer", "no blank 'answer'"),
        ("It costs $5. $response", "$$"),
        ("---\nscale\n---\nRate $response", "field: value"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_before_anything_is_asked(
    path: Path, server: judge_server.Server, tmp_path: Path, text: str, says: str
) -> None:
    prompt = tmp_path / "mine.md"
    prompt.write_text(text, encoding="utf-8")
    asked = len(server.log())
    with pytest.raises(RagbenchError) as caught:
        judged(path, "honest", server, prompt=prompt)
    assert says in str(caught.value)
    assert len(server.log()) == asked
    assert rb.connect(path).sql("SELECT * FROM judges").fetchall() == []


def test_what_cannot_be_asked_is_refused_with_the_near_miss(
    path: Path, server: judge_server.Server, tmp_path: Path
) -> None:
    with pytest.raises(UnknownName, match="rejection"):
        judged(path, "honest", server, criteria=["rejections"])
    with pytest.raises(RagbenchError, match="key_env"):
        judged(path, "honest", server, parameters={"api_key": KEY})
    with pytest.raises(RagbenchError, match="rules/1"):
        rb.judge(path, "rules/9")
    with pytest.raises(StoreError, match="no study"):
        judged(tmp_path / "none.duckdb", "honest", server)


def test_texts_that_are_not_there_are_errors_and_nobody_is_asked(
    path: Path, server: judge_server.Server
) -> None:
    only = {"instance_id": "med-gap", "model": "imported", "text": None}
    rb.append(path, {"responses": [only]})
    asked = server.count("honest")
    report = judged(path, "honest", server, where={"model": "imported"})
    assert report["errors"].to_list() == [2, 1]
    assert server.count("honest") == asked
    assert set(verdicts(path, "honest@%")["error"]) == {"no text to judge"}


WORKER = """
import sys, ragbench as rb
rb.judge(sys.argv[1], "honest", base_url=sys.argv[2], concurrency=2, repeats=2,
         criteria=["adherence", "rejection", "conflict", "faithfulness", "coverage"])
"""


def test_a_run_killed_again_and_again_ends_with_what_an_undisturbed_one_has(
    path: Path, tmp_path: Path
) -> None:
    calm = Path(shutil.copy(path, tmp_path / "calm.duckdb"))
    criteria = ["adherence", "rejection", "conflict", "faithfulness", "coverage"]
    with judge_server.serve(latency=0.05) as slow:
        judged(calm, "honest", slow, repeats=2, criteria=criteria)
        needed = slow.count("honest")
        killed = 0
        for _ in range(3):
            start = len(slow.log())
            worker = subprocess.Popen([sys.executable, "-c", WORKER, path, slow.base_url])
            while worker.poll() is None and len(slow.log()) < start + needed // 5:
                time.sleep(0.02)
            killed += worker.poll() is None
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        judged(path, "honest", slow, repeats=2, criteria=criteria)
        # Only what was in flight when the process died is asked twice: two calls a kill.
        assert needed <= slow.count("honest") - needed <= needed + 2 * killed
        assert killed > 0
    assert content_hash(rb.connect(path)) == content_hash(rb.connect(calm))
    assert rb.check(rb.connect(path)).is_empty()


def test_a_key_is_sent_and_found_nowhere_afterwards(
    path: Path, server: judge_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_FAKE_KEY", KEY)
    judged(path, "fence", server, criteria=["conflict"], key_env="MY_FAKE_KEY")
    assert any(entry["key"] == f"Bearer {KEY}" for entry in server.log())
    program = Path(sys.executable).with_name("ragbench")
    options = ["--base-url", server.base_url, "--key-env", "MY_FAKE_KEY", "--criteria", "conflict"]
    done = subprocess.run(
        [program, "judge", path, "--judge-model", "locked/honest", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MY_FAKE_KEY": KEY},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("ModelUnavailable: ")
    assert KEY not in done.stdout + done.stderr
    with pytest.raises(ModelUnavailable) as caught:
        judged(path, "locked/honest", server, criteria=["conflict"], key_env="MY_FAKE_KEY")
    assert KEY not in str(caught.value)
    for file in path.parent.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


def test_the_command_says_what_was_judged_and_what_is_left(
    path: Path, server: judge_server.Server
) -> None:
    program = Path(sys.executable).with_name("ragbench")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [program, "judge", path, "--base-url", server.base_url, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("--judge-model", "honest", "--criteria", "rejection,conflict")
    assert done.returncode == 0, done.stderr
    assert "rejection" in done.stdout
    assert "conflict" in done.stdout
    assert "\r" not in done.stdout + done.stderr
    assert run("--judge", "menu", "--criteria", "conflict").returncode == 3
    budget = run("--judge", "plain", "--criteria", "rejection", "--budget", "tokens=1")
    assert budget.returncode == 3
    assert "the budget of 1 tokens is used up" in budget.stdout
    assert len(verdicts(path, "plain@%").filter(criterion="rejection")) < 4


def test_a_real_model_on_this_machine_goes_the_same_way(path: Path) -> None:
    bit = {"type": "integer", "enum": [0, 1]}
    fields = {"reason": {"const": "-"}, "conflict_recog": bit}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    given = {
        "max_tokens": 40,
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
    }
    one = {"instance_id": "law-conflict", "model": "model-b"}
    report = rb.judge(path, "local/smollm2", criteria=["conflict"], where=one, parameters=given)
    assert report.select("judged", "errors", "left").rows() == [(1, 0, 0)]
    (row,) = verdicts(path, "local/smollm2@%").to_dicts()
    assert row["score"] in (0, 1)  # which of them says nothing: it is no judge
    assert row["parse_path"] == "strict"
    (params,) = (
        rb.connect(path).sql("SELECT params FROM judges WHERE model = 'local/smollm2'").fetchall()
    )
    assert '"max_tokens":40' in params[0].replace(" ", "")


# ---------------------------------------------------------------- what cannot be


ASKS = 'Answer {"code": "$code", "score": "Yes or No"}'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tone.md", f"$query {ASKS}", r"no \$response"),
        ("tone.zh.md", f"$query {ASKS}", r"\(zh\) has no \$response"),
        ("adherence.md", '$response {"satisfied": "Yes"}', r"no \$constraint"),
        ("faithfulness.md", '$documents {"1": "Yes"}', r"no \$claims"),
        ("tone.md", "---\nverdict: grade\n---\n$response " + ASKS, "asks for no 'grade'"),
        ("tone.md", "---\ncriterion:\n---\n$response " + ASKS, "without a value"),
        ("tone.md", "---\nscale: 1 inf\n---\n$response " + ASKS, "not two numbers"),
        ("tone.md", "礼貌吗？$response".encode("gbk"), "save it in that encoding"),
    ],
)
def test_a_prompt_that_would_have_the_judge_guess_is_refused(
    path: Path,
    server: judge_server.Server,
    tmp_path: Path,
    name: str,
    content: str | bytes,
    said: str,
) -> None:
    file = tmp_path / name
    if name.endswith(".zh.md"):  # only one of the two languages is wrong
        (tmp_path / "tone.en.md").write_text(f"$response {ASKS}", encoding="utf-8")
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RagbenchError, match=said):
        judged(path, "never", server, prompt=file)
    assert not server.count("never")
    assert "tone" not in [r[0] for r in rb.connect(path).sql("FROM criteria").fetchall()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"criteria": []},
        {"repeats": 0},
        {"parameters": {"model": "always"}},
        {"parameters": {"extra": [{"Authorization": KEY}]}},
        {"judge": ""},
        {"judge": None},
    ],
    ids=str,
)
def test_arguments_that_cannot_be_are_refused(
    path: Path, server: judge_server.Server, wrong: dict[str, Any]
) -> None:
    with pytest.raises(RagbenchError) as refused:
        rb.judge(path, **{"judge": "never", "base_url": server.base_url, **wrong})
    assert KEY not in str(refused.value)
    assert not server.count("never")
    assert KEY.encode() not in path.read_bytes()


def test_one_criterion_may_be_named_without_a_list(path: Path, server: judge_server.Server) -> None:
    assert judged(path, "plain", server, criteria="conflict")["judged"].to_list() == [2]


def test_a_judge_that_never_judged_is_no_panel(path: Path, server: judge_server.Server) -> None:
    judged(path, "honest", server)
    with pytest.raises(ModelUnavailable):
        judged(path, "locked/honest", server)
    con = rb.connect(path)
    assert con.sql("SELECT * FROM judges WHERE judge LIKE 'locked%'").fetchall() == []
    assert rb.scores(con, by=(), metrics=["strict_ias"]).height == 1  # one panel, so no question


def test_marks_that_stand_in_one_another_are_all_broken() -> None:
    from ragbench.judging.questions import inert

    assert inert("<<SYS>>[[INST]</s>") == "<\u200b<SYS>>[[\u200bINST]<\u200b/s>"
    assert inert("<[INST]|") == "<[\u200bINST]|"  # no mark begins with what stands before it


def test_only_a_judge_that_gave_scores_becomes_the_default_and_that_is_said(
    path: Path, server: judge_server.Server
) -> None:
    rb.judge(path)

    def default() -> str:
        return rb.scores(rb.connect(path), by=())["panel"].item()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = judged(path, "menu", server, criteria=["rejection"])
        assert report["judged"].to_list() == [0]
        assert verdicts(path, "menu@%")["error"][0][:20] in report["error"].item()
        assert default() == "rules/1"
    with pytest.warns(UserWarning, match=r"scores came from 'rules/1' and come from .*honest@"):
        report = judged(path, "honest", server, criteria=["rejection"])
    assert report["error"].to_list() == [None]
    assert default().startswith("honest@")
    with pytest.warns(UserWarning, match=r"are refused now, since several panels fit .honest@"):
        judged(path, "plain", server, criteria=["rejection"])
    with pytest.raises(AmbiguousPanel):
        default()
    with warnings.catch_warnings():  # there are no numbers any more that could become others
        warnings.simplefilter("error")
        judged(path, "plain", server, criteria=["rejection"], parameters={"seed": 1})
    rb.append(path, "study", {"primary_panel": "rules/1"})
    assert default() == "rules/1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judged(path, "plain", server, criteria=["conflict"])


def test_the_report_says_why_work_ended_early_and_only_where_something_is_left(
    path: Path, server: judge_server.Server
) -> None:
    report = judged(path, "plain", server, budget={"tokens": 1})
    why = "the budget of 1 tokens is used up"
    left = report.filter(pl.col("left") > 0)
    assert left["stopped"].unique().to_list() == [why]
    assert report.filter(pl.col("left") == 0)["stopped"].drop_nulls().is_empty()
    claims = judged(path, "plain", server, criteria=["faithfulness"], budget={"tokens": 1})
    assert claims.filter(criterion="response_claims")["stopped"].to_list() == [why]
    rest = judged(path, "plain", server)
    assert rest["judged"].sum() == left["left"].sum()
    assert rest["stopped"].drop_nulls().is_empty()
