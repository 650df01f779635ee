"""What a store's URL may say of a Postgres, and that no secret is repeated."""

import pytest

from sidecar.store.location import is_postgres, read_location


def test_a_url_names_a_database():
    found = read_location("postgresql://app@db.internal:6432/agents?sslmode=verify-full", "pw")
    assert found.url == "postgresql://app@db.internal:6432/agents?sslmode=verify-full"
    assert (found.shown, found.password) == ("postgresql://db.internal:6432/agents", "pw")
    local = read_location("postgres:///agents?host=/run/postgresql")
    assert local.shown == "postgresql:///run/postgresql/agents"
    assert is_postgres("postgresql://h/d") and not is_postgres("sqlite:///x")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://app:hush@h/d", "holds a password"),
        ("postgresql://app@h/d?password=hush", "holds a password"),
        ("postgresql://app@h/d?sslpassword=hush", "holds a password"),
        ("postgresql://app@hush", "names no database"),
        ("postgresql://app@h/hush/d", "names no database"),
        ("postgresql://app@h:hush/d", "is no URL"),
        ("mysql://hush@h/d", "must start with postgresql://"),
    ],
)
def test_what_is_wrong_is_told_without_quoting_it(url, why):
    with pytest.raises(ValueError, match=why) as refused:
        read_location(url)
    assert "hush" not in str(refused.value)
