from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Misconfigured
from onbeat.rules.ip_policy import (
    BLOCKS_V4,
    BLOCKS_V6,
    METADATA,
    METADATA_ADDRESSES,
    NOTHING_MORE,
    parse_allowed,
    verdict,
)

TABLE = Path(__file__).parent.parent / "targets" / "spellings.tsv"
ROWS = [
    line.split("\t")
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
ADDRESSES = sorted({(address, who) for _, address, who in ROWS})


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(ROWS) >= 300
    assert {who for _, _, who in ROWS} == {"public", "private", "never"}


@pytest.mark.parametrize(("address", "who"), ADDRESSES)
def test_an_address_is_open_to_whom_the_table_says(address: str, who: str) -> None:
    assert (verdict(address) is None) == (who == "public")
    assert (verdict(address, private_allowed=True) is None) == (who != "never")


def is_global(text: str) -> bool:
    ip = ip_address(text)
    # From Python 3.13 on a mapped address is as global as what it maps; here on all versions.
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_global


@pytest.mark.parametrize(("address", "who"), ADDRESSES)
def test_ours_is_never_looser_than_the_standard_library(address: str, who: str) -> None:
    assert verdict(address) is not None or is_global(address)


@given(st.ip_addresses())
def test_ours_is_never_looser_for_any_address(ip: IPv4Address | IPv6Address) -> None:
    assert verdict(str(ip)) is not None or is_global(str(ip))


@given(
    st.sampled_from([block for block, _ in (*BLOCKS_V4, *BLOCKS_V6)]).flatmap(
        lambda block: st.ip_addresses(network=str(block))
    )
)
def test_nothing_in_a_block_of_the_table_is_public(ip: IPv4Address | IPv6Address) -> None:
    assert verdict(str(ip)) is not None


@given(st.ip_addresses(v=4), st.booleans())
def test_a_mapped_or_translated_address_is_what_it_stands_for(
    ip: IPv4Address, private_allowed: bool
) -> None:
    plain = verdict(str(ip), private_allowed=private_allowed)
    for prefix in ("::ffff:", "64:ff9b::"):
        inside = verdict(f"{prefix}{ip}", private_allowed=private_allowed)
        assert (inside is None) == (plain is None)


@given(st.ip_addresses(), st.booleans())
def test_allowing_private_addresses_only_ever_opens(
    ip: IPv4Address | IPv6Address, private_allowed: bool
) -> None:
    if verdict(str(ip)) is None:
        assert verdict(str(ip), private_allowed=private_allowed) is None


@pytest.mark.parametrize(
    "text",
    [
        "127.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f.1",
        "127.0.0.1.",
        "１２７.0.0.1",
        "example.com",
        "1.2.3",
        "[::1]",
        "::1%lo",
        "fe80::1%eth0",
        "8.8.8.8%1",
        "8.8.8.8/32",
        "1.2.3.4:80",
        "",
        " 8.8.8.8",
        "8.8.8.8\n",
    ],
)
def test_what_is_not_a_plain_address_is_refused_even_where_all_is_allowed(text: str) -> None:
    everything = parse_allowed(["0.0.0.0/0", "::/0"])
    assert verdict(text, private_allowed=True, allowed=everything) is not None


@pytest.mark.parametrize("ip", sorted(map(str, METADATA_ADDRESSES)))
def test_a_metadata_service_is_called_by_its_name(ip: str) -> None:
    assert verdict(ip, private_allowed=True) == METADATA


def test_the_operator_opens_a_network_and_nothing_beside_it() -> None:
    allowed = parse_allowed(["10.1.0.0/16", "192.0.2.7", "fd12::/32"])
    assert verdict("10.1.2.3", allowed=allowed) is None
    assert verdict("::ffff:10.1.2.3", allowed=allowed) is None
    assert verdict("192.0.2.7", allowed=allowed) is None
    assert verdict("fd12::1", allowed=allowed) is None
    assert verdict("10.2.0.0", allowed=allowed) is not None
    assert verdict("192.0.2.8", allowed=allowed) is not None
    assert verdict("fd13::1", allowed=allowed) is not None


def test_the_operator_may_open_a_metadata_service_by_its_address() -> None:
    assert verdict("169.254.169.254", allowed=parse_allowed(["169.254.169.254"])) is None


def test_an_open_tunnel_does_not_open_what_lies_at_its_end() -> None:
    tunnels = parse_allowed(["2002::/16", "::/96", "64:ff9b:1::/48", "2001::/32"])
    assert verdict("2002:808:808::1", allowed=tunnels) is None
    assert verdict("2002:a9fe:a9fe::1", allowed=tunnels) is not None
    assert verdict("::127.0.0.1", allowed=tunnels) is not None
    assert verdict("64:ff9b:1::10.0.0.1", allowed=tunnels) is not None
    assert verdict("2001:0:4136:e378:8000:63bf:80ff:fffe", allowed=tunnels) is not None


def test_host_names_are_kept_in_one_form() -> None:
    allowed = parse_allowed(["Hooks.Internal.", "web1", "10.0.0.1/8"])
    assert allowed.hosts == {"hooks.internal", "web1"}
    assert allowed.networks == (ip_network("10.0.0.0/8"),)
    assert allowed.names("HOOKS.internal")
    assert allowed.names("web1.")
    assert not allowed.names("other.internal")
    assert not NOTHING_MORE.names("")


@pytest.mark.parametrize("entry", ["", "a b", "10.0.0.0/33", "1.2.3", "0x7f.1.2", "*", "http://a/"])
def test_an_entry_that_is_neither_names_its_setting(entry: str) -> None:
    with pytest.raises(Misconfigured, match=r"http\.allow: .* 10\.0\.0\.0/8") as caught:
        parse_allowed([entry])
    assert caught.value.key == "http.allow"
