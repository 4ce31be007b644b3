"""What the measures count; each case is a kind that neighbouring tools got wrong."""

from __future__ import annotations

import pytest

from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.emoji import EMOJI, emoji
from ragbench.judging.language import detect, scripts
from ragbench.judging.numerals import chinese_number, numbers_stated
from ragbench.judging.ordering import dates, numbers, strokes
from ragbench.judging.sentences import sentences


@pytest.mark.parametrize(
    ("text", "letters", "visible"),
    [
        ("根据现有资料，无法直接回答您的问题。", 16, 18),
        ("AI模型 v2", 6, 6),
        ("ＡＩ！", 2, 3),
        ("３．１４％", 3, 5),
        ("第①条½", 4, 4),
        ("e\u0301\u200b", 1, 1),
        ("👨‍👩‍👧🇨🇳1️⃣", 1, 3),
        ("\ud800a", 1, 1),
        ("", 0, 0),
    ],
)
def test_characters(text: str, letters: int, visible: int) -> None:
    # A keycap keeps its digit as a character; as something visible it is one sign.
    assert measure.characters(text) == letters
    assert measure.characters_with_punctuation(text) == visible


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("用Python写3行代码", 7),
        ("Don’t stop", 2),
        ("rock-and-roll isn't dead", 3),
        ("1,234.5 or 3.14", 3),
        ("end.Start", 2),
        ("U.S. and P.P.S and e.g.", 5),
        ("किताब पढ़ो", 2),
        ("한국어 문장", 2),
        ("ไทย", 3),
        ("a_b __x__", 2),
        ("https://a.b/c?d=e", 5),
        ("—— …… ！", 0),
    ],
)
def test_words(text: str, count: int) -> None:
    assert len(measure.words(text)) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The rate is 3.14 percent. OK.", 2),
        ("第一句。第二句！第三句？", 3),
        ("他说：“你好。”她点头。", 2),
        ("他问“好吗？”就走了。", 1),
        ('他问"好吗?"就走了。', 1),
        ("他问「好吗！」就走了。", 1),
        ("他问（好吗？）就走了。", 1),
        ("他问：“好吗？”就走了。", 2),
        ("“走吗？”他问。", 1),
        ("“走吗？”她轻声问道，“现在？”", 1),
        ("“好吗？”我不知道。", 2),
        ("“合同有效吗？”对方答：“有效。”双方于是签字……", 3),
        ("《你好吗？》是歌。", 1),
        ("“有效。”，他说", 1),
        ('He said "Go." Then he left.', 2),
        ("等等……then he left.", 2),
        ("（见附件。）完。", 2),
        ("等等……再说。", 2),
        ("等等……，再说。", 1),
        ("利率3.14%，版本V2.0。", 1),
        ("请访问www.example.com。谢谢", 2),
        ("混合mixed文本。Then English. 然后中文。", 3),
        ("He left at 5 p.m. She stayed.", 2),
        ("He left at 5 p.m. yesterday.", 1),
        ("The U.S. Senate met.", 1),
        ("He lives in the U.S. It is large.", 2),
        ("J. K. Rowling wrote it.", 1),
        ("Is it? Yes! Well...", 3),
        ("Wait... what?", 1),
        ("1. One\n2. Two\n3. Three", 1),
        ("1. One.\n2. Two.", 2),
        ("See Fig. 3 and No. 5.", 1),
        ("I said no. Then I left.", 2),
        ("Great! 😀 🎉", 1),
        ("“Stop!” he said. “Why?” she asked.", 2),
        ("यह एक वाक्य है। यह दूसरा है।", 2),
        ("", 0),
        ("……。！", 0),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(sentences(text)) == count


def test_a_sentence_keeps_its_mark_and_closing_quotes() -> None:
    assert sentences('He said "Stop!" Then he left.') == ['He said "Stop!"', "Then he left."]
    assert sentences("他说：“走吧。”然后离开了。") == ["他说：“走吧。”", "然后离开了。"]


def test_folding_touches_the_documented_set_only() -> None:
    assert measure.fold("ＡＢｃ１２！？（），：；＂～　￥") == 'ABc12!?(),:;"~ ¥'
    untouched = "①Ⅳ。、“”「」——……㎡ﬁ½"
    assert measure.fold(untouched) == untouched


