"""Logs of inspect_ai, `.eval` (a zip archive, members deflated or zstd) and `.json`.

- A sample becomes a query, `task-id`, with one instance; an epoch a trial; the task the benchmark.
- A scorer becomes a criterion on the response; a scorer with several values one per value,
  `scorer.key`. C is 1, I and N (no answer) are 0 and P is 0.5, as inspect_ai itself counts them.
- All scores of a log belong to one judge, `inspect_ai`.
- A sample that failed is a response with an error. Samples that the log wanted and does not have
  are planned responses.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from ragbench import taxonomy
from ragbench.errors import ImportFailed
from ragbench.importers.columns import PLANNED
from ragbench.importers.report import Report
from ragbench.importers.tables import Record
from ragbench.metrics import taken_names

LARGEST_MEMBER = 200_000_000
LARGEST_ARCHIVE = 8_000_000_000
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_ZSTD = 93
_MOST_PLANNED = 1_000_000


def read_archive(path: Path, data: bytes, report: Report) -> list[Record]:
    """A row per score of each sample of an `.eval` file.

    Raises:
        ImportFailed: another kind of archive, a damaged one, or one that unpacks to too much.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        names = [info.filename for info in archive.infolist()]
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError) as error:
        raise ImportFailed(
            f"{path} is a damaged archive ({error}); a log still being written looks like this "
            "too. Copy it again when the run has ended."
        ) from None
    if "xl/workbook.xml" in names:
        raise ImportFailed(f"{path} is an Excel workbook. Save the sheet as CSV UTF-8.")
    head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if head is None:
        raise ImportFailed(f"{path} is an archive, but not a log of inspect_ai: no header in it.")
    if sum(info.file_size for info in archive.infolist()) > LARGEST_ARCHIVE:
        raise ImportFailed(f"{path} unpacks to more than {LARGEST_ARCHIVE // 10**9} GB; split it.")
    try:
        header = json.loads(_member(path, archive, data, head))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("eval"), dict):
        raise ImportFailed(f"{path} is an archive, but its {head} is not that of inspect_ai.")
    return list(_rows(header, _samples(path, archive, data, report), report))


def read_log(path: Path, log: Mapping[str, Any], report: Report) -> list[Record]:
    """A row per score of each sample of a `.json` log."""
    samples = log.get("samples")
    numbered = enumerate(samples if isinstance(samples, list) else [], start=1)
    return list(_rows(log, numbered, report))


def _samples(
    path: Path, archive: zipfile.ZipFile, data: bytes, report: Report
) -> Iterator[tuple[int, Any]]:
    last = {info.filename: info for info in archive.infolist()}  # a rewritten sample: the last
    names = [name for name in last if name.startswith("samples/") and name.endswith(".json")]
    for number, name in enumerate(names, start=1):
        try:
            yield number, json.loads(_member(path, archive, data, name))
        except (ImportFailed, ValueError, RecursionError) as error:
            report.refuse(number, f"{name} cannot be read: {error}", "Copy the log again.", name)


def _member(path: Path, archive: zipfile.ZipFile, data: bytes, name: str) -> bytes:
    """The content of one member, never more than LARGEST_MEMBER bytes of it."""
    info = archive.getinfo(name)
    try:
        if info.compress_type == _ZSTD:  # zipfile of Python 3.11 does not know it
            content = _unpack_zstd(data, info)
        else:
            with archive.open(info) as member:
                content = member.read(LARGEST_MEMBER + 1)
    except Exception as error:  # zlib, zipfile, pyarrow and struct each have their own
        raise ImportFailed(f"{path} is a damaged archive: {name} ({error}).") from None
    if len(content) > LARGEST_MEMBER:
        raise ImportFailed(
            f"{path}: {name} unpacks to more than {LARGEST_MEMBER // 10**6} MB, which no sample is."
        )
    return content


def _unpack_zstd(data: bytes, info: zipfile.ZipInfo) -> bytes:
    import pyarrow as pa

    lengths = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
    start = info.header_offset + 30 + sum(lengths)
    packed = pa.BufferReader(data[start : start + info.compress_size])
    with pa.CompressedInputStream(packed, "zstd") as stream:
        return bytes(stream.read(LARGEST_MEMBER + 1))


def _rows(
    header: Mapping[str, Any], samples: Iterator[tuple[int, Any]], report: Report
) -> Iterator[Record]:
    evaluation = header["eval"]
    task = str(evaluation.get("task") or "task").rsplit("/", 1)[-1]
    common = {
        "model": evaluation.get("model"),
        "benchmark": task,
        "judge": "inspect_ai",
        "judge_kind": "llm" if _is_model_graded(evaluation) else "rule",
    }
    seen: set[tuple[str, int]] = set()
    for number, sample in samples:
        if not isinstance(sample, dict) or "id" not in sample:
            report.refuse(number, "not a sample of inspect_ai", "Write the log again.")
            continue
        try:
            response = {**common, **_response(task, sample)}
            verdicts = list(_verdicts(sample))
        except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
            report.refuse(number, f"not as inspect_ai writes samples: {error}", "Write it again.")
            continue
        seen.add((str(sample["id"]), int(response["trial"])))
        for verdict in verdicts or [{"judge": None}]:
            yield number, {**response, **verdict}
    report.note("`line` is the place of the sample in the log, from 1")
    yield from _missing(evaluation, task, common, seen, report)


