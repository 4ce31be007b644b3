"""Two sides on the same instances, and the rate of independent failures, computed again."""

from __future__ import annotations

import itertools
import random

import numpy as np
import polars as pl
import pytest
import random_study
import recompute
import statsmodels.api as sm

import ragbench
from ragbench.errors import AmbiguousPanel, RagbenchError, UnknownName


def wanted_row(study, metric, sides, panels, unit):
    """What `paired` should give, from the recomputed values of both sides."""
    a, b = (
        by_unit(recompute.paired_values(study, metric, side, panel), unit)
        for side, panel in zip(sides, panels, strict=True)
    )
    shared = sorted(set(a) & set(b))
    pairs = [(a[key], b[key]) for key in shared]
    known = [(x, y) for x, y in pairs if x[1] is not None and y[1] is not None]
    gaps = [x[1] - y[1] for x, y in known]
    queries = [x[0] for x, _ in known]
    row = {
        "n": len(known),
        "n_queries": len(set(queries)),
        "planned": len(pairs),
        "lost_a": sum(x[1] is None and y[1] is not None for x, y in pairs),
        "lost_b": sum(x[1] is not None and y[1] is None for x, y in pairs),
        "lost_both": sum(x[1] is None and y[1] is None for x, y in pairs),
        "unpaired_a": len(a) - len(pairs),
        "unpaired_b": len(b) - len(pairs),
    }
    if pairs:
        row["lowest"] = sum(x[2] - y[3] for x, y in pairs) / len(pairs)
        row["highest"] = sum(x[3] - y[2] for x, y in pairs) / len(pairs)
    if known:
        row["mean_a"] = sum(x[1] for x, _ in known) / len(known)
        row["mean_b"] = sum(y[1] for _, y in known) / len(known)
        row["difference"] = row["mean_a"] - row["mean_b"]
        row |= least_squares(gaps, queries)
        values = {value for x, y in known for value in (x[1], y[1])}
        cells = {"both": (1, 1), "only_a": (1, 0), "only_b": (0, 1), "neither": (0, 0)}
        if values <= {0, 1} and metric in (*recompute.BINARY, *recompute.yes_no_criteria(study)):
            row |= {
                cell: sum((x[1], y[1]) == both for x, y in known) for cell, both in cells.items()
            }
    return row


def by_unit(values, unit):
    """Values by the parts of (instance, model, setting) that make a pair, the rest averaged."""
    positions = [("instance_id", "model", "setting").index(name) for name in unit]
    gathered = {}
    for key, value in values.items():
        gathered.setdefault(tuple(key[i] for i in positions), []).append(value)
    return {
        key: (many[0][0], *map(mean, list(zip(*many, strict=True))[1:]))
        for key, many in gathered.items()
    }


def mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def least_squares(gaps, queries):
    """Interval and p of a regression of the differences on a constant, clustered by query."""
    if len(set(queries)) < 2:
        return {"low": None, "high": None, "p_value": None, "interval": "none: one query"}
    if max(gaps) - min(gaps) < 1e-9:
        p_value = None if abs(gaps[0]) > 1e-9 else 1.0
        return {"low": None, "p_value": p_value, "interval": "none: all pairs alike"}
    codes = np.unique(queries, return_inverse=True)[1]
    fit = sm.OLS(np.array(gaps), np.ones(len(gaps))).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    if fit.bse[0] < 1e-9:
        return {"interval": "none: all pairs alike"}
    low, high = fit.conf_int()[0]
    return {"low": low, "high": high, "p_value": fit.pvalues[0], "interval": "clustered by query"}


def assert_row(found, expected):
    for name, value in expected.items():
        approximate = pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
        assert found[name] == approximate, name


def ask(con, metric, a, b, **more):
    return ragbench.paired(con, metric, a, b, **more).row(0, named=True)


METRICS = (*recompute.METRICS, "faithfulness", "coverage", "rejection", "tone", "polite")


