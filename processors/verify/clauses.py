"""An answer cut into the clauses that phrases are looked for in.

Rules
1. Code, quoted lines and quoted matter are not the agent's own words and are left out.
2. A clause is lower-case words and digits; contractions are written out (``couldn't`` = could not).
3. A number is never cut in two, and neither is what a mark inside it joins (49.99, 10:30, 1,000).
"""

import re

_PLAIN = r"(?<=[.!?…])[\"')\]*_]*\s+|\n+|(?<=[a-z][.!?])(?=[A-Z])"
_PLAIN_SENTENCE = re.compile(_PLAIN)
_SENTENCE = re.compile(rf"(?<=[。！？])[」』”\"]*|{_PLAIN}")
_QUOTES = frozenset('"“”„«「『')
_FRAGMENT = re.compile(
    r"\s*(?:[;—–]|:(?!\d)|,(?!\d)|\s-\s|\s(?:and|but|however|although|though|so|then|or|because"
    r"|nor)\s)\s*"
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(
    r"„[^“”\n]{0,400}[“”]|«[^»\n]{0,400}»|「[^」\n]{0,400}」|『[^』\n]{0,400}』"
    r"|[\"“][^\"“”\n]{0,400}[\"”]"
)
_NO_WORD = re.compile(r"[^\w' -]+|_(?=\W|$)")
_MARKS = re.compile(r"[.,;:']")
_CONTRACTIONS = (
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'m\b"), " am"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r"\b(it|that|this|everything|he|she|there)'s\b"), r"\1 is"),
    (re.compile(r"'s\b"), ""),
)
_EXPANSIONS = (
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"\be-mail"), "email"),
    (re.compile(r"[^a-z0-9' ,;:.—–-]+"), " "),
)


def sentences(text: str) -> list[str]:
    """The sentences of an answer, without quoted matter, code and quoted lines."""
    if "`" in text or ">" in text:
        text = _CODE.sub(" ", text)
    if not _QUOTES.isdisjoint(text):
        text = _QUOTED.sub(" ", text)
    split = _PLAIN_SENTENCE if text.isascii() else _SENTENCE
    return [part.strip() for part in split.split(text) if part and part.strip()]


def expand(sentence: str) -> str:
    """A sentence in lower case, contractions written out, marks other than separators gone."""
    words = sentence.lower().replace("’", "'")
    contracted = _CONTRACTIONS if "'" in words else ()
    for pattern, instead in (*contracted, *_EXPANSIONS):
        words = pattern.sub(instead, words)
    return " ".join(words.split())


def fragments(sentence: str) -> list[tuple[str, bool]]:
    """The clauses of an expanded sentence, each with whether a comma or more precedes it."""
    parts: list[tuple[str, bool]] = []
    start, strong = 0, True
    for match in _FRAGMENT.finditer(sentence):
        parts.append((_trim(sentence[start : match.start()]), strong))
        start, strong = match.end(), not match[0].strip().isalpha()
    parts.append((_trim(sentence[start:]), strong))
    return [part for part in parts if part[0]]


def asks(sentence: str) -> bool:
    """Whether a sentence is a question."""
    return sentence.rstrip("\"')]*_ 」”").endswith(("?", "？")) or sentence.startswith("¿")


def bare(text: str) -> str:
    """A text in the form its words have in a clause, so that one can be found in the other."""
    return _trim(_NO_WORD.sub(" ", text.lower()))


def _trim(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split())
