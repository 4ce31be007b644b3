"""The way in for the logs of other frameworks, on files that those frameworks wrote."""

import copy
import io
import json
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from test_importers import content, notes, problems, rows

import ragbench as rb
from ragbench.checks import check
from ragbench.errors import ImportFailed
from ragbench.importers import inspect_ai, load

LOGS = Path(__file__).parent.parent / "data" / "examples" / "logs"
SAMPLES = next((LOGS / "lm_eval").glob("samples_*.jsonl"))


@pytest.fixture
def study(tmp_path):
    return tmp_path / "study.duckdb"


@pytest.fixture
def log():
    return json.loads((LOGS / "inspect_capitals.json").read_text(encoding="utf-8"))


def save(tmp_path, document, name="log.json"):
    file = tmp_path / name
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def values(study, criterion):
    sql = f"SELECT response_id, score FROM judgments WHERE criterion = '{criterion}' ORDER BY 1"
    return dict(rows(study, sql))


# ---------------------------------------------------------------- inspect_ai


def test_an_inspect_archive_and_its_json_say_the_same(tmp_path):
    found = []
    for name in ("inspect_capitals.eval", "inspect_capitals.json"):
        study = tmp_path / f"{name}.duckdb"
        report = load(study, LOGS / name, name="one")
        assert "read as inspect" in notes(report)
        assert problems(report) == []
        assert check(rb.connect(study)).is_empty()
        found.append(content(study))
    assert found[0] == found[1]


def test_an_inspect_sample_is_a_query_its_epoch_a_trial_and_its_scorer_a_criterion(study, log):
    load(study, LOGS / "inspect_capitals.json")
    expected = {}
    for sample in log["samples"]:
        query = f"capitals-{sample['id']}".replace("/", "%2F")
        key = f"{query}/mockllm/example/given_context/{sample['epoch'] - 1}"
        expected[key] = float(sample["scores"]["exact"]["value"] == "C")
    assert values(study, "exact") == expected
    assert rows(study, "SELECT query_id, domain, language, text FROM queries ORDER BY 1") == [
        ("capitals-1", "Legal", "en", "Capital of France?"),
        ("capitals-zh%2F2", None, "zh", "法国的首都？"),
    ]
    assert rows(study, "SELECT context_mode::VARCHAR FROM instances ORDER BY instance_id") == [
        ("noise",),
        ("gap",),
    ]
    texts = {row[0] for row in rows(study, "SELECT text FROM responses")}
    assert texts == {s["output"]["completion"] for s in log["samples"]}


def test_failed_and_missing_inspect_samples_stay_in_the_ledger(study, log, tmp_path):
    failed, log["samples"] = log["samples"][0], log["samples"][:3]
    failed["error"] = {"message": "provider raised 429", "traceback": "…"}
    failed["output"] = {"model": "mockllm/example", "choices": [], "completion": ""}
    failed["scores"] = {}
    report = load(study, save(tmp_path, log))
    assert "1 of 4 samples are missing" in notes(report)
    assert rows(study, "SELECT error FROM responses WHERE error IS NOT NULL") == [
        ("provider raised 429",)
    ]
    row = rb.scores(rb.connect(study)).row(0, named=True)
    assert (row["planned"], row["answered"]) == (4, 2)
    assert (row["exact_n"], row["exact_planned"]) == (2, 4)


def test_inspect_values_of_every_shape_are_read_or_kept_as_errors(study, log, tmp_path):
    [sample, *_] = log["samples"]
    log["eval"]["dataset"]["sample_ids"], log["eval"]["config"]["epochs"] = [sample["id"]], 1
    log["samples"] = [sample]
    sample["scores"] = {
        "correct": {"value": "C"},
        "incorrect": {"value": "I"},
        "partial": {"value": "P"},
        "unanswered": {"value": "N"},
        "number": {"value": 0.25, "explanation": "a quarter"},
        "flag": {"value": True},
        "parts": {"value": {"a": "C", "b": 0}},
        "listed": {"value": [1, 0]},
        "broken": {"value": float("nan")},
        "odd": {"value": "perhaps"},
        "faithfulness": {"value": 0.9},
    }
    report = load(study, save(tmp_path, log))
    found = dict(rows(study, "SELECT criterion, score FROM judgments"))
    assert found == {
        "correct": 1.0,
        "incorrect": 0.0,
        "partial": 0.5,
        "unanswered": 0.0,
        "number": 0.25,
        "flag": 1.0,
        "parts.a": 1.0,
        "parts.b": 0.0,
        "listed.0": 1.0,
        "listed.1": 0.0,
        "broken": None,
        "odd": None,
        "inspect_ai.faithfulness": 0.9,
    }
    assert len(problems(report)) == 2
    assert rows(study, "SELECT reason FROM evidence WHERE criterion = 'number'") == [("a quarter",)]


