"""Options of an Onbeat: their defaults, and those that settings give."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat.app.configure import options_from
from onbeat.app.options import HttpOptions, Options, Role, RuntimeOptions
from onbeat.model.errors import Invalid
from onbeat.settings import Settings
from onbeat.settings.records import ApiSettings, HttpSettings, PlannerSettings


def test_a_program_and_a_service_have_the_same_defaults() -> None:
    assert options_from(Settings()) == Options()


def test_callbacks_to_private_addresses_follow_the_address_of_the_api() -> None:
    open_to_all = Settings(api=ApiSettings(host="0.0.0.0"))
    assert not options_from(open_to_all).http.private_allowed
    asked_for = Settings(api=open_to_all.api, http=HttpSettings(allow_private=True))
    assert options_from(asked_for).http.private_allowed


def test_named_networks_are_allowed_and_others_refused() -> None:
    settings = Settings(http=HttpSettings(allow_private=False, allow=("10.0.0.0/8",)))
    http = options_from(settings).http
    assert http.refusal_of("http://10.1.2.3/") is None
    assert http.refusal_of("http://192.168.1.1/") is not None


def test_the_horizon_of_the_settings_is_that_of_every_caller() -> None:
    settings = Settings(planner=PlannerSettings(horizon=timedelta(hours=1)))
    assert options_from(settings).runtime.horizon == timedelta(hours=1)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (Options, {"drain_timeout": "30s"}, "drain_timeout must be a timedelta"),
        (Options, {"drain_timeout": 1}, "drain_timeout must be a timedelta"),
        (Options, {"retry": 3}, "retry must be of the type RetryPolicy"),
        (Options, {"runtime": {"concurrency": 5}}, "runtime must be of the type RuntimeOptions"),
        (Options, {"connections": {"mq": 5}}, "connections must be a mapping"),
        (Options, {"remote_tasks": "export"}, "remote_tasks must be a collection"),
        (RuntimeOptions, {"concurrency": "5"}, "concurrency must be a whole number"),
        (RuntimeOptions, {"concurrency": True}, "concurrency must be a whole number"),
        (RuntimeOptions, {"queues": "mail"}, "queues must be a tuple .* or None"),
        (HttpOptions, {"timeout": 30}, "timeout must be a timedelta"),
    ],
)
def test_an_option_of_another_kind_is_refused_where_it_is_written(options, given, message) -> None:
    with pytest.raises(Invalid, match=message):
        options(**given)


def test_a_list_will_do_for_a_tuple_and_a_set_for_a_frozenset() -> None:
    given: dict[str, Any] = {"queues": ["mail"], "roles": {Role.WORKER}}
    assert list(RuntimeOptions(**given).queues) == ["mail"]
