"""Signing: a manifest, or a model's folder, with the user's own key, so that every change shows to others.

Digests tell that something was changed; a signature tells that whoever changed it had not the private key, even if the
ledger was written anew along with it. Signatures are those of `model-signing` (an in-toto statement of every file's
SHA-256 in a Sigstore bundle), made and checked offline: its command line verifies ours without us.
"""

import base64
import json
import os
import re
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import BadInput
from tasks.files import file_sha256, replacing
from tasks.log import run_logger

PRIVATE_KEY, PUBLIC_KEY = "AUCFLOW_SIGNING_KEY", "AUCFLOW_PUBLIC_KEY"


@dataclass(frozen=True)
class SignatureFault:
    """Something that is not as it was signed: which file (or the signature), what kind, in words."""

    path: str
    kind: str  # changed, missing, added, signature, unsigned
    message: str


def key_path(variable: str) -> Path | None:
    """Return the key file that an environment variable names, None where it is not set."""
    named = os.environ.get(variable)
    return _key_file(variable, named) if named else None


def _key_file(variable: str, named: str) -> Path:
    if not Path(named).is_file():
        raise BadInput(f"{variable}: expected a key file in PEM, got {named}, which is no file. Correct or unset it.")
    return Path(named)


def signing_key() -> Path | None:
    """Return the private key that the environment names, None where it names none; a useless one shows before a run."""
    key = key_path(PRIVATE_KEY)
    if key is not None:
        _use_key(_library().signing.Config().use_elliptic_key_signer, private_key=key)
    return key


def public_keys() -> tuple[Path, ...]:
    """Return the public keys that the environment names, if any; a useless one shows before an audit."""
    named = os.environ.get(PUBLIC_KEY, "")
    names = [name for name in named.split(os.pathsep) if name] or [named]  # separators alone name no file
    names = [named] if Path(named).is_file() else names
    keys = tuple(_key_file(PUBLIC_KEY, name) for name in names) if named else ()
    for key in keys:
        _use_public_key(_library().verifying.Config(), key)
    return keys


def sign(path: Path, signature: Path, key: Path | None) -> bool:
    """Sign a file or all files of a folder; without a key say so in the log and return False.

    Raises
    ------
    BadInput
        If the key is no private one that can sign, or something in the folder cannot be signed.
    """
    if key is None:
        run_logger().info("%s is not signed: %s names no private key.", path.name, PRIVATE_KEY)
        return False
    if signature.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"Expected a signature outside of {path}, got {signature}: it would be a file too many there.")
    config = _library().signing.Config().set_hashing_config(_every_file())
    _use_key(config.use_elliptic_key_signer, private_key=key)
    with replacing(signature) as draft:
        try:
            config.sign(path, draft)
        except ValueError as error:  # a symbolic link
            raise BadInput(
                f"{path}: expected plain files to sign, got: {error}. Replace it by what it stands for."
            ) from None
    run_logger().info("%s is signed in %s with the key %s.", path.name, signature.name, key.name)
    return True


def verify(path: Path, signature: Path, *keys: Path) -> tuple[SignatureFault, ...]:
    """Return all that is not as it was signed; nothing if the signature is one key's and every file is as it was.

    Raises
    ------
    BadInput
        If a key is no public one that can verify.
    """
    verifiers = [_verifier(key) for key in keys]
    if not signature.is_file():
        return (SignatureFault(signature.name, "unsigned", f"{path.name} has no signature {signature.name}"),)
    causes = []
    for config, files in verifiers:
        try:
            with redirect_stdout(sys.stderr):  # the library prints its warnings
                config.verify(path, signature)
            return ()
        except Exception as error:  # whatever the library's parsers raise at a spoilt signature
            if files.asked and (faults := _differences(_signed_digests(signature), path)):
                return faults
            causes.append(" ".join(f"{type(error).__name__} {error}".split()))
    words = f"{signature.name} does not hold for {path.name}: {'; '.join(dict.fromkeys(causes))}"
    return (SignatureFault(signature.name, "signature", words),)


def _library() -> Any:
    """Return `model-signing`, which takes a second to import and is an extra."""
    try:
        import model_signing
    except ImportError as error:
        raise BadInput(
            f"Expected the extra for signatures, got: {error}. Run pip install 'aucflow[signing]'."
        ) from None
    return model_signing


def _use_key(use: Any, **key: Path) -> None:
    try:
        use(**key)
    except Exception as error:  # of many types: no PEM, another kind of key, another curve, a password
        (path,) = key.values()
        cause = "another kind of key" if isinstance(error, AttributeError) else error  # it has no curve
        raise BadInput(
            f"{path}: expected an elliptic key (P-256, P-384 or P-521) in PEM without a password, got: {cause}. "
            "Make a pair as docs/lineage-formats.md says."
        ) from None


def _use_public_key(config: Any, key: Path) -> None:
    _use_key(config.use_elliptic_key_verifier, public_key=key)
    count = len(re.findall(rb"-----BEGIN [A-Z ]*PUBLIC KEY-----", key.read_bytes()))
    if count > 1:  # the library takes the first
        raise BadInput(
            f"{key}: expected one public key in a file, got {count}. Write each to a file of its own and name each "
            f"file in {PUBLIC_KEY}, separated by '{os.pathsep}'."
        )


def _verifier(key: Path) -> tuple[Any, Any]:
    """Return what verifies a key's signatures, and how it hashes files, which tells whether it came to that."""
    files = _every_file()
    config = _library().verifying.Config().set_hashing_config(files)
    _use_public_key(config, key)
    return config, files


def _every_file() -> Any:
    """Return how files are hashed: none is left out, those of git neither.

    ``asked`` tells whether it came to that: the library looks at files only once the signature itself is genuine.
    """
    usual: Any = _library().hashing.Config

    class EveryFile(usual):
        asked = False

        def hash(self, *args: Any, **options: Any) -> Any:
            self.asked = True
            return super().hash(*args, **options)

    return EveryFile().set_ignored_paths(paths=(), ignore_git_paths=False)


def _signed_digests(signature: Path) -> dict[str, str]:
    """Return the files of a genuine signature with their digests; a signed file alone has the name "."."""
    envelope = json.loads(signature.read_bytes())["dsseEnvelope"]
    resources = json.loads(base64.b64decode(envelope["payload"]))["predicate"]["resources"]
    return {resource["name"]: resource["digest"] for resource in resources}


def _differences(signed: dict[str, str], path: Path) -> tuple[SignatureFault, ...]:
    """Name every file that is not as it was signed."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_symlink() or p.is_file())
    found = {p.relative_to(path).as_posix(): "a link" if p.is_symlink() else file_sha256(p) for p in files}
    faults = []
    for name in sorted(signed.keys() | found.keys()):
        shown = path.name if name == "." else f"{path.name}/{name}"
        if name not in found:
            faults.append(SignatureFault(shown, "missing", f"{shown} was signed and is not there"))
        elif name not in signed:
            faults.append(SignatureFault(shown, "added", f"{shown} is there and was not signed"))
        elif signed[name] != found[name]:
            words = f"{shown} was changed: signed {signed[name][:16]}…, found {found[name][:16]}"
            faults.append(SignatureFault(shown, "changed", words))
    return tuple(faults)
