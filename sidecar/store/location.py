"""Where a store on Postgres is: the URL's rules.

**Rules**
1. A URL holds no secret: it stands in files, process lists and messages. The password comes from
   ``store.password_file``, or from the places libpq reads (PGPASSWORD, a password file).
2. Everything else a URL may say is libpq's (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS).
"""

from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

POSTGRES_SCHEMES = ("postgresql", "postgres")
_SECRETS = frozenset({"password", "sslpassword"})


class Location(Struct, frozen=True, kw_only=True):
    """One database: ``url`` for the driver, ``shown`` for people."""

    url: str
    shown: str
    password: str | None = None


def is_postgres(url: str) -> bool:
    """Whether a store's URL names a Postgres database."""
    return url.partition("://")[0] in POSTGRES_SCHEMES


def read_location(url: str, password: str | None = None) -> Location:
    """The database a URL names. Raises ValueError with what is wrong, never quoting the URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is no URL: use postgresql://<user>@<host>:<port>/<database>") from None
    options = dict(parse_qsl(parts.query))
    if parts.scheme not in POSTGRES_SCHEMES:
        raise ValueError("must start with postgresql://")
    if parts.password or _SECRETS & options.keys():
        raise ValueError("holds a password: put it in a file and name it in store.password_file")
    database = parts.path.removeprefix("/") or options.get("dbname") or options.get("database")
    if not database or "/" in database:
        raise ValueError("names no database: use postgresql://<user>@<host>:<port>/<database>")
    host = options.get("host") or parts.hostname or "localhost"
    shown = f"postgresql://{host}{f':{port}' if port else ''}/{database}"
    return Location(url=url, shown=shown, password=password)
