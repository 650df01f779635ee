"""Words of strangers: which of a tool result is data, which is free text, which gives orders.

Rules
1. A cell (a short value of a field, of a line ``name: value``, of a table) is data: values flow
   from it to later calls as they should. Free text is everything longer.
2. An order is a verb of doing in imperative place, or what the reader must do. What a writer asks
   of another person for himself ("reach me at …") is none.
3. A takeover is text that speaks to the model over the user's head: "ignore all previous
   instructions", "as an AI you must", forged chat marks, "do not tell the user". The list below is
   the rule; docs/specs/detectors.md tells of each kind.
"""

import re
from typing import Final

import re2

_CELL_WORDS_MAX: Final = 3
_CELL_CHARACTERS_MAX: Final = 200
_TAKEOVER_LEAST: Final = 12
_WINDOW: Final = 240
_KEY_CHARACTERS_MAX: Final = 44
_MARKS: Final = " ,;\"'"
_ASSIGNED = re2.compile(r"(?:^|[\s,;(\[{])[A-Za-z_][\w.-]{0,40}=([^\s=]{1,200})")
# An element whose neighbours are elements: a word in the middle of a sentence is none.
_ELEMENT = re2.compile(r">\s*<[A-Za-z][\w:-]{0,40}>([^<]{1,80})</")
_ENDS = "\n.!?;。！？"

_INSTRUCTIONS = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directions?|directives?|polic(?:y|ies)"
    r"|commands?|constraints?|restrictions?|safeguards?|tasks?|orders?|context|messages?"
    r"|training)"
)
_MODEL = (
    r"(?:ai|a\.i\.|llm|assistant|agent|chat ?bot|bot|language model|model|chatgpt|gpt"
    r"|claude|gemini|copilot|copilots)"
)
_PEOPLE = r"(?:user|customer|client|human|operator|anyone|anybody|admin|supervisor|owner)"
_TAKEOVERS: Final = (
    r"\b(?:ignore|disregard|forget|override|overrule|bypass|neglect|discard)\b[^.!?\n]{0,40}?\b"
    r"(?:all|any|the|your|my|previous|prior|above|earlier|preceding|former|existing|other"
    r"|these|those)\b"
    rf"[^.!?\n]{{0,40}}?\b{_INSTRUCTIONS}\b",
    r"\b(?:ignore|disregard|forget) (?:everything|anything|what"
    r"|all)\b[^.!?\n]{0,40}?\b(?:above|before|said|told|previous\w*|prior)\b",
    r"\b(?:new|updated|revised|real|actual|true|additional|special|secret|hidden"
    r"|overriding) (?:system )?"
    r"(?:instructions?|directives?|objective|prompt|orders|mission)\b\s*(?::|for you|are"
    r"|is|from|-)",
    r"\b(?:system|developer|administrator|admin|root)[ _-]?(?:prompt|message|override"
    r"|notice|note|instructions?|command)\b\s*(?::|\]|>|\)|-)",
    r"(?:<\|?/?(?:im_start|im_end|system|assistant|endoftext|instructions?|information"
    r"|important|start_header_id)\b[^>\n]{0,40}>|\[/?inst\]|<</?sys>>"
    r"|^\s*#{1,6} ?(?:system|instructions?|new task)\b)",
    r"\b(?:you are|you're|act as|behave as|pretend to be) (?:now|from now on|no longer)\b"
    r"|\bfrom now on,? (?:you|your|act|respond|always)\b",
    rf"\b(?:do not|don't|never|without) (?:tell|telling|inform|informing|mention"
    rf"|mentioning|reveal|revealing|notify|notifying|alert|alerting|disclose|disclosing"
    rf"|ask|asking|say|let)\b[^.!?\n]{{0,40}}?\b{_PEOPLE}\b",
    rf"\b(?:important|urgent|critical|priority) (?:message|instructions?|notice|request"
    rf"|update)s?\b[^.!?\n]{{0,60}}?\b(?:you|{_MODEL})\b",
    r"\b(?:attention|dear|hey|hi|hello|note to|message to|message for|instructions? for"
    r"|instructions? to|notice to|to)\b[ ,:]*(?:the |any |all |an? )?(?:ai|a\.i\.|llm"
    r"|language model|chatgpt|gpt|claude|gemini|copilot|(?:ai |automated |virtual "
    r"|support )(?:assistant|agent|bot)s?)\b",
    rf"\b(?:if you are|as) an? {_MODEL}\b[^.!?\n]{{0,30}}?\b(?:you|must|should|need|please)\b",
    r"\b(?:assistant|ai|agent|bot|model|llm)s?,? (?:must|should|shall|has to|have to"
    r"|needs? to|is required to|please)\b",
    r"\bbefore (?:you )?(?:can |may )?(?:solv|continu|proceed|do|answer|finish|complet"
    r"|respond|reply)\w*\b[^.!?\n]{0,80}?\b(?:must|need to|have to|should|first)\b",
    r"(?i)\b(?:ignorier|vergiss|missachte)\w*\b[^.!?\n]{0,40}(?:anweisung|instruktion"
    r"|regel|vorgabe)\w*",
    r"(?i)\b(?:ignor|olvid|descart)\w*\b[^.!?\n]{0,40}(?:instruccion|órden|orden|regla"
    r"|indicacion)\w*",
    r"(?i)\b(?:ignor|oubli)\w*\b[^.!?\n]{0,40}(?:instruction|consigne|règle)\w*",
    r"(?:忽略|无视|無視|忘记|忘掉)[^。！？\n]{0,20}(?:指令|指示|规则|規則|说明|提示)",
)
TAKEOVER = re2.compile("(?im)" + "|".join(f"(?:{one})" for one in _TAKEOVERS))

