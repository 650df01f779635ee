"""The environment an agent reads is recorded and played; libraries read their own."""

import os
from os import environ, getenv

import pytest
from ambient_rig import asked, both, library, with_seams
from capture_rig import recorded, replayed

from sidecar.capture.seams.env import looks_secret

pytestmark = pytest.mark.requirement("TAP-02")
ENV = ("env",)
SECRET = "hunter2-hunter2"


@pytest.fixture
def variable(monkeypatch):
    for name in ("A_PLACE", "ANOTHER", "SOME_TOKEN", "SOME_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("A_PLACE", "here")
    return monkeypatch


def missing(read):
    try:
        return read()
    except KeyError as error:
        return type(error), error.args


READS = {
    "item": lambda: environ["A_PLACE"],
    "get": lambda: os.environ.get("A_PLACE"),
    "getenv": lambda: getenv("A_PLACE", "nowhere"),
    "in": lambda: "A_PLACE" in os.environ,
    "bytes": lambda: os.environb[b"A_PLACE"],
    "getenvb": lambda: os.getenvb(b"A_PLACE"),
    "pop": lambda: os.environ.pop("A_PLACE"),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_comes_back_whatever_the_environment_is(tmp_path, variable, name):
    if "b" in name and not os.supports_bytes_environ:
        pytest.skip("Windows has none")

    def agent():
        got = READS[name]()
        variable.setenv("A_PLACE", "elsewhere")
        return got

    was, now, tape = both(tmp_path / "a.tape", ENV, agent)
    assert (now, type(now)) == (was, type(was))
    assert was in ("here", b"here", True)
    assert set(asked(tape)) == {("env", "A_PLACE")}
    assert tape.events[1].inl["out"] == {"value": {"A_PLACE": "here"}}


def test_what_is_not_set_is_not_set_again(tmp_path, variable):
    def agent():
        got = [
            missing(lambda: os.environ["ANOTHER"]),
            missing(lambda: os.environ.pop("ANOTHER")),
            missing(lambda: os.environ.__delitem__("ANOTHER")),
            os.environ.get("ANOTHER", "else"),
            "ANOTHER" in os.environ,
        ]
        variable.setenv("ANOTHER", "now it is")
        return got

    was, now, tape = both(tmp_path / "a.tape", ENV, agent)
    assert was == now == [*[(KeyError, ("ANOTHER",))] * 3, "else", False]
    assert {one.st for one in tape.events[1:-1]} == {"ok"}


def test_a_listing_is_one_event_and_each_value_another(tmp_path, variable):
    for name in list(os.environ):
        variable.delenv(name)
    variable.setenv("A_PLACE", "here")
    variable.setenv("B_PLACE", "there")

    def agent():
        got = [
            *(dict(os.environ), os.environ.copy(), {**os.environ}, sorted(os.environ)),
            *(list(os.environ.items()), list(os.environ.values()), os.environ | {"C": "3"}),
            *(len(os.environ), repr(os.environ), os.environ == {}),
        ]
        variable.setenv("D_PLACE", "nowhere")
        return got

    was, now, tape = both(tmp_path / "a.tape", ENV, agent)
    assert now == was
    assert was[0] == {"A_PLACE": "here", "B_PLACE": "there"}
    assert was[8] == "environ({'A_PLACE': 'here', 'B_PLACE': 'there'})"
    assert asked(tape)[:3] == [("env", "os.environ"), ("env", "A_PLACE"), ("env", "B_PLACE")]


def test_what_the_agent_writes_it_reads_and_a_replay_takes_it_back(tmp_path, variable):
    theirs = library(tmp_path, "import os\ndef read(name):\n    return os.environ.get(name)\n")

    def agent():
        os.environ["ANOTHER"] = "mine"
        os.environ.update(A_PLACE="mine too")
        os.environ.setdefault("SOME_URL", "x")
        del os.environ["SOME_URL"]
        return [os.environ["ANOTHER"], os.environ["A_PLACE"], theirs.read("ANOTHER")]

    agent_in_seams = with_seams(ENV, agent)
    tape = recorded(tmp_path / "a.tape", agent_in_seams)
    assert os.environ["ANOTHER"] == "mine"  # it was a real run
    os.environ.pop("ANOTHER")
    os.environ["A_PLACE"] = "here"
    got = []
    session = replayed(tape, with_seams(ENV, lambda: got.append(agent())))
    assert session.drift is None
    assert got == [["mine", "mine too", "mine"]]
    assert (os.environ.get("ANOTHER"), os.environ["A_PLACE"]) == (None, "here")


def test_a_library_reads_its_own(tmp_path, variable):
    theirs = library(
        tmp_path,
        "import os\n"
        "def read():\n    return os.environ['A_PLACE'], os.getenv('A_PLACE'), len(os.environ)\n",
    )
    _, _, tape = both(tmp_path / "a.tape", ENV, theirs.read)
    assert asked(tape) == []


@pytest.mark.parametrize("name", ["SOME_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "GH_PAT"])
def test_a_secrets_value_is_never_on_the_tape_and_a_replay_hands_out_what_is(
    tmp_path, variable, name
):
    variable.setenv(name, SECRET)
    was, now, tape = both(tmp_path / "a.tape", ENV, lambda: os.environ[name], capture="redacted")
    assert (was, now) == (SECRET, "[secret]")
    assert SECRET.encode() not in (tmp_path / "a.tape").read_bytes()
    assert tape.seal.leaks.found == 0 < tape.seal.leaks.sought


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("MAX_OUTPUT_TOKENS", "4096"), ("TOKEN_LIMIT", "128000"), ("MAX_TOKEN", "4096")),
        *(("PASSWORD_MIN_LENGTH", "12"), ("SECRET_ROTATION_DAYS", "-1"), ("COOKIE_TTL", "86400")),
        *(("USE_AUTH", "true"), ("NEEDS_TOKEN", "0"), ("COOKIE_SECURE", "False")),
    ],
)
def test_a_measure_or_a_boolean_is_no_secret_whatever_its_name_looks_like(
    tmp_path, variable, name, value
):
    variable.setenv(name, value)
    was, now, _ = both(tmp_path / "a.tape", ENV, lambda: os.environ[name], capture="redacted")
    assert was == now == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("DB_PASSWORD", "123456"), ("CARD_PIN", "1234"), ("LOGIN_OTP", "123456")),
        *(("PASSWORD_LENGTH", "1234567"), ("SECRET_SIZE", "12a"), ("SECRET_SIZE", "\u0661")),
        *(("MAX_KEY", "12.5"), ("CREDENTIALS_1", "1234")),
    ],
)
def test_a_number_under_a_secrets_own_name_is_one(tmp_path, variable, name, value):
    variable.setenv(name, value)
    was, now, _ = both(tmp_path / "a.tape", ENV, lambda: os.environ[name], capture="redacted")
    assert (was, now) == (value, "[secret]")