@pytest.mark.parametrize("seed", random_study.POOL)
def test_paired_equals_the_recomputation(seed):
    study, con = random_study.stored(seed)
    choose = random.Random(seed)
    models = sorted({row["model"] for row in study["responses"]})
    settings_ = sorted({row["setting"] for row in study["responses"]})
    for metric in METRICS:
        panel = choose.choice(list(recompute.panels(study)))
        a, b = (
            {"model": choose.choice(models), "setting": choose.choice(settings_)} for _ in range(2)
        )
        expected = wanted_row(study, metric, (a, b), (panel, panel), ["instance_id"])
        if not asked(study, a, panel) & asked(study, b, panel):
            with pytest.raises(RagbenchError, match=r"no response has|share no instance"):
                ask(con, metric, a, b, panel=panel)
            continue
        found = ask(con, metric, a, b, panel=panel)
        assert_row(found, expected)
        back = ask(con, metric, b, a, panel=panel)
        assert_row(back, mirrored(found))


@pytest.mark.parametrize("seed", random_study.POOL)
def test_kinds_of_models_are_compared_by_the_mean_of_their_models(seed):
    study, con = random_study.stored(seed)
    panel = next(iter(recompute.panels(study)))
    for name in ("label", "family", "is_open"):
        kinds = list(dict.fromkeys(row.get(name) for row in study["models"]))
        for a, b in itertools.pairwise(kinds):
            sides = ({name: a}, {name: b})
            if not all(asked(study, side, panel) for side in sides):
                continue
            if not asked(study, sides[0], panel, True) & asked(study, sides[1], panel, True):
                continue
            for metric in ("strict_ias", "loose_ias", "rejection"):
                unit = ["instance_id", "setting"]
                expected = wanted_row(study, metric, sides, (panel, panel), unit)
                assert_row(ask(con, metric, *sides, panel=panel), expected)


def test_models_weigh_alike_however_many_trials_they_have(tmp_path):
    path = tmp_path / "s.duckdb"
    kinds = {"r1": "reasoning", "r2": "reasoning", "s": "standard"}
    ragbench.append(path, "models", [{"model": m, "paradigm": kind} for m, kind in kinds.items()])
    lines = [
        {"query": "q1", "model": model, "trial": trial, "verdicts": [verdict]}
        for model, verdicts in {"r1": [1, 1, 1], "r2": [0], "s": [0]}.items()
        for trial, verdict in enumerate(verdicts)
    ]
    lines += [{"query": "q2", "model": model, "verdicts": [1]} for model in kinds]
    con = random_study.plain(path, lines)
    row = ask(con, "strict_ias", {"paradigm": "reasoning"}, {"paradigm": "standard"})
    assert (row["n"], row["mean_a"], row["mean_b"]) == (2, 0.75, 0.5)
    # With the kind on both sides, models are paired with themselves.
    same = {"paradigm": "reasoning", "setting": lines[0].get("setting", "given_context")}
    assert ask(con, "strict_ias", same, same)["n"] == 4


def asked(study, side, panel, by_setting=False):
    """The instances that a side was asked about."""
    rows = [response.row for response in recompute.responses(study, panel)]
    fitting = [row for row in rows if recompute.fits(row, side)]
    return {(row["instance_id"], row["setting"] if by_setting else None) for row in fitting}


def mirrored(row):
    """The row with its sides swapped."""
    swap = {"mean_a": "mean_b", "lost_a": "lost_b", "only_a": "only_b", "unpaired_a": "unpaired_b"}
    swap |= {new: old for old, new in swap.items()} | {"a": "b", "b": "a"}
    minus = {"difference": "difference", "low": "high", "high": "low"}
    minus |= {"lowest": "highest", "highest": "lowest"}
    return {
        name: (None if row[minus[name]] is None else -row[minus[name]])
        if name in minus
        else row[swap.get(name, name)]
        for name in row
        if name not in ("panel", "origin")
    }


