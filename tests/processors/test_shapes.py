"""What follows from keys is asked once a shape, within bounds, and never mixes shapes up."""

from processors.shapes import by_keys, groups_of


class Asked:
    """Counts how often it is asked."""

    def __init__(self):
        self.keys = []

    def __call__(self, keys):
        self.keys.append(keys)
        return len(self.keys)


def test_a_shape_is_asked_about_once():
    asked = Asked()
    known = by_keys(asked)
    assert [known(("a", "b")), known(("a", "b")), known(("b", "a")), known(("a", "b"))] == [
        1,
        1,
        2,
        1,
    ]
    assert asked.keys == [("a", "b"), ("b", "a")]


def test_shapes_with_many_or_long_keys_are_not_remembered():
    asked = Asked()
    known = by_keys(asked)
    wide, long = tuple(f"key.{number}" for number in range(161)), ("k" * 8193,)
    for keys in (wide, long):
        known(keys)
        known(keys)
    assert asked.keys == [wide, wide, long, long]


def test_new_shapes_for_ever_are_forgotten_together():
    asked = Asked()
    known = by_keys(asked)
    for number in range(1025):
        known((f"key.{number}",))
    assert known(("key.1024",)) == 1025
    assert known(("key.0",)) == 1026


def test_groups_are_the_first_words_of_the_fields_that_keys_stand_for():
    groups = groups_of(
        {"usage.input": ("in", "input"), "usage.output": ("out",), "model.id": ("id", "input")}
    )
    assert groups({"out": 3, "other": 1}) == {"usage"}
    assert groups(["input"]) == {"usage", "model"}
    assert groups({}) == frozenset()
