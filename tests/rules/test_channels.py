"""The URLs of channels, and who can be a recipient."""

import pytest

from onbeat.model.channel import (
    AppriseService,
    ChatHook,
    MailServer,
    Secret,
    WebhookEndpoint,
)
from onbeat.model.errors import Invalid
from onbeat.model.limits import ADDRESS_CHARS_MAX, LOCAL_PART_CHARS_MAX, RECIPIENT_CHARS_MAX
from onbeat.rules.channels import ascii_address, check_recipient, read_channel, split_address

MAIL = read_channel("smtp://mail.internal?from=shop@example.com")
CHAT = read_channel("slack:OPS")
HOOK = read_channel("webhook://h/")


@pytest.mark.parametrize(
    ("url", "channel"),
    [
        (
            "smtp://onbeat@mail.internal:2525?from=shop@example.com",
            MailServer(host="mail.internal", port=2525, sender="shop@example.com", user="onbeat"),
        ),
        (
            "smtp://h?from=Shop%20%3Cshop@example.com%3E&ca_file=/ca.pem",
            MailServer(host="h", port=587, sender="Shop <shop@example.com>", ca_file="/ca.pem"),
        ),
        (
            "smtps://u@h?from=a@b.c&password_file=/run/secrets/mail",
            MailServer(
                host="h",
                port=465,
                sender="a@b.c",
                tls=True,
                starttls=False,
                user="u",
                password=Secret(file="/run/secrets/mail"),
            ),
        ),
        (
            "smtp://u%40x:p%2F@127.0.0.1?from=a@b.c",
            MailServer(
                host="127.0.0.1",
                port=587,
                sender="a@b.c",
                starttls=False,
                user="u@x",
                password=Secret(text="p/"),
            ),
        ),
        (
            "smtp://[::1]:25?from=a@b.c&starttls=true",
            MailServer(host="::1", port=25, sender="a@b.c", starttls=True),
        ),
        (
            "smtp://mailhog:1025?from=a@b.c&starttls=false",
            MailServer(host="mailhog", port=1025, sender="a@b.c", starttls=False),
        ),
        (
            "slack:///run/secrets/slack-url",
            ChatHook("slack", Secret(file="/run/secrets/slack-url")),
        ),
        ("teams:TEAMS_URL", ChatHook("teams", Secret(variable="TEAMS_URL"))),
        ("discord:///a%20b", ChatHook("discord", Secret(file="/a b"))),
        ("webhook://hooks.example.com/page", WebhookEndpoint("https://hooks.example.com/page")),
        (
            "webhook+http://h:1/p?x=1&x=2&secret_env=S",
            WebhookEndpoint("http://h:1/p?x=1&x=2", Secret(variable="S")),
        ),
        ("apprise:///run/secrets/sms-url", AppriseService(Secret(file="/run/secrets/sms-url"))),
    ],
)
def test_a_channel_is_read_from_its_url(url: str, channel: object) -> None:
    assert read_channel(url) == channel


def test_the_password_is_not_in_the_words_for_a_channel() -> None:
    assert "canary" not in repr(read_channel("smtps://u:canary@h?from=a@b.c"))


@pytest.mark.parametrize(
    "to",
    [
        "ada@example.com",
        "ada+tag@sub.example.com",
        "Ada Lovelace <ada@example.com>",
        '"Lovelace, Ada" <ada@example.com>',
        "root@localhost",
        "a@bücher.example",
        "a" * LOCAL_PART_CHARS_MAX + "@example.com",
        "a@" + ".".join(["b" * 60] * 4),
    ],
)
def test_an_address_can_be_a_recipient_of_mail(to: str) -> None:
    check_recipient(MAIL, to, "to")


@pytest.mark.parametrize(
    "to",
    [
        "",
        "ada",
        "@example.com",
        "ada@",
        "ada@example.com, bob@example.com",
        "ada@example.com\nBcc: bob@example.com",
        "ada@example.com\r\nRCPT TO:<bob@example.com>",
        "<ada@example.com",
        "a b@example.com",
        "a..b@example.com",
        "ada@-example.com",
        "ada@exam ple.com",
        "Ada\t<ada@example.com>",
        "ädä@example.com",
        "a" * (LOCAL_PART_CHARS_MAX + 1) + "@example.com",
        "a@" + ".".join(["b" * 63] * 4),
        "a" * RECIPIENT_CHARS_MAX + "@example.com",
    ],
)
def test_a_text_that_is_no_address_is_refused(to: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_recipient(MAIL, to, "to[3]")
    assert caught.value.field == "to[3]"


def test_an_address_has_a_bound() -> None:
    longest = "a@" + "b" * 63 + ".c" * 94 + "d"
    assert len(longest) == ADDRESS_CHARS_MAX
    check_recipient(MAIL, longest, "to")
    with pytest.raises(Invalid):
        check_recipient(MAIL, longest.replace("c", "cc", 1), "to")


def test_a_mail_needs_a_recipient_and_a_chat_has_none() -> None:
    with pytest.raises(Invalid, match="a mail needs an address"):
        check_recipient(MAIL, None, "to")
    with pytest.raises(Invalid, match="one place in a chat"):
        check_recipient(CHAT, "ada", "to")
    check_recipient(CHAT, None, "to")


def test_a_webhook_and_a_channel_known_elsewhere_take_any_short_text() -> None:
    for channel in (HOOK, None):
        check_recipient(channel, None, "to")
        check_recipient(channel, "+49 30 1", "to")
        check_recipient(channel, "x" * RECIPIENT_CHARS_MAX, "to")
        for bad in ("x" * (RECIPIENT_CHARS_MAX + 1), " ", "a\nb"):
            with pytest.raises(Invalid):
                check_recipient(channel, bad, "to")


def test_an_address_is_taken_apart_and_written_in_ascii() -> None:
    assert split_address('"Ada L." <ada@example.com>') == ("Ada L.", "ada@example.com")
    assert split_address(" ada@example.com ") == ("", "ada@example.com")
    assert ascii_address("a@bücher.example") == "a@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://h/", "a URL like"),
        ("smtp://h:port?from=a@b.c", "a URL like"),
        ("smtp://?from=a@b.c", "a URL like"),
        ("smtp://h/path?from=a@b.c", "a URL like"),
        ("smtp://h", "`from` is missing"),
        ("smtp://h?from=a@b.c&starttls=maybe", "true or false"),
        ("smtp://h?from=a@b.c&from=b@b.c", "each option once"),
        ("smtp://h?from=a@b.c&colour=red", "the options are"),
        ("smtp://u:p@h?from=a@b.c&password_env=P", "one password"),
        ("smtp://h?from=a@b.c&password_env=P", "a user for its password"),
        ("smtp://u:p@h?from=a@b.c&starttls=false", "in clear"),
        ("webhook://h/?secret_file=/a&secret_env=B", "one secret"),
        ("webhook://", "a URL like"),
        ("slack:", "a file or a variable"),
        ("slack:two words", "a file or a variable"),
    ],
)
def test_a_url_that_is_no_channel_is_refused_with_the_reason(url: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_channel(url)
    assert words in str(caught.value)
