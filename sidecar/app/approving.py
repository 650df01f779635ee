"""Approvals as a running sidecar has them: its rules, with where their pages are."""

from msgspec.structs import replace

from sidecar.config import Config
from sidecar.gateway.config import Approvals
from sidecar.listen.address import split_address

_ANYWHERE = frozenset({"", "0.0.0.0", "::", "[::]"})  # noqa: S104 - compared, not bound


def approval_rules(config: Config) -> Approvals:
    """The rules; where no URL of the pages is configured it is the control port's, if that names
    one."""
    rules, listen = config.approvals, config.control.listen
    if rules.pages or not listen:
        return rules
    host, port = split_address(listen)
    if not port or host in _ANYWHERE:
        return rules
    scheme = "https" if config.control.tls.on else "http"
    return replace(rules, pages=f"{scheme}://{listen}")