def test_inspect_texts_kept_as_attachments_and_reasoning_come_in(study, log, tmp_path):
    [sample, *_] = log["samples"]
    log["samples"] = [sample]
    sample["attachments"] = {"abc": "the long question"}
    sample["input"] = [{"role": "user", "content": "attachment://abc"}]
    sample["output"]["choices"][0]["message"]["content"] = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "Paris"},
    ]
    load(study, save(tmp_path, log))
    assert rows(study, "SELECT text, reasoning FROM responses") == [("Paris", "hm")]
    [text] = [row[0] for row in rows(study, "SELECT text FROM queries WHERE text IS NOT NULL")]
    assert text == "the long question"


def test_samples_that_are_not_as_inspect_writes_them_are_refused_one_by_one(study, log, tmp_path):
    good = log["samples"][0]
    spoiled = [copy.deepcopy(good) for _ in range(3)]
    spoiled[0]["output"] = "text"
    spoiled[1]["epoch"] = "first"
    spoiled[2].pop("id")
    log["samples"] = [*spoiled, good, 7]
    report = load(study, save(tmp_path, log))
    assert [line for line, _ in problems(report)] == [1, 2, 3, 5]
    assert rows(study, "SELECT count(*) FROM responses") == [(1,)]


def archive(members, path, **kinds):
    with zipfile.ZipFile(path, "w", **kinds) as handle:
        for name, content in members.items():
            handle.writestr(name, content)
    return path


def test_an_inspect_archive_with_deflated_members_is_read_too(study, log, tmp_path):
    header = {key: value for key, value in log.items() if key != "samples"}
    members = {"header.json": json.dumps(header)}
    for sample in log["samples"]:
        members[f"samples/{sample['id']}_epoch_{sample['epoch']}.json"] = json.dumps(sample)
    members["samples/broken.json"] = "{"
    file = archive(members, tmp_path / "log.eval", compression=zipfile.ZIP_DEFLATED)
    report = load(study, file)
    assert rows(study, "SELECT count(*) FROM responses") == [(4,)]
    [(_, problem)] = problems(report)
    assert "samples/broken.json cannot be read" in problem


def test_an_archive_that_unpacks_to_too_much_is_refused(study, log, tmp_path, monkeypatch):
    monkeypatch.setattr(inspect_ai, "LARGEST_MEMBER", 1_000_000)
    bomb = b" " * 20_000_000
    members = {"header.json": json.dumps(log), "samples/1_epoch_1.json": bomb}
    deflated = archive(members, tmp_path / "a.eval", compression=zipfile.ZIP_DEFLATED)
    [(_, problem)] = problems(load(study, deflated, dry_run=True))
    assert "unpacks to more than 1 MB" in problem
    bombed = archive({"header.json": bomb}, tmp_path / "b.eval", compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ImportFailed, match="more than 1 MB"):
        load(study, bombed)


def test_a_zstd_member_that_lies_about_its_size_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect_ai, "LARGEST_MEMBER", 1_000_000)
    sink = io.BytesIO()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b" " * 20_000_000)
        stream.flush()
    packed = pa.compress(b" " * 20_000_000, codec="zstd", asbytes=True)
    data = struct.pack("<4s5H3I2H", b"PK\x03\x04", 63, 0, 93, 0, 0, 0, len(packed), 10, 1, 0) + b"x"
    info = zipfile.ZipInfo("x")
    info.header_offset, info.compress_size, info.compress_type = 0, len(packed), 93
    content = inspect_ai._unpack_zstd(data + packed, info)
    assert len(content) == 1_000_001


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"xl/workbook.xml": "<x/>"}, "Excel workbook"),
        ({"readme.txt": "hello"}, "not a log of inspect_ai"),
        ({"header.json": "[]"}, "not that of inspect_ai"),
        ({"header.json": "{"}, "damaged|not that"),
    ],
)
def test_other_archives_are_named_for_what_they_are(study, tmp_path, members, message):
    with pytest.raises(ImportFailed, match=message):
        load(study, archive(members, tmp_path / "log.eval"))


