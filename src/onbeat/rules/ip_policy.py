"""SSRF protection: the IP addresses that a callback may reach.

The policy judges addresses, never their spelling; the caller has resolved the host already. Any
address that is not clearly a public host is refused. A block that is assigned a special purpose
later is thus refused already, unless it is public today.
"""

import re
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

import msgspec

from onbeat.model.errors import Misconfigured

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

BLOCKS_DATE: Final = "2024-10-22"
"""The date of the IANA special-purpose registries that the tables below were checked against."""

LOOPBACK: Final = "a loopback address"
PRIVATE: Final = "an address of a private network"
SHARED: Final = "a shared (carrier-grade NAT) address"
LINK_LOCAL: Final = "a link-local address"
METADATA: Final = "a cloud's metadata service"
MULTICAST: Final = "a multicast address"
UNSPECIFIED: Final = "an address of no host"
DOCUMENTATION: Final = "a documentation address"
BENCHMARKING: Final = "a benchmarking address"
RESERVED: Final = "a reserved address"
TUNNEL: Final = "an address of a tunnel"
SITE_LOCAL: Final = "a site-local address"

LIFTED_BY_PRIVATE: Final = frozenset({LOOPBACK, PRIVATE, SHARED})

# Metadata services, which give out the machine's credentials; some use public or private addresses.
METADATA_ADDRESSES: Final[frozenset[Address]] = frozenset(
    {
        IPv4Address("169.254.169.254"),  # AWS, Azure, Google and most others
        IPv4Address("169.254.170.2"),  # AWS, for containers
        IPv4Address("168.63.129.16"),  # Azure's wire server, a public address
        IPv4Address("100.100.100.200"),  # Alibaba
        IPv4Address("192.0.0.192"),  # Oracle, classic
        IPv6Address("fd00:ec2::254"),  # AWS
        IPv6Address("fd20:ce::254"),  # Google
    }
)

# The first block that holds an address names the reason, so narrower blocks come first.
BLOCKS_V4: Final = tuple(
    (IPv4Network(block), reason)
    for block, reason in (
        ("0.0.0.0/8", UNSPECIFIED),
        ("10.0.0.0/8", PRIVATE),
        ("100.64.0.0/10", SHARED),
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", LINK_LOCAL),
        ("172.16.0.0/12", PRIVATE),
        ("192.0.0.0/24", RESERVED),  # protocol assignments
        ("192.0.2.0/24", DOCUMENTATION),
        ("192.31.196.0/24", RESERVED),  # AS112
        ("192.52.193.0/24", TUNNEL),  # automatic multicast tunnelling
        ("192.88.99.0/24", TUNNEL),  # 6to4 relays
        ("192.168.0.0/16", PRIVATE),
        ("192.175.48.0/24", RESERVED),  # AS112
        ("198.18.0.0/15", BENCHMARKING),
        ("198.51.100.0/24", DOCUMENTATION),
        ("203.0.113.0/24", DOCUMENTATION),
        ("224.0.0.0/4", MULTICAST),
        ("240.0.0.0/4", RESERVED),  # including the broadcast address
    )
)
BLOCKS_V6: Final = tuple(
    (IPv6Network(block), reason)
    for block, reason in (
        ("::/128", UNSPECIFIED),
        ("::1/128", LOOPBACK),
        ("::/96", TUNNEL),  # IPv4-compatible, deprecated
        ("64:ff9b:1::/48", TUNNEL),  # NAT64 inside one network
        ("100::/64", RESERVED),  # discard
        ("2001::/32", TUNNEL),  # Teredo
        ("2001:2::/48", BENCHMARKING),
        ("2001::/23", RESERVED),  # protocol assignments
        ("2001:db8::/32", DOCUMENTATION),
        ("2002::/16", TUNNEL),  # 6to4
        ("2620:4f:8000::/48", RESERVED),  # AS112
        ("3fff::/20", DOCUMENTATION),
        ("5f00::/16", RESERVED),  # segment routing
        ("fc00::/7", PRIVATE),
        ("fe80::/10", LINK_LOCAL),
        ("fec0::/10", SITE_LOCAL),
        ("ff00::/8", MULTICAST),
    )
)

