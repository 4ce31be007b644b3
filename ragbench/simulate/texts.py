"""The words of the simulated study: short, and plainly made up.

Each dimension has at least as many wordings as one query may hold, none of which contradicts
another. A wording with a rule is checked by it; the others are for a judge who reads.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Wording(NamedTuple):
    """One constraint in two languages, and the rule that checks it, if one does."""

    zh: str
    en: str
    rule: str | None = None
    params: dict[str, Any] | None = None
    en_params: dict[str, Any] | None = None  # where the arguments are words of the language


NO_TEXT = "【模拟】此处没有真实回答。"
GAP_TEXTS = {
    "answers": "【模拟】直接作答（内容从略）。",
    "declines": "【模拟】资料中没有答案，无法回答。",
    "disclaims, then answers": "【模拟】资料中没有直接依据；不过一般而言……（内容从略）",
}

TASKS = {
    "Financial": ("金融", "finance", ("理财产品费率", "信贷政策条款", "年报指标口径")),
    "Energy": ("能源", "energy", ("设备检修规程", "系统迁移步骤", "停送电流程")),
    "Legal": ("法律", "legal", ("处罚减轻情形", "复议受理条件", "合同解除要件")),
    "Medical": ("医疗", "medical", ("出院小结要点", "用药调整依据", "检查结果汇总")),
    "Party Building": ("党建", "party building", ("组织生活制度", "发展党员程序", "学习计划安排")),
    "Web Search": ("网络搜索", "web search", ("最新开放时间", "赛事结果查询", "产品参数对比")),
}
"""Domain -> its name in both languages, and topics of its queries."""

WORDINGS: dict[str, tuple[Wording, ...]] = {
    "role": (
        Wording("以资深业务专家的身份作答。", "Answer as a senior specialist."),
        Wording("以客服人员的身份作答。", "Answer as a service agent."),
        Wording("以内部审核员的视角说明。", "Explain from an internal reviewer's view."),
        Wording("以值班助理的身份作答。", "Answer as the assistant on duty."),
    ),
    "audience": (
        Wording("面向没有专业背景的读者。", "Write for readers without training in the field."),
        Wording("面向部门负责人汇报。", "Write for the head of a department."),
        Wording("面向一线操作人员。", "Write for operators on site."),
        Wording("面向新入职同事。", "Write for colleagues who have just joined."),
    ),
    "format": (
        Wording(
            "用项目符号列出要点，至少3条。",
            "List the points as bullets, at least 3.",
            "bullet_list",
            {"at_least": 3},
        ),
        Wording(
            "用一个Markdown表格汇总。",
            "Sum up in a Markdown table.",
            "markdown_table",
            {"at_least": 1},
        ),
        Wording("分段清晰，每段只讲一件事。", "One matter per paragraph."),
        Wording(
            "使用至少2个Markdown标题。",
            "Use at least 2 Markdown headings.",
            "headings",
            {"at_least": 2},
        ),
        Wording(
            "步骤用编号列表，至少2步。",
            "Number the steps, at least 2.",
            "numbered_list",
            {"at_least": 2},
        ),
        Wording("关键数字单独成行。", "Give each key figure a line of its own."),
    ),
    "content": (
        Wording(
            "全文不超过600字。",
            "At most 400 words.",
            "length",
            {"unit": "characters", "at_most": 600},
            {"unit": "words", "at_most": 400},
        ),
        Wording(
            "开头写“答复：”。",
            'Start with "Reply:".',
            "starts_with",
            {"prefix": "答复："},
            {"prefix": "Reply:"},
        ),
        Wording(
            "必须提到“依据”。",
            'Mention "evidence".',
            "required_terms",
            {"terms": ["依据"]},
            {"terms": ["evidence"]},
        ),
        Wording("给出一条可执行的建议。", "Give one piece of advice that can be acted on."),
        Wording(
            "“风险”至少出现2次。",
            'Use the word "risk" at least 2 times.',
            "keyword_frequency",
            {"term": "风险", "at_least": 2},
            {"term": "risk", "at_least": 2},
        ),
        Wording(
            "以“以上供参考。”结尾。",
            'End with "For reference."',
            "ends_with",
            {"suffix": "以上供参考。"},
            {"suffix": "For reference."},
        ),
    ),
    "negative": (
        Wording(
            "不得使用感叹号“！”。",
            'No exclamation mark "!".',
            "forbidden_terms",
            {"terms": ["！"]},
            {"terms": ["!"]},
        ),
        Wording("不得引入资料之外的机构名称。", "Name no organisation absent from the material."),
        Wording("不使用表情符号。", "No emoji.", "no_emoji", {}),
        Wording("不得给出个人观点。", "Give no personal opinion."),
        Wording(
            "不得出现“绝对”“保证”。",
            'Never write "absolutely" or "guarantee".',
            "forbidden_terms",
            {"terms": ["绝对", "保证"]},
            {"terms": ["absolutely", "guarantee"]},
        ),
    ),
    "ordering": (
        Wording(
            "各项按时间先后排列。",
            "Put the items in order of time.",
            "ordered",
            {"by": "chronological"},
        ),
        Wording("先结论后理由。", "Conclusion first, reasons after."),
        Wording("由重要到次要排列。", "From the most to the least important."),
        Wording("先概述后细节。", "Overview first, details after."),
    ),
    "style": (
        Wording("语气正式、严谨。", "Formal and rigorous in tone."),
        Wording("语言简洁。", "Be concise."),
        Wording("用词通俗。", "Use plain words."),
        Wording("保持中立客观。", "Stay neutral."),
        Wording("避免口语化表达。", "Avoid colloquial wording."),
    ),
    "conflict_handling": (
        Wording("资料互相矛盾时，指出双方说法。", "Where sources contradict, state both sides."),
        Wording("资料互相矛盾时，注明各自出处。", "Where sources contradict, name each source."),
        Wording("资料互相矛盾时，不替读者取舍。", "Where sources contradict, do not pick a side."),
        Wording("版本不一致时，说明差异所在。", "Where versions differ, say where."),
        Wording("数字不一致时，并列给出。", "Where figures differ, give both."),
        Wording("口径不一致时，提示核实。", "Where definitions differ, ask for a check."),
    ),
    "knowledge_gap": (
        Wording("资料不足以回答时，明确说明。", "If the material is insufficient, say so."),
        Wording("缺少关键信息时，指出缺什么。", "If key facts are missing, say which."),
        Wording("资料没有答案时，不得猜测。", "If the answer is not there, do not guess."),
        Wording("资料不足时，建议补充的来源。", "If sources are lacking, suggest where to look."),
        Wording("超出资料范围的问题应当谢绝。", "Decline what lies beyond the material."),
        Wording("只有部分依据时，标明界限。", "With partial evidence, mark its limits."),
    ),
    "uncertainty": (
        Wording("证据不足时，用“可能”等措辞。", "With thin evidence, hedge."),
        Wording("证据含糊时，说明含糊之处。", "With ambiguous evidence, say what is unclear."),
        Wording("推断与事实分开表述。", "Keep inference apart from fact."),
        Wording("对估计值注明为估计。", "Mark estimates as such."),
        Wording("把握不大时，给出把握程度。", "When unsure, say how sure."),
        Wording("不确定时，不用断言语气。", "When unsure, do not assert."),
    ),
    "source_filtering": (
        Wording("只采用官方来源。", "Use official sources only."),
        Wording("忽略论坛与个人博客。", "Ignore forums and private blogs."),
        Wording("优先采用最新版本。", "Prefer the latest version."),
        Wording("不采用无日期的资料。", "Use no undated material."),
        Wording("优先采用一手资料。", "Prefer primary sources."),
        Wording("不采用广告性内容。", "Use no advertising."),
    ),
    "citation": (
        Wording("关键结论附资料原文。", "Support key conclusions with the source's words."),
        Wording(
            "至少引用资料原文1处。",
            "Quote the material at least once.",
            "quotes_from_context",
            {"at_least": 1},
        ),
        Wording("注明所引资料的标题。", "Name the title of what is quoted."),
        Wording("每个数字注明出处。", "Give the source of each figure."),
        Wording("引文与原文一致。", "Quote without change."),
        Wording("结论后标注资料编号。", "Put the number of the source after each conclusion."),
    ),
    "additional": (
        Wording("说明信息的截止日期。", "State as of which date the facts hold."),
        Wording("给出换算后的单位。", "Give converted units."),
    ),
}


def query_text(domain: str, language: str, number: int) -> str:
    """A query that says itself that it is made up.

    >>> query_text("Legal", "zh", 7)
    '【模拟】法律问题007：请依据资料说明复议受理条件。'
    """
    zh, en, topics = TASKS[domain]
    if language == "en":
        return f"[simulated] {en} question {number:03}: explain what the material says on it."
    return f"【模拟】{zh}问题{number:03}：请依据资料说明{topics[number % len(topics)]}。"


def wording(dimension: str, number: int) -> Wording:
    """A wording of a dimension; numbers beyond the last begin again."""
    options = WORDINGS[dimension]
    return options[number % len(options)]


def in_language(found: Wording, language: str) -> tuple[str, str | None, str | None]:
    """Text, rule and arguments of a wording in a language."""
    if found.rule is None:
        return (found.en if language == "en" else found.zh), None, None
    params = found.en_params if language == "en" and found.en_params else found.params
    text = found.en if language == "en" else found.zh
    return text, found.rule, json.dumps(params, ensure_ascii=False, sort_keys=True)