def test_an_archive_cut_short_is_one_clear_error(study, tmp_path):
    file = tmp_path / "cut.eval"
    file.write_bytes((LOGS / "inspect_capitals.eval").read_bytes()[:9000])
    with pytest.raises(ImportFailed, match="damaged archive"):
        load(study, file)


# ---------------------------------------------------------------- lm-evaluation-harness


def test_lm_eval_metrics_are_criteria_named_with_their_filter(study):
    report = load(study, SAMPLES)
    assert problems(report) == []
    assert "'example/dummy', as results_" in notes(report)
    assert rows(study, "SELECT DISTINCT criterion FROM judgments ORDER BY 1") == [
        ("exact_match,loose",),
        ("exact_match,strict",),
    ]
    samples = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    assert values(study, "exact_match,strict") == {
        f"capitals-{s['doc_id']}/example/dummy/given_context/0": s["exact_match"]
        for s in samples
        if s["filter"] == "strict"
    }
    assert rows(
        study,
        "SELECT DISTINCT text, benchmark FROM queries JOIN instances USING (query_id) "
        "WHERE instance_id = 'capitals-1'",
    ) == [("Q: 法国的首都？\nA:", "capitals")]
    assert rows(study, "SELECT DISTINCT text FROM responses") == [(samples[0]["resps"][0][0],)]
    assert check(rb.connect(study)).is_empty()


def test_the_model_of_an_lm_eval_log_can_be_given(study):
    load(study, SAMPLES, map={"model": "=example/other", "setting": "=few-shot"})
    assert rows(study, "SELECT DISTINCT model, setting FROM responses") == [
        ("example/other", "few-shot")
    ]


def sample(**changes):
    plain = {"doc_id": 0, "doc": {}, "target": "x", "arguments": {"gen_args_0": {"arg_0": "Q"}}}
    return {**plain, "resps": [["A"]], "filter": "none", "metrics": ["acc"], "acc": 1.0, **changes}


def lines(tmp_path, *samples):
    file = tmp_path / "samples_own_2026-01-01T00-00-00.jsonl"
    file.write_text("\n".join(map(json.dumps, samples)), encoding="utf-8")
    return file


def test_ifeval_lists_in_an_lm_eval_log_become_verdicts_on_constraints(study, tmp_path):
    kinds = ["punctuation:no_comma", "length_constraints:number_words"]
    found = {"prompt_level_strict_acc": False, "inst_level_strict_acc": [True, False]}
    found["inst_level_loose_acc"] = [True, True]
    one = sample(doc={"instruction_id_list": kinds}, metrics=list(found), **found)
    report = load(study, lines(tmp_path, one), map={"model": "=m"})
    assert problems(report) == []
    frame = rb.scores(rb.connect(study), panel="lm_eval inst_level_strict_acc")
    assert frame.select("loose_ias", "strict_ias").row(0) == (0.5, 0.0)
    frame = rb.scores(rb.connect(study), panel="lm_eval inst_level_loose_acc")
    assert frame["strict_ias"].to_list() == [1.0]


def test_lm_eval_values_that_are_no_verdict_on_a_response_are_left_out(study, tmp_path):
    one = sample(metrics=["acc", "bleu", "word_perplexity"], bleu=["ref", "hyp"])
    report = load(
        study, lines(tmp_path, {**one, "word_perplexity": [-3.2, 7]}), map={"model": "=m"}
    )
    assert "bleu, word_perplexity" in notes(report)
    assert rows(study, "SELECT criterion, score FROM judgments") == [("acc", 1.0)]


def test_lm_eval_likelihoods_are_no_answer_text(study, tmp_path):
    pairs = [[["-0.1", "False"]], [["-0.5", "False"]]]
    load(study, lines(tmp_path, sample(resps=pairs)), map={"model": "=m"})
    assert rows(study, "SELECT text, error FROM responses") == [(None, None)]


def test_broken_lm_eval_samples_are_refused_one_by_one(study, tmp_path):
    report = load(
        study, lines(tmp_path, sample(), sample(doc_id=1, doc=7, acc=None)), map={"model": "=m"}
    )
    assert [line for line, _ in problems(report)] == [2]


