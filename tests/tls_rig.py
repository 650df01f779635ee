"""A certificate authority of a test's own: it signs certificates for listeners and clients."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def _named(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs; ``pem`` is its own certificate."""

    def __init__(self, name="test authority"):
        self.name = _named(name)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(self.name, self.key, (-1, 365), [
            (x509.BasicConstraints(ca=True, path_length=None), True),
        ])  # fmt: skip
        self.pem = self.certificate.public_bytes(Encoding.PEM)

    def issue(self, *sans, client=False, days=(-1, 30), name="leaf"):
        """PEM of a certificate and of its key, for ``uri:…``, ``dns:…`` and ``ip:…`` names."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        made = self._signed(_named(name), key, days, [
            (x509.SubjectAlternativeName([_san(each) for each in sans]), False),
            (x509.ExtendedKeyUsage([purpose]), False),
        ])  # fmt: skip
        return made.public_bytes(Encoding.PEM), key_pem(key)

    def _signed(self, subject, key, days, extensions):
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hashes.SHA256())

    def trusting(self, folder, *pair):
        """How a client that trusts this authority connects, showing a certificate if given one."""
        context = ssl.create_default_context(cadata=self.pem.decode())
        if pair:
            for name, pem in zip(("client.pem", "client.key"), pair, strict=True):
                (folder / name).write_bytes(pem)
            context.load_cert_chain(folder / "client.pem", folder / "client.key")
        return context


def key_pem(key, password=None):
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def write(folder, pair, stem="server"):
    """A pair's files; their paths."""
    paths = folder / f"{stem}.pem", folder / f"{stem}.key"
    for path, pem in zip(paths, pair, strict=True):
        path.write_bytes(pem)
    return tuple(map(str, paths))


def _san(text):
    kind, _, value = text.partition(":")
    if kind == "uri":
        return x509.UniformResourceIdentifier(value)
    if kind == "ip":
        return x509.IPAddress(ipaddress.ip_address(value))
    return x509.DNSName(value)
