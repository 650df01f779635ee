"""Which addresses the process may dial: own tables, every spelling of an address unwrapped.

**Rules**
1. Metadata, unspecified, multicast and reserved addresses are refused always, whatever is allowed.
2. Private, loopback, link-local and other special ranges are refused unless a range named in
   ``allow_cidrs`` lies within that very special range: ``0.0.0.0/0`` names nothing private.
3. Where ``allow_cidrs`` is not empty an address must lie in it, public or not.
4. An IPv4 address inside an IPv6 one (mapped, compatible, 6to4, NAT64, Teredo, ISATAP) is judged as
   well as the address around it, unless ``allow_cidrs`` names a range of that very scheme: ``::/0``
   does not; a mapped one is judged as the IPv4 address it is.

The standard library's ``is_global`` is not enough: it passes NAT64 and 6to4 forms of private
addresses (gateway.md §3.3, CVE-2026-44430).
"""

import ipaddress
from collections.abc import Iterable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


METADATA = _networks(
    *("169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32"),
    *("168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128"),
    *("fd20:ce::254/128",),
)
NEVER = _networks(
    *("0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/128", "ff00::/8"),
)
SPECIAL = _networks(
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
    *("198.51.100.0/24", "203.0.113.0/24"),
    *(
        "::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
    ),
    *("fc00::/7", "fe80::/10", "fec0::/10"),
)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_TEREDO = ipaddress.IPv6Network("2001::/32")
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_ISATAP = (0x00005EFE, 0x02005EFE)


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks of ``allow_cidrs``. Raises ValueError, also where host bits are set."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def refusal(text: str, allow: Sequence[Network]) -> str | None:
    """Why an address must not be dialled, or None. ``text`` is a literal without a zone."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return f"{text!r} is no address"
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return f"{text} has a zone"
        if address in _MAPPED:
            address = _inner(address)
    return _judge(address, allow)


def _judge(address: Address, allow: Sequence[Network]) -> str | None:
    for inner, around in embedded(address):
        why = _never(inner)
        if why is None and not _named(address, around, allow):
            why = _unnamed(inner, allow)
        if why is not None:
            return f"{address}, which holds {why}"
    why = _never(address) or _unnamed(address, allow)
    if why is None and allow and not _lies_in(address, allow):
        return f"{address}, which is not within allow_cidrs"
    return why


def _never(address: Address) -> str | None:
    if _lies_in(address, METADATA):
        return f"{address}, a metadata address, which is never dialled"
    if _lies_in(address, NEVER):
        return f"{address}, which is never dialled"
    return None


def _unnamed(address: Address, allow: Sequence[Network]) -> str | None:
    special = [network for network in SPECIAL if _within(address, network)]
    if special and not any(_named(address, outer, allow) for outer in special):
        return f"{address}, which lies in {special[0]} and is not named in allow_cidrs"
    return None


def _named(address: Address, outer: Network, allow: Sequence[Network]) -> bool:
    """Whether a range that is allowed holds the address and lies within the range around it."""
    return any(
        _within(address, network) and network.prefixlen >= outer.prefixlen for network in allow
    )


def _lies_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(_within(address, network) for network in networks)


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def embedded(address: Address) -> tuple[tuple[ipaddress.IPv4Address, Network], ...]:
    """The IPv4 addresses inside an IPv6 address, by every scheme it may belong to, each with the
    range that the scheme puts it in."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    value = int(address)
    found: list[tuple[ipaddress.IPv4Address, Network]] = []
    if address in _COMPATIBLE and value > 0xFFFF:
        found.append((_inner(address), _COMPATIBLE))
    if address in _SIX_TO_FOUR:
        found.append((ipaddress.IPv4Address((value >> 80) & 0xFFFFFFFF), _SIX_TO_FOUR))
    if address in _TEREDO:
        found.append((ipaddress.IPv4Address((value >> 64) & 0xFFFFFFFF), _TEREDO))
        found.append((ipaddress.IPv4Address(~value & 0xFFFFFFFF), _TEREDO))
    found += [(_inner(address), network) for network in _NAT64 if address in network]
    if (value >> 32) & 0xFFFFFFFF in _ISATAP:  # in any prefix, behind which it is the whole rest
        found.append((_inner(address), ipaddress.IPv6Network((value >> 32 << 32, 96))))
    return tuple(found)


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
