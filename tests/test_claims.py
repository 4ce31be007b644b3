"""Claims taken out of documents and responses, and judged: coverage and faithfulness.

The judge (`judge_server`) makes a claim of every sentence and finds true what holds GOOD or 好.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import judge_server
import polars as pl
import pytest

import ragbench as rb
from ragbench.checks import outstanding
from ragbench.judging.claims import read_claims, unclaimed

BOTH = ("core", "supplementary")


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("[core] A fee is due.\n[supplementary] It is 5 euros.", ["core", "supplementary"]),
        ("- [Core] A fee is due.\n2. [SUPPLEMENTARY]: It is 5 euros.", ["core", "supplementary"]),
        ("**[core]** A fee is due.", ["core"]),
        ("[核心] 需要缴费。\n【补充】费用为5欧元。", ["core", "supplementary"]),
        ("Here are the claims:\n\n[core] A fee is due.", ["core"]),
        ("```\n[core] A fee is due.\n```", ["core"]),
        ("[core] A fee is due.\n[core] A fee is due.", ["core"]),
        ("None", []),
        (" none. ", []),
        ("无", []),
        ("", None),
        ("[core]", None),
        ("[core] None", None),
        ("[claim] A fee is due.", None),
        ("[other] A fee is due.", None),
        ("A fee is due.", None),
        ("[core] A fee is due,\nbut only on Sundays.", None),
        ("None of the documents help.", None),
        ("[core] A fee is due.\nI hope this helps.", None),
        ('{"core": ["A fee is due."]}', None),
    ],
)
def test_tagged_lines_are_claims_and_anything_else_is_an_error(
    reply: str, found: list[str] | None
) -> None:
    claims, error = read_claims(reply, BOTH)
    assert (claims is None) == (found is None) == (error is not None)
    if claims is not None:
        assert [kind for kind, _ in claims] == found
        assert all(text in reply for _, text in claims)


def test_a_claim_may_begin_with_anything() -> None:
    claims, _ = read_claims("[claim] - 5 °C is [core] cold. ```x```", ("response",))
    assert claims == [("response", "- 5 °C is [core] cold. ```x```")]


DOCUMENTS = {
    "d1": "好的年假为10天。病假另计。好的申请要提前。",
    "d2": "GOOD fees are 5 euros. Keep it dry.",
}
ANSWERS = {
    "zh-noise": "年假好。病假不好说。其他不明。",
    "en-noise": "GOOD: five euros. It may rain.",
    "zh-gap": "好，资料没有说明。",
}


@pytest.fixture(scope="module")
def server() -> Iterator[judge_server.Server]:
    with judge_server.serve() as running:
        yield running


@pytest.fixture(scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("claims") / "study.duckdb"
    rb.append(
        path,
        {
            "queries": [{"query_id": q, "language": q, "text": "?"} for q in ("zh", "en")],
            "documents": [{"doc_id": d, "text": text} for d, text in DOCUMENTS.items()],
            "instances": [
                {"instance_id": i, "query_id": i[:2], "context_mode": i[3:]} for i in ANSWERS
            ],
            "contexts": [
                {"instance_id": i, "rank": 1, "doc_id": "d1" if i[:2] == "zh" else "d2"}
                for i in ANSWERS
            ],
            "responses": [
                {"instance_id": i, "model": "m", "text": text} for i, text in ANSWERS.items()
            ],
        },
    )
    return path


@pytest.fixture
def path(_built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(_built, tmp_path / "study.duckdb"))


def judged(path: Path, model: str, server: judge_server.Server, **given: Any) -> Any:
    criteria = given.pop("criteria", ["faithfulness", "coverage"])
    return rb.judge(path, model, base_url=server.base_url, criteria=criteria, **given)


def values(path: Path, *metrics: str) -> dict[str, Any]:
    frame = rb.scores(rb.connect(path), by="instance_id", metrics=metrics)
    return {row["instance_id"]: row for row in frame.to_dicts()}


def test_claims_are_extracted_once_and_judged_in_one_request_per_response(
    path: Path, server: judge_server.Server
) -> None:
    report = judged(path, "honest", server)
    assert report.select("criterion", "judged", "met", "errors").rows() == [
        ("context_claims", 2, 2, 0),  # no claims are taken from the documents of a gap
        ("coverage", 5, 3, 0),
        ("faithfulness", 6, 4, 0),
        ("response_claims", 3, 3, 0),
    ]
    assert server.count("honest") == 2 + 3 + 2 + 3
    found = values(path, "faithfulness", "coverage")
    # 好 in 2 of 3 sentences; of the documents the core claim and 1 of 2 supplementary ones
    assert found["zh-noise"]["faithfulness"] == pytest.approx(2 / 3)
    assert found["zh-noise"]["coverage"] == pytest.approx(0.7 * 1 + 0.3 * 1 / 2)
    assert found["en-noise"]["faithfulness"] == pytest.approx(1 / 2)
    assert found["en-noise"]["coverage"] == pytest.approx(0.7)
    assert found["zh-gap"]["faithfulness"] == 1
    assert found["zh-gap"]["coverage"] is None
    assert found["zh-gap"]["coverage_planned"] == 0
    con = rb.connect(path)
    kinds = con.sql("SELECT kind, count(*) FROM claims GROUP BY ALL ORDER BY ALL").fetchall()
    assert kinds == [("core", 2), ("supplementary", 3), ("response", 6)]
    assert rb.check(con).is_empty()
    asked = server.count("honest")
    assert judged(path, "honest", server).is_empty()
    assert judged(path, "honest", server, repeats=2)["judged"].to_list() == [5, 6]
    assert server.count("honest") == asked + 5  # no claim is extracted again


def test_a_response_that_makes_no_claim_has_no_faithfulness_and_is_not_asked_about_again(
    path: Path, server: judge_server.Server
) -> None:
    rb.append(path, {"responses": [{"instance_id": "en-noise", "model": "quiet", "text": "..."}]})
    report = judged(path, "silent", server, criteria=["faithfulness"])
    assert report.select("criterion", "judged", "met").rows() == [("response_claims", 4, 0)]
    asked = server.count("silent")
    assert asked == 4
    assert judged(path, "silent", server, criteria=["faithfulness"]).is_empty()
    assert server.count("silent") == asked
    con = rb.connect(path)
    assert con.sql("SELECT DISTINCT text FROM claims").fetchall() == [("",)]
    assert rb.scores(con, by=())["faithfulness"].to_list() == [None]
    assert rb.check(con).is_empty()


def test_claims_without_a_verdict_are_errors_that_keep_the_denominator(
    path: Path, server: judge_server.Server
) -> None:
    report = judged(path, "forgetful", server, where={"instance_id": "zh-noise"})
    rows = {row["criterion"]: row for row in report.to_dicts()}
    assert (rows["faithfulness"]["judged"], rows["faithfulness"]["errors"]) == (2, 1)
    row = values(path, "faithfulness")["zh-noise"]
    assert row["faithfulness"] is None
    assert row["faithfulness_lowest"] == pytest.approx(2 / 3)
    assert row["faithfulness_highest"] == pytest.approx(3 / 3)
    errors = rb.connect(path).sql("SELECT error FROM judgments WHERE error IS NOT NULL").fetchall()
    assert {text for (text,) in errors} == {"unparsed: claim 3: no value"}


def test_a_list_of_claims_that_was_cut_off_is_not_taken_for_all_of_them(
    path: Path, server: judge_server.Server
) -> None:
    report = judged(path, "truncated", server, criteria=["coverage"])
    assert report.select("criterion", "judged", "errors").rows() == [
        ("context_claims", 0, 2),
        ("coverage", 0, 2),
    ]
    assert rb.connect(path).sql("SELECT DISTINCT text FROM claims").fetchall() == [(None,)]
    asked = server.count("truncated")
    assert judged(path, "truncated", server, criteria=["coverage"]).is_empty()
    assert server.count("truncated") == asked


def test_where_no_claims_can_be_taken_out_it_is_an_error_until_it_works(path: Path) -> None:
    undisturbed = Path(shutil.copy(path, path.with_name("undisturbed.duckdb")))
    with judge_server.serve() as server:
        judged(path, "sick", server)
        con = rb.connect(path)
        totals = rb.scores(con, by=(), metrics=("faithfulness", "coverage")).row(0, named=True)
        for metric, count in (("faithfulness", 3), ("coverage", 2)):
            assert totals[metric] is None
            assert totals[f"{metric}_planned"] == count
            assert (totals[f"{metric}_lowest"], totals[f"{metric}_highest"]) == (0, 1)
        kept = "SELECT raw, input_tokens > 0 FROM judgments JOIN evidence "
        kept += "USING (response_id, criterion, target_id, judge, repeat) "
        kept += "WHERE error LIKE 'unparsed%' AND criterion = 'faithfulness'"
        assert con.sql(kept).fetchall() == [("Mostly fine.", True)] * 3
        assert rb.check(con).is_empty()
        asked = server.count("sick")
        assert judged(path, "sick", server).is_empty()
        assert server.count("sick") == asked
        server.heal()
        judged(path, "sick", server, retry_errors=True)
        assert judged(path, "sick", server, retry_errors=True).is_empty()
        judged(undisturbed, "sick", server)
    assert rb.check(rb.connect(path)).is_empty()
    metrics = ("faithfulness", "coverage")
    assert values(path, *metrics) == values(undisturbed, *metrics)


def test_claims_that_all_judges_share_are_not_extracted_again(
    path: Path, server: judge_server.Server
) -> None:
    shared = {"claim_id": "k", "instance_id": "en-noise", "kind": "core", "text": "GOOD fees."}
    rb.append(path, {"claims": [shared]})
    report = judged(path, "prose", server, criteria=["coverage"], where={"language": "en"})
    assert report.select("criterion", "judged", "met").rows() == [("coverage", 1, 1)]
    assert values(path, "coverage")["en-noise"]["coverage"] == 1


def test_a_response_of_spaces_alone_is_not_asked_about(
    tmp_path: Path, server: judge_server.Server
) -> None:
    path = tmp_path / "study.duckdb"
    spaces = {"none": "", "some": " \n\t", "wide": "\u3000\u00a0", "text": "\u3000GOOD."}
    rows: dict[str, Any] = {
        "queries": [{"query_id": "q", "text": "?"}],
        "instances": [
            {"instance_id": name, "query_id": "q", "context_mode": "open"} for name in spaces
        ],
        "responses": [
            {"instance_id": name, "model": "m", "text": text} for name, text in spaces.items()
        ],
    }
    rb.append(path, rows)
    con = rb.connect(path)
    assert [row["instance_id"] for row in unclaimed(con, "faithfulness", "judge")] == ["text"]
    found = judged(path, "honest", server, criteria=["faithfulness"])
    assert found.filter(criterion="response_claims").row(0, named=True)["judged"] == 1


def test_what_claims_are_still_to_be_taken_out_of_is_outstanding(
    path: Path, server: judge_server.Server
) -> None:
    def left(**where: Any) -> dict[str, int]:
        found = outstanding(rb.connect(path), where or None).filter(step="judge")
        return dict(found.filter(pl.col("pending") > 0).select("criterion", "pending").rows())

    assert not set(left()) & {"coverage", "context_claims", "response_claims"}  # nobody judges
    judged(path, "honest", server, where={"language": "zh"})
    before = left()
    assert before["context_claims"] == before["response_claims"] == 1  # those of en-noise
    assert "coverage" not in before  # what is extracted is judged
    assert "context_claims" not in left(language="zh")
    [(judge,)] = rb.connect(path).execute("SELECT judge FROM judges").fetchall()
    claim = {"claim_id": "c", "instance_id": "en-noise", "kind": "core", "text": "GOOD."}
    rb.append(path, "claims", [{**claim, "extractor": judge}])  # stopped before it was judged
    assert left()["coverage"] == 1
    assert "context_claims" not in left()
    judged(path, "honest", server)
    assert not set(left()) & {"coverage", "faithfulness", "context_claims", "response_claims"}
