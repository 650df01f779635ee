"""Target URLs and resolver answers."""

import pytest

from sidecar.egress.rules import Target, TargetRefused, read_target, vet


def read(url, *allow):
    return read_target(Target(name="t", url=url, allow_cidrs=allow))


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://Payments.Internal:8080", "payments.internal", 8080, "payments.internal:8080", ""),
        ("https://api.example.com./v1/", "api.example.com", 443, "api.example.com", "/v1"),
        ("http://127.0.0.1", "127.0.0.1", 80, "127.0.0.1", ""),
        ("http://[::1]:90/x", "::1", 90, "[::1]:90", "/x"),
        (
            "https://xn--bcher-kva.example",
            "xn--bcher-kva.example",
            443,
            "xn--bcher-kva.example",
            "",
        ),
        ("http://my_service:1", "my_service", 1, "my_service:1", ""),
    ],
)
def test_a_target_is_read(url, host, port, authority, path):
    endpoint = read(url)
    assert (endpoint.host, endpoint.port) == (host, port)
    assert (endpoint.authority, endpoint.base_path) == (authority, path)


@pytest.mark.requirement("GW-06")
@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://2130706433",
            "http://0x7f.1",
            "http://0x7f000001",
            "http://0177.0.0.1",
            "http://127.1",
        ),
        *(
            "http://1.2.3.4.5",
            "http://256.1.1.1",
            "http://①②⑦.0.0.1",
            "http://0x",
        ),
        *(
            "http://user@host",
            "http://a:b@host",
            "http://host\\@evil",
            "http://host#f",
            "http://host?q",
        ),
        *(
            "http://ho\tst",
            "http://host\r\n",
            "http://host:0",
            "http://host:70000",
            "http://[::1%25lo]",
        ),
        *(
            "http://[::1",
            "http://[fe80::1%eth0]",
            "ftp://host",
            "//host",
            "http://",
            "http://-a",
            "http://a..b",
        ),
        *("http://bücher.example", "http://host:80:80"),
    ],
)
def test_hosts_in_disguise_are_refused(url):
    with pytest.raises(TargetRefused):
        read(url)


def test_a_wrong_range_is_refused_naming_the_target():
    with pytest.raises(TargetRefused, match="t: allow_cidrs"):
        read("http://host", "10.0.0.1/8")


@pytest.mark.requirement("GW-06")
@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "has no address"),
        (["8.8.8.8", "10.0.0.1"], "not named in allow_cidrs"),
        (["8.8.8.8", "64:ff9b::a9fe:a9fe"], "metadata"),
        ([f"8.8.8.{n}" for n in range(17)], "more than 16"),
    ],
)
def test_one_bad_answer_refuses_the_name(answers, why):
    with pytest.raises(TargetRefused, match=why):
        vet(read("http://host"), answers)


def test_good_answers_keep_their_order_each_once():
    answers = vet(read("http://host"), ["8.8.8.8", "1.1.1.1", "8.8.8.8"])
    assert answers == ("8.8.8.8", "1.1.1.1")
