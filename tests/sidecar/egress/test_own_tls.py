"""Upstreams with an authority of their own, which ask who calls."""

import asyncio
import base64
import hashlib
import ssl

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tls_rig import Authority

from sidecar.app.trust import upstream_tls
from sidecar.config import load
from sidecar.egress.client import Egress, EgressFailed
from sidecar.errors import SidecarError

CONFIG = """
gateway:
  upstreams:
    - {name: pay, url: "https://127.0.0.1:PORT", allow_cidrs: [127.0.0.0/8], tls: {TLS}}
"""


def loaded(folder, tls, port=1):
    (folder / "sidecar.yaml").write_text(CONFIG.replace("PORT", str(port)).replace("TLS", tls))
    return load(str(folder / "sidecar.yaml"))


@pytest.fixture
def files(tmp_path):
    """An authority's certificate, and a client's pair of it and of a stranger."""
    authority, stranger = Authority(), Authority("stranger")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    for name, signer in (("ours", authority), ("theirs", stranger)):
        certificate, key = signer.issue("dns:gateway", client=True)
        (tmp_path / f"{name}.pem").write_bytes(certificate)
        (tmp_path / f"{name}.key").write_bytes(key)
    certificate, key = authority.issue("ip:127.0.0.1")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    return tmp_path


def asked(folder, tls):
    """How a request to a server that demands a certificate ends: its status, or why it failed."""

    async def main():
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
        server.load_cert_chain(folder / "server.pem")
        server.verify_mode = ssl.CERT_REQUIRED
        server.maximum_version = ssl.TLSVersion.TLSv1_2  # so that a refusal is in the handshake

        async def answer(request):
            return web.Response(text="ok")

        runner = web.ServerRunner(web.Server(answer, access_log=None))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
        await site.start()
        made = loaded(folder, tls, runner.addresses[0][1])
        egress = Egress(tls_of=upstream_tls(made))
        target = made.config.gateway.upstreams[0].target
        try:
            return (await egress.request(target, "GET", "/", deadline_ns=5 * 10**9)).status
        except EgressFailed as error:
            return error.sent
        finally:
            await egress.close()
            await runner.cleanup()

    return asyncio.run(main())


@pytest.mark.requirement("GW-06")
def test_an_upstream_is_verified_by_its_own_authority_and_shown_our_certificate(files):
    assert asked(files, "ca_file: ca.pem, cert_file: ours.pem, key_file: ours.key") == 200
    assert (
        asked(files, "cert_file: ours.pem, key_file: ours.key") is False
    )  # not an authority known
    assert asked(files, "ca_file: ca.pem, cert_file: theirs.pem, key_file: theirs.key") is False
    assert asked(files, "ca_file: ca.pem") is False


def pin_of(folder):
    """The pin of the server's key, made as operators make it."""
    key = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes()).public_key()
    info = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256/" + base64.b64encode(hashlib.sha256(info).digest()).decode()


@pytest.mark.requirement("GW-06")
def test_a_pinned_upstream_has_that_key_or_gets_no_byte(files):
    ours = "ca_file: ca.pem, cert_file: ours.pem, key_file: ours.key"
    other = "sha256/" + "A" * 43 + "="
    assert asked(files, f"{ours}, pins: ['{other}', '{pin_of(files)}']") == 200
    assert asked(files, f"{ours}, pins: ['{other}']") is False


def test_what_is_no_pin_is_refused(tmp_path):
    for pin in ("sha256/short=", "sha1/" + "A" * 43 + "=", "A" * 64):
        with pytest.raises(SidecarError) as refused:
            loaded(tmp_path, f"pins: ['{pin}']")
        assert "is no pin" in refused.value.text()


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        ("ca_file: nothing.pem", "cannot be used"),
        ("ca_file: ours.key", "cannot be used"),
        ("cert_file: ours.pem, key_file: theirs.key", "cannot be used"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start_and_are_named(files, tls, text):
    with pytest.raises(SidecarError) as refused:
        upstream_tls(loaded(files, tls))
    assert text in refused.value.what and str(files) in refused.value.where


def test_settings_that_contradict_each_other_are_refused(tmp_path):
    with pytest.raises(SidecarError) as refused:
        loaded(tmp_path, "cert_file: a.pem")
    assert "go together" in refused.value.text()
