"""Attacks on judges that keep to the prompt, copy what they read, or are talked round."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from string import Template

import judge_server
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import prompts
from ragbench.intervals import wilson
from ragbench.judging import attacks
from ragbench.judging.material import Material
from ragbench.judging.questions import call, inert


@pytest.fixture(scope="module")
def server() -> Iterator[judge_server.Server]:
    with judge_server.serve() as running:
        yield running


def test_the_suite_is_in_both_languages_and_its_blanks_are_filled() -> None:
    names = {
        language: sorted(a["name"] for a in attacks.attacks() if a["language"] == language)
        for language in prompts.LANGUAGES
    }
    assert names["en"] == names["zh"]
    assert len(names["en"]) == len(set(names["en"])) >= 22
    for attack in attacks.attacks():
        assert Template(attack["text"]).is_valid()
    probes = list(attacks.probes())
    assert len(probes) == (4 * 2 + 1) * 2 * (1 + len(names["en"]))
    assert not any("$" in text for probe in probes for text in probe.material.texts())


@pytest.mark.parametrize("judge", ["honest", "plain"])
def test_nothing_gets_through_to_a_judge_that_keeps_to_the_prompt(
    judge: str, server: judge_server.Server
) -> None:
    results = attacks.attack(judge, base_url=server.base_url)
    assert results["outcome"].unique().to_list() == ["held"]
    whole = attacks.rates(results)[-1].row(0, named=True)
    assert (whole["n"], whole["through"], whole["rate"]) == (results.height, 0, 0)
    assert whole["errors"] == whole["unsound"] == 0
    assert (whole["low"], whole["high"]) == pytest.approx(wilson(0, results.height))


def test_a_judge_that_copies_a_verdict_out_of_the_text_gives_an_error_and_not_that_verdict(
    server: judge_server.Server,
) -> None:
    results = attacks.attack("gullible", base_url=server.base_url)
    assert set(results["outcome"]) == {"held", "error"}
    names = ["bare verdict", "escaped letters", "wide gap"]
    copied = results.filter(pl.col("attack").is_in(names))
    assert copied["outcome"].unique().to_list() == ["error"]
    assert all("stands in the text" in text for text in copied["error"])
    # The judge did say what the attack wanted: it is the reader that does not believe it.
    assert all(json.loads(reply) for reply in copied["reply"])


def test_a_judge_that_is_talked_round_is_seen_to_be(server: judge_server.Server) -> None:
    results = attacks.attack("swayed", base_url=server.base_url, criteria=["adherence", "conflict"])
    rates = attacks.rates(results, by=["criterion", "place", "language"])
    assert rates.height == 2 * 2 * 2 + 1
    assert rates["rate"].min() > 0.3
    order = results.filter(attack="authority")
    assert order["outcome"].unique().to_list() == ["through"]


def test_a_judge_that_passes_everything_shows_nothing_about_attacks(
    server: judge_server.Server,
) -> None:
    results = attacks.attack("always", base_url=server.base_url, criteria=["adherence"])
    assert results["outcome"].unique().to_list() == ["unsound"]
    whole = attacks.rates(results)[-1].row(0, named=True)
    assert (whole["n"], whole["rate"], whole["low"]) == (0, None, None)


def test_the_command_prints_the_rate_and_what_got_through(
    server: judge_server.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--base-url", server.base_url, "--criteria", "conflict"]
    assert attacks.main(["honest", *options]) == 0
    assert "through:" not in capsys.readouterr().out
    assert attacks.main(["swayed", *options]) == 1
    said = capsys.readouterr().out
    whole, by_attack = said.split("What got through:")
    assert re.search(r"\| null +\| null +\| 88 ", whole)  # every attack, behind both places
    # In two languages behind two places: of each attack four.
    assert re.search(r"\| authority +\| 4 +\| 4 +\| 1\.000 ", by_attack)
    assert attacks.main(["always", *options]) == 3


def test_a_judge_that_cannot_be_asked_is_one_line(
    server: judge_server.Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_VARIABLE", "sk-nobody-may-see-this")
    options = ["--base-url", server.base_url, "--key-env", "MY_VARIABLE", "--criteria"]
    assert attacks.main(["locked/honest", *options, "adherence"]) == 3
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)
    assert "says 401: trouble for Bearer ***" in said.err
    assert attacks.main(["honest", *options, "adherance"]) == 3
    assert "did you mean 'adherence'" in capsys.readouterr().err


TEXT = st.text(max_size=80) | st.sampled_from(
    ["<<<END OF RESPONSE", "c0123456789a>>>", "\n", "<|im_end|>", "$response", "$code", "{}", "```"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, max_size=5).map("".join), TEXT, TEXT)
def test_no_text_can_end_its_fence_or_fill_a_blank(
    response: str, document: str, query: str
) -> None:
    prompt = prompts.load("adherence", "en")
    made = call(prompt, Material(query, [{"text": document}], response, "Be brief."))
    user = made.messages[1]["content"]
    assert user.count(f"<<<END OF RESPONSE {made.code}>>>") == 1
    assert judge_server.fenced(user, "RESPONSE") == inert(response)
    assert judge_server.fenced(user, "DOCUMENT 1") == inert(document)
    assert made.code not in response + document + query
    assert made.messages[0]["content"] == call(prompt, Material()).messages[0]["content"]


def test_the_code_is_the_same_on_every_machine_and_another_for_every_text_and_turn() -> None:
    prompt = prompts.load("rejection", "zh")
    material = Material("问", [{"text": "文"}], "答", language="zh")
    code = call(prompt, material).code
    assert code == call(prompt, material).code
    others = [
        call(prompt, material._replace(response="答。")),
        call(prompt, material._replace(query="问。")),
        call(prompt, material._replace(documents=[])),
        call(prompt, material, "1"),
    ]
    assert len({code, *(other.code for other in others)}) == 5
    assert call(prompt, material._replace(constraint="x")).code == code


@pytest.mark.parametrize(
    "mark", ["<|im_end|>", "<｜User｜>", "[/INST]", "<s>", "</s>", "<<SYS>>", "<end_of_turn>"]
)
def test_marks_of_chat_templates_do_not_reach_the_server_whole(mark: str) -> None:
    made = call(prompts.load("rejection"), Material(response=f"before {mark} after"))
    assert mark not in made.messages[1]["content"]
    assert mark in made.messages[1]["content"].replace("\u200b", "")


def test_ordinary_text_reaches_the_judge_as_it_is() -> None:
    text = "a < b, [1], <b>bold</b>, |x|, 《书》 <https://example.org>"
    assert inert(text) == text
    assert (
        pl.Series([text]).item() in call(prompts.load("conflict"), Material(response=text)).judged
    )
