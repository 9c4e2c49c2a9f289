import pytest

pytest.register_assert_rewrite("onbeat.testing.broker_contract")
