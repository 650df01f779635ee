"""The digests of many runs are held in few bytes, and given back as they were told."""

from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.replay.digests import Digests

SPELT = st.binary(min_size=32, max_size=32).map(lambda one: f"sha256:{one.hex()}")
ODD = st.text(max_size=4) | st.binary(max_size=40).map(lambda one: f"sha256:{one.hex()}")


@given(st.lists(SPELT | ODD, max_size=8), st.slices(8))
@example(["ab" * 32, "sha256:" + "AB" * 32, "sha256:" + "ab " * 32, ""], slice(None))
def test_texts_come_out_as_they_went_in(texts, part):
    found = Digests(texts)
    assert [*found] == texts and len(found) == len(texts)
    assert found == texts == found and found[part] == tuple(texts[part])
    assert [found[at] for at in range(-len(texts), len(texts))] == texts * 2
    assert found != [*texts, "x"] and found != Digests([*texts, "x"])


def test_what_is_no_sequence_of_texts_is_unlike():
    assert Digests() != "" and Digests() != 0 and Digests(["x"]) != "x"
    assert repr(Digests(["x"])) == "Digests(['x'])"
