"""The variables of the old system, and those that are new."""

from datetime import timedelta

import pytest

from credits.config import Config, ConfigError, read_config
from credits.tiers import limit_for

SQLITE = {"DB_TYPE": "sqlite3", "DB_CONNECTION": "file:rapua.db?cache=shared&mode=rwc"}


def test_the_defaults_are_those_of_the_old_system() -> None:
    config = read_config(SQLITE)
    assert config.jobs_store == config.database == "sqlite:///rapua.db"
    assert (config.regular, config.educator, config.domains) == (10, 25, {})
    assert (config.zone, config.sites) == ("UTC", ("localhost:8090",))
    assert (config.stale_after, config.grace) == (timedelta(days=7), timedelta(days=1))
    assert config.uploads.as_posix() == "static/uploads"


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        (
            "game:p@ss:w/rd@tcp(db:3307)/rapua?parseTime=true",
            "mysql://game:p%40ss%3Aw%2Frd@db:3307/rapua",
        ),
        ("game@/rapua", "mysql://game@127.0.0.1:3306/rapua"),
        ("root@unix(/run/my.sock)/rapua", "mysql://root@localhost/rapua?unix_socket=/run/my.sock"),
        ("mysql://game@db/rapua", "mysql://game@db/rapua"),
    ],
)
def test_s5_41_a_connection_of_the_old_driver_is_read(connection: str, url: str) -> None:
    assert read_config({"DB_TYPE": "mysql", "DB_CONNECTION": connection}).database == url


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "DB_CONNECTION"),
        ({"DB_TYPE": "postgres", "DB_CONNECTION": "x"}, "DB_TYPE"),
        ({"DB_TYPE": "sqlite3", "DB_CONNECTION": ":memory:"}, "DB_CONNECTION"),
        ({"DB_TYPE": "mysql", "DB_CONNECTION": "localhost"}, "DB_CONNECTION"),
        (SQLITE | {"CREDITS_TIME_ZONE": "Berlin"}, "CREDITS_TIME_ZONE"),
        (SQLITE | {"CREDITS_TIME_ZONE": "../UTC"}, "CREDITS_TIME_ZONE"),
        (SQLITE | {"SITE_URL": "rapua.nz"}, "SITE_URL"),
        (SQLITE | {"UPLOADS_GRACE_HOURS": "-1"}, "UPLOADS_GRACE_HOURS"),
        (SQLITE | {"STALE_PURCHASE_DAYS": "soon"}, "STALE_PURCHASE_DAYS"),
        (SQLITE | {"CHECKOUT_HOURS": "nan"}, "CHECKOUT_HOURS"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(variables: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read_config(variables)


@pytest.mark.parametrize("text", ["", "ten", "-1", "2.5", "1e3"])
def test_s5_18_s5_19_a_wrong_limit_of_a_tier_is_its_default_and_told(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = {"REGULAR_USER_FREE_CREDITS": text, "EDUCATOR_FREE_CREDITS": text}
    config = read_config(SQLITE | names)
    assert (config.regular, config.educator) == (10, 25)
    assert len(caplog.records) == (2 if text else 0)


def test_s5_20_domains_have_limits_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    text = "@a.com:50, @B.edu:100,c.org:5,@d.com:x,@e.com:-1,@f.com:1:2,@g.com,:7,"
    config = read_config(SQLITE | {"CUSTOM_CREDIT_DOMAINS": text})
    assert config.domains == {"a.com": 50, "b.edu": 100, "c.org": 5}
    assert len(caplog.records) == 5


@pytest.mark.parametrize(
    ("email", "limit"),
    [
        ("x@a.com", 50),
        ("x@A.Com", 50),
        ("x@uni.edu", 25),
        ("x@ox.ac.uk", 25),
        ("x@hill.school.nz", 25),
        ("x@education.gov.au", 25),
        ("x@example.com", 10),
        ("x@education.com", 10),
        ("x@edu.com", 10),
        ("x@schools-of-rock.com", 10),
        ("nobody", 10),
    ],
)
def test_s5_18_s5_d19_the_limit_of_an_address(email: str, limit: int) -> None:
    config = Config(database="sqlite:///x", domains={"a.com": 50})
    assert limit_for(email, config) == limit


def test_the_addresses_of_the_site_are_compared_without_their_scheme() -> None:
    sites = {
        "SITE_URL": "https://Rapua.nz/",
        "FORMER_SITE_URLS": "http://old.nz:80/game, https://rapua.nz:443, http://h:8443",
    }
    assert read_config(SQLITE | sites).sites == ("rapua.nz", "old.nz/game", "h:8443")