GLOBAL_UNICAST_V6: Final = IPv6Network("2000::/3")
"""The range that IANA assigns to hosts; the rest of IPv6 is reserved."""

MAPPED: Final = IPv6Network("::ffff:0:0/96")
NAT64: Final = IPv6Network("64:ff9b::/96")
NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
COMPATIBLE: Final = IPv6Network("::/96")

# These addresses are judged by the IPv4 address that they contain.
SEEN_THROUGH: Final = (MAPPED, NAT64)

# A resolver would read a name whose last label is a number as an address.
HOST_NAME: Final = re.compile(r"([a-z0-9_-]+\.)*(?![0-9]+$)[a-z0-9_-]+", re.ASCII)


class Allowed(msgspec.Struct, frozen=True):
    """What the operator lets callbacks reach besides public addresses.

    A network is allowed with everything in it. A host may resolve to loopback and private
    addresses, but allowing its name does not open a metadata service: that takes the network
    itself.
    """

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    def covers(self, ip: Address) -> bool:
        return any(ip in network for network in self.networks)

    def names(self, host: str) -> bool:
        return plain_host(host) in self.hosts


NOTHING_MORE: Final = Allowed()


def parse_allowed(entries: Iterable[str], *, key: str = "http.allow") -> Allowed:
    """Parse the operator's list of addresses, CIDR networks and host names."""
    networks: list[Network] = []
    hosts: set[str] = set()
    for entry in entries:
        network = network_of(entry)
        if network is not None:
            networks.append(network)
        elif HOST_NAME.fullmatch(plain_host(entry)):
            hosts.add(plain_host(entry))
        else:
            raise Misconfigured(
                f"{key}: {entry!r} is neither a host name nor an address or network such as"
                " 10.0.0.0/8",
                key=key,
            )
    return Allowed(tuple(networks), frozenset(hosts))


def plain_host(text: str) -> str:
    return text.lower().removesuffix(".")


def network_of(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def verdict(
    address: str, *, private_allowed: bool = False, allowed: Allowed = NOTHING_MORE
) -> str | None:
    """Why a callback must not reach this address; None if it may.

    With `private_allowed`, loopback and private networks are allowed too. Refuses a text that is
    not an address in its usual form, and an address with a zone id.
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return "not an IP address"
    if isinstance(ip, IPv6Address) and ip.scope_id is not None:
        return "an address with a zone id"
    return ip_verdict(ip, private_allowed=private_allowed, allowed=allowed)


def ip_verdict(ip: Address, *, private_allowed: bool, allowed: Allowed) -> str | None:
    reason = own_verdict(ip, private_allowed=private_allowed, allowed=allowed)
    inner = embedded_ipv4(ip)
    if reason is not None or inner is None:
        return reason
    reason = ip_verdict(inner, private_allowed=private_allowed, allowed=allowed)
    return None if reason is None else f"{reason} inside an IPv6 address"


def own_verdict(ip: Address, *, private_allowed: bool, allowed: Allowed) -> str | None:
    if allowed.covers(ip):
        return None
    if ip in METADATA_ADDRESSES:
        return METADATA
    reason = block_of(ip)
    return None if private_allowed and reason in LIFTED_BY_PRIVATE else reason


def block_of(ip: Address) -> str | None:
    if isinstance(ip, IPv4Address):
        return next((reason for block, reason in BLOCKS_V4 if ip in block), None)
    if any(ip in block for block in SEEN_THROUGH):
        return None
    reason = next((reason for block, reason in BLOCKS_V6 if ip in block), None)
    return reason or (None if ip in GLOBAL_UNICAST_V6 else RESERVED)


def embedded_ipv4(ip: Address) -> IPv4Address | None:
    """The IPv4 address that packets to this IPv6 address may end up at."""
    if isinstance(ip, IPv4Address):
        return None
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in COMPATIBLE and int(ip) <= 1:
        return None  # the unspecified address and loopback contain no IPv4 address
    if any(ip in block for block in (MAPPED, NAT64, NAT64_LOCAL, COMPATIBLE)):
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return None


def is_this_machine(host: str) -> bool:
    """Whether the host is this machine only. A name other than `localhost` may resolve to any."""
    name = host.rstrip(".").lower()
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
