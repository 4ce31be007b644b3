"""The way in for tables: what is sound comes in, the rest is explained by line."""

import json
from pathlib import Path

import polars as pl
import pytest

import ragbench as rb
from ragbench.checks import check, content_hash
from ragbench.errors import ImportFailed, StoreError, UnknownColumn, UnknownName
from ragbench.importers import load
from ragbench.relations import KEYS

EXAMPLES = Path(__file__).parent.parent / "data" / "examples"
HEAD = "query,context_mode,model,constraint,judge,score\n"
SOUND = "q1,noise,example/a,c1,j,1\nq1,noise,example/a,c2,j,0\n"


@pytest.fixture
def study(tmp_path):
    return tmp_path / "study.duckdb"


@pytest.fixture
def write(tmp_path):
    def write(content, name="verdicts.csv"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def rows(study, sql):
    con = rb.connect(study)
    found = con.sql(sql).fetchall()
    con.close()
    return found


def content(study):
    """All rows of a study but those of its runs, which say when and from where."""
    con = rb.connect(study)
    found = {}
    for relation in KEYS:
        if relation not in ("runs", "folded"):
            frame = con.sql(f"SELECT * FROM {relation}").pl()
            frame = frame.drop("run_id", "seconds", strict=False)
            found[relation] = sorted(map(str, frame.rows()))
    return found


def scores_of(study):
    return dict(rows(study, "SELECT target_id, score FROM judgments ORDER BY 1"))


def problems(report):
    """(line, problem) of every line that did not come in as it stands."""
    return report.filter(pl.col("problem").is_not_null()).select("line", "problem").rows()


def notes(report):
    return " | ".join(report["note"].drop_nulls())


def added(report, relation):
    return report.filter(what="rows", relation=relation)["added"].sum()


# ---------------------------------------------------------------- what a plain file becomes


def test_the_minimum_makes_a_study_that_scores(study, write):
    report = load(study, write(HEAD + SOUND))
    assert problems(report) == []
    con = rb.connect(study)
    assert check(con).is_empty()
    frame = rb.scores(con)
    assert frame.select("model", "loose_ias", "strict_ias", "strict_ias_n").row(0) == (
        "example/a",
        0.5,
        0.0,
        1,
    )


def test_keys_are_readable_and_built_from_their_parts(study, write):
    load(study, write(HEAD + SOUND))
    assert rows(study, "SELECT response_id FROM responses") == [
        ("q1-noise/example/a/given_context/0",)
    ]
    assert scores_of(study) == {"q1.c1": 1.0, "q1.c2": 0.0}
    assert rows(study, "SELECT DISTINCT criterion, repeat FROM judgments") == [("adherence", 0)]


def test_the_same_file_again_changes_nothing(study, write):
    file = write(HEAD + SOUND)
    load(study, file)
    before = content_hash(rb.connect(study))
    report = load(study, file)
    assert report.filter(what="rows")["added"].sum() == 0
    assert problems(report) == []
    assert content_hash(rb.connect(study)) == before


def test_a_dry_run_reports_the_same_and_writes_nothing(study, write, tmp_path):
    file = write(HEAD + SOUND + "q1,noise,,c2,j,0\nq1,noise,example/a,c3,j,maybe\n")
    dry = load(study, file, dry_run=True)
    assert not study.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"verdicts.csv"}
    assert dry.equals(load(study, file))
    before = study.read_bytes()
    again = load(study, file, dry_run=True)
    assert study.read_bytes() == before
    assert again.equals(load(study, file))


def test_columns_are_mapped_by_the_caller_and_a_text_can_stand_for_all_rows(study, write):
    file = write("id,llm,rule_no,ok\nq1,example/a,c1,Yes\n")
    mapping = {
        "query": "id",
        "constraint": "rule_no",
        "score": "ok",
        "judge": "=human",
        "setting": "=cot",
    }
    assert problems(load(study, file, map=mapping)) == []
    assert rows(study, "SELECT judge, kind::VARCHAR FROM judges") == [("human", "human")]
    assert rows(study, "SELECT model, setting FROM responses") == [("example/a", "cot")]


def test_an_unknown_column_in_the_map_names_the_near_miss(study, write):
    file = write("query,model,constraint,judge,passed\nq,m,c,j,1\n")
    with pytest.raises(UnknownColumn, match="did you mean 'passed'"):
        load(study, file, map={"score": "pased"})
    with pytest.raises(UnknownColumn, match="did you mean 'model'"):
        load(study, file, map={"modle": "model"})
    with pytest.raises(UnknownName, match="verdicts"):
        load(study, file, kind="verdict")
    assert not study.exists()


def test_context_modes_go_by_the_names_of_the_paper_too(study, write):
    names = {
        "Noisy": "noise",
        "Knowledge Gaps": "gap",
        "Factual Conflicts": "conflict",
        "事实冲突": "conflict",
        "GAP": "gap",
        "knowledge_gap": "gap",
        "": "open",
    }
    lines = [f"i{i},{name},m,c,j,1\n" for i, name in enumerate(names)]
    load(study, write("instance,context_mode,model,constraint,judge,score\n" + "".join(lines)))
    found = rows(study, "SELECT context_mode::VARCHAR FROM instances ORDER BY instance_id")
    assert [mode for (mode,) in found] == list(names.values())


