"""German: the words by which an answer says that something was done, or was not.

Rules
1. Umlauts and their spellings with ``e`` are one (Rückerstattung, Rueckerstattung).
2. A compound counts by its last part where that is a noun of the table (Flugbuchung = Buchung).
3. ``wird`` with a participle tells what happens or will happen, ``wurde`` what happened.
"""

import re
from collections.abc import Iterable

from processors.verify.languages.lexicon import (
    Kind,
    Language,
    Sense,
    acts,
    markers,
    nouns,
    together,
    translated,
)
from processors.verify.subjects import words

_ACTS = """
refund | erstatten zurückerstatten rückerstatten zurückzuerstatten zurückzahlen | |
refund | rückvergüten | |
refund | | erstattet zurückerstattet rückerstattet zurückgezahlt rückvergütet |
refund | | gutgeschrieben |
refund | | | erstattung rückerstattung erstattungen rückerstattungen rückzahlung
refund | | | gutschrift
cancel | stornieren kündigen abzubrechen annullieren abzusagen absagen | |
cancel | widerrufen | |
cancel | | storniert gekündigt annulliert abgesagt widerrufen |
cancel | | | stornierung kündigung absage
book | buchen reservieren umzubuchen | gebucht reserviert | buchung reservierung
send | senden schicken versenden verschicken abschicken zuzusenden zusenden | |
send | | gesendet gesandt geschickt versendet versandt verschickt abgeschickt |
send | | zugesandt zugesendet zugeschickt |
email | mailen | gemailt |
delete | löschen entfernen | gelöscht entfernt | löschung
create | erstellen anlegen anzulegen erzeugen | erstellt angelegt erzeugt | erstellung
update | aktualisieren ändern anpassen anzupassen bearbeiten | |
update | | aktualisiert geändert angepasst umgebucht |
update | | | änderung aktualisierung anpassung
transfer | überweisen übertragen weiterleiten | |
transfer | | überwiesen übertragen weitergeleitet |
transfer | | | überweisung übertragung
pay | bezahlen zahlen begleichen | bezahlt gezahlt beglichen | zahlung bezahlung
charge | belasten abbuchen | belastet abgebucht | abbuchung belastung
deploy | deployen ausrollen bereitzustellen bereitstellen | |
deploy | | deployt ausgerollt bereitgestellt |
deploy | | | deployment bereitstellung
approve | genehmigen freigeben freizugeben bewilligen | |
approve | | genehmigt freigegeben bewilligt |
approve | | | genehmigung freigabe
schedule | planen terminieren einplanen vereinbaren | |
schedule | | geplant terminiert eingeplant vereinbart angesetzt |
schedule | | | terminierung
upgrade | | upgegradet hochgestuft | upgrade
close | schließen | geschlossen | schließung
assign | zuweisen zuzuweisen | zugewiesen | zuweisung
block | sperren blockieren | gesperrt blockiert | sperrung
upload | hochladen hochzuladen | hochgeladen |
notify | benachrichtigen informieren | benachrichtigt informiert | benachrichtigung
order | bestellen | bestellt |
issue | veranlassen auslösen auszulösen ausstellen auszustellen einleiten | |
issue | einzuleiten | |
issue | | veranlasst ausgelöst ausgestellt eingeleitet angewiesen |
process | abwickeln verarbeiten | bearbeitet abgewickelt verarbeitet |
complete | abschließen abzuschließen fertigstellen | abgeschlossen fertiggestellt |
execute | durchführen durchzuführen ausführen auszuführen vornehmen vorzunehmen | |
execute | tätigen | |
execute | | durchgeführt ausgeführt vorgenommen getätigt |
do | erledigen | erledigt |
"""
_NOUNS = """
order | bestellung bestellungen auftrag
reservation booking | buchungen reservierungen
email | email mail nachricht
invoice | rechnung rechnungen
payment | betrag geld
file | datei dateien
ticket | ticket tickets fall vorgang
account | konto
address | adresse anschrift
flight | flug flüge flügen
meeting appointment | termin besprechung meeting
subscription | abo abonnement
service | dienst
customer user | kunde kunden kundin
request | anfrage antrag anliegen
message | bestätigung
it | das dies alles es sie diese dieser
baggage | gepäck
"""
_MARKERS = """
aux | habe haben hat hatte hatten wurde wurden ist sind bin war waren worden
could | konnte konnten gelungen gelang geschafft
can | kann können möglich lage lässt imstande
will | werde wird werden würde würden soll sollte sollen möchte möchten muss müssen
will | darf dürfen will wollen könnte könnten bitte
not | nicht kein keine keinen keiner keinem keines nie niemals weder noch_nicht
fail | fehlgeschlagen fehlschlug gescheitert scheiterte abgelehnt verweigert
fail | zurückgewiesen misslungen abgebrochen fehlerhaft unmöglich
done | erfolgreich komplett vollständig abgeschlossen
whole | erledigt fertig
aside | gerade derzeit bearbeitung ausstehend aussteht vorgemerkt wartet ursprünglich
aside | gestern damals früher zuvor
unsure | vermutlich wahrscheinlich vielleicht möglicherweise anscheinend offenbar
unsure | scheint glaube vermute denke unsicher unklar ob eventuell womöglich sicher
if | wenn falls sofern sobald bevor nachdem solange vorausgesetzt
said | sagten sagtest meinten behaupten behaupteten schrieben erwähnten
again | erneut nochmals nochmal weitere weiteren weiterer zweite zweiten doppelt
"""
_FOLD = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_PHRASES = (
    (re.compile(r"\bnicht nur\b"), ""),
    (re.compile(r"\b(?:mit sicherheit|auf nummer sicher|(?:ganz )?sicher (?:ist|wurde))\b"), ""),
    (re.compile(r"\be-mail"), "email"),
    (re.compile(r"(?<!wir )\bhaben sie\b|\bsie h(?:aben|atten)\b"), " damals "),
    (re.compile(r"\bohne (?:probleme|fehler)\b"), ""),
)
_WORD = re.compile(r"[a-zäöüß0-9@.+/#_-]*[a-zäöüß0-9]")
_TAIL_LEAST = 5