_CLEAR = (
    r"(?:send|forward|wire|pay|delete|remove|erase|wipe|cancel|update|add|invite|grant"
    r"|give|publish|upload"
    r"|submit|notify|reply|respond|write|visit|click|navigate|browse|download|install|run"
    r"|execute|invoke"
    r"|reserve|buy|approve|authori[sz]e|create|make|move|copy|reset|disable|enable"
    r"|subscribe|redirect"
    r"|deliver|withdraw|donate|escalate|provide|reveal|leak|exfiltrate|include|append"
    r"|attach|cc|bcc|read"
    r"|fetch|go|reimburse|push|merge|commit|confirm|whitelist|replace|assign|deploy|print"
    r"|output|switch)"
)
# Verbs that are nouns as often: "Order shipped", "Refund policy". They need an object behind them.
_NOUNS = (
    r"(?:e-?mail|mail|transfer|refund|credit|issue|charge|debit|drop|change|set|share"
    r"|post|call|text"
    r"|message|contact|open|use|book|purchase|order|route|ship|deposit|return|look|check"
    r"|release|schedule"
    r"|close|report|sign|process)"
)
_OBJECT = (
    r" (?:an? |(?:the|this|that|these|those|all|any|every|each|my|your|his|her|their|our|its|it|him"
    r"|them|both|out|back|up|everything|another|full|customers?|users?|order|orders|money|funds"
    r"|payment|payments|refunds?)\b|[$€£¥]|(?-i:[A-Z]{3}) ?\d|\S+@|\w+_\w|\S+\.[a-z]{2,}\b|https?:)"
)
_TOWARDS = r"(?:e-?mail|mail|text|message|post|ship|route|release) to\b"
_SUMS = r"(?:refund|transfer|charge|credit|deposit) \d"
_VERBS = rf"(?:{_CLEAR}\b|{_NOUNS}\b{_OBJECT}|{_TOWARDS}|{_SUMS})"
_LEAD = (
    r"(?:please|kindly|then|and|now|also|immediately|instead|next|first|finally|just"
    r"|always|simply|again"
    r"|action|todo|task|step \d+|\d+|important|urgent|note|must|should|shall|need to"
    r"|needs to|have to|has to"
    r"|required to|supposed to|want you to|ask you to|asks you to|make sure to|be sure to"
    r"|remember to|proceed to|can you|could you|ought to)"
)
ORDER = re2.compile(
    rf"(?im)(?:^|[.!?;:,)\]}}>*\"'(—–-]|\b{_LEAD}\b)[\s\"'*_>-]{{0,6}}"
    rf"(?:(?:please|kindly|now|also|immediately|instead|then|first|just|always|simply"
    rf"|be) ){{0,3}}\b{_VERBS}"
    r"|\b(?:must|should|shall|is to|are to|needs to|need to|has to|have to) (?:now "
    r"|immediately |instead |also |always )?be "
    rf"|\b(?:senden|schicken?|sende|überweisen?|überweise|lösche[n]?|weiterleiten"
    rf"|bezahlen?|erstatten?) "
    r"|\b(?:envíe|envía|enviar|transfiera|transfiere|reenvíe|reenvía|pague|borre|elimine"
    r"|reembolse) "
    r"|\b(?:envoyez|envoie|transférez|payez|supprimez|remboursez|virez) "
    r"|(?:发送|发邮件|转账|转发|支付|退款|删除|汇款)"
)
_FOR_HIMSELF = re2.compile(
    r"(?i)\b(?:contact|reach|e-?mail|mail|call|text|message|write(?: to)?|reply(?: to)?"
    r"|ping|phone|ring|notify|tell|let|send|give) (?:me|us)\b"
)
_DELEGATION = re2.compile(
    r"(?i)\b(?:follow|do|execute|carry out|perform|complete|apply|act on|comply with"
    r"|handle|work through|implement)\b"
    r"[^.!?\n]{0,60}?\b(?:instructions?|steps|tasks?|actions?|requests?|what (?:it|he|she"
    r"|they|the \w+) (?:says?|asks?|wants?|tells?)|to-?dos?|checklist|procedure)\b"
    r"[^.!?\n]{0,40}?\b(?:in|from|on|of|at|it|there|below|described|listed|given"
    r"|specified|mentioned|written|inside)\b"
)