@pytest.mark.parametrize(
    ("text", "term", "found"),
    [
        ("We start at noon", "art", 0),
        ("Modern art, art's, state-of-the-art", "art", 3),
        ("他学art专业", "ART", 1),
        ("使用ＡＩ２", "ai2", 1),
        ("AI2000", "AI2", 0),
        ("300字与30字", "30", 1),
        ("C++ and C＋＋", "C++", 2),
        ("好！好!", "！", 2),
        ("这不可能", "可能", 1),
        ("credit\n risk", "credit risk", 1),
        ("aXb", "a.b", 0),
        ("किताबें", "किताब", 0),
    ],
)
def test_occurrences(text: str, term: str, found: int) -> None:
    assert len(measure.occurrences(text, term)) == found


@pytest.mark.parametrize(
    ("text", "bullets", "numbered"),
    [
        ("- a\n---\n-5 degrees\n--- | ---", 1, 0),
        ("* * *\n***\n- - -", 0, 0),
        ("*a* is\n**b**: c", 0, 0),
        ("```\n- a\n1. b\n```\n- c\n1. d", 1, 1),
        ("~~~\n- a\n~~~~\n- b", 1, 0),
        ("````\n```\n- a\n```\n````\n- b", 1, 0),
        ("1、甲\n２．乙\n（3）丙\n④丁\n五、戊\n（六）己", 0, 6),
        ("1、2024年\n2）3月\n3)4月\n4．5月\n5 、6月\n6.2024年", 0, 6),
        ("1.5倍\n１．５倍\n1.5 million\n2024、甲", 0, 0),
        ("3.5倍\n2024年\n2024. x\n10.28 发布", 0, 0),
        ("> - quoted", 0, 0),
        ("  - a\n\t- b\n　　• c", 3, 0),
        ("- [ ] task\n- [x] done", 2, 0),
        ("**1. 标题**\n**2. 标题**", 0, 2),
        ("－ 甲\n-甲", 0, 0),
    ],
)
def test_list_items(text: str, bullets: int, numbered: int) -> None:
    assert len(blocks.bullet_items(text)) == bullets
    assert len(blocks.numbered_items(text)) == numbered


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("一。\n\n二。", 2),
        ("一。\n二。", 2),
        ("# 题\n一。", 1),
        ("a\n\n```\nx\n\ny\n```\n\nb", 3),
        ("要点：\n- a\n- b\n完。", 3),
        ("a\n\n---\n\n\n b", 2),
        ("|a|b|\n|-|-|\n|1|2|", 1),
        ("a\r\n\r\nb", 2),
        ("如下。\n\n- a\n\n- b\n  c\n\n完。", 3),
        ("- a\n\n# 题\n\n- b", 2),
        ("一。\n# 题\n二。\n\n三。", 3),
        ("　　一。\n\n　　二。", 2),
        ("1、一。\n\n　　二。", 2),
        ("一。\n二。\n\n", 2),
        ("- a\n\n```\n- b\n```", 2),
        ("\n\n", 0),
    ],
)
def test_paragraphs(text: str, count: int) -> None:
    assert len(blocks.paragraphs(text)) == count


def test_quotations_leave_titles_single_quotes_and_code_out() -> None:
    text = '“甲”「乙」『丙』"d"《戊》\'f\'\n```\n"g"\n```'
    assert blocks.quotations(text) == ["甲", "乙", "丙", "d"]


def test_emoji_ranges_are_those_of_unicode() -> None:
    regex = pytest.importorskip("regex", reason="compares with the regex module where it is there")
    pictures = regex.compile(r"\p{Emoji_Presentation}")
    # Single regional indicators are half a flag; newer Unicode versions add code points.
    missed = [
        hex(code)
        for code in range(0x2000, 0x1FB00)
        if pictures.match(chr(code))
        and not EMOJI.match(chr(code))
        and not 0x1F1E6 <= code <= 0x1F1FF
    ]
    assert missed == []


@pytest.mark.parametrize(
    "text", ["①", "★", "©", "™", "→", "1", "#", "℃", "√", "※", "☎\ufe0e", "〇"]
)
def test_signs_that_are_no_emoji(text: str) -> None:
    assert emoji(text) == []