def test_domains_dimensions_and_criteria_of_the_users_own_come_in(study, write):
    text = (
        "query,domain,model,constraint,dimension,category,judge,criterion,score\n"
        "q1,法律,m,c1,Evidence Chaining,,j,adherence,1\n"
        "q1,法律,m,c2,Brand voice,output,j,adherence,1\n"
        "q2,Aviation,m,,,,j,helpfulness,4\n"
        "q3,Aviation,m,,,,j,helpfulness,2\n"
    )
    report = load(study, write(text))
    assert problems(report) == []
    assert rows(study, "SELECT domain FROM queries ORDER BY query_id") == [
        ("Legal",),
        ("Aviation",),
        ("Aviation",),
    ]
    assert rows(study, "SELECT dimension FROM constraints ORDER BY constraint_id") == [
        ("citation",),
        ("Brand voice",),
    ]
    assert rows(
        study, "SELECT category::VARCHAR FROM dimensions WHERE dimension = 'Brand voice'"
    ) == [("output",)]
    assert rows(
        study,
        "SELECT target, lowest, highest FROM criteria WHERE criterion = 'helpfulness'",
    ) == [("response", 2.0, 4.0)]
    assert "'helpfulness' runs from 2 to 4" in notes(report)
    assert rb.scores(rb.connect(study))["helpfulness"].to_list() == [3.0]


def test_a_criterion_takes_its_range_from_columns_when_they_are_there(study, write):
    text = "query,model,judge,criterion,score,lowest,highest\nq1,m,j,style,Yes,1,7\n"
    load(study, write(text))
    assert rows(study, "SELECT score FROM judgments") == [(7.0,)]


def test_claims_are_graded_one_by_one_or_not_at_all(study, write):
    text = (
        "query,model,judge,criterion,target,score\n"
        "q1,m,j,faithfulness,f1,1\n"
        "q1,m,j,faithfulness,f2,0\n"
        "q1,m,j,coverage,k1,1\n"
        "q1,m,j,faithfulness,,0.8\n"
    )
    report = load(study, write(text))
    assert [line for line, _ in problems(report)] == [5]
    frame = rb.scores(rb.connect(study))
    assert frame.select("faithfulness", "coverage").row(0) == (0.5, 1.0)


def test_a_judge_that_graded_only_part_gets_no_strict_score(study, write):
    text = HEAD + SOUND + "q1,noise,example/b,c1,j,1\n"
    report = load(study, write(text))
    frame = rb.scores(rb.connect(study)).sort("model")
    assert frame["strict_ias_n"].to_list() == [1, 0]
    assert frame["strict_ias"].to_list() == [0.0, None]
    assert "every constraint that a row of this file names" in notes(report)


def test_a_refused_row_still_counts_its_constraint_as_planned(study, write):
    load(study, write(HEAD + SOUND + "q1,noise,example/a,c3,,1\n"))
    frame = rb.scores(rb.connect(study))
    assert frame.select("strict_ias", "strict_ias_n").row(0) == (None, 0)


def test_a_score_takes_the_place_of_an_error_and_of_nothing_else(study, write):
    load(study, write(HEAD + "q1,noise,m,c1,j,maybe\nq1,noise,m,c2,j,1\n"))
    report = load(study, write(HEAD + "q1,noise,m,c1,j,Yes\nq1,noise,m,c2,j,0\n", "later.csv"))
    assert scores_of(study) == {"q1.c1": 1.0, "q1.c2": 1.0}
    assert report.filter(what="rows", relation="judgments")["replaced"].item() == 1
    [(line, problem)] = problems(report)
    assert line == 3
    assert "the study has score 1.0" in problem


def test_five_passes_one_fail_and_four_judge_errors_keep_their_ten(study, write):
    values = ["Yes"] * 5 + ["No"] + ["timeout"] * 4
    text = "query,model,judge,criterion,score\n" + "".join(
        f"q{i},m,j,helpful,{value}\n" for i, value in enumerate(values)
    )
    load(study, write(text))
    row = rb.scores(rb.connect(study)).row(0, named=True)
    assert (row["helpful_n"], row["helpful_planned"]) == (6, 10)
    assert (row["helpful_lowest"], row["helpful_highest"]) == (0.5, 0.9)


def test_verdicts_that_cannot_be_read_are_errors_with_the_text_kept(study, write):
    report = load(study, write(HEAD + 'q1,noise,m,c1,j,"Yes, but rule 3, so No"\n'))
    assert problems(report) == [(2, "not a verdict: 'Yes, but rule 3, so No'")]
    assert rows(study, "SELECT score, error FROM judgments") == [
        (None, "not a verdict: 'Yes, but rule 3, so No'")
    ]
    assert rows(study, "SELECT raw FROM evidence") == [("Yes, but rule 3, so No",)]


def test_an_error_column_gives_the_error_and_contradicts_a_score(study, write):
    head = "query,model,constraint,judge,score,error\n"
    load(study, write(head + "q1,m,c1,j,,timeout\nq1,m,c2,j,1,timeout\nq1,m,c3,j,1,\n"))
    assert rows(study, "SELECT score, error FROM judgments ORDER BY target_id") == [
        (None, "timeout"),
        (None, "both a score (1) and an error: timeout"),
        (1.0, None),
    ]


