"""The commands: each a few lines over one public function.

Exit codes: 0 done; 1 an error, said in one line; 2 wrong usage; 3 done, but something was left out
or is wrong and was listed; 130 stopped by Ctrl-C (what was finished is stored).
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from ragbench.errors import RagbenchError

app = typer.Typer(
    help="Measure whether answers obey all their instructions: one row per verdict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Study = Annotated[Path, typer.Argument(help="The study file (made when absent by `import`).")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="column=value; again, or a|b, for any of several values; another column narrows. "
        r"`column=` is no value, \| a bar in a name, \\ a backslash.",
    ),
]
Panel = Annotated[str | None, typer.Option(help="Judge or panel; the study's primary one.")]
Setting = Annotated[str, typer.Option(help="given_context, constraints_last, or a file, name.md.")]
Trials = Annotated[int, typer.Option(help="Responses per instance.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]


@app.command("import")
def import_(
    study: Study,
    source: Annotated[Path, typer.Argument(help="File to bring in.")],
    kind: Annotated[
        str | None,
        typer.Option(help="verdicts, responses, constraints, inspect, lm_eval, promptfoo."),
    ] = None,
    map: Annotated[str, typer.Option(help="our column=theirs, comma between.")] = "",
    dry_run: Annotated[bool, typer.Option(help="Show the report and store nothing.")] = False,
    origin: Annotated[str, typer.Option(help="measured, recorded or simulated.")] = "measured",
    csv: Csv = False,
) -> None:
    """Bring verdicts, responses or constraints in from a file.

    ragbench import my.duckdb verdicts.csv --map model=llm,score=passed --dry-run
    """
    from ragbench.importers import load

    report = load(study, source, kind=kind, map=_pairs(map) or None, dry_run=dry_run, origin=origin)
    _show(report, csv)
    _exit(3 if report["line"].is_not_null().any() else 0)


@app.command()
def scores(
    study: Study,
    by: Annotated[str, typer.Option(help="Columns to group by, comma between.")] = "model",
    where: Where = None,
    panel: Panel = None,
    metrics: Annotated[str, typer.Option(help="Only these metrics, comma between.")] = "",
    csv: Csv = False,
) -> None:
    """Every metric with its n, interval and bounds (proportions are 0-1).

    ragbench scores my.duckdb --by model,domain --where context_mode=gap --metrics strict_ias
    """
    from ragbench import metrics as m
    from ragbench.store import connect

    frame = m.scores(
        connect(study), _names(by), _where(where), panel, metrics=_names(metrics) or None
    )
    _show(m.tidy(frame), csv)


@app.command()
def pending(
    study: Study,
    where: Where = None,
    model: Annotated[list[str] | None, typer.Option(help="As if this one were run too.")] = None,
    setting: Setting = "given_context",
    trials: Trials = 1,
    csv: Csv = False,
) -> None:
    """What is left to answer and to judge, and what the answers will take in tokens and dollars.

    ragbench pending my.duckdb --model openai/gpt-4o-mini --where domain=Legal
    """
    from ragbench.checks import outstanding
    from ragbench.run import prompts_of
    from ragbench.store import connect

    name = prompts_of(setting)[0]
    con = connect(study)
    _show(outstanding(con, _where(where), models=model or (), setting=name, trials=trials), csv)


@app.command()
def run(
    study: Study,
    model: Annotated[
        list[str], typer.Option(help="local/smollm2, provider/model, or a name with --base-url.")
    ],
    setting: Setting = "given_context",
    prompt: Annotated[str | None, typer.Option(help="Prompt, when the setting is another.")] = None,
    trials: Trials = 1,
    where: Where = None,
    limit: Annotated[int | None, typer.Option(help="At most so many answers of a model.")] = None,
    retry_errors: Annotated[bool, typer.Option(help="Ask again where there is an error.")] = False,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint.")] = None,
    key_env: Annotated[str | None, typer.Option(help="Variable that holds the key.")] = None,
    parameters: Annotated[str, typer.Option(help="temperature=0,max_tokens=500, …")] = "",
    concurrency: Annotated[int | None, typer.Option(help="Calls at once at most.")] = None,
    budget: Annotated[str, typer.Option(help="cost=5,tokens=1e6,minutes=30; any of them.")] = "",
    prices: Annotated[str, typer.Option(help="input=1,output=3,cached=0.1 per million.")] = "",
    timeout: Annotated[float, typer.Option(help="Seconds for one try.")] = 300.0,
    csv: Csv = False,
) -> None:
    """Have models answer what they have not answered yet; stop it at any moment and call it again.

    ragbench run my.duckdb --model local/smollm2 --limit 5
    """
    from ragbench.run import answer

    report = answer(
        study,
        model,
        setting=setting,
        prompt=prompt,
        trials=trials,
        where=_where(where),
        limit=limit,
        retry_errors=retry_errors,
        parameters=_numbers("--parameters", parameters),
        base_url=base_url,
        key_env=key_env,
        concurrency=concurrency,
        budget=_numbers("--budget", budget),
        prices=_numbers("--prices", prices) or None,
        timeout=timeout,
    )
    _show(report, csv)
    made = pl.col("answered") + pl.col("errors")  # what a limit leaves was not asked for
    is_left = (pl.col("left") > 0) & (made < (limit if limit is not None else math.inf))
    _exit(3 if report.select(((pl.col("errors") > 0) | is_left).any()).item() else 0)


@app.command()
def check(study: Study, panel: Panel = None, csv: Csv = False) -> None:
    """Integrity of the study, and where its responses are: planned, answered, judged, errors.

    ragbench check my.duckdb
    """
    from ragbench.checks import check as problems
    from ragbench.checks import ledger
    from ragbench.store import connect

    con = connect(study)
    found = problems(con)
    if found.is_empty():
        print("sound: no problem found")
    else:
        _show(found, csv)
    _show(ledger(con, panel=panel), csv)
    _exit(0 if found.is_empty() else 3)


@app.command()
def judge(
    study: Study,
    judge: Annotated[
        str, typer.Option("--judge", "--judge-model", help="rules, or a model, as for `run`.")
    ] = "rules",
    criteria: Annotated[str, typer.Option(help="Only these, comma between.")] = "",
    prompt: Annotated[Path | None, typer.Option(help="A prompt of your own, name.md.")] = None,
    repeats: Annotated[int, typer.Option(help="Verdicts on each.")] = 1,
    where: Where = None,
    retry_errors: Annotated[bool, typer.Option(help="Ask again where there is an error.")] = False,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint.")] = None,
    key_env: Annotated[str | None, typer.Option(help="Variable that holds the key.")] = None,
    parameters: Annotated[str, typer.Option(help="temperature=0,max_tokens=500, …")] = "",
    concurrency: Annotated[int | None, typer.Option(help="Calls at once at most.")] = None,
    budget: Annotated[str, typer.Option(help="cost=5,tokens=1e6,minutes=30; any of them.")] = "",
    prices: Annotated[str, typer.Option(help="input=1,output=3,cached=0.1 per million.")] = "",
    timeout: Annotated[float, typer.Option(help="Seconds for one try.")] = 300.0,
) -> None:
    """Judge what is not judged yet; stop it at any moment and call it again.

    ragbench judge my.duckdb --judge-model openai/gpt-4o --where model=my-model
    """
    from ragbench.judging.judge import judge as run

    report = run(
        study,
        judge,
        criteria=_names(criteria) or None,
        prompt=prompt,
        repeats=repeats,
        where=_where(where),
        retry_errors=retry_errors,
        base_url=base_url,
        key_env=key_env,
        parameters=_numbers("--parameters", parameters) if parameters else None,
        concurrency=concurrency,
        budget=_numbers("--budget", budget) or None,
        prices=_numbers("--prices", prices) or None,
        timeout=timeout,
    )
    _show(report, False)
    _exit(3 if report.select((pl.col("errors") + pl.col("left")).sum()).item() else 0)


@app.command()
def export(
    study: Study,
    folder: Annotated[Path, typer.Argument(help="Folder for one file per relation.")],
    relations: Annotated[str, typer.Option(help="Only these, comma between.")] = "",
    format: Annotated[str, typer.Option(help="parquet or csv.")] = "parquet",
) -> None:
    """Write relations as Parquet, or as CSV in which no text acts as a formula.

    ragbench export my.duckdb out --format csv --relations judgments,evidence
    """
    from ragbench.exports import export as write
    from ragbench.store import connect

    _show(write(connect(study), folder, _names(relations), format=format), False)


@app.command()
def rebuild(
    artifact: Annotated[str, typer.Argument(help="An artifact, or all, or study.")] = "all",
    study: Annotated[
        Path | None, typer.Option(help="Your study, or a pack; else the shipped ones.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures and numbers.")] = Path(
        "figures/out"
    ),
    formats: Annotated[str, typer.Option(help="html, svg, pdf, png; comma between.")] = "html",
) -> None:
    """Make artifacts from rows; what has not changed is left alone.

    ragbench rebuild gap --study my.duckdb --formats html,svg
    """
    from ragbench import paper, shipped
    from ragbench.packs import opened

    if artifact == "study":
        print(*(paper.shipped(name) for name in shipped.STUDIES), sep="\n")
        return
    names = () if artifact == "all" else _names(artifact)
    # Recorded rows first; what is named is made from them alone.
    ours = shipped.STUDIES if not names else shipped.STUDIES[:1]
    files = [opened(study)] if study else [paper.shipped(name) for name in ours]
    reports = []
    for file in files:
        to = out / (study.stem if study else file.stem)
        reports.append(paper.rebuild_all(file, to, names, formats=_names(formats)))
    report = pl.concat(reports)
    _show(report, False)
    _exit(3 if report["status"].str.starts_with("not").any() else 0)


@app.command()
def pack(
    study: Study,
    target: Annotated[Path, typer.Argument(help="A new folder, or a new file that ends in .zip.")],
    without: Annotated[
        str, typer.Option(help="Texts to leave out: documents, responses, evidence.")
    ] = "",
    licence: Annotated[
        list[str] | None, typer.Option(help="source=terms, for documents; again for more.")
    ] = None,
    formats: Annotated[str, typer.Option(help="html, svg, pdf, png; comma between.")] = "html",
) -> None:
    """What a reviewer needs: rows, definitions, prompts, versions, tables, figures, data card.

    ragbench pack my.duckdb my-study.zip --without documents
    """
    from ragbench.packs import pack as write

    terms = dict(option.split("=", 1) for option in licence or () if "=" in option)
    if len(terms) < len(licence or ()):
        raise RagbenchError("--licence is source=terms, such as --licence 'handbook=CC BY 4.0'.")
    endings = _names(formats)
    report = write(study, target, without=_names(without), licences=terms, formats=endings)
    _show(report, False)
    names = set(report["file"])
    tables = {name.removesuffix(".tex") for name in names if name.endswith(".tex")}
    figures = {name.removesuffix(".html") for name in names if name.endswith(".html")} - tables
    # Pictures that a browser would have drawn; each was named when it was its turn.
    _exit(0 if {f"{figure}.{ending}" for figure in figures for ending in endings} <= names else 3)


@app.command()
def sample(
    study: Annotated[Path, typer.Argument(help="The study file to make; there must be none yet.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same study.")] = 0,
    csv: Csv = False,
) -> None:
    """Write a simulated study, and say which printed numbers its rows give by construction.

    ragbench sample simulated.duckdb --seed 0
    """
    from ragbench.simulate import study as make

    report = make(study, seed=seed)
    if csv:
        _show(report, csv)
        return
    _show(report.group_by("artifact", "status", maintain_order=True).len("cells"), csv)
    _show(report.filter(pl.col("status") != "by construction").drop("decimals"), csv)


@app.command()
def audit(
    files: Annotated[list[Path], typer.Argument(help="CSV with a declaration beside it, or TOML.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the reports.")] = None,
    formats: Annotated[str, typer.Option(help="html, md, json; comma between.")] = "html,md,json",
    draft: Annotated[bool, typer.Option("--draft", help="Print a declaration to adapt.")] = False,
    csv: Csv = False,
) -> None:
    """Check printed tables: what cannot be, what follows, what is left open.

    ragbench audit data/paper/rgb.toml --out reports
    """
    from ragbench import audit as a

    for file in files:
        if draft:
            print(a.draft(file))
            continue
        found = a.audit(file)
        print(f"{file}: {a.summary(found)}")
        wrong = a.frame(found, "inconsistent").select("check", "arithmetic", "assumes")
        if wrong.height or csv:
            _show(wrong, csv)
        if out is not None:
            _show(a.save(found, out / file.stem, _names(formats)), csv)


COMMANDS = (
    "import",
    "scores",
    "pending",
    "run",
    "check",
    "judge",
    "export",
    "rebuild",
    "pack",
    "audit",
    "sample",
)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in _names(text):
        name, equals, value = part.partition("=")
        if not equals:
            raise RagbenchError(f"--map {part!r} has no '='; write our column=theirs.")
        pairs[name.strip()] = value.strip()
    return pairs


def _numbers(option: str, text: str) -> dict[str, Any]:
    """`name=value, …` with values as JSON has them, else as text."""
    values: dict[str, Any] = {}
    for part in _names(text):
        name, equals, value = part.partition("=")
        if not equals:
            raise RagbenchError(f"{option} {part!r} has no '='; write name=value.")
        try:
            values[name.strip()] = json.loads(value)
        except ValueError:
            values[name.strip()] = value
    return values


def _where(options: list[str] | None) -> dict[str, Any]:
    """`--where` options as a mapping to the values of each column, None for an empty one.

    They stay text: `slices` reads them in the type of their column.
    """
    where: dict[str, list[str | None]] = {}
    for option in options or ():
        name, equals, text = option.partition("=")
        if not equals:
            raise RagbenchError(f"--where {option!r} has no '='; write column=value.")
        parts = [""]
        for token in re.findall(r"\\[|\\]|.", text, re.DOTALL):
            if token == "|":
                parts.append("")
            else:
                parts[-1] += token[-1]
        where.setdefault(name.strip(), []).extend(part or None for part in parts)
    return where


def _show(frame: pl.DataFrame, csv: bool) -> None:
    """Print a frame: whole, plain characters, no colour, whatever it is printed to."""
    if csv:
        from ragbench.output import to_csv

        sys.stdout.write(to_csv(frame).decode("utf-8-sig"))
        return
    shown, below = _begun(frame)
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_formatting="MARKDOWN",
        tbl_width_chars=10_000,
        fmt_str_lengths=10_000,
        float_precision=3,
    ):
        print(shown, *below, sep="\n")


def _begun(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The frame with its long texts only begun, and each of them in full, under a number."""
    from ragbench.style import clean

    numbers: dict[str, int] = {}

    def begun(text: str | None) -> str | None:
        if text is None or len(text) <= _LONGEST:
            return text
        number = numbers.setdefault(text, len(numbers) + 1)
        return f"{text[:_BEGINNING]}… [{number}]"

    columns = [
        pl.Series(name, [begun(text) for text in frame[name]], dtype=pl.String)
        for name, kind in frame.schema.items()
        if kind == pl.String
    ]
    return frame.with_columns(columns), [f"[{i}] {clean(text)}" for text, i in numbers.items()]


