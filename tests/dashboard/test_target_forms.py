"""A target in a form, and back."""

import msgspec
import pytest

from onbeat.dashboard.target_forms import field_of_target, target_of, target_texts
from onbeat.model.errors import Invalid
from onbeat.wire.targets import TargetAnswer

HTTP = {"url": "https://api.example.com/", "method": "POST", "body": "b"}


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({}, ""),
        ({"success": "any", "redirects": 2, "connect_timeout": "5s"}, "any"),
        ({"success": [200, "3xx"]}, "200, 3xx"),
    ],
)
def test_the_policy_of_a_callback_goes_through_a_form(policy: dict[str, object], text: str) -> None:
    answer = msgspec.convert({"http": {**HTTP, **policy}}, TargetAnswer)
    texts = target_texts(answer)
    assert texts["success"] == text
    statuses = {"success": text.split(", ")} if text else {}
    assert target_of(texts) == {"http": {**HTTP, **policy, **statuses}}


def test_a_count_that_is_no_number_is_named() -> None:
    with pytest.raises(Invalid, match="whole number") as caught:
        target_of({"target_kind": "http", "url": "https://x/", "redirects": "many"})
    assert caught.value.field == "redirects"
    assert field_of_target("http.connect_timeout") == "connect_timeout"
    assert field_of_target("http.secret") == "url"
