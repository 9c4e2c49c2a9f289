"""A certificate is always checked, by its authority, its name and its time."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest
import trustme
from trustme import CA, LeafCert

from onbeat.model.outcome import Failed, Succeeded
from targets.runs import FakeNames, a_run, a_runner
from targets.scripted_http_server import ScriptedServer, says


@pytest.fixture(scope="module")
def authority() -> CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def server_context(certificate: LeafCert) -> SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def called(
    certificate: LeafCert,
    *,
    host: str = "hook.example",
    ca_file: str | None = None,
    tls: Any = None,
) -> tuple[Any, ...]:
    names = FakeNames(hook_example=[["127.0.0.1"]])
    async with (
        ScriptedServer(says(body=b"ok"), tls=tls or server_context(certificate)) as sink,
        a_runner(lookup=names, ca_file=ca_file) as runner,
    ):
        return sink, await runner.run(a_run(sink.url("/a", host=host)))


async def test_a_certificate_of_the_given_authority_is_accepted(
    authority: CA, ca_file: str
) -> None:
    for name in ("hook.example", "127.0.0.1"):
        sink, outcome = await called(authority.issue_cert(name), host=name, ca_file=ca_file)
        assert isinstance(outcome, Succeeded)
        assert len(sink.received) == 1


async def test_a_name_with_a_last_dot_is_held_against_the_certificate_without_it(
    authority: CA, ca_file: str
) -> None:
    certificate = authority.issue_cert("hook.example")
    _, outcome = await called(certificate, host="hook.example.", ca_file=ca_file)
    assert isinstance(outcome, Succeeded)


def expired(authority: CA) -> LeafCert:
    return authority.issue_cert("hook.example", not_after=datetime(2020, 1, 1, tzinfo=UTC))


BAD = {
    "expired": (expired, "expired"),
    "of another name": (lambda authority: authority.issue_cert("other.example"), "ame"),
    "of another address": (lambda authority: authority.issue_cert("127.0.0.2"), "ame"),
    "of another authority": (lambda _: trustme.CA().issue_cert("hook.example"), "issuer"),
}


@pytest.mark.parametrize(("issue", "why"), BAD.values(), ids=BAD.keys())
async def test_a_bad_certificate_fails_before_anything_is_sent(
    authority: CA, ca_file: str, issue: Callable[..., Any], why: str
) -> None:
    sink, outcome = await called(issue(authority), ca_file=ca_file)
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert "the certificate was not accepted" in outcome.error
    assert why in outcome.error
    assert sink.received == []


async def test_an_authority_unknown_to_the_system_is_not_trusted(authority: CA) -> None:
    sink, outcome = await called(authority.issue_cert("hook.example"))
    assert isinstance(outcome, Failed)
    assert "the certificate was not accepted" in outcome.error
    assert sink.received == []


async def test_a_certificate_that_vouches_for_itself_is_not_trusted(tmp_path: Path) -> None:
    own = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    path = tmp_path / "self.pem"
    own.private_key_pem.write_to_path(path)
    own.cert_pem.write_to_path(path, append=True)
    context.load_cert_chain(path)
    sink, outcome = await called(None, tls=context)
    assert isinstance(outcome, Failed)
    assert "the certificate was not accepted" in outcome.error
    assert sink.received == []


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_tls_is_not_spoken(authority: CA, ca_file: str) -> None:
    context = server_context(authority.issue_cert("hook.example"))
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    sink, outcome = await called(None, tls=context, ca_file=ca_file)
    assert isinstance(outcome, Failed)
    assert sink.received == []