def _missing(
    evaluation: Mapping[str, Any],
    task: str,
    common: Mapping[str, Any],
    seen: set[tuple[str, int]],
    report: Report,
) -> Iterator[Record]:
    """Rows for the samples that the log wanted and does not have."""
    listed = _entries(evaluation.get("dataset")).get("sample_ids")
    ids = [str(name) for name in listed] if isinstance(listed, list) else []
    epochs = _entries(evaluation.get("config")).get("epochs") or 1
    if not isinstance(epochs, int) or not 0 < len(ids) * epochs <= _MOST_PLANNED:
        return
    wanted = [(name, trial) for name in ids for trial in range(epochs)]
    lacking = [one for one in wanted if one not in seen]
    if lacking:
        report.note(f"{len(lacking)} of {len(wanted)} samples are missing; they count as planned")
    for name, trial in lacking:
        query = f"{task}-{name}"
        yield (
            0,
            {
                **common,
                "judge": None,
                "query": query,
                "instance": query,
                "trial": trial,
                PLANNED: True,
            },
        )


def _response(task: str, sample: Mapping[str, Any]) -> dict[str, Any]:
    query = f"{task}-{sample['id']}"
    output = sample.get("output") or {}
    choice = (output.get("choices") or [{}])[0]
    usage = output.get("usage") or {}
    text, reasoning = _content(sample, (choice.get("message") or {}).get("content"))
    error = sample.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    answered = bool(output.get("choices")) or bool(output.get("completion"))
    return {
        "query": query,
        "instance": query,
        "trial": int(sample.get("epoch") or 1) - 1,
        "query_text": _question(sample),
        "answers": json.dumps(_listed(sample.get("target")), ensure_ascii=False),
        "text": text if answered else None,
        "reasoning": reasoning,
        "finish": choice.get("stop_reason"),
        "response_error": message or output.get("error"),
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cached_tokens": usage.get("input_tokens_cache_read"),
        "reasoning_tokens": usage.get("reasoning_tokens"),
        "seconds": sample.get("total_time"),
        "metadata": scalars(sample.get("metadata")),
        PLANNED: None if answered or message or sample.get("scores") else True,
    }


def _question(sample: Mapping[str, Any]) -> str | None:
    """The input, or the last thing the user said in it."""
    given = sample.get("input")
    if isinstance(given, list):
        said = [turn.get("content") for turn in given if turn.get("role") == "user"]
        given = said[-1] if said else None
    return _content(sample, given)[0]


def _content(sample: Mapping[str, Any], content: object) -> tuple[str | None, str | None]:
    """Text and reasoning of a message, whose long parts the log keeps as attachments."""
    if content is None or isinstance(content, str):
        return _attached(sample, content), None
    parts = (
        [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    texts = [_attached(sample, part.get("text")) for part in parts if part.get("type") == "text"]
    thoughts = [
        _attached(sample, part.get("reasoning"))
        for part in parts
        if part.get("type") == "reasoning"
    ]
    return "\n".join(filter(None, texts)), "\n".join(filter(None, thoughts)) or None


def _attached(sample: Mapping[str, Any], text: str | None) -> str | None:
    prefix = "attachment://"
    if isinstance(text, str) and text.startswith(prefix):
        return str((sample.get("attachments") or {}).get(text[len(prefix) :], text))
    return text


def _verdicts(sample: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    scores = sample.get("scores")
    for name, score in (scores if isinstance(scores, dict) else {}).items():
        if not isinstance(score, dict):
            continue
        value, reason = score.get("value"), score.get("explanation")
        values = {"": value}
        if isinstance(value, dict):
            values = {f".{key}": part for key, part in value.items()}
        elif isinstance(value, list):
            values = {f".{place}": part for place, part in enumerate(value)}
        for suffix, part in values.items():
            grade = _LETTERS.get(part, part) if isinstance(part, str) else part
            yield {"criterion": criterion(f"{name}{suffix}"), "score": grade, "reason": reason}


def criterion(name: str, framework: str = "inspect_ai") -> str:
    """`name`, or `framework.name` where it would mean a criterion of the papers, or a column."""
    taken = {c.key for c in taxonomy.CRITERIA} | taken_names()
    return f"{framework}.{name}" if name.casefold() in taken else name


def scalars(values: object, most: int = 50) -> dict[str, Any]:
    """The first entries of an object that are texts, numbers or flags."""
    if not isinstance(values, dict):
        return {}
    plain = {key: value for key, value in values.items() if not isinstance(value, (dict, list))}
    return dict(list(plain.items())[:most])


def _is_model_graded(evaluation: Mapping[str, Any]) -> bool:
    return "model_graded" in json.dumps(evaluation.get("scorers"), default=str)


def _entries(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(target: object) -> list[object]:
    return target if isinstance(target, list) else [] if target is None else [target]
