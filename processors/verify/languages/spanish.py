"""Spanish: the words by which an answer says that something was done, or was not.

Rules
1. Regular verbs are given by their infinitive; participles and the preterite are made of it.
2. Accents count: ``reembolsó`` is an act, ``reembolso`` a thing; ``si`` a condition, ``sí`` a yes.
3. Pronouns behind an infinitive (``reembolsarle``) are no part of the word.
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
refund | reembolsar reintegrar | | reembolso reembolsos reintegro
refund | devolver | devuelto devolví devolvió devolvimos devolvieron | devolución
cancel | cancelar anular | | cancelación anulación
book | reservar | | reserva
send | enviar remitir mandar | | envío
delete | eliminar borrar suprimir | | eliminación borrado
create | crear generar | | creación
update | actualizar modificar cambiar editar | | actualización modificación cambio
transfer | transferir girar | transferí transfirió | transferencia
pay | pagar abonar liquidar | pagué | pago
charge | cobrar cargar facturar | | cobro cargo
deploy | desplegar | desplegué | despliegue
approve | aprobar autorizar | | aprobación autorización
schedule | programar agendar planificar | | programación
close | cerrar | cerrado cerrada |
assign | asignar | | asignación
block | bloquear suspender | | bloqueo
upload | subir | |
notify | notificar avisar informar | notifiqué | notificación
issue | emitir expedir | | emisión
process | procesar tramitar gestionar | |
complete | completar finalizar concluir | |
execute | ejecutar realizar efectuar | realicé |
do | hacer | hecho hecha hice hizo hicimos |
"""
_NOUNS = """
order | pedido pedidos orden
reservation booking | reservas reservación
email | correo email mensaje
invoice | factura facturas
payment | importe dinero monto
file | archivo fichero archivos
ticket | ticket tickets incidencia caso
account | cuenta
address | dirección domicilio
flight | vuelo vuelos
meeting appointment | reunión cita
subscription | suscripción
service | servicio
customer user | cliente usuario
request | solicitud petición
it | todo esto eso ello
"""
_MARKERS = """
aux | he ha hemos han había fue fueron está están quedó queda quedaron sido ya
could | pude pudo pudimos pudieron podido logré logró logramos conseguí conseguimos consiguió
can | puedo podemos puede pueden posible
will | será serán sería voy vamos va podría podríamos podrá debería debe deben quiere
will | desea quisiera
not | no nunca ningún ninguna tampoco ni
fail | falló fallaron fallado fallido fallida rechazado rechazada rechazó rechazados
fail | denegado denegada declinado imposible incapaz
done | exitoso exitosa exitosamente éxito
whole | listo hecho completado
aside | proceso pendiente siendo procesando procesándose curso espera ustedhizo
aside | originalmente ayer anteriormente hace
unsure | quizás quizá talvez probablemente posiblemente parece creo supongo
unsure | aparentemente seguro seguramente
if | si cuando unavez encaso siempre
said | dijo dijiste mencionó indicó comentó según
again | otro otra nuevamente nuevo segundo segunda adicional
"""
_PHRASES = (
    (re.compile(r"\bsí\b"), " "),
    (re.compile(r"\bno (?:sólo|solo|solamente|se preocupe|te preocupes)\b"), " "),
    (re.compile(r"\btal vez\b"), "talvez"),
    (re.compile(r"\buna vez(?: que)?\b"), "unavez"),
    (re.compile(r"\ben caso de\b"), "encaso"),
    (re.compile(r"\bcon éxito\b"), "éxito"),
    (re.compile(r"\bcorreo electrónico\b"), "correo"),
    (re.compile(r"\bno (?:he|ha|hemos|han) (?=podido|logrado|sido posible)"), "no "),
    (re.compile(r"\busted (?:ya )?(?:ha |había )?(?=\w+(?:ado|ido|ó)\b)"), "ustedhizo "),
    (re.compile(r"\bde nuevo\b"), "nuevamente"),
    (re.compile(r"\bnuev[oa]s? (?=[a-z]+\b)"), " "),
)
_WORD = re.compile(r"[a-záéíóúüñ0-9@.+/#_-]*[a-záéíóúüñ0-9]")
_CLITICS = ("selo", "sela", "melo", "les", "los", "las", "le", "lo", "la", "me", "te", "se")
_ENDS = {
    "ar": (("ado", "ada", "ados", "adas"), ("é", "ó", "amos", "aron")),
    "er": (("ido", "ida", "idos", "idas"), ("í", "ió", "imos", "ieron")),
    "ir": (("ido", "ida", "idos", "idas"), ("í", "ió", "imos", "ieron")),
}


def _forms(column: str, word: str) -> Iterable[tuple[str, Kind]]:
    if column == "noun":
        yield word, "noun"
    elif column == "past":
        yield word, "past" if word.endswith(("o", "a")) else "did"
        if word.endswith("o"):
            yield from ((word[:-1] + end, "past") for end in ("a", "os", "as"))
    else:
        yield word, "verb"
        stem, (participles, preterites) = word[:-2], _ENDS[word[-2:]]
        yield from ((stem + end, "past") for end in participles)
        yield from ((stem + end, "did") for end in preterites)
        if word.endswith("zar"):
            yield stem[:-1] + "cé", "did"
        if word.endswith("car"):
            yield stem[:-1] + "qué", "did"
        if word.endswith("gar"):
            yield stem + "ué", "did"


_SENSES = together(acts(_ACTS, _forms), nouns(_NOUNS), markers(_MARKERS))


def _of_word(word: str) -> tuple[Sense, ...]:
    senses = _SENSES.get(word)
    if senses is not None:
        return senses
    for clitic in _CLITICS:
        if word.endswith(clitic):
            bare = word[: -len(clitic)].translate(_UNACCENTED)
            found = _SENSES.get(bare, ())
            if any(one.kind == "verb" for one in found):
                return found
    return ()


_UNACCENTED = str.maketrans("áéíóú", "aeiou")


def _words(clause: str) -> list[tuple[Sense, ...]]:
    return [_of_word(word) for word in _WORD.findall(clause)]


def _plain(sentence: str) -> str:
    text = sentence.lower()
    for pattern, instead in _PHRASES:
        text = pattern.sub(instead, text)
    return text


SPANISH = Language(
    code="es",
    cut=re.compile(
        r"\s*(?:[;–—]|:(?!\d)|,(?!\d)|\s-\s|\s(?:pero|aunque|sino|porque|pues|ya que)\s"
        r"|\s(?P<weak>y|e|o|u|ni)\s)\s*"
    ),
    words=_words,
    usual=words(
        "el los las se su sus que ha hemos han fue una un con para por lo"
        " del al está le la de ya pude pudo lamento siento reembolso pedido"
    ),
    plain=_plain,
    translations=translated(_SENSES),
)