@pytest.mark.parametrize("seed", random_study.POOL)
def test_judges_are_compared_on_the_same_responses(seed):
    study, con = random_study.stored(seed)
    names = list(recompute.panels(study))
    a, b = random.Random(seed).choice(names), random.Random(seed + 1).choice(names)
    unit = ["instance_id", "model", "setting"]
    for metric in ("strict_ias", "loose_ias", "rejection"):
        expected = wanted_row(study, metric, ({}, {}), (a, b), unit)
        found = ask(con, metric, {"panel": a}, {"panel": b})
        assert_row(found, expected)
        assert found["panel"] == (a if a == b else f"{a} / {b}")


# ---------------------------------------------------------------- small cases by hand


def two_settings(path, rows, **more):
    """A study with settings x and y; `rows` gives query, verdicts of x, verdicts of y."""
    lines = [
        {"query": query, "setting": setting, "verdicts": verdicts}
        for query, *sides in rows
        for setting, verdicts in zip("xy", sides, strict=True)
        if verdicts is not None
    ]
    return random_study.plain(path, lines, **more)


X, Y = {"model": "m", "setting": "x"}, {"model": "m", "setting": "y"}


def test_discordant_and_lost_pairs_are_counted(tmp_path):
    con = two_settings(
        tmp_path / "s.duckdb",
        [
            ("q1", [1, 1], [1, 0]),
            ("q2", [1, 1], [1, 1]),
            ("q3", [0, 0], [1, 1]),
            ("q4", [0, 1], [1, 0]),
            ("q5", [1, None], [1, 1]),
            ("q6", [1, 1], ["error", 1]),
            ("q7", [None, 1], [1, "error"]),
            ("q8", [1, 1], None),
        ],
    )
    row = ask(con, "strict_ias", X, Y)
    assert [row[cell] for cell in ("both", "only_a", "only_b", "neither")] == [1, 1, 1, 1]
    assert [row[f"lost_{side}"] for side in ("a", "b", "both")] == [1, 1, 1]
    assert (row["n"], row["planned"], row["unpaired_a"], row["unpaired_b"]) == (4, 7, 1, 0)
    assert (row["mean_a"], row["mean_b"], row["difference"], row["p_value"]) == (0.5, 0.5, 0, 1)
    assert (row["lowest"], row["highest"]) == (pytest.approx(-2 / 7), pytest.approx(2 / 7))
    assert (row["a"], row["b"]) == ("model=m, setting=x", "model=m, setting=y")


def test_no_discordant_pair_means_no_evidence(tmp_path):
    con = two_settings(tmp_path / "s.duckdb", [(i, [i % 2], [i % 2]) for i in range(8)])
    row = ask(con, "strict_ias", X, Y)
    assert (row["only_a"], row["only_b"], row["difference"], row["p_value"]) == (0, 0, 0, 1)
    assert (row["low"], row["high"], row["interval"]) == (None, None, "none: all pairs alike")


def test_always_the_same_difference_has_no_p(tmp_path):
    con = two_settings(tmp_path / "s.duckdb", [(i, [1, 1, 0], [1, 0, 0]) for i in range(7)])
    row = ask(con, "loose_ias", X, Y)
    assert (row["difference"], row["p_value"]) == (pytest.approx(1 / 3), None)
    assert row["interval"] == "none: all pairs alike"


def test_a_side_against_itself_is_zero(tmp_path):
    con = two_settings(tmp_path / "s.duckdb", [(i, [i % 2, 1], [1, 1]) for i in range(5)])
    row = ask(con, "loose_ias", X, X)
    assert (row["difference"], row["p_value"], row["n"]) == (0, 1, 5)


def test_one_query_cannot_be_tested(tmp_path):
    con = two_settings(tmp_path / "s.duckdb", [("q", [1, 1], [0, 1])])
    row = ask(con, "loose_ias", X, Y)
    assert (row["difference"], row["p_value"], row["interval"]) == (0.5, None, "none: one query")