_LONGEST, _BEGINNING = 100, 80


def _exit(code: int) -> None:
    if code:
        raise typer.Exit(code)


def main() -> None:
    """Run the command line; errors of ragbench are one line on standard error."""
    import warnings

    warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
    try:
        code = app(standalone_mode=False)
    except SystemExit as stop:
        code = stop.code
    except RagbenchError as error:
        print(f"{type(error).__name__}: {_for_options(str(error))}", file=sys.stderr)
        code = 1
    except (KeyboardInterrupt, typer.Abort):
        code = _STOPPED
    except BrokenPipeError:  # the reader of our output has gone, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        show = getattr(error, "show", None)  # wrong usage, explained by the library
        if show is not None:
            show()
            code = getattr(error, "exit_code", 2)
        elif str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C in a statement
            code = _STOPPED
        else:
            raise
    if code == _STOPPED:
        print("stopped; what was finished is stored. Call again to go on.", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _for_options(said: str) -> str:
    """What is an argument in Python is an option here; and no key is printed, whoever names one."""
    from ragbench.hiding import hide

    said = re.sub(r'map=\{"(\w+)": "([^"]+)"\}', r"--map '\1=\2'", said)
    said = re.sub(r"name (it|another): key_env", r"name \1: --key-env", said)
    said = re.sub(r'kind="(\w+)"', r"--kind \1", said)
    said = re.sub(r"where=\{'(\w+)': None\}", r"--where \1=", said)
    said = _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')}{found[2] and ' '}", said)
    return hide(said)


_ARGUMENT = re.compile(
    r"(?<![\w.'\"?&/-])(base_url|by|concurrency|criteria|key_env|limit|panel|prices|prompt|repeats|"
    r"setting|timeout|trials)=(?=([^\s,;.)]?))"
)

_STOPPED = 130