def test_verdicts_that_contradict_themselves_are_errors(study, write):
    head = "query,model,constraint,judge,score,is_triggered,response_error\n"
    body = "q1,m,c1,j,0,no,\nq1,m,c2,j,1,no,\nq1,m,c3,j,0.5,,\nq2,m,c1,j,1,,timeout\n"
    report = load(study, write(head + body))
    assert [line for line, _ in problems(report)] == [2, 4, 5]
    assert scores_of(study) == {"q1.c1": None, "q1.c2": 1.0, "q1.c3": None, "q2.c1": None}
    assert check(rb.connect(study)).is_empty()


def test_a_criterion_cannot_have_the_name_of_a_column_of_scores(study, write):
    text = "query,model,judge,criterion,score\nq1,m,j,loose_ias,1\nq1,m,j,tone,1\n"
    report = load(study, write(text))
    assert [line for line, _ in problems(report)] == [2]
    assert rows(study, "SELECT criterion FROM judgments") == [("tone",)]


# ---------------------------------------------------------------- kinds of dirt


@pytest.mark.parametrize(
    ("codec", "newline"),
    [
        ("utf-8-sig", "\n"),
        ("utf-16", "\r\n"),
        ("utf-16-le", "\n"),
        ("utf-16-be", "\r\n"),
        ("utf-32", "\r"),
        ("utf-8", "\r"),
        ("utf-8", "\r\n"),
    ],
)
def test_unicode_files_are_read_with_and_without_a_mark(study, write, codec, newline):
    text = (HEAD + "查询一,噪声,模型,约束,裁判,是\n").replace("\n", newline)
    assert problems(load(study, write(text.encode(codec)))) == []
    assert scores_of(study) == {"查询一.约束": 1.0}


@pytest.mark.parametrize("codec", ["gb18030", "gbk"])
def test_chinese_files_of_older_programs_are_read(study, write, codec):
    text = (
        "查询编号,模型,约束,裁判,判定,理由\n能源一,某模型,丙一,裁判甲,是的。,理由充分，引用齐全\n"
    )
    file = write(text.encode(codec))
    report = load(study, file, map={"query": "查询编号"})
    assert "GB18030" in notes(report)
    assert scores_of(study) == {"能源一.丙一": 1.0}
    assert rows(study, "SELECT reason FROM evidence") == [("理由充分，引用齐全",)]


def test_a_western_file_is_not_taken_for_a_chinese_one(study, write):
    text = HEAD + "café,noise,modèle,règle,juge,1\n"
    report = load(study, write(text.encode("cp1252")))
    assert "Windows-1252" in notes(report)
    assert scores_of(study) == {"café.règle": 1.0}


@pytest.mark.parametrize("codec", ["cp1252", "latin-1", "gb18030"])
@pytest.mark.parametrize("is_first", [True, False])
def test_lines_in_two_encodings_are_refused_and_not_read_as_either(study, write, codec, is_first):
    text = "café,noise,modèle,règle,juge,1\n"
    if codec == "gb18030":
        text = "能源问题,noise,某个模型,丙一约束,裁判甲,1\n"
    lines = [text.encode("utf-8"), text.encode(codec)][:: 1 if is_first else -1]
    plain = b"q0,noise,m,c,j,1\n"
    with pytest.raises(ImportFailed) as raised:
        load(study, write(HEAD.encode() + plain + b"".join(lines)))
    utf8, other = (3, 4) if is_first else (4, 3)
    assert f"line {utf8} is UTF-8, and line {other} is not" in str(raised.value)
    assert not study.exists()


def test_files_of_one_old_encoding_are_never_taken_for_two(study, write):
    common = (
        "的一是不了人我在有他这中大来上国和地到说时要就出会可也你对生能而子那得于着下自之年过发"
    )
    lines = [f"问{word},noise,型{word},约{word},裁,1" for word in common]
    lines += [f"{word},noise,{word},{word},{word},1" for word in "脉脑脸能脂脊脏膏联通移动链接"]
    report = load(study, write((HEAD + "\n".join(lines) + "\n").encode("gb18030")))
    assert "read as GB18030" in notes(report)
    assert added(report, "judgments") == len(lines)


def test_one_broken_byte_costs_its_row_only_where_it_is_in_a_key(study, write):
    head = "query,model,constraint,judge,score,reason\n"
    body = (
        "查询甲,模型,约束,j,1,理由\n" * 1 + "查询乙,模型,约束,j,1,好\n查询丙,模型,约束,j,1,可以\n"
    )
    data = (head + body).encode().replace("好".encode(), b"\xff").replace("丙".encode(), b"\xe4")
    report = load(study, write(data))
    assert [line for line, _ in problems(report)] == [4]
    assert scores_of(study) == {"查询甲.约束": 1.0, "查询乙.约束": 1.0}


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_separators_are_found(study, write, mark):
    text = (HEAD + SOUND).replace(",", mark) + mark.join(
        ["q1", "noise", "example/a", "c3", "j", "1,0"]
    )
    assert problems(load(study, write(text))) == []
    assert scores_of(study)["q1.c3"] == 1.0