def test_trials_are_averaged_before_pairing(tmp_path):
    given = {"q1": ([1, 0, 1, 1], [1, 1, 0, 0]), "q2": ([0, 0, 0, 0], [1, 1, 1, 1])}
    lines = [
        {"query": query, "setting": setting, "trial": trial, "verdicts": [verdict]}
        for query, sides in given.items()
        for setting, verdicts in zip("xy", sides, strict=True)
        for trial, verdict in enumerate(verdicts)
    ]
    con = random_study.plain(tmp_path / "s.duckdb", lines)
    row = ask(con, "strict_ias", X, Y)
    assert (row["n"], row["mean_a"], row["mean_b"]) == (2, 0.375, 0.75)
    assert row["only_a"] is None  # averages are not yes or no
    first = ask(con, "strict_ias", X, Y, where={"trial": 0})
    assert (first["mean_a"], first["mean_b"], first["both"], first["only_b"]) == (0.5, 1, 1, 1)


def test_a_partly_judged_set_of_trials_counts_with_what_it_has(tmp_path):
    lines = [
        {"query": "q", "setting": "x", "trial": trial, "verdicts": [verdict]}
        for trial, verdict in enumerate([1, 1, "error"])
    ] + [{"query": "q", "setting": "y", "verdicts": [0]}]
    row = ask(random_study.plain(tmp_path / "s.duckdb", lines), "strict_ias", X, Y)
    assert (row["n"], row["difference"]) == (1, 1)
    assert (row["lowest"], row["highest"]) == (pytest.approx(2 / 3), 1)


def test_paired_takes_criteria_of_ones_own_and_no_pooled_one(tmp_path):
    path = tmp_path / "s.duckdb"
    tone = {"criterion": "tone", "target": "response", "lowest": 1, "highest": 5}
    ragbench.append(path, "criteria", [tone])
    lines = [
        {"query": query, "setting": setting, "more": {"tone": score}}
        for query, *scores in (("q1", 5, 3), ("q2", 4, 4), ("q3", "error", 2))
        for setting, score in zip("xy", scores, strict=True)
    ]
    con = random_study.plain(path, lines)
    row = ask(con, "tone", X, Y)
    assert (row["mean_a"], row["mean_b"], row["difference"]) == (4.5, 3.5, 1)
    assert (row["lost_a"], row["only_a"]) == (1, None)
    assert (row["lowest"], row["highest"]) == ((2 + 0 - 1) / 3, (2 + 0 + 3) / 3)
    with pytest.raises(UnknownName, match="no metric of single responses 'loose_pooled'"):
        ask(con, "loose_pooled", X, Y)
    with pytest.raises(UnknownName, match="did you mean 'tone'"):
        ask(con, "tones", X, Y)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({"model": "M"}, {"model": "m"}, "the study has no model 'M'"),
        ({"domain": "d1"}, {"domain": "d2"}, "domain=d1 and domain=d2 share no instance"),
        ({"setting": "x"}, {"setting": "y"}, "no response has setting=y where domain=d1"),
    ],
)
def test_what_cannot_be_paired_is_refused(tmp_path, a, b, message):
    lines = [
        {"query": "1", "domain": "d1", "setting": "x", "verdicts": [1]},
        {"query": "2", "domain": "d2", "setting": "y", "verdicts": [1]},
    ]
    con = random_study.plain(tmp_path / "s.duckdb", lines)
    where = {"domain": "d1"} if "setting" in a else None
    with pytest.raises(RagbenchError, match=message):
        ask(con, "strict_ias", a, b, where=where)


def test_a_metric_that_applies_nowhere_is_no_pair(tmp_path):
    con = two_settings(tmp_path / "s.duckdb", [("q", [1], [1])])
    row = ask(con, "rejection", X, Y)
    assert (row["n"], row["planned"], row["difference"]) == (0, 0, None)
    assert row["interval"] == "none: no pair has both values"


