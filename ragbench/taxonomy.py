"""The closed lists of the study: domains, context modes, categories, dimensions, criteria.

Each entry has a key (what rows store), a label (what figures show), a meaning and the aliases under
which papers and other frameworks know it. Order is the order of the paper. Domains, dimensions and
criteria of a user's own are welcome beside these: unknown names pass through `canonical` unchanged.

Source: EnterpriseRAG (arXiv 2608.11584), Section 3 and Tables 4 to 6; meanings in our words.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Entry(NamedTuple):
    """One name of a closed list."""

    key: str
    label: str
    meaning: str
    aliases: tuple[str, ...] = ()
    category: str = ""


DOMAINS = (
    Entry("Financial", "Financial", "investment advice and reading of policy", ("finance", "金融")),
    Entry("Energy", "Energy", "procedures whose versions drift", ("energy sector", "能源")),
    Entry("Legal", "Legal", "linking statutes and cases across jurisdictions", ("law", "法律")),
    Entry(
        "Medical",
        "Medical",
        "abstracts from fragmentary dialogue",
        ("medicine", "healthcare", "医疗"),
    ),
    Entry(
        "Party Building",
        "Party Building",
        "regulations and policy inside an organisation",
        ("party", "党建"),
    ),
    Entry(
        "Web Search", "Web Search", "fresh questions, sources of mixed trust", ("web", "网络搜索")
    ),
)

CONTEXT_MODES = (
    Entry(
        "noise",
        "Noisy",
        "the evidence is there among passages that are close but beside the point",
        ("noisy", "noisy retrieval", "噪声", "噪音"),
    ),
    Entry(
        "gap",
        "Knowledge gap",
        "on topic, without the evidence an answer needs: refuse",
        ("knowledge gap", "knowledge gaps", "知识缺失", "知识缺口"),
    ),
    Entry(
        "conflict",
        "Factual conflict",
        "passages contradict one another: say so",
        ("factual conflict", "factual conflicts", "conflicts", "事实冲突", "冲突"),
    ),
    Entry("clean", "Clean", "evidence only: a control", ("oracle", "干净")),
    Entry("integration", "Integration", "the answer takes several passages", ("信息整合",)),
    Entry("counterfactual", "Counterfactual", "passages state a falsehood", ("反事实",)),
    Entry("open", "Open", "no retrieved passages, or none recorded", ("none", "closed book", "无")),
)

CATEGORIES = (
    Entry(
        "persona",
        "Persona",
        "who speaks, and to whom",
        ("persona definition", "persona & scenario", "p"),
    ),
    Entry("output", "Output", "form and content of the text", ("output constraints", "c")),
    Entry(
        "protocol",
        "Protocol",
        "how to treat the retrieved knowledge",
        ("knowledge interaction protocol", "knowledge interaction", "k"),
    ),
    Entry("operational", "Operational", "what the task is to achieve", ("operational goal",)),
    Entry(
        "additional", "Additional", "constraints added for one query", ("additional constraints",)
    ),
)

DIMENSIONS = (
    Entry("role", "Role", "the identity to take on", ("角色",), "persona"),
    Entry("audience", "Audience", "who will read it", ("受众",), "persona"),
    Entry("format", "Format", "Markdown, JSON, number of sections, …", ("格式",), "output"),
    Entry("content", "Content", "length, prefix and suffix, keywords", ("内容",), "output"),
    Entry("negative", "Negative", "what must not appear", ("forbidden", "否定"), "output"),
    Entry("ordering", "Ordering", "by time, alphabet, frequency, …", ("order", "排序"), "output"),
    Entry("style", "Style", "tone, from formal to casual", ("tone", "风格"), "output"),
    Entry(
        "conflict_handling",
        "Conflict Handling",
        "what to do when the knowledge contradicts itself",
        ("conflict", "冲突处理"),
        "protocol",
    ),
    Entry(
        "knowledge_gap",
        "Knowledge Gap",
        "notice and say that information is missing",
        ("gap id", "gap identification", "知识缺口"),
        "protocol",
    ),
    Entry(
        "uncertainty",
        "Uncertainty Expression",
        "how to word thin or ambiguous evidence",
        ("uncertainty expression", "不确定性表达"),
        "protocol",
    ),
    Entry(
        "source_filtering",
        "Source Filtering",
        "which kinds of source to trust or ignore",
        ("source filter", "来源筛选"),
        "protocol",
    ),
    Entry(
        "citation",
        "Citation",
        "support conclusions with quoted source text",
        ("evidence chaining", "引用"),
        "protocol",
    ),
    Entry(
        "operational_goal",
        "Operational Goal",
        "the work the answer is for",
        ("operational execution", "operational"),
        "operational",
    ),
    Entry(
        "additional",
        "Additional Constraints",
        "added for one query, of no other group",
        ("additional constraints", "additional constraint"),
        "additional",
    ),
)


class Criterion(NamedTuple):
    """What a score means: what it grades and between which values."""

    key: str
    label: str
    target: str
    lowest: float
    highest: float
    meaning: str
    prompt: str | None = None


CRITERIA = (
    Criterion(
        "adherence", "Adherence", "constraint", 0, 1, "the constraint is satisfied", "adherence"
    ),
    Criterion(
        "rejection", "Rejection", "response", 0, 1, "the response declines to answer", "rejection"
    ),
    Criterion(
        "conflict",
        "Conflict recognition",
        "response",
        0,
        1,
        "it says which passages contradict",
        "conflict",
    ),
    Criterion(
        "faithfulness",
        "Faithfulness",
        "claim",
        0,
        1,
        "the context supports the claim",
        "faithfulness",
    ),
    Criterion(
        "coverage", "Answer coverage", "claim", 0, 1, "the response covers the claim", "coverage"
    ),
)

CONTEXT_CRITERIA = {"rejection": "gap", "conflict": "conflict"}
"""Criteria that apply by definition to one context mode (Table 6's headline metrics)."""


def _folded(name: str) -> str:
    return re.sub(r"[\s_\-]+", " ", name).strip().casefold()


def canonical(entries: tuple[Entry, ...], name: str) -> str:
    """The key that `name` stands for, or `name` itself when the list does not know it.

    Case, underscores, hyphens and runs of blanks do not matter.

    >>> canonical(DIMENSIONS, "Evidence Chaining"), canonical(CONTEXT_MODES, "Knowledge Gaps")
    ('citation', 'gap')
    >>> canonical(DOMAINS, "医疗"), canonical(DIMENSIONS, "my own")
    ('Medical', 'my own')
    """
    wanted = _folded(name)
    for entry in entries:
        if wanted in {_folded(text) for text in (entry.key, entry.label, *entry.aliases)}:
            return entry.key
    return name


def labels(entries: tuple[Entry, ...] | tuple[Criterion, ...]) -> dict[str, str]:
    """The label of each key, in the paper's order."""
    return {entry.key: entry.label for entry in entries}
