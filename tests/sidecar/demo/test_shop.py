"""The shop keeps its promises, and breaks exactly those it is told to break."""

import pytest

from sidecar.demo.shop import EmailRequest, Order, RefundRequest, Shop, ShopRefused

FULL = RefundRequest(amount="49.00", currency="EUR", reason="broken")


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path / "shop.db")
    yield shop
    shop.close()


def place(shop, order_id="ORD-1", **more):
    shop.place(
        Order(
            order_id=order_id,
            customer="Ada",
            email="a@x.example",
            item="Kettle",
            **{"total": "49.00", **more},
        )
    )


def test_one_key_makes_one_refund_and_gives_one_answer(shop):
    place(shop, total="98.00")
    first = shop.refund("ORD-1", FULL, key="k", new_id="RF-1")
    assert shop.refund("ORD-1", FULL, key="k", new_id="RF-2") == first
    assert [refund["refund_id"] for refund in shop.refunds(order_id="ORD-1")] == ["RF-1"]
    shop.refund("ORD-1", FULL, key="another", new_id="RF-3")
    assert shop.order("ORD-1")["refunded"] == "98.00"


def test_a_key_cannot_be_used_for_something_else(shop):
    place(shop)
    shop.refund(
        "ORD-1", RefundRequest(amount="9.00", currency="EUR", reason="x"), key="k", new_id="1"
    )
    with pytest.raises(ShopRefused) as refused:
        shop.refund("ORD-1", FULL, key="k", new_id="2")
    assert refused.value.status == 422
    assert shop.order("ORD-1")["refunded"] == "9.00"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (RefundRequest(amount="49.01", currency="EUR", reason=""), 409),
        (RefundRequest(amount="0.00", currency="EUR", reason=""), 400),
        (RefundRequest(amount="-1.00", currency="EUR", reason=""), 400),
        (RefundRequest(amount="49", currency="EUR", reason=""), 400),
        (RefundRequest(amount="49.00", currency="USD", reason=""), 400),
    ],
)
def test_a_refund_that_cannot_be_is_refused_and_leaves_no_mark(shop, request_, status):
    place(shop)
    with pytest.raises(ShopRefused) as refused:
        shop.refund("ORD-1", request_, key="k", new_id="1")
    assert refused.value.status == status
    assert shop.refunds(order_id="ORD-1") == []
    shop.refund("ORD-1", FULL, key="k", new_id="1")


def test_a_lying_order_answers_success_and_pays_nothing(shop):
    place(shop, behaviour="lie")
    assert shop.refund("ORD-1", FULL, key="k", new_id="1")["status"] == "succeeded"
    assert shop.refunds(order_id="ORD-1") == []
    assert shop.order("ORD-1")["refunded"] == "0.00"


def test_the_customer_s_view_of_an_order_does_not_show_how_it_will_fail(shop):
    place(shop, behaviour="lie")
    assert "behaviour" not in shop.order("ORD-1")


def test_one_key_sends_one_e_mail(shop):
    email = EmailRequest(to="a@x.example", subject="s", body="b")
    first = shop.send_email(email, key="k", new_id="1")
    assert shop.send_email(email, key="k", new_id="2") == first
    assert len(shop.emails()) == 1
    with pytest.raises(ShopRefused):
        shop.send_email(EmailRequest(to="nobody", subject="s", body="b"), key="k2", new_id="3")


def test_what_was_done_is_there_after_a_restart(tmp_path):
    shop = Shop(tmp_path / "shop.db")
    place(shop)
    shop.refund("ORD-1", FULL, key="k", new_id="RF-1")
    shop.close()
    again = Shop(tmp_path / "shop.db")
    assert again.refunds(key="k")[0]["refund_id"] == "RF-1"
    again.close()
