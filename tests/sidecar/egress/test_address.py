"""Addresses in all their spellings: what is private is not dialled unless named, metadata never."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.egress.address import read_networks, refusal

PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "100.64.0.1", "169.254.1.1", "172.16.0.1", "192.0.0.1", "192.0.2.1"),
    *("192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "::1", "fc00::1"),
    *("fd12::1", "fe80::1", "fec0::1", "2001:db8::1", "100::1", "2001:10::1"),
]
NEVER = [
    *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *(
        "fd00:ec2::254",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "ff02::1",
    ),
]


def wrapped(v4):
    value = int(ipaddress.IPv4Address(v4))
    high, low = value >> 16, value & 0xFFFF
    return [
        f"::ffff:{v4}",
        f"::{high:x}:{low:x}",
        f"64:ff9b::{high:x}:{low:x}",
        f"64:ff9b:1::{high:x}:{low:x}",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:{high:x}:{low:x}::1",
        f"2001:0:808:808::{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
        f"2a00:1::5efe:{high:x}:{low:x}",
    ]


@pytest.mark.requirement("SEC-01")
@pytest.mark.requirement("GW-06")
@pytest.mark.parametrize("address", PRIVATE + NEVER)
@pytest.mark.parametrize("allow", [(), ("0.0.0.0/0", "::/0")])
def test_special_addresses_are_refused_where_nothing_names_them(address, allow):
    assert refusal(address, read_networks(allow))


@pytest.mark.requirement("GW-06")
@pytest.mark.row("F", "CVE-2026-44430")
@pytest.mark.parametrize(
    "v4", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1", "0.0.0.0"]
)
def test_special_addresses_inside_ipv6_are_refused(v4):
    for address in wrapped(v4):
        for allow in ((), ("::/0",), ("0.0.0.0/0", "::/0"), ("2000::/3", "::/3")):
            assert refusal(address, read_networks(allow)), (address, allow)


@pytest.mark.parametrize(
    ("address", "allow"),
    [
        ("10.1.2.3", ["10.0.0.0/8"]),
        ("10.1.2.3", ["10.1.2.3/32"]),
        ("127.0.0.1", ["127.0.0.0/8"]),
        ("100.64.1.1", ["100.64.0.0/10"]),
        ("::1", ["::1/128"]),
        ("fd12::1", ["fd12::/16"]),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"]),
        ("8.8.8.8", []),
        ("8.8.8.8", ["8.8.0.0/16"]),
        ("2a00:1450::1", []),
        ("64:ff9b::808:808", []),
        ("64:ff9b::a00:1", ["64:ff9b::a00:0/104"]),
        ("2002:a00:1::1", ["2002:a00::/24"]),
        ("2002:808:808::1", []),
    ],
)
def test_what_is_named_or_public_may_be_dialled(address, allow):
    assert refusal(address, read_networks(allow)) is None


@pytest.mark.parametrize("address", NEVER)
def test_naming_does_not_open_what_is_never_dialled(address):
    own = ipaddress.ip_network(address)
    assert refusal(address, (own, *read_networks(["169.254.0.0/16", "fd00::/8", "100.64.0.0/10"])))


def test_named_ranges_are_the_only_ones_dialled():
    assert refusal("8.8.8.8", read_networks(["10.0.0.0/8"]))
    assert refusal("10.9.9.9", read_networks(["10.1.0.0/16"]))


@pytest.mark.parametrize(
    "text", ["fe80::1%eth0", "example", "127.1", "0x7f.0.0.1", "", "1.2.3.4/32"]
)
def test_what_is_no_plain_address_is_refused(text):
    assert refusal(text, read_networks(["0.0.0.0/0", "::/0", "127.0.0.0/8", "fe80::/10"]))


@given(st.ip_addresses(v=4))
def test_the_table_is_at_least_as_strict_as_the_standard_librarys(address):
    if not address.is_global:
        assert refusal(str(address), ())
    for text in wrapped(str(address))[:1]:
        assert bool(refusal(text, ())) == bool(refusal(str(address), ()))