def test_where_may_name_the_panel(tmp_path):
    path = tmp_path / "s.duckdb"
    two_settings(path, [("q", [1], [1])]).close()
    ragbench.append(path, "judges", [{"judge": "gpt", "kind": "llm"}])
    con = ragbench.connect(path)
    assert ask(con, "strict_ias", X, Y)["panel"] == "kimi"  # gpt has given no score yet
    key = con.sql("SELECT min(response_id) FROM responses").fetchall()[0][0]
    graded = {"response_id": key, "target_id": key, "criterion": "rejection", "score": 1.0}
    ragbench.append(path, "judgments", [{**graded, "judge": "gpt"}])
    with pytest.raises(AmbiguousPanel, match="gpt, kimi"):
        ask(con, "strict_ias", X, Y)
    assert ask(con, "strict_ias", X, Y, where={"panel": "kimi"})["n"] == 1
    assert ask(con, "strict_ias", X, Y, where={"panel": "gpt"})["n"] == 0
    with pytest.raises(RagbenchError, match="no verdict is by both"):
        ask(con, "strict_ias", X, Y, where={"panel": "kimi"}, panel="gpt")
    assert ask(con, "strict_ias", {**X, "judge": "kimi"}, {**X, "judge": "gpt"})["lost_b"] == 1
    assert ragbench.independence(con, where={"panel": "kimi"})["panel"].item() == "kimi"


# ---------------------------------------------------------------- groups of instances


def wanted_contrast(study, metric, sides, panel):
    """What `unpaired` should give, from the recomputed values of both sides."""
    row, known = {}, []
    groups = [list(recompute.paired_values(study, metric, side, panel).values()) for side in sides]
    for name, sign, values in zip("ab", (1, 0), groups, strict=True):
        found = [value for value in values if value[1] is not None]
        row |= {f"planned_{name}": len(values), f"n_{name}": len(found)}
        row[f"lost_{name}"] = len(values) - len(found)
        row[f"mean_{name}"] = mean([value[1] for value in found])
        known += [(value[0], sign, value[1]) for value in found]
    row["n_queries"] = len({query for query, _, _ in known})
    if all(groups):
        low, high = ([mean([v[i] for v in values]) for values in groups] for i in (2, 3))
        row |= {"lowest": low[0] - high[1], "highest": high[0] - low[1]}
    if not (row["n_a"] and row["n_b"]):
        return row | {"difference": None, "interval": "none: a side has no value"}
    row["difference"] = row["mean_a"] - row["mean_b"]
    queries, side, y = (np.array(column) for column in zip(*known, strict=True))
    if row["n_queries"] < 2 or len(known) < 3:
        return row | {"low": None, "p_value": None, "interval": "none: one query"}
    fit = sm.OLS(y, sm.add_constant(side)).fit(
        cov_type="cluster",
        cov_kwds={"groups": np.unique(queries, return_inverse=True)[1]},
        use_t=True,
    )
    if fit.bse[1] < 1e-9:
        return row | {"low": None, "interval": "none: all alike within the sides"}
    low, high = fit.conf_int()[1]
    interval = {"low": low, "high": high, "p_value": fit.pvalues[1]}
    return row | interval | {"interval": "clustered by query"}


@pytest.mark.parametrize("seed", random_study.POOL)
def test_unpaired_equals_a_regression_on_the_side(seed):
    study, con = random_study.stored(seed)
    panel = next(iter(recompute.panels(study)))
    for name in ("domain", "language", "context_mode", "is_augmented"):
        rows = recompute.responses(study, panel)
        options = sorted({r.row[name] for r in rows if r.row[name] is not None})
        for a, b in itertools.pairwise(options):
            for metric in ("strict_ias", "loose_ias", "rejection", "coverage"):
                sides = ({name: a}, {name: b})
                found = ragbench.unpaired(con, metric, *sides, panel=panel).row(0, named=True)
                assert_row(found, wanted_contrast(study, metric, sides, panel))
                back = ragbench.unpaired(con, metric, *sides[::-1], panel=panel).row(0, named=True)
                assert back["p_value"] == pytest.approx(found["p_value"], abs=1e-9)


