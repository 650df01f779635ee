"""Servers that speak Postgres as no Postgres does: real sockets, one manner of misbehaving each."""

import base64
import contextlib
import re
import socket
import struct
import threading

TLS_REQUEST = 80877103


def message(kind, body=b""):
    """One message of the server, rightly made."""
    return kind + struct.pack("!i", 4 + len(body)) + body


def row(*values):
    """A DataRow of texts."""
    parts = [struct.pack("!i", len(value)) + value for value in values]
    return message(b"D", struct.pack("!h", len(values)) + b"".join(parts))


WELCOME = (
    message(b"R", struct.pack("!i", 0))
    + message(b"S", b"server_version\x0018.0\0")
    + message(b"S", b"client_encoding\0UTF8\0")
    + message(b"K", struct.pack("!ii", 1, 2))
    + message(b"Z", b"I")
)


class Connection:
    """One client, read as far as a manner of misbehaving needs."""

    def __init__(self, connected, gone):
        self.socket = connected
        self.gone = gone

    def say(self, data):
        """Send it all; whoever hung up ends the manner."""
        self.socket.sendall(data)

    def for_ever(self, data):
        """Say it again and again until the other side hangs up."""
        while not self.gone.is_set():
            self.socket.sendall(data)

    def hear(self):
        """What came, at least a byte; the end of the client ends the manner."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("it hung up")
        return data

    def stay(self):
        """Say nothing more and keep the connection."""
        while True:
            self.hear()

    def begun(self):
        """Read the startup message."""
        self.hear()

    def welcomed(self):
        """Let the client in without a password, and read its first question."""
        self.begun()
        self.say(WELCOME)
        self.hear()


@contextlib.contextmanager
def server(manner):
    """The port of a server that treats every client in this manner."""
    gone, threads, clients = threading.Event(), [], []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(connected):
        with connected, contextlib.suppress(OSError):
            manner(Connection(connected, gone))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connected, _ = listening.accept()
                clients.append(connected)
                thread = threading.Thread(target=serve, args=(connected,))
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        gone.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for connected in clients:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def behind_tls(context, port):
    """A manner: TLS as a Postgres begins it, and behind it the server at ``port``."""

    def manner(connection):
        assert connection.hear()[4:] == struct.pack("!i", TLS_REQUEST)
        connection.say(b"S")
        with (
            socket.create_connection(("127.0.0.1", port)) as real,
            context.wrap_socket(connection.socket.dup(), server_side=True) as secured,
        ):
            answers = threading.Thread(target=_pass_on, args=(real, secured))
            answers.start()
            try:
                _pass_on(secured, real)
            finally:
                real.shutdown(socket.SHUT_RDWR)
                answers.join()

    return manner


def _pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


def nuls(connection):
    """Endless zero bytes from the first on."""
    connection.for_ever(bytes(65536))


def nuls_within(connection):
    """A welcome, then endless zero bytes."""
    connection.welcomed()
    connection.for_ever(bytes(65536))


def huge_length(connection):
    """A message that says it is two gigabytes, and its beginning."""
    connection.begun()
    connection.say(b"R\x7f\xff\xff\xff")
    connection.for_ever(b"x" * 65536)


def negative_length(connection):
    """A message shorter than its own length word."""
    connection.welcomed()
    connection.for_ever(b"D\xff\xff\xff\xff")


def garbage(connection):
    """A welcome, then bytes of no protocol."""
    connection.welcomed()
    connection.for_ever(bytes(range(256)) * 256)


def long_row(connection):
    """A row whose values do not fit in it."""
    connection.welcomed()
    connection.for_ever(message(b"D", struct.pack("!hi", 1, 2**31 - 1)))


def unending_text(connection):
    """A setting whose text never ends."""
    connection.begun()
    connection.for_ever(message(b"S", b"x" * 65000))


def notices(connection):
    """Rightly made messages without end, none of them an answer."""
    connection.begun()
    connection.for_ever(message(b"N", b"SNOTICE\0M" + b"x" * 60000 + b"\0\0"))


def drip(connection):
    """A rightly made message, a byte at a time, for ever."""
    connection.begun()
    for byte in message(b"N", b"M" + b"x" * 10000 + b"\0\0"):
        connection.say(bytes([byte]))
        if connection.gone.wait(0.02):
            return


def silence(connection):
    """Nothing at all."""
    connection.stay()


def no_tls(connection):
    """Zero bytes in answer to the request for TLS."""
    assert connection.hear()[4:] == struct.pack("!i", TLS_REQUEST)
    connection.for_ever(bytes(65536))


def tls_with_more(connection):
    """Consent to TLS, and more in the same breath."""
    assert connection.hear()[4:] == struct.pack("!i", TLS_REQUEST)
    connection.say(b"S" + WELCOME)
    connection.stay()


def broken_tls(connection):
    """Consent to TLS, then zero bytes where the handshake should be."""
    assert connection.hear()[4:] == struct.pack("!i", TLS_REQUEST)
    connection.say(b"S")
    connection.hear()
    connection.for_ever(bytes(65536))


def endless_work(connection, begun=lambda: None):
    """A password exchange that takes the client an hour to compute; ``begun`` is called then."""
    connection.begun()
    connection.say(message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"))
    nonce = re.search(rb"r=([^,\0]+)", connection.hear()).group(1)
    salt = base64.b64encode(b"salt")
    first = b"r=" + nonce + b"more,s=" + salt + b",i=2000000000"
    connection.say(message(b"R", struct.pack("!i", 11) + first))
    begun()
    connection.stay()