# ---------------------------------------------------------------- promptfoo


def test_promptfoo_assertions_are_constraints_and_a_failed_call_is_an_error(study):
    report = load(study, LOGS / "promptfoo_capitals.json")
    assert problems(report) == []
    document = json.loads((LOGS / "promptfoo_capitals.json").read_text(encoding="utf-8"))
    results = document["results"]["results"]
    failed = [r for r in results if r["failureReason"] == 2]
    assert rows(study, "SELECT count(*), count(error) FROM responses") == [(12, len(failed))]
    assert rows(study, "SELECT DISTINCT setting FROM responses ORDER BY 1") == [
        ("Say {{q}}",),
        ("polite",),
    ]
    # three assertions on the first test; one and an assertion set on the second; none on the third
    planned = "SELECT count(*) FROM instance_constraints GROUP BY instance_id ORDER BY 1"
    assert rows(study, planned) == [(2,), (3,)]
    frame = rb.scores(rb.connect(study)).sort("model")
    assert frame["model"].to_list() == ["example/broken", "example/echo"]
    echo = [r for r in results if r["provider"]["id"] == "echo" and r["testIdx"] < 2]
    parts = [
        [c["pass"] for c in r["gradingResult"]["componentResults"]][: 3 if r["testIdx"] == 0 else 2]
        for r in echo
    ]
    wanted = sum(sum(part) / len(part) for part in parts) / len(parts)
    assert frame["loose_ias"][1] == pytest.approx(wanted)
    assert check(rb.connect(study)).is_empty()


def test_promptfoo_grader_failures_and_contradictions_are_errors_not_failures(study, tmp_path):
    document = json.loads((LOGS / "promptfoo_capitals.json").read_text(encoding="utf-8"))
    result = document["results"]["results"][0]
    parts = result["gradingResult"]["componentResults"]
    parts[0].update(metadata={"graderError": True}, reason="API down", **{"pass": False})
    parts[1].update(score=1, **{"pass": False})
    parts[2].pop("pass")
    document["results"]["results"] = [result]
    report = load(study, save(tmp_path, document))
    assert len(problems(report)) == 3
    assert rows(study, "SELECT count(score), count(error) FROM judgments") == [(0, 3)]


def test_promptfoo_repeats_of_a_test_are_trials_and_two_runs_of_it_meet(study, tmp_path):
    document = json.loads((LOGS / "promptfoo_capitals.json").read_text(encoding="utf-8"))
    one = document["results"]["results"][0]
    again = {**copy.deepcopy(one), "testIdx": 9}
    document["results"]["results"] = [one, again]
    load(study, save(tmp_path, document))
    assert rows(study, "SELECT trial FROM responses ORDER BY 1") == [(0,), (1,)]
    one["provider"]["label"] = "example/new"
    document["results"]["results"] = [one]
    load(study, save(tmp_path, document))
    assert rows(study, "SELECT count(*) FROM queries") == [(1,)]


def test_promptfoo_json_lines_are_read_as_its_json(tmp_path):
    document = json.loads((LOGS / "promptfoo_capitals.json").read_text(encoding="utf-8"))
    text = "\n".join(json.dumps(result) for result in document["results"]["results"])
    (tmp_path / "results.jsonl").write_text(text, encoding="utf-8")
    found = []
    for file in (LOGS / "promptfoo_capitals.json", tmp_path / "results.jsonl"):
        study = tmp_path / f"{file.stem}.duckdb"
        load(study, file, name="one")
        found.append(content(study))
    assert found[0] == found[1]


# ---------------------------------------------------------------- kinds


def test_a_kind_that_the_file_is_not_is_refused(study, tmp_path):
    with pytest.raises(ImportFailed, match="looks like a log of inspect"):
        load(study, LOGS / "inspect_capitals.json", kind="promptfoo")
    table = tmp_path / "t.csv"
    table.write_text("query,model,constraint,judge,score\nq,m,c,j,1\n")
    with pytest.raises(ImportFailed, match="is a table"):
        load(study, table, kind="inspect")


def test_an_unknown_json_document_is_named_by_its_keys(study, tmp_path):
    file = save(tmp_path, {"alpha": 1, "beta": 2})
    file.write_text(json.dumps({"alpha": 1, "beta": 2}, indent=2), encoding="utf-8")
    with pytest.raises(ImportFailed, match="alpha, beta"):
        load(study, file)
