"""Amounts of money and identifiers as answers write them.

Rules
1. An amount is exact: a decimal text without grouping, and an ISO 4217 code or None where the
   answer names no currency. Nothing is rounded and no float is made.
2. With both marks the last one is the decimal mark; one mark before just three digits groups,
   save a point in English and Chinese. A mark that occurs twice groups.
3. A number alone is an amount only with two decimals; percentages, versions, dates are none.
4. ¥ alone is JPY or CNY: the currency is left open, and 元 is CNY.
5. A part ("2 of 3", "2 von 3", "2 de 3", "3笔中的2笔") is a count and a larger total.
6. An identifier is a word with a digit and a letter, an address with ``@``, or a number behind #.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from msgspec import Struct

from processors.verify.subjects import words

_CODES: Final = words(
    "USD EUR GBP JPY CNY RMB CHF CAD AUD NZD MXN BRL INR KRW SEK NOK DKK"
    " PLN CZK HUF TRY ZAR SGD HKD TWD ARS CLP COP PEN"
)
_WORDS: Final = {
    "$": "USD", "us$": "USD", "€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "¥": None,
    "euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "dólares": "USD",
    "dólar": "USD", "yen": "JPY", "yuan": "CNY", "pesos": None,
    "francs": "CHF", "franken": "CHF", "rupees": "INR",
    "元": "CNY", "块": "CNY", "块钱": "CNY", "人民币": "CNY", "美元": "USD", "欧元": "EUR",
    "日元": "JPY", "円": "JPY", "英镑": "GBP", "港元": "HKD", "港币": "HKD", "韩元": "KRW",
    **{code.lower(): code for code in _CODES}, "rmb": "CNY",
}  # fmt: skip
_SIGN = "|".join(sorted((re.escape(word) for word in _WORDS), key=len, reverse=True))
_NUMBER = re.compile(
    r"\d{1,3}(?:['’\u00a0\u202f ]\d{3})+(?:[.,]\d{1,2})?(?![\d.,]*\d)|\d[\d.,]*\d|\d"
)
_BEFORE = re.compile(rf"(?<![A-Za-z0-9])(?P<sign>{_SIGN}) ?\Z", re.IGNORECASE)
_AFTER = re.compile(rf"(?P<many> ?万)? ?(?P<sign>{_SIGN})(?![a-z])", re.IGNORECASE)
_BARE = re.compile(r"\d+[.,]\d\d|\d{1,3}(?:[.,]\d{3})+[.,]\d\d")
_SIGN_CHARACTERS_MAX: Final = 9
_JOINED_BEFORE: Final = frozenset("._-#/@:,") | frozenset("abcdefghijklmnopqrstuvwxyz")
_JOINED_AFTER: Final = frozenset("%:/_-") | frozenset("abcdefghijklmnopqrstuvwxyz")
_IDENTIFIER = re.compile(
    r"(?<![A-Za-z0-9_@./-])#?(?P<word>[A-Za-z0-9][A-Za-z0-9_@.+/:-]{1,62}[A-Za-z0-9])"
)
_NUMBERED = re.compile(r"(?<![A-Za-z0-9_])#(\d{2,20})(?![A-Za-z0-9_])")
_QUANTITY = re.compile(
    r"\d+(?:am|pm|st|nd|rd|th|h|hrs?|mins?|sec|s|kg|g|lb|lbs|km|gb|mb|kb|x|d|k|m|px|er|°c)",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")


_COUNTS: Final = {
    word: number
    for words in (
        "one two three four five six seven eight nine ten",
        "eine zwei drei vier fünf sechs sieben acht neun zehn",
        "una dos tres cuatro cinco seis siete ocho nueve diez",
    )
    for number, word in enumerate(words.split(), 1)
} | {"einer": 1, "eines": 1, "einen": 1, "uno": 1}
_ONE = r"(\d{1,4}|" + "|".join(_COUNTS) + ")"
_PARTS: Final = {
    "en": re.compile(rf"\b{_ONE} (?:out )?of (?:the |your |all |those |these )*{_ONE}\b", re.I),
    "de": re.compile(rf"\b{_ONE} (?:von|der) (?:den |Ihren |insgesamt )*{_ONE}\b", re.I),
    "es": re.compile(rf"\b{_ONE} de (?:los |las |sus |un total de )*{_ONE}\b", re.I),
    "zh": re.compile(
        r"()(\d{1,4}) ?[笔个项张条件次份]?[^,。;\d]{0,6}[中里]的? ?有? ?(\d{1,4})"
        r" ?[笔个项张条件次份]?"
    ),
}
_PART_WORDS: Final = {
    "en": (" of ",),
    "de": (" von ", " der "),
    "es": (" de ",),
    "zh": ("中", "里"),
}
_SUMMING: Final = re.compile(
    r"(?:in the amount|totall?ing|amounting|a total|in höhe|por (?:un )?(?:importe|valor|total)"
    r"|金额|共计|总额|合计)[^.,;!?。]{0,20}\Z",
    re.IGNORECASE,
)
_TOTAL_MAX: Final = 1000


class Money(Struct, frozen=True, kw_only=True):
    """An exact amount; ``text`` is what the answer wrote, number and currency."""

    amount: str
    currency: str | None
    text: str


def money(sentence: str, language: str) -> list[Money]:
    """The amounts of a sentence in order; ``language`` decides what one mark alone means."""
    found = []
    for match in _NUMBER.finditer(sentence):
        amount = _amount(sentence, match, language)
        if amount is not None:
            found.append(amount)
    return found


def _amount(sentence: str, match: re.Match[str], language: str) -> Money | None:
    start, end = match.span()
    before = _BEFORE.search(sentence[max(0, start - _SIGN_CHARACTERS_MAX) : start])
    joined = start > 0 and sentence[start - 1].lower() in _JOINED_BEFORE
    if joined and before is None:
        return None
    after = _AFTER.match(sentence, end)
    sign = before or after
    if sign is None:
        follows = sentence[end : end + 1].lower()
        if not _BARE.fullmatch(match[0]) or (follows and follows in _JOINED_AFTER):
            return None
    exact = decimal(match[0], language)
    if exact is None:
        return None
    if before is not None:
        start -= len(before[0])
        if sentence[end : end + 2].lstrip().startswith("万"):
            exact *= 10_000
    elif after is not None:
        end = after.end()
        if after["many"]:
            exact *= 10_000
    return Money(
        amount=plain_decimal(exact),
        currency=_WORDS[sign["sign"].lower()] if sign else None,
        text=sentence[start:end],
    )


def summed(sentence: str, amount: Money) -> bool:
    """Whether an amount is said to be that of what the sentence tells: "in the amount of …"."""
    return _SUMMING.search(sentence[: sentence.index(amount.text)]) is not None


def part(sentence: str, language: str) -> tuple[str, tuple[int, int] | None]:
    """The sentence with a part written as its total, and (count, total) where there is one."""
    match = _PARTS[language].search(sentence) if _may_be_part(sentence, language) else None
    if match is None:
        return sentence, None
    many = [_COUNTS.get(word.lower()) or _whole(word) for word in match.groups() if word]
    count, total = sorted(many) if language == "zh" else many
    if not count < total <= _TOTAL_MAX:
        return sentence, None
    shown = match.group(match.lastindex or 0) if language != "zh" else ""
    return f"{sentence[: match.start()]}{shown}{sentence[match.end() :]}", (count, total)


def _may_be_part(sentence: str, language: str) -> bool:
    """Whether a count stands before the word between count and total: most have none."""
    for word in _PART_WORDS.get(language, ()):
        *befores, _ = sentence.split(word)
        for before in befores:
            last = before.rsplit(" ", 1)[-1].lower()
            if language == "zh" or last == "out" or last.isdigit() or last in _COUNTS:
                return True
    return False


def _whole(word: str) -> int:
    return int(word) if word.isdigit() else 0


def decimal(number: str, language: str) -> Decimal | None:
    """The value of a number as a language writes it, or None."""
    whole, mark, cents = number.partition(".")
    if whole.isdecimal() and (cents.isdecimal() and len(cents) < 3 if mark else True):
        return Decimal(number)  # as most are written
    text = re.sub(r"['’\s\u00a0\u202f]", "", number).strip(".,")
    marks = [character for character in text if character in ".,"]
    if marks:
        last = marks[-1]
        digits_behind = len(text) - text.rindex(last) - 1
        groups = len(marks) > 1 and marks.count(last) > 1
        if len(marks) == 1 and digits_behind == 3:
            groups = last == "," or language in ("de", "es")
        text = re.sub(r"[.,]" if groups else rf"[.,](?=.*[{last}])", "", text)
        text = text.replace(",", ".")
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def plain_decimal(value: Decimal) -> str:
    """A decimal as exact text without exponent, trailing zeros or sign of a zero."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def objects(sentence: str, taken: list[Money]) -> tuple[str, ...]:
    """The identifiers of a sentence in order, none of which is part of an amount."""
    if "@" not in sentence and not _DIGIT.search(sentence):
        return ()  # most sentences name none
    amounts = "\0".join(item.text for item in taken)
    found: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(sentence):
        word = match["word"]
        if word.isalpha():
            continue
        named = "@" in word or (_DIGIT.search(word) and is_identifier(word))
        if named and word not in amounts:
            found[word] = None
    for match in _NUMBERED.finditer(sentence):
        found[match[1]] = None
    return tuple(found)


def is_identifier(word: str) -> bool:
    """Whether a word has a digit and a letter and is is no quantity and no link."""
    has_digit = any(character.isdigit() for character in word)
    has_letter = any(character.isalpha() for character in word)
    return has_digit and has_letter and "://" not in word and not _QUANTITY.fullmatch(word)
