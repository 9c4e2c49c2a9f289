"""The commands of the guide on notices, with its configuration, against servers of our own."""

import re
from pathlib import Path

from conditions import eventually_here
from docs.pages import ROOT, blocks
from docs.receivers import http_server, mail_server
from docs.services import service
from docs.shell import Shell

GUIDE = ROOT / "docs" / "guides" / "notify-people.md"
TEMPLATE = re.compile(r"(\S+\.liquid) +(.+)")


def configure(folder: Path, mail_port: int, http_port: int) -> None:
    """The configuration of the guide, with places on this machine."""
    (block,) = blocks(GUIDE, "yaml")
    text = (
        block.text.replace("mail.internal:587", f"127.0.0.1:{mail_port}")
        .replace("/run/secrets", str(folder / "secrets"))
        .replace("/etc/onbeat", str(folder))
    )
    (folder / "onbeat.yaml").write_text(text)
    (folder / "secrets").mkdir()
    (folder / "secrets" / "slack-url").write_text(f"http://127.0.0.1:{http_port}/services/T0/B0/x")
    (folder / "templates").mkdir()
    (texts,) = blocks(GUIDE, "text")
    for name, template in TEMPLATE.findall(texts.text):
        (folder / "templates" / name).write_text(template)


def test_the_commands_of_the_guide_reach_people(tmp_path: Path) -> None:
    with mail_server() as (mails, mail_port), http_server() as (rooms, http_port):
        configure(tmp_path, mail_port, http_port)
        with service(tmp_path) as port, Shell(tmp_path) as shell:
            for block in blocks(GUIDE, "sh"):
                text = block.text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
                text = text.replace('"delay": "10m"', '"delay": "0s"')
                for command in re.split(r"\n(?=onbeat )", text.strip()):
                    code, printed = shell.run(command)
                    assert code == 0, printed
                    assert "error" not in printed, printed
            eventually_here(lambda: len(mails.came) == 6, "all mails came")
            eventually_here(lambda: len(rooms) == 2, "the room was told")
    assert sorted(mails.came) == [
        ("ada@example.com", "Invoice: It is due on Friday."),
        ("ada@example.com", "Welcome, Ada: Dear Ada, your account ada@example.com is ready."),
        ("ada@example.com", "Your invoice: Dear customer, 7 EUR is due."),
        ("bob@example.com", "Invoice: It is due on Friday."),
        ("bob@example.com", "Your invoice: Dear customer, 7 EUR is due."),
        ("me@example.com", "Onbeat: A test of the channel mail."),
    ]