def test_groups_that_overlap_or_are_empty_are_refused(tmp_path):
    lines = [
        {"query": str(i), "domain": f"d{i % 2}", "setting": "x", "verdicts": [1]} for i in range(4)
    ]
    con = random_study.plain(tmp_path / "s.duckdb", lines)
    with pytest.raises(RagbenchError, match="have responses in common"):
        ragbench.unpaired(con, "strict_ias", {"domain": "d0"}, {"setting": "x"})
    with pytest.raises(RagbenchError, match="no response has domain=d1 where domain=d0"):
        ragbench.unpaired(con, "strict_ias", {"domain": "d0"}, {"domain": "d1"}, {"domain": "d0"})
    row = ragbench.unpaired(con, "rejection", {"domain": "d0"}, {"domain": "d1"})
    assert row.select("n_a", "planned_b", "difference", "lowest").row(0) == (0, 0, None, None)


# ---------------------------------------------------------------- independence


@pytest.mark.parametrize("seed", random_study.POOL)
def test_independence_equals_a_loop_over_queries(seed):
    study, con = random_study.stored(seed)
    choose = random.Random(seed)
    for by, where in ((("model",), {}), ((), {"trial": 0}), (("domain", "setting"), {})):
        panel = choose.choice(list(recompute.panels(study)))
        frame = ragbench.independence(con, by, where, panel)
        expected = recompute.independence(study, by, where, panel)
        found = {tuple(row[name] for name in by): row for row in frame.iter_rows(named=True)}
        assert set(found) == set(expected)
        for group, row in expected.items():
            assert_row(found[group], row)


def test_failures_that_come_together_exceed_what_independent_ones_would_give(tmp_path):
    together = [[1, 1]] * 5 + [[0, 0]] * 5
    apart = [[1, 0]] * 5 + [[0, 1]] * 5
    lines = [
        {"query": i, "model": model, "verdicts": verdicts}
        for model, rows in (("together", together), ("apart", apart))
        for i, verdicts in enumerate(rows)
    ]
    con = random_study.plain(tmp_path / "s.duckdb", lines, dimensions=("role", "format"))
    apart_row, together_row = ragbench.independence(con).iter_rows(named=True)
    assert (apart_row["strict_ias"], apart_row["independent"]) == (0, 0.25)
    assert (together_row["strict_ias"], together_row["independent"]) == (0.5, 0.25)
    assert 0 <= together_row["independent_low"] < 0.25 < together_row["independent_high"] <= 1


@pytest.mark.parametrize(("verdict", "rate"), [(0, 0.0), (1, 1.0)])
def test_rates_at_an_end_have_no_spread_to_show(tmp_path, verdict, rate):
    lines = [{"query": i, "verdicts": [verdict, verdict]} for i in range(5)]
    row = ragbench.independence(random_study.plain(tmp_path / "s.duckdb", lines))
    row = row.row(0, named=True)
    assert (row["strict_ias"], row["independent"], row["n"]) == (rate, rate, 5)
    assert (row["independent_low"], row["independent_high"]) == (None, None)


def test_dimensions_may_have_any_name(tmp_path):
    names = ("_query", "_response", "_strict")
    path = tmp_path / "s.duckdb"
    ragbench.append(path, "dimensions", [{"dimension": n, "category": "additional"} for n in names])
    lines = [{"query": i, "verdicts": [1, i % 2, 1]} for i in range(4)]
    con = random_study.plain(path, lines, dimensions=names)
    assert ragbench.independence(con)["independent"].item() == 0.5


def test_independence_compares_no_panels_and_may_be_empty(tmp_path):
    con = random_study.plain(tmp_path / "s.duckdb", [{"query": 1, "verdicts": [None]}])
    with pytest.raises(RagbenchError, match="once per panel"):
        ragbench.independence(con, "panel")
    empty = ragbench.independence(con)
    assert empty.is_empty()
    assert empty.schema["independent"] == pl.Float64