def test_the_separator_line_of_a_spreadsheet_is_understood(study, write):
    report = load(study, write("sep=;\n" + (HEAD + SOUND).replace(",", ";") + "q1;noise;;c2;j;1\n"))
    assert problems(report) == [(5, "names no model")]


def test_lines_are_those_of_the_file_across_quoted_newlines_and_blank_lines(study, write):
    text = (
        "\n"
        "query,model,constraint,judge,score,reason\n"
        'q1,m,c1,j,1,"one\ntwo ""quoted"",\r\nthree"\n'
        "\n"
        "q1,m,c2,j,perhaps,\n"
        'q1,m,c3,j,"per\nchance",\n'
        "q1,,c4,j,1,\n"
    )
    report = load(study, write(text))
    assert [line for line, _ in problems(report)] == [7, 8, 10]
    assert rows(study, "SELECT reason FROM evidence WHERE target_id = 'q1.c1'") == [
        ('one\ntwo "quoted",\r\nthree',)
    ]


def test_unicode_line_separators_do_not_end_a_line(study, write):
    head = "query,model,constraint,judge,score,reason\n"
    report = load(study, write(head + "q1,m,c1,j,1,a\u2028b\x0bc\x85d\nq1,m,c2,j,no?,\n"))
    assert [line for line, _ in problems(report)] == [3]
    assert rows(study, "SELECT reason FROM evidence WHERE target_id = 'q1.c1'") == [
        ("a\u2028b\x0bc\x85d",)
    ]


def test_ragged_rows_are_refused_and_empty_cells_at_the_end_are_not(study, write):
    text = HEAD + "q1,noise,m,c1,j\nq1,noise,m,c2,j,1,,\nq1,noise,m,a, b,j,1\n"
    report = load(study, write(text))
    assert problems(report) == [
        (2, "5 cells where the header has 6"),
        (4, "7 cells where the header has 6"),
    ]
    assert scores_of(study) == {"q1.c2": 1.0}


def test_a_stray_quote_costs_its_line_and_not_the_rest(study, write):
    text = HEAD + 'q1,noise,m,c1,"j,1\nq1,noise,m,c2,j,1\nq1,noise,m,c3,"j"x,1\nq1,noise,m,c4,j,0\n'
    report = load(study, write(text))
    assert [line for line, _ in problems(report)] == [2, 4]
    assert scores_of(study) == {"q1.c2": 1.0, "q1.c4": 0.0}


def test_a_file_of_nothing_but_broken_quotes_ends(study, write):
    report = load(study, write(HEAD + 'q1,noise,m,c1,"j,1\n' * 5000))
    assert len(problems(report)) <= 102
    assert "nothing after this line was read" in problems(report)[-1][1]