def test_a_secret_in_another_value_is_redacted_by_its_form(tmp_path, variable):
    variable.setenv("SOME_URL", f"postgres://me:{SECRET}@db/x")
    was, now, _ = both(tmp_path / "a.tape", ENV, lambda: os.environ["SOME_URL"], capture="redacted")
    assert was != now == "postgres://[credential]@db/x"


@pytest.mark.parametrize(
    "name", ["MAX_TOKENS", "TOKENIZERS_PARALLELISM", "PATH", "KEYBOARD", "HOME"]
)
def test_what_is_no_secret_is_read_as_it_is(name):
    assert not looks_secret(name)


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "SECRET_KEY_BASE", "DB_PASS", "APIKEY", "token"]
)
def test_what_looks_secret_is(name):
    assert looks_secret(name)


@pytest.mark.skipif(os.name == "nt", reason="text there is never undecodable")
def test_a_value_that_is_no_text_comes_back(tmp_path, variable):
    os.environb[b"A_PLACE"] = b"\xff\xfe"
    was, now, _ = both(tmp_path / "a.tape", ENV, lambda: os.environ["A_PLACE"])
    assert was == now == "\udcff\udcfe"


def test_a_read_that_is_not_on_the_tape_is_a_drift(tmp_path, variable):
    names = ["A_PLACE"]
    agent = with_seams(ENV, lambda: os.environ[names[0]])
    tape = recorded(tmp_path / "a.tape", agent)
    names[0] = "ANOTHER"
    assert replayed(tape, agent).drift is not None


def test_after_the_session_everything_is_what_it_was(tmp_path, variable):
    before = dict(vars(type(os.environ)))
    both(tmp_path / "a.tape", ENV, lambda: None)
    assert dict(vars(type(os.environ))) == before
