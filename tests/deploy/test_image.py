"""The image: what it copies is there, it runs as nobody, and it is built for both architectures."""

import json
import re

from deployed import DEPLOY, ROOT, compose

TEXT = (ROOT / "Dockerfile").read_text()
STAGES = re.findall(r"^FROM \S+ AS (\S+)$", TEXT, re.M)


def stage(name):
    """The instructions of one stage."""
    return re.split(r"^FROM ", TEXT, flags=re.M)[STAGES.index(name) + 1]


def test_what_it_copies_from_the_checkout_is_there():
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.M):
        for source in line.split():
            assert (ROOT / source).exists(), source


def test_it_runs_as_an_ordinary_user_and_says_whether_it_is_well():
    assert re.search(r"^USER 10001$", stage("base"), re.M)
    for name in ("sidecar", "demo"):
        assert TEXT.count(f"FROM base AS {name}") == 1
        assert "USER" not in stage(name), "nothing gives the user back its powers"
    assert "HEALTHCHECK" in stage("sidecar")
    assert STAGES[-1] == "sidecar", "the default target"


def test_both_architectures_with_an_sbom_and_provenance():
    bake = json.loads((DEPLOY / "image" / "bake.json").read_text())
    for target in bake["group"]["default"]["targets"]:
        told = bake["target"][target]
        assert told["target"] in STAGES
        assert told["platforms"] == ["linux/amd64", "linux/arm64"]
        assert "type=sbom" in told["attest"]


def test_compose_builds_stages_that_exist():
    for name, service in compose()["services"].items():
        if "build" in service:
            assert service["build"].get("target", STAGES[-1]) in STAGES, name


def test_locks_pin_by_hash_and_name_no_registry():
    for name in ("requirements.lock", "demo.lock"):
        text = (DEPLOY / "image" / name).read_text()
        for block in re.split(r"\n(?=\S)", text):
            if "==" in block.splitlines()[0]:
                assert "--hash=sha256:" in block, block.splitlines()[0]
        assert "index-url" not in text and "://" not in text
