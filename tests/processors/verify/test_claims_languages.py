"""What answers in German, Spanish and Chinese claim, and what they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.trace import AgentTrace
from processors.verify import grammar
from processors.verify.claims import claims

TOOLS = {
    "issue_refund": "irreversible",
    "cancel_order": "write",
    "book_flight": "write",
    "send_email": "irreversible",
    "delete_file": "irreversible",
    "create_ticket": "write",
    "update_address": "write",
    "transfer_funds": "irreversible",
    "pay_invoice": "irreversible",
    "deploy_service": "irreversible",
    "approve_request": "write",
    "schedule_meeting": "write",
    "lookup_order": "read",
}


def heard(answer, tools=TOOLS):
    return claims(AgentTrace(trace_id="a" * 32, final_output=answer), tools)


SUCCESS = {
    "de": [
        ("Ihre Rückerstattung wurde veranlasst.", "issue_refund"),
        ("Der Betrag wurde Ihnen zurückerstattet.", "issue_refund"),
        ("Die Rueckerstattung wurde veranlasst.", "issue_refund"),
        ("Ich konnte die Rückerstattung veranlassen.", "issue_refund"),
        ("Rückerstattung veranlasst.", "issue_refund"),
        ("Die Rückerstattung war erfolgreich.", "issue_refund"),
        ("Ihre Bestellung ist storniert.", "cancel_order"),
        ("Ich habe Ihren Flug gebucht.", "book_flight"),
        ("Die E-Mail wurde verschickt.", "send_email"),
        ("Die Datei wurde gelöscht.", "delete_file"),
        ("Ich habe ein Ticket angelegt.", "create_ticket"),
        ("Ihre Adresse wurde geändert.", "update_address"),
        ("Die Überweisung wurde ausgeführt.", "transfer_funds"),
        ("Die Rechnung wurde bezahlt.", "pay_invoice"),
        ("Der Dienst wurde ausgerollt.", "deploy_service"),
        ("Der Antrag wurde genehmigt.", "approve_request"),
        ("Der Termin wurde vereinbart.", "schedule_meeting"),
        ("Erledigt!", None),
        ("Ihre Anfrage wurde erfolgreich bearbeitet.", None),
    ],
    "es": [
        ("Su reembolso ha sido emitido.", "issue_refund"),
        ("Reembolsé el importe a su tarjeta.", "issue_refund"),
        ("He reembolsado el pedido.", "issue_refund"),
        ("Reembolso emitido.", "issue_refund"),
        ("Se canceló el pedido.", "cancel_order"),
        ("Pude cancelar el pedido.", "cancel_order"),
        ("El vuelo ha sido reservado.", "book_flight"),
        ("Le he enviado un correo electrónico.", "send_email"),
        ("El archivo fue eliminado.", "delete_file"),
        ("He creado un ticket.", "create_ticket"),
        ("He actualizado la dirección.", "update_address"),
        ("La transferencia ha sido realizada.", "transfer_funds"),
        ("La factura fue pagada.", "pay_invoice"),
        ("Hemos desplegado el servicio.", "deploy_service"),
        ("La solicitud fue aprobada.", "approve_request"),
        ("La reunión ha sido programada.", "schedule_meeting"),
        ("Listo.", None),
        ("Su solicitud ha sido procesada.", None),
    ],
    "zh": [
        ("已为您退款。", "issue_refund"),
        ("您的退款已成功处理。", "issue_refund"),
        ("我已取消您的订单。", "cancel_order"),
        ("我取消了您的订单。", "cancel_order"),
        ("航班已预订成功。", "book_flight"),
        ("邮件已发送。", "send_email"),
        ("文件已删除。", "delete_file"),
        ("工单已创建。", "create_ticket"),
        ("地址已更新。", "update_address"),
        ("已完成转账。", "transfer_funds"),
        ("发票已支付。", "pay_invoice"),
        ("服务已部署。", "deploy_service"),
        ("请求已批准。", "approve_request"),
        ("会议已安排。", "schedule_meeting"),
        ("已完成。", None),
    ],
}
FAILURE = {
    "de": [
        ("Der Betrag wurde nicht erstattet.", "issue_refund"),
        ("Leider konnte ich die Rückerstattung nicht veranlassen.", "issue_refund"),
        ("Es wurde keine Rückerstattung veranlasst.", "issue_refund"),
        ("Die Rückerstattung ist fehlgeschlagen.", "issue_refund"),
        ("Die Rückerstattung wurde abgelehnt.", "issue_refund"),
        ("Ihre Bestellung konnte nicht storniert werden.", "cancel_order"),
        ("Ich kann die Bestellung leider nicht stornieren.", "cancel_order"),
        ("Die Datei wurde noch nicht gelöscht.", "delete_file"),
    ],
    "es": [
        ("No se pudo emitir el reembolso.", "issue_refund"),
        ("No pude reembolsar el pedido.", "issue_refund"),
        ("No se ha reembolsado el importe.", "issue_refund"),
        ("El reembolso falló.", "issue_refund"),
        ("El reembolso fue rechazado.", "issue_refund"),
        ("No ha sido posible cancelar el pedido.", "cancel_order"),
        ("No he podido enviarle el correo.", "send_email"),
    ],
    "zh": [
        ("未能退款。", "issue_refund"),
        ("抱歉，无法为您退款。", "issue_refund"),
        ("退款失败。", "issue_refund"),
        ("尚未退款。", "issue_refund"),
        ("没有取消您的订单。", "cancel_order"),
        ("退款被拒绝。", "issue_refund"),
        ("邮件未发送。", "send_email"),
    ],
}
NOTHING = [
    "Ich werde die Rückerstattung veranlassen.",
    "Ich möchte die Rückerstattung gern veranlassen.",
    "Wenn die Freigabe vorliegt, wurde die Rückerstattung veranlasst.",
    "Die Rückerstattung wird innerhalb von 5 Tagen gutgeschrieben.",
    "Soll ich die Rückerstattung veranlassen?",
    "Sie sagten, dass die Rückerstattung veranlasst wurde.",
    "Auf der Seite steht „Ihre Rückerstattung wurde veranlasst“.",
    "Die Rückerstattung ist gerade in Bearbeitung.",
    "Sie haben Ihre Bestellung storniert.",
    "Voy a reembolsar su pedido.",
    "Reembolsaré su pedido mañana.",
    "Si se aprueba, el reembolso ha sido emitido.",
    "El reembolso será emitido en 5 días.",
    "¿Desea que emita el reembolso?",
    "Usted dijo que el reembolso fue emitido.",
    "El reembolso está en proceso.",
    "La página dice «su reembolso ha sido emitido».",
    "我会为您退款。",
    "如果批准，我将为您退款。",
    "需要我为您退款吗？",
    "您说已经退款了。",
    "我们正在处理您的退款。",
    "页面上写着「已退款」。",
    "为了您的方便，请联系客服。",
    "Votre remboursement a été effectué.",
    "返金が完了しました。",
]
ROWS = [
    (answer, subject, status, code)
    for status, table in (("success", SUCCESS), ("failure", FAILURE))
    for code, rows in table.items()
    for answer, subject in rows
]


@pytest.mark.requirement("OUT-01")
@pytest.mark.parametrize(("answer", "subject", "status", "code"), ROWS)
def test_what_was_done_or_not_is_claimed(answer, subject, status, code):
    (claim,) = heard(answer)
    assert (claim.subject, claim.status, claim.language) == (subject, status, code)
    assert 0.5 <= claim.confidence <= 0.95


@pytest.mark.requirement("OUT-01")
@pytest.mark.parametrize("answer", NOTHING)
def test_intention_condition_question_and_quotation_claim_nothing(answer):
    assert heard(answer) == ()


@pytest.mark.parametrize(
    "answer",
    [
        "Ich glaube, die Rückerstattung wurde veranlasst.",
        "Vermutlich wurde der Betrag erstattet.",
        "Creo que el reembolso ha sido emitido.",
        "可能已经退款了。",
        "I think the refund has been issued.",
    ],
)
def test_a_hedged_claim_is_unknown_and_accuses_nobody(answer):
    (claim,) = heard(answer)
    assert claim.status == "unknown" and claim.confidence < 0.5


@pytest.mark.parametrize(
    ("answer", "amount", "currency", "objects"),
    [
        ("I refunded $1,234.56 for order A-1001.", "1234.56", "USD", ("A-1001",)),
        ("Your refund of 49.99 USD for order A-1001 has been issued.", "49.99", "USD", ("A-1001",)),
        ("Your refund of 49.99 was issued.", "49.99", None, ()),
        ("I refunded €49.", "49", "EUR", ()),
        ("I refunded CHF 1'234.50.", "1234.5", "CHF", ()),
        ("Ihre Rückerstattung über 1.234,56 EUR wurde veranlasst.", "1234.56", "EUR", ()),
        ("Der Betrag von 1.234 € wurde erstattet.", "1234", "EUR", ()),
        ("Su reembolso de 49,99 € ha sido emitido.", "49.99", "EUR", ()),
        ("已退款1,234.5元，订单号A-1001。", "1234.5", "CNY", ("A-1001",)),
        ("已为您退款￥500。", "500", None, ()),
        ("已退款1.5万元。", "15000", "CNY", ()),
        ("I refunded 10 USD of 20 USD.", None, None, ()),
        (
            "I have emailed bob@example.com at 10:30 on 10.05.2026.",
            None,
            None,
            ("bob@example.com",),
        ),
        ("Your refund was issued, 50% of it in 3 days.", None, None, ()),
    ],
)
def test_amounts_are_exact_and_objects_named(answer, amount, currency, objects):
    claim = heard(answer)[0]
    assert (claim.amount, claim.currency, claim.objects) == (amount, currency, objects)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ("I refunded 2 of 3 orders.", (2, 3)),
        ("Two of the three refunds went through.", (2, 3)),
        ("Wir haben 2 von 3 Bestellungen erstattet.", (2, 3)),
        ("Hemos reembolsado dos de los tres pedidos.", (2, 3)),
        ("已退款3笔中的2笔。", (2, 3)),
        ("I refunded 3 of 3 orders.", (None, None)),
    ],
)
def test_a_partial_success_tells_how_many_of_how_many(answer, part):
    (claim,) = heard(answer)
    assert (claim.subject, claim.status) == ("issue_refund", "success")
    assert (claim.count, claim.total) == part


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (
            "Ich habe Ihre Bestellung storniert und den Betrag von 49,99 € erstattet.",
            [("cancel_order", "success", None), ("issue_refund", "success", "49.99")],
        ),
        (
            "Ich konnte die Bestellung nicht stornieren, aber der Betrag wurde erstattet.",
            [("cancel_order", "failure", None), ("issue_refund", "success", None)],
        ),
        (
            "He cancelado su pedido y reembolsado 49,99 €.",
            [("cancel_order", "success", None), ("issue_refund", "success", "49.99")],
        ),
        (
            "我已取消订单并退款49.99元，但邮件未发送。",
            [
                ("cancel_order", "success", None),
                ("issue_refund", "success", "49.99"),
                ("send_email", "failure", None),
            ],
        ),
        (
            "I refunded 10 EUR for order A-1001 and cancelled order A-1002.",
            [("issue_refund", "success", "10"), ("cancel_order", "success", None)],
        ),
    ],
)
def test_several_claims_of_one_answer_keep_their_own_amounts(answer, found):
    assert [(one.subject, one.status, one.amount) for one in heard(answer)] == found


def test_the_act_is_told_in_the_tools_own_word():
    assert [one.action for one in heard("已为您退款。")] == ["refund"]
    assert [one.action for one in heard("Ihr Flug wurde gebucht.")] == ["book"]


def test_a_tool_named_in_the_agents_language_is_meant_by_its_words():
    tools = {"erstattung_anlegen": "irreversible", "cancelar_pedido": "write"}
    assert [one.subject for one in heard("Der Betrag wurde erstattet.", tools)] == [
        "erstattung_anlegen"
    ]
    assert [one.subject for one in heard("He cancelado el pedido.", tools)] == ["cancelar_pedido"]


def test_an_answer_may_mix_languages():
    found = heard("Your order has been cancelled. Der Betrag wurde nicht erstattet.")
    assert [(one.subject, one.status, one.language) for one in found] == [
        ("cancel_order", "success", "en"),
        ("issue_refund", "failure", "de"),
    ]


VOCABULARY = (
    "ich habe wurde nicht erstattet die rückerstattung konnte storniert und aber wenn no se pudo"
    " he reembolsado el reembolso ha sido y si 已 退款 未 会 了 如果 无法 , . ? ！"
)
WORDS = st.sampled_from(VOCABULARY.split())


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_any_row_of_words_is_read_and_read_alike(answer):
    found = heard(answer)
    assert found == heard(answer)
    assert len({one.claim_id for one in found}) == len(found)


def test_every_rule_needs_something_that_its_bars_do_not_forbid():
    for rule in grammar.RULES:
        assert not any(need <= rule.bars for need in rule.needs), rule.id