def test_a_column_named_twice_is_used_where_both_agree(study, write):
    text = "query,model,constraint,judge,score,score\nq1,m,c1,j,1,1\nq1,m,c2,j,1,0\n"
    report = load(study, write(text))
    assert problems(report) == [(3, "columns named 'score' have different values")]
    assert scores_of(study) == {"q1.c1": 1.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n\n", "is empty"),
        (b"  \n", "is empty"),
        (b"q1,noise,m,c1,j,1\n" * 3, "no column for"),
        (b"query,model,constraint,score\nq,m,c,1\n", "no column for judge"),
        (b"a,b\n1,2\n", "no column for"),
        (b"\x1f\x8b\x08\x00abc", "gzip"),
        (b"PAR1 but not really", "Parquet"),
        (b"PK\x03\x04 not a zip", "damaged archive"),
        (b"\x00" * 100, "is empty"),
        (b'{"a": 1', "no column|JSON"),
        (b"[1, 2", "no column|JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_clear_error(study, write, content, message):
    with pytest.raises(ImportFailed, match=message):
        load(study, write(content))
    assert not study.exists()


def test_no_file_and_a_folder_are_clear_errors(study, tmp_path):
    with pytest.raises(ImportFailed, match="cannot be read"):
        load(study, tmp_path / "absent.csv")
    with pytest.raises(ImportFailed, match="is a folder"):
        load(study, tmp_path)
    with pytest.raises(ImportFailed, match="named by its path"):
        load(study, 3)
    with pytest.raises(StoreError, match="named by the path"):
        load(3, tmp_path / "absent.csv")


def test_a_study_that_is_no_study_is_left_alone(write, tmp_path):
    foreign = write(b"not a database at all" * 50, "notes.duckdb")
    with pytest.raises(StoreError):
        load(foreign, write(HEAD + SOUND))
    assert foreign.read_bytes() == b"not a database at all" * 50


def test_a_header_alone_is_no_error(study, write):
    report = load(study, write(HEAD))
    assert problems(report) == []
    assert "no rows" in notes(report)
    assert not study.exists()


def test_zero_bytes_are_dropped_from_texts(study, write):
    report = load(study, write(HEAD + SOUND.replace("c1", "c\x001")))
    assert "1 zero bytes were dropped" in notes(report)
    assert scores_of(study) == {"q1.c1": 1.0, "q1.c2": 0.0}


def test_what_is_no_score_is_an_error_and_never_enters_a_mean(study, write):
    values = ["NaN", "inf", "-Infinity", "", "7", "-0.1", "1,000", "1e999"]
    bad = [f'q2,noise,example/a,c{i},j,"{value}"\n' for i, value in enumerate(values)]
    report = load(study, write(HEAD + SOUND + "".join(bad)))
    assert [line for line, _ in problems(report)] == list(range(4, 12))
    assert rows(study, "SELECT count(score), count(error) FROM judgments") == [(2, 8)]
    assert rb.scores(rb.connect(study))["loose_ias"].to_list() == [0.5]


def test_missing_values_are_named(study, write):
    text = HEAD + ",noise,m,c1,j,1\nq1,noise,,c1,j,1\nq1,noise,m,,j,1\nq1,noise,m,c1,,1\n"
    assert problems(load(study, write(text + SOUND))) == [
        (2, "names neither a query nor an instance"),
        (3, "names no model"),
        (4, "names no criterion"),
        (5, "names no judge"),
    ]


def test_lines_twice_the_same_count_once(study, write):
    report = load(study, write(HEAD + SOUND + SOUND + SOUND))
    assert problems(report) == []
    assert "4 lines repeat a verdict" in notes(report)
    assert added(report, "judgments") == 2


def test_lines_that_contradict_each_other_give_no_score(study, write):
    report = load(study, write(HEAD + SOUND + "q1,noise,example/a,c1,j,0\n"))
    assert [line for line, _ in problems(report)] == [2, 4]
    assert scores_of(study) == {"q1.c1": None, "q1.c2": 0.0}
    assert "lines 2, 4 contradict" in rows(study, "SELECT max(error) FROM judgments")[0][0]


def test_a_repeat_or_trial_column_keeps_such_lines_apart(study, write):
    head = "query,model,constraint,judge,score,repeat,trial\n"
    body = "q1,m,c1,j,1,0,0\nq1,m,c1,j,0,1,\nq1,m,c1,j,0,,1.0\nq1,m,c1,j,0,first,0\n"
    report = load(study, write(head + body))
    assert problems(report) == [(5, "repeat is not a whole number from 0")]
    assert rows(study, "SELECT count(*), count(DISTINCT response_id) FROM judgments") == [(3, 2)]


def test_an_unknown_context_mode_is_refused_with_the_near_miss(study, write):
    report = load(study, write(HEAD + "q1,nosie,m,c1,j,1\nq2,weather,m,c1,j,1\n" + SOUND))
    assert problems(report) == [
        (2, "no such context mode (did you mean 'noise'?)"),
        (3, "no such context mode"),
    ]


def test_an_instance_has_one_query_and_one_mode(study, write):
    head = "instance,query,context_mode,model,constraint,judge,score\n"
    body = "i1,q1,gap,m,c1,j,1\ni1,q1,noise,m,c2,j,1\ni1,q2,gap,m,c3,j,1\ni1,,,m,c4,j,1\n"
    report = load(study, write(head + body))
    assert [line for line, _ in problems(report)] == [3, 4]
    assert rows(study, "SELECT query_id, context_mode::VARCHAR FROM instances") == [("q1", "gap")]
    assert scores_of(study) == {"q1.c1": 1.0, "q1.c4": 1.0}
    later = load(
        study, write("instance,context_mode,model,constraint,judge,score\ni1,noise,m,c,j,1\n")
    )
    assert problems(later) == [(2, "instance i1 has context mode gap in the study")]


def test_a_thing_described_twice_keeps_its_first_description(study, write):
    head = "query,domain,model,constraint,dimension,judge,score\n"
    body = "q1,Legal,m,c1,format,j,1\nq1,Energy,m,c2,style,j,1\nq1,Legal,m2,c1,style,j,1\n"
    report = load(study, write(head + body))
    assert report.filter(what="ignored").select("line", "value").rows() == [
        (3, "Energy"),
        (4, "style"),
    ]
    assert added(report, "judgments") == 3
    assert rows(study, "SELECT domain FROM queries") == [("Legal",)]


def test_a_very_long_answer_comes_in_whole(study, write):
    answer = "长" * 300_000 + '"\n,'
    head = "query,model,constraint,judge,score,text\n"
    quoted = answer.replace('"', '""')
    assert problems(load(study, write(f'{head}q1,m,c1,j,1,"{quoted}"\n'))) == []
    assert rows(study, "SELECT text FROM responses") == [(answer,)]


def test_hostile_text_is_kept_as_it_is(study, write):
    texts = ["=1+1", "+cmd|' /C calc'!A0", "@x", "\t=1", "'; DROP TABLE queries; --"]
    head = "query,model,constraint,judge,score,text,reason\n"
    lines = [f'q{i},m,c1,j,1,"{text}","{text}"\n' for i, text in enumerate(texts)]
    load(study, write(head + "".join(lines)))
    for column, relation in (("text", "responses"), ("reason", "evidence")):
        found = rows(study, f"SELECT {column} FROM {relation} ORDER BY response_id")
        assert [text for (text,) in found] == texts


def test_names_that_no_eye_can_tell_apart_are_refused(study, write):
    bad = [f'q1,noise,"{name}",c1,j,1\n' for name in ("m" * 300, "a\x1bb", "a\nb")]
    report = load(study, write(HEAD + SOUND + "".join(bad)))
    assert [line for line, _ in problems(report)] == [4, 5, 6]
    assert rows(study, "SELECT model FROM models") == [("example/a",)]


def test_spaces_around_keys_do_not_make_new_things(study, write):
    load(
        study, write(HEAD + " q1 ,noise, example/a ,\u3000c1,j\xa0,1\nq1,noise,example/a,c2,j,1\n")
    )
    assert rows(study, "SELECT count(*) FROM responses") == [(1,)]
    assert rows(study, "SELECT judge FROM judges") == [("j",)]


def test_a_slash_in_an_id_keeps_responses_apart(study, write):
    head = "instance,model,constraint,judge,score\n"
    body = "a/b,c,k,j,1\na,b/c,k,j,0\na%2Fb,c,k,j,0\n"
    report = load(study, write(head + body))
    assert rows(study, "SELECT response_id, instance_id, model FROM responses ORDER BY 1") == [
        ("a%2Fb/c/given_context/0", "a%2Fb", "c"),
        ("a/b/c/given_context/0", "a", "b/c"),
    ]
    assert [line for line, _ in problems(report)] == [4]


def test_ids_that_are_numbers_stay_as_written(study, write):
    load(study, write("query,model,constraint,judge,score\n007,7,1,2,1\n7,7,1,2,0\n"))
    assert rows(study, "SELECT query_id FROM queries ORDER BY 1") == [("007",), ("7",)]
    assert scores_of(study) == {"007.1": 1.0, "7.1": 0.0}


def test_constraints_that_would_share_a_name_are_told_apart_or_refused(study, write):
    head = "query,model,constraint,judge,score\n"
    report = load(study, write(head + "1,m,1,j,1\n1,m,1.1,j,0\na,m,b.c,j,1\na.b,m,c,j,0\n"))
    assert [line for line, _ in problems(report)] == [3, 5]
    assert scores_of(study) == {"1.1": 1.0, "a.b.c": 1.0}


def test_a_line_of_totals_leaves_no_trace(study, write):
    report = load(study, write(HEAD + SOUND + "Total,,,,,0.5\n"))
    assert problems(report) == [(4, "names no model")]
    assert rows(study, "SELECT query_id FROM queries") == [("q1",)]


def test_twenty_kinds_of_dirt_at_once(study, write):
    lines = [
        "query;context_mode;model;constraint;judge;score;repeat;note;note",
        'q1;Noisy;m;c1;j;Yes;0;"quoted\nnewline";',
        "q1;Noisy;m;c2;j;是。;;;",
        "q1;Noisy;m;c3;j;true;;;",
        "q1;Noisy;m;c4;j;1,0;;;",
        "q1;Noisy;m;c5;j;maybe;;;",
        "q1;Noisy;m;c6;j;NaN;;;",
        "q1;Noisy;m;c7;j;17;;;",
        "q1;Nosiy;m;c8;j;1;;;",
        "q1;Noisy;;c8;j;1;;;",
        "q1;Noisy;m;c8;j;1;x;;",
        "q1;Noisy;m;c8",
        "q1;Noisy;m;c1;j;Yes;;;",
        "q1;Noisy;m;c2;j;否;;;",
        "",
        "  q1 ;Noisy; m;c9 ;j; 1 ;;=1+1;",
        "q/1;Noisy;m;c1;j;1;;;",
        'q1;Noisy;m;"c10;j;1;;;',
        "q1;Noisy;m;c11;j;1;;;",
        "Total;;;;;0.7;;;",
    ]
    report = load(study, write("\r\n".join(lines).encode("utf-16")))
    assert [line for line, _ in problems(report)] == [4, 7, 8, 9, 10, 11, 12, 13, 15, 19, 21]
    assert scores_of(study) == {
        "q1.c1": 1.0,
        "q1.c2": None,
        "q1.c3": 1.0,
        "q1.c4": 1.0,
        "q1.c5": None,
        "q1.c6": None,
        "q1.c7": None,
        "q1.c9": 1.0,
        "q1.c11": 1.0,
        "q%2F1.c1": 1.0,
    }
    assert report.filter(pl.col("problem").is_not_null())["remedy"].null_count() == 0
    assert check(rb.connect(study)).is_empty()


# ---------------------------------------------------------------- other shapes


def test_json_lines_and_parquet_say_the_same_as_csv(tmp_path, write):
    frame = pl.DataFrame(
        {
            "query": [1, 2, 3],
            "model": ["m"] * 3,
            "constraint": ["c"] * 3,
            "judge": ["j"] * 3,
            "score": [True, False, None],
            "seconds": [1.5, 2.0, float("nan")],
        }
    )
    found = []
    frame.write_parquet(tmp_path / "v.parquet")
    frame.fill_nan(None).write_ndjson(tmp_path / "v.jsonl")
    frame.fill_nan(None).write_csv(tmp_path / "v.csv")
    for name in ("v.parquet", "v.jsonl", "v.csv"):
        study = tmp_path / f"{name}.duckdb"
        load(study, tmp_path / name, name="one")
        assert scores_of(study) == {"1.c": 1.0, "2.c": 0.0, "3.c": None}
        found.append(content(study))
    assert found[0] == found[1] == found[2]


def test_ids_that_pandas_made_floats_are_whole_again(study, tmp_path):
    file = tmp_path / "v.parquet"
    pl.DataFrame(
        {"query": [7.0, None], "model": ["m", "m"], "constraint": [1.0, 2.0], "judge": ["j", "j"]}
        | {"score": [1.0, 0.0]}
    ).write_parquet(file)
    report = load(study, file)
    assert scores_of(study) == {"7.1": 1.0}
    assert problems(report) == [(2, "names neither a query nor an instance")]


def test_json_lines_that_cannot_be_read_are_named(study, write):
    good = json.dumps({"query": "q", "model": "m", "constraint": "c", "judge": "j", "score": 1})
    deep = "[" * 100_000
    lines = [good, "{not json", "[1]", "", deep, good.replace('"c"', '"d\\ud800"'), "9" * 5000]
    report = load(study, write("\n".join(lines), "v.jsonl"))
    assert [line for line, _ in problems(report)] == [2, 3, 5, 6, 7]
    assert scores_of(study) == {"q.c": 1.0}


def test_a_json_list_is_a_table_too(study, write):
    row = {"query": "q", "model": "m", "constraint": "c", "judge": "j", "score": "Yes"}
    load(study, write(json.dumps([row]), "v.json"))
    assert scores_of(study) == {"q.c": 1.0}


def test_inner_keys_can_be_mapped(study, write):
    row = {"query": "q", "run": {"llm": "m"}, "constraint": "c", "judge": "j", "score": 1}
    load(study, write(json.dumps(row), "v.jsonl"), map={"model": "run.llm"})
    assert rows(study, "SELECT model FROM responses") == [("m",)]


def test_responses_come_in_with_their_errors(study):
    report = load(study, EXAMPLES / "responses.jsonl", origin="simulated")
    assert problems(report) == []
    assert rows(study, "SELECT count(*), count(text), count(error) FROM responses") == [(12, 11, 1)]
    assert rows(study, "SELECT count(*) FROM wanted") == [(12,)]


def test_an_empty_answer_is_an_answer_and_a_missing_one_is_not(study, write):
    lines = [{"query": "q1", "model": "m", "text": ""}, {"query": "q2", "model": "m", "text": None}]
    report = load(study, write("\n".join(map(json.dumps, lines)), "r.jsonl"), kind="responses")
    assert problems(report) == [(2, "has neither a text nor an error")]
    assert rows(study, "SELECT text FROM responses") == [("",)]


def test_constraints_come_in_with_rules_and_reach_the_instances_of_their_query(study):
    load(study, EXAMPLES / "responses.jsonl", origin="simulated")
    report = load(study, EXAMPLES / "constraints.csv", origin="simulated")
    assert problems(report) == []
    assert rows(
        study,
        "SELECT instance_id, ordinal, constraint_id FROM instance_constraints ORDER BY 1, 2",
    ) == [
        ("energy-01-noise", 1, "energy-01.c01"),
        ("energy-01-noise", 2, "energy-01.c02"),
        ("energy-02-noise", 1, "energy-02.c01"),
        ("energy-02-noise", 2, "energy-02.c02"),
    ]
    rb.judge(study, "rules", origin="simulated")
    assert check(rb.connect(study)).is_empty()


def test_constraints_first_then_verdicts_shows_what_nobody_judged(study, write):
    load(study, write("query,constraint,dimension\nq1,c1,format\nq1,c2,style\n", "c.csv"))
    load(study, write("query,model,constraint,judge,score\nq1,m,c1,j,1\n"))
    frame = rb.scores(rb.connect(study))
    assert frame.select("strict_ias", "strict_ias_n", "strict_ias_planned").row(0) == (None, 0, 1)


def test_a_longer_constraint_set_is_said_aloud(study, write):
    load(study, write(HEAD + SOUND))
    report = load(study, write(HEAD + "q1,noise,example/a,c3,j2,1\n", "more.csv"))
    assert "1 instances of the study have 1 constraints more now" in notes(report)
    assert rows(study, "SELECT ordinal FROM instance_constraints ORDER BY 1") == [(1,), (2,), (3,)]


def test_texts_in_place_of_ids_get_short_names(study, write):
    question, rule = "What is the notice period for tenants, " * 4, "Answer in one sentence, " * 6
    head = "query,model,constraint,judge,score\n"
    load(study, write(f'{head}"{question}",m,"{rule}",j,1\n'))
    [(query, text)] = rows(study, "SELECT query_id, text FROM queries")
    assert query.startswith("q-")
    assert len(query) == 10
    assert text.strip() == question.strip()
    assert rows(study, "SELECT text FROM constraints") == [(rule.strip(),)]


def test_simulated_rows_share_no_study_with_measured_ones(study, write):
    load(study, write(HEAD + SOUND))
    before = study.read_bytes()
    with pytest.raises(rb.errors.RagbenchError, match="simulated"):
        load(study, EXAMPLES / "verdicts.csv", origin="simulated")
    assert study.read_bytes() == before


def test_the_study_can_be_named(study, write):
    load(study, write(HEAD + SOUND), name="Pilot")
    assert rows(study, "SELECT name, schema_version > 0 FROM study") == [("Pilot", True)]


def test_the_example_file_brings_two_runs_to_compare(study):
    report = load(study, EXAMPLES / "verdicts.csv", origin="simulated")
    assert [line for line, _ in problems(report)] == [139, 604, 966]
    assert added(report, "judgments") == 964
    con = rb.connect(study)
    assert rb.scores(con, by=["model", "setting"]).height == 4
    a, b = ({"model": "example/large", "setting": name} for name in ("plain", "checklist"))
    row = rb.paired(con, "loose_ias", a, b).row(0, named=True)
    assert row["n"] == 29
    assert row["lost_a"] == 1
    assert row["origin"] == "simulated"


def test_a_constraint_with_a_rule_nobody_knows_stays_without_it(study, write):
    file = write(
        "query,constraint,instruction,rule,params\n"
        'q1,c1,Be brief,shortness,"{}"\n'
        'q1,c2,No emoji,no_emoji,"{}"\n'
        'q1,c3,At most 300 characters,length,"{""unit"": ""characters"", ""at_most"": 400}"\n'
    )
    report = load(study, file, kind="constraints")
    told = report.filter(pl.col("what") == "ignored").select("line", "problem").rows()
    assert [line for line, _ in told] == [2, 4]
    assert "no rule" in told[0][1]
    assert "stored without its rule" in told[0][1]
    assert "300" in told[1][1]
    stored = "SELECT constraint_id, rule FROM constraints ORDER BY ALL"
    assert rows(study, stored) == [("q1.c1", None), ("q1.c2", "no_emoji"), ("q1.c3", "length")]


# ---------------------------------------------------------------- verdicts under an unknown name


VERDICTS = "question_id,llm,instruction,checker,ok,domain\n"


@pytest.mark.parametrize(
    ("text", "kind", "named"),
    [
        (VERDICTS + "q1,m,no lists,j,1,Legal\nq1,m,be brief,j,0,Legal\n", "constraints", "ok"),
        (VERDICTS + "q1,m,no lists,j,A,Legal\nq1,m,be brief,j,B,Legal\n", "constraints", "ok"),
        ("query,model,instruction,x\nq1,m,no lists,☑\n", "constraints", "x"),
        ("query,model,answer,instruction,grade\nq1,m,Yes,no lists,4\n", "responses", "grade"),
        ("query,model,answer,faithful\nq1,m,Yes,0.25\nq2,m,No,0.5\n", "responses", "faithful"),
        ("query,model,answer,是否满足\nq1,m,Yes,半\n", "responses", "是否满足"),
        ("query,model,constraint,judge,error,x\nq1,m,c1,j,late,A\n", "responses", "x"),
        ("query,instruction,holds\nq1,no lists,yes\nq1,be brief,no\n", "constraints", "holds"),
    ],
)
def test_a_column_that_may_hold_verdicts_is_never_dropped_in_silence(
    study, write, text, kind, named
):
    with pytest.raises(ImportFailed) as raised:
        load(study, write(text))
    said = str(raised.value)
    assert f'map={{"score": "{named}"}}' in said
    assert f'kind="{kind}"' in said
    assert "verdict, passed" in said  # what was looked for
    assert "\n" not in said
    assert not study.exists()
    assert added(load(study, write(text), kind=kind), kind) > 0


def test_such_a_column_once_named_brings_its_verdicts(study, write):
    text = VERDICTS + "q1,m,no lists,j,1,Legal\nq1,m,be brief,j,0,Legal\n"
    report = load(study, write(text), map={"score": "ok", "judge": "checker"})
    assert added(report, "judgments") == 2
    assert sorted(scores_of(study).values()) == [0.0, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "query,model,answer,note\nq1,m,Yes,seen\n",
        "query,model,answer,temperature,seed,run_id\nq1,m,Yes,0,1,0\n",
        "query,model,answer,chars\nq1,m,Yes,120\nq2,m,No,7\n",
        "query,instruction,input,model,output\nq1,Answer,Is it?,m,Yes\n",
        "query,instruction,priority\nq1,no lists,3\n",
        "query,model,instruction\nq1,m,no lists\n",
    ],
)
def test_columns_that_hold_no_verdicts_do_not_stop_an_import(study, write, text):
    assert load(study, write(text))["what"].to_list().count("rows") > 0


# ---------------------------------------------------------------- errors beside scores


def test_an_error_beside_a_score_for_the_same_verdict_is_said_to_be_left_out(study, write):
    lines = ("q1,noise,m,c1,j,1\n", "q1,noise,m,c1,j,maybe\n", "q1,noise,m,c1,j,?\n")
    report = load(study, write(HEAD + "".join(lines)))
    assert scores_of(study) == {"q1.c1": 1.0}
    told = report.filter(pl.col("line").is_not_null())
    assert told.select("what", "line", "value").rows() == [
        ("refused", 3, "maybe"),
        ("refused", 4, "?"),
    ]
    assert told["remedy"].str.starts_with("Not stored").all()
    assert "repeat a verdict" not in notes(report)
    later = load(study, write(HEAD + lines[1] + "q1,noise,m,c2,j,maybe\n", "later.csv"))
    told = later.filter(pl.col("line").is_not_null()).select("what", "line", "problem")
    assert [row[:2] for row in told.rows()] == [("refused", 2), ("error", 3)]
    assert "the study has a score" in told["problem"][0]
    assert scores_of(study) == {"q1.c1": 1.0, "q1.c2": None}
