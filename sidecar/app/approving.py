"""Approvals as a running sidecar has them: its rules, where their pages are, and its webhooks."""

from msgspec.structs import replace

from sidecar.config import Config, Loaded
from sidecar.egress.client import Egress
from sidecar.gateway.config import Approvals
from sidecar.gateway.notify.driver import Notices
from sidecar.listen.address import split_address
from sidecar.store.ports import ApprovalEvents

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


def open_notices(loaded: Loaded, ledger: ApprovalEvents, egress: Egress) -> Notices:
    """Who tells webhooks; files start at the configuration's folder."""
    rules = approval_rules(loaded.config)
    webhooks = [
        replace(each, secret_file=str(loaded.path(each.secret_file))) for each in rules.webhooks
    ]
    return Notices(ledger, egress, webhooks, pages=rules.pages)