def _forms(column: str, word: str) -> Iterable[tuple[str, Kind]]:
    kinds: dict[str, Kind] = {"verb": "verb", "past": "past", "noun": "noun"}
    return ((word, kinds[column]),)


_SENSES = {
    word.translate(_FOLD): senses
    for word, senses in together(acts(_ACTS, _forms), nouns(_NOUNS), markers(_MARKERS)).items()
}


def _of_word(word: str) -> tuple[Sense, ...]:
    folded = word.translate(_FOLD)
    senses = _SENSES.get(folded)
    if senses is None and len(folded) > _TAIL_LEAST and folded.isalpha():
        for start in range(1, len(folded) - _TAIL_LEAST + 1):
            tail = _SENSES.get(folded[start:], ())
            if tail and all(one.kind == "noun" for one in tail):
                return tail
    return senses or ()


def _words(clause: str) -> list[tuple[Sense, ...]]:
    return [_of_word(word) for word in _WORD.findall(clause)]


def _plain(sentence: str) -> str:
    text = sentence.lower()
    for pattern, instead in _PHRASES:
        text = pattern.sub(instead, text)
    return text


GERMAN = Language(
    code="de",
    cut=re.compile(
        r"\s*(?:[;–—]|:(?!\d)|,(?!\d)|\s-\s|\s(?:aber|jedoch|doch|sondern|denn|weil|dass|damit"
        r"|allerdings|obwohl)\s|\s(?P<weak>und|sowie|oder)\s)\s*"
    ),
    words=_words,
    usual=words(
        "der das und nicht ich wir ihre ihr ihren ihrer wurde wurden habe haben für mit eine einen"
        " einer ein den dem sie leider konnte konnten ist sind auf von kein keine erfolgreich"
        " bitte zu im es"
    ),
    plain=_plain,
    translations=translated(_SENSES),
)