def parted(text: str) -> tuple[list[str], list[str]]:
    """A plain text as (cells, free texts): what of it is data, and what reads as sentences."""
    cells = _tagged(text)
    if "\n" not in text:
        return ([text], []) if _is_cell(text) else (cells, [text])
    free: list[str] = []
    for line in text.split("\n"):
        line = line.strip()
        if not line:
            continue
        inner = _valued(line)
        if _is_cell(inner):
            cells.append(inner)
            continue
        parts = _columns(line)
        if parts and all(map(_is_cell, parts)):
            cells.extend(parts)
        else:
            free.append(line)
    return cells, ["\n".join(free)] if free else []


def _tagged(text: str) -> list[str]:
    """The values of ``name=value`` and of elements that stand between elements."""
    found: list[str] = []
    if "=" in text:
        found += (match.strip(_MARKS) for match in _ASSIGNED.findall(text))
    if "</" in text:
        found += _ELEMENT.findall(text)
    return found


def _valued(line: str) -> str:
    """The value of a line ``name: value``; any other line as it is."""
    for mark in (":", "="):
        name, found, value = line.partition(mark)
        value = value.strip(" ,\"'")
        if found and value and len(name) <= _KEY_CHARACTERS_MAX and not value.startswith("//"):
            return value
    return line


def _columns(line: str) -> list[str]:
    for mark in ("|", "\t", ","):
        if line.count(mark) >= 2:
            return [part.strip() for part in line.split(mark) if part.strip()]
    return []


def _is_cell(text: str) -> bool:
    if len(text) > _CELL_CHARACTERS_MAX or (not text.isascii() and len(text) > 40):
        return False
    words = text.split()
    if len(words) > _CELL_WORDS_MAX:
        return False
    if len(words) > 1 and _STARTS.match(text) is not None:
        return False
    # Chat marks and scripts without spaces hide a whole sentence in what counts as one word.
    return len(text) < _TAKEOVER_LEAST or TAKEOVER.search(text) is None


_STARTS = re2.compile(rf"(?i)\s*(?:please )?{_VERBS}")


def around(text: str, place: int, length: int) -> str:
    """The sentence at a place with its neighbours, at most 240 characters either way."""
    first, last = max(0, place - _WINDOW), min(len(text), place + length + _WINDOW)
    before, after = text[first:place], text[place + length : last]
    cut = max((before.rfind(mark + " ") for mark in ".!?"), default=-1)
    cut = max(cut, before.rfind("\n\n"))
    if cut > 0:  # one sentence further back: "Do this. It must go to …"
        further = max((before.rfind(mark + " ", 0, cut) for mark in ".!?"), default=-1)
        before = before[further + 1 :] if further >= 0 else before
    ends = [after.find(mark + " ") for mark in ".!?"] + [after.find("\n\n")]
    stop = min((at for at in ends if at >= 0), default=-1)
    return before + text[place : place + length] + (after[: stop + 1] if stop >= 0 else after)


def orders(window: str) -> bool:
    """Whether a stretch of free text tells its reader to do something (rule 2)."""
    if _FOR_HIMSELF.search(window) and not TAKEOVER.search(window):
        return ORDER.search(_FOR_HIMSELF.sub("", window)) is not None
    return ORDER.search(window) is not None


def takes_over(text: str) -> str | None:
    """The words by which a text speaks to the model over the user's head, or None."""
    match = TAKEOVER.search(text)
    return match.group(0) if match is not None else None


def delegates(text: str) -> bool:
    """Whether the user asks that what some text says be done."""
    return _DELEGATION.search(text) is not None


def sentences_of(text: str) -> list[str]:
    """The sentences of a free text, at most 4,000."""
    return _SENTENCE.sub("\n", text).split("\n", 4_000)


_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")