def test_numerals() -> None:
    assert [
        chinese_number(n) for n in ("三百零五", "一千零一十", "十", "两百五", "一亿二千万")
    ] == [
        305,
        1010,
        10,
        250,
        120_000_000,
    ]
    assert numbers_stated("a dozen, 1,200 and twenty-five; 二十条") == [12, 1200, 25, 20]
    assert numbers("第三十条 -5 度, 2.5万") == [30.0, -5.0, 25000.0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2024年10月28日", [(2024, 10, 28)]),
        ("二〇二四年十月二十八日", [(2024, 10, 28)]),
        ("２０２４年１０月", [(2024, 10)]),
        ("2024-10-28 与 2024/10/29、2024.10.30", [(2024, 10, 28), (2024, 10, 29), (2024, 10, 30)]),
        ("Oct. 28, 2024; 28th of October 2024", [(2024, 10, 28), (2024, 10, 28)]),
        ("公元前221年, 44 BC, 公元25年", [(-221,), (-44,), (25,)]),
        ("2023年12月，次月5日；3月1日", [(2023, 12), (2023, 3, 1)]),
        ("1234元，2000 people in 1999，$1500，2000余人", [(1999,)]),
        ("版本3.14与13/45", []),
        ("2023年12月，次年1月5日，同年3月；翌年", [(2023, 12), (2024, 1, 5), (2024, 3), (2025,)]),
        ("10月启动，每年3月，3个月内", [(0, 10)]),
    ],
)
def test_dates(text: str, found: list[tuple[int, ...]]) -> None:
    assert dates(text) == found


def test_strokes_are_those_of_the_mainland_standard() -> None:
    assert [strokes(c) for c in "一王李陈国银黄韩长骨"] == [1, 4, 7, 7, 8, 11, 11, 12, 4, 9]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("根据现有资料，Apple 的营收未披露。", "zh"),
        ("申請人は六十日以内に申し立てることができます。", "ja"),
        ("신청인은 육십 일 이내에 이의를 제기할 수 있습니다.", "ko"),
        ("ಅರ್ಜಿದಾರರು ಮೇಲ್ಮನವಿ ಸಲ್ಲಿಸಬಹುದು", "kn"),
        ("Ο αιτών μπορεί να προσφύγει", "el"),
        ("42 %", None),
        ("OK", None),
        ("\ud800", None),
        ("好", "zh"),
        ("请看 the API key", None),
        ("ใช้ Python และ pandas", "th"),
        ("किताब और कलम the one two", None),
    ],
)
def test_language_by_script(text: str, code: str | None) -> None:
    assert detect(text).code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The applicant may appeal to the court within sixty days.", "en"),
        ("THE APPLICANT MAY APPEAL TO THE COURT WITHIN SIXTY DAYS.", "en"),
        ("Der Antragsteller kann innerhalb von sechzig Tagen Beschwerde einlegen.", "de"),
        ("Le demandeur peut former un recours dans les soixante jours.", "fr"),
        ("El solicitante puede recurrir en un plazo de sesenta días.", "es"),
        ("O requerente pode recorrer no prazo de sessenta dias.", "pt"),
        ("Il richiedente può presentare ricorso entro sessanta giorni.", "it"),
        ("Hakija voi valittaa päätöksestä kuudenkymmenen päivän kuluessa.", "fi"),
        ("Mwombaji anaweza kukata rufaa ndani ya siku sitini.", "sw"),
        ("Người nộp đơn có thể kháng cáo trong vòng sáu mươi ngày.", "vi"),
        ("Заявитель может обжаловать решение в течение шестидесяти дней.", "ru"),
        ("Молителят може да обжалва решението в срок от шестдесет дни.", "bg"),
        ("Заявник може оскаржити рішення протягом шістдесяти днів.", "uk"),
        ("يجوز لمقدم الطلب الطعن في القرار خلال ستين يوما.", "ar"),
        ("متقاضی می‌تواند ظرف شصت روز به این تصمیم اعتراض کند.", "fa"),
        ("درخواست گزار ساٹھ دن کے اندر اپیل کر سکتا ہے۔", "ur"),
        ("आवेदक साठ दिनों के भीतर निर्णय के विरुद्ध अपील कर सकता है।", "hi"),
        ("अर्जदार साठ दिवसांच्या आत निर्णयाविरुद्ध अपील करू शकतो.", "mr"),
        ("निवेदकले साठी दिनभित्र निर्णय विरुद्ध पुनरावेदन गर्न सक्छन्।", "ne"),
    ],
)
def test_language_by_model(text: str, code: str) -> None:
    pytest.importorskip("py3langid", reason="a dependency of ragbench is absent")
    assert detect(text).code == code


def test_scripts_are_counted_by_letters() -> None:
    assert scripts("苹果公司Apple発布") == {"han": 6, "latin": 5}
