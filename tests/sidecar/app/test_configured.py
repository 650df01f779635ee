"""The configuration in force, as digests."""

from msgspec import structs

from sidecar.app.configured import config_note
from sidecar.config import Config


def test_another_value_is_another_digest_of_its_part_and_of_the_whole():
    before = config_note(Config(), 5)
    gateway = structs.replace(Config().gateway, body_bytes_max=7)
    after = config_note(structs.replace(Config(), gateway=gateway), 6)
    changed = {name for name, digest in after.body["parts"].items()
               if before.body["parts"][name] != digest}  # fmt: skip
    assert changed == {"gateway"}
    assert before.body["digest"] != after.body["digest"]
    assert config_note(Config(), 9).state == before.state != after.state
    assert (before.kind, before.at_ns, before.project) == ("config_changed", 5, "")
