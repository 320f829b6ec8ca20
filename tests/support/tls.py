"""A server with an untrusted certificate."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@contextmanager
def untrusted_server(folder: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(folder))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_greet, args=(listening, context), daemon=True).start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


def _greet(listening: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):  # the client hangs up; that is the point
        connection, _ = listening.accept()
        with connection, context.wrap_socket(connection, server_side=True):
            pass


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "untrusted.pem"
    path.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def busy_server() -> Iterator[str]:
    with socket.socket() as busy, socket.socket() as first:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        first.connect(busy.getsockname())
        yield f"http://127.0.0.1:{busy.getsockname()[1]}"
