"""What many runs share is held once, and of what they do not share only so much is known."""

from sidecar.gate.alike import Alike


def test_equal_values_are_one_object_until_so_many_are_known():
    pool = Alike(most=2)
    first = pool.once("".join(["a", "b"]))
    assert pool.once("".join(["a", "b"])) is first
    pool.once("cd")
    third = "".join(["e", "f"])
    assert pool.once(third) is third
    again = pool.once("".join(["e", "f"]))
    assert again == third and again is not third
    assert pool.once("".join(["a", "b"])) is first


def test_a_value_may_be_known_under_a_key():
    pool = Alike()
    held = pool.held("x", {"one": 1})
    assert pool.held("x", {"one": 1}) is held and pool.held("y", {}) is not held
