"""Signatures: whatever was signed and is not as it was is found and named, and nothing else is."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from audited import METHODS, claims, experiment, inside
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient

from flows.cli import main
from tasks import signing, store
from tasks.errors import BadInput
from tasks.files import file_sha256
from tasks.ledger import Ledger, canonical
from tasks.manifests import FILE, SIGNATURE
from tasks.signing import PRIVATE_KEY, PUBLIC_KEY, public_keys, sign, signing_key, verify
from tasks.verify import verify as verify_all

MISSING = "needs the extra 'signing'"


def write_pair(folder, name, key=None, password=None):
    """Write a private key and its public one; return their paths."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))
    info = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, info))
    return private, public


def write_public(folder, kind):
    """Write a file that is no public key of ours, or more than one; return its path."""
    private, public = write_pair(folder, "bad")
    if kind == "text":
        public.write_text("no key")
    elif kind == "private":
        shutil.copy(private, public)
    elif kind == "rsa":
        write_pair(folder, "bad", rsa.generate_private_key(65537, 2048))
    elif kind == "secp256k1":
        write_pair(folder, "bad", ec.generate_private_key(ec.SECP256K1()))
    elif kind == "two":
        public.write_bytes(public.read_bytes() + write_pair(folder, "other")[1].read_bytes())
    return public


UNFIT = {  # kind of file -> what is said of it
    "text": "expected an elliptic key .* PEM",
    "private": "expected an elliptic key .* PUBLIC KEY",
    "rsa": "expected an elliptic key .* got: another kind of key",
    "secp256k1": "expected an elliptic key .* got: .*secp256k1",
    "two": f"expected one public key in a file, got 2. .*{PUBLIC_KEY}, separated by '{os.pathsep}'",
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    pytest.importorskip("model_signing", reason=MISSING)
    return write_pair(tmp_path_factory.mktemp("keys"), "key")


@pytest.fixture
def model(tmp_path):
    """A folder as MLflow keeps a model in, with a file that git would hide."""
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    for name in ("MLmodel", "model.skops", "data/example.json", ".gitignore"):
        (folder / name).write_bytes(f"contents of {name}".encode() * 100)
    return folder


@pytest.fixture
def signature(model, keys, tmp_path):
    path = tmp_path / "model.sig"
    assert sign(model, path, keys[0])
    return path


def named(faults):
    return [(fault.kind, fault.path) for fault in faults]


class TestFolder:
    def test_what_is_as_it_was_signed_has_no_faults_wherever_it_lies(self, model, signature, keys, tmp_path):
        assert verify(model, signature, keys[1]) == ()
        assert verify(shutil.move(model, tmp_path / "elsewhere"), signature, keys[1]) == ()

    @pytest.mark.parametrize("name", ["MLmodel", "model.skops", "data/example.json", ".gitignore"])
    def test_a_changed_byte_a_removed_file_and_a_link_in_its_place_are_named(self, model, signature, keys, name):
        file, data = model / name, (model / name).read_bytes()
        file.write_bytes(data[:17] + b"!" + data[18:])
        (fault,) = verify(model, signature, keys[1])
        assert (fault.kind, fault.path) == ("changed", f"model/{name}")
        assert "signed" in fault.message and "found" in fault.message
        file.unlink()
        assert named(verify(model, signature, keys[1])) == [("missing", f"model/{name}")]
        signature.with_name("same").write_bytes(data)
        file.symlink_to(signature.with_name("same"))
        assert named(verify(model, signature, keys[1])) == [("changed", f"model/{name}")]

    @pytest.mark.parametrize("name", ["zz", "data/a", ".gitattributes", ".git/config", "model.skops.sig"])
    def test_an_added_file_is_named(self, model, signature, keys, name):
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_bytes(b"")
        assert named(verify(model, signature, keys[1])) == [("added", f"model/{name}")]

    def test_all_changes_are_named_together(self, model, signature, keys):
        (model / "MLmodel").rename(model / "MLmodel2")
        (model / "model.skops").write_bytes(b"another")
        found = [("missing", "model/MLmodel"), ("added", "model/MLmodel2"), ("changed", "model/model.skops")]
        assert named(verify(model, signature, keys[1])) == found

    def test_a_folder_that_is_gone_is_named_file_by_file(self, model, signature, keys):
        shutil.rmtree(model)
        assert {fault.kind for fault in verify(model, signature, keys[1])} == {"missing"}

    def test_a_link_cannot_be_signed_and_leaves_no_signature(self, model, keys, tmp_path):
        (model / "link").symlink_to(model / "MLmodel")
        with pytest.raises(BadInput, match="plain files"):
            sign(model, tmp_path / "model.sig", keys[0])
        assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]

    def test_a_signature_inside_the_folder_is_refused(self, model, keys):
        with pytest.raises(ValueError, match="outside"):
            sign(model, model / "model.sig", keys[0])


class TestManifest:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False)), st.data())
    def test_any_changed_byte_of_any_manifest_is_found(self, tmp_path, keys, manifest, data):
        path, signature = tmp_path / "lineage.json", tmp_path / "lineage.json.sig"
        path.write_bytes(canonical(manifest))
        assert sign(path, signature, keys[0])
        assert verify(path, signature, keys[1]) == ()
        contents = bytearray(path.read_bytes())
        contents[data.draw(st.integers(0, len(contents) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(contents)
        assert named(verify(path, signature, keys[1])) == [("changed", "lineage.json")]


class TestSignature:
    def test_another_key_is_named_as_such(self, model, signature, keys, tmp_path):
        other = write_pair(tmp_path, "other")
        (fault,) = verify(model, signature, other[1])
        assert fault.kind == "signature" and "key" in fault.message.lower()
        assert sign(model, signature, other[0])  # somebody signs anew with a key of his own
        assert named(verify(model, signature, keys[1])) == [("signature", "model.sig")]

    def test_it_may_be_any_of_several_keys(self, model, signature, keys, tmp_path):
        old, new = write_pair(tmp_path, "old")[1], keys[1]
        assert verify(model, signature, old, new) == verify(model, signature, new, old) == ()
        (model / "model.skops").write_bytes(b"another")
        changed = [("changed", "model/model.skops")]
        assert named(verify(model, signature, old, new)) == named(verify(model, signature, new, old)) == changed

    def test_one_of_none_of_several_keys_is_told_once(self, model, signature, keys, tmp_path):
        strangers = [write_pair(tmp_path, name)[1] for name in ("old", "older")]
        (fault,) = verify(model, signature, *strangers)
        assert fault.kind == "signature" and fault.message.count("Key mismatch") == 1
        bundle = json.loads(signature.read_text())
        bundle["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA"
        signature.write_text(json.dumps(bundle))
        (fault,) = verify(model, signature, strangers[0], keys[1])
        assert "Key mismatch" in fault.message and "InvalidSignature" in fault.message

    def test_a_cut_signature_is_one_fault_at_every_length(self, model, signature, keys):
        whole = signature.read_bytes()
        for length in [*range(0, len(whole), 97), len(whole) - 1]:
            signature.write_bytes(whole[:length])
            assert named(verify(model, signature, keys[1])) == [("signature", "model.sig")], length

    def test_digests_in_the_signature_cannot_be_adapted_to_a_changed_file(self, model, signature, keys, tmp_path):
        (model / "model.skops").write_bytes(b"another")
        forged = tmp_path / "forged.sig"
        sign(model, forged, write_pair(tmp_path, "forger")[0])
        bundle = json.loads(signature.read_text())
        bundle["dsseEnvelope"]["payload"] = json.loads(forged.read_text())["dsseEnvelope"]["payload"]
        signature.write_text(json.dumps(bundle))
        assert named(verify(model, signature, keys[1])) == [("signature", "model.sig")]

    def test_what_the_library_prints_stays_off_stdout(self, model, signature, keys, capsys):
        bundle = json.loads(signature.read_text())
        del bundle["verificationMaterial"]["publicKey"]["hint"]
        signature.write_text(json.dumps(bundle))
        assert verify(model, signature, keys[1]) == ()
        assert capsys.readouterr().out == ""

    def test_a_signature_that_is_not_there_is_told(self, model, keys, tmp_path):
        assert named(verify(model, tmp_path / "none.sig", keys[1])) == [("unsigned", "none.sig")]


class TestKeys:
    def test_without_a_key_nothing_is_signed_and_it_is_told(self, model, tmp_path, monkeypatch, caplog):
        monkeypatch.delenv(PRIVATE_KEY, raising=False)
        with caplog.at_level("INFO"):
            assert not sign(model, tmp_path / "model.sig", signing_key())
        assert f"model is not signed: {PRIVATE_KEY} names no private key." in caplog.text
        assert not (tmp_path / "model.sig").exists()

    @pytest.mark.parametrize("variable, read", [(PRIVATE_KEY, signing_key), (PUBLIC_KEY, public_keys)])
    def test_a_key_that_is_no_file_is_refused(self, tmp_path, monkeypatch, variable, read):
        monkeypatch.setenv(variable, str(tmp_path / "gone.pem"))
        with pytest.raises(BadInput, match=rf"{variable}.*gone\.pem"):
            read()

    @pytest.mark.parametrize("kind", ["text", "ed25519", "rsa", "secp256k1", "password", "public"])
    def test_a_key_that_cannot_sign_is_refused_in_one_line(self, model, keys, tmp_path, monkeypatch, kind):
        if kind == "text":
            (tmp_path / "bad.pem").write_text("no key")
        elif kind == "public":
            shutil.copy(keys[1], tmp_path / "bad.pem")
        else:
            strange = {"ed25519": ed25519.Ed25519PrivateKey.generate, "password": None}
            strange["rsa"] = lambda: rsa.generate_private_key(65537, 2048)
            make = strange.get(kind, lambda: ec.generate_private_key(ec.SECP256K1()))
            write_pair(tmp_path, "bad", make and make(), password=b"secret" if kind == "password" else None)
        with pytest.raises(BadInput, match=r"bad\.pem: expected an elliptic key"):
            sign(model, tmp_path / "model.sig", tmp_path / "bad.pem")
        monkeypatch.setenv(PRIVATE_KEY, str(tmp_path / "bad.pem"))
        with pytest.raises(BadInput, match=r"bad\.pem: expected an elliptic key") as refused:
            signing_key()
        assert "attribute" not in str(refused.value)
        assert ("got: another kind of key" in str(refused.value)) == (kind in ("ed25519", "rsa"))
        assert not (tmp_path / "model.sig").exists()

    def test_a_key_that_the_environment_names_is_taken(self, keys, monkeypatch):
        monkeypatch.setenv(PRIVATE_KEY, str(keys[0]))
        assert signing_key() == keys[0]

    def test_public_keys_are_all_that_the_environment_names(self, keys, tmp_path, monkeypatch):
        old = write_pair(tmp_path, "old")[1]
        for value, found in {"": (), f"{keys[1]}": (keys[1],), f":{old}:{keys[1]}:": (old, keys[1])}.items():
            monkeypatch.setenv(PUBLIC_KEY, value.replace(":", os.pathsep))
            assert public_keys() == found
        monkeypatch.delenv(PUBLIC_KEY)
        assert public_keys() == ()

    def test_a_file_with_a_separator_in_its_name_is_one(self, keys, tmp_path, monkeypatch):
        (tmp_path / f"2026{os.pathsep}1").mkdir()
        shutil.copy(keys[1], tmp_path / f"2026{os.pathsep}1" / "signing.pub")
        monkeypatch.setenv(PUBLIC_KEY, str(tmp_path / f"2026{os.pathsep}1" / "signing.pub"))
        assert public_keys() == (tmp_path / f"2026{os.pathsep}1" / "signing.pub",)

    def test_separators_alone_name_no_public_key(self, monkeypatch):
        """An audit that was to check signatures would check none."""
        monkeypatch.setenv(PUBLIC_KEY, os.pathsep)
        with pytest.raises(BadInput, match=f"{PUBLIC_KEY}: expected a key file in PEM, got {os.pathsep}, which"):
            public_keys()

    @pytest.mark.parametrize("kind", UNFIT)
    def test_a_file_that_is_not_one_public_key_is_refused(self, model, signature, keys, tmp_path, monkeypatch, kind):
        bad = write_public(tmp_path, kind)
        with pytest.raises(BadInput, match=rf"bad\.pub: {UNFIT[kind]}"):
            verify(model, signature, bad)
        monkeypatch.setenv(PUBLIC_KEY, f"{keys[1]}{os.pathsep}{bad}")
        with pytest.raises(BadInput, match=rf"bad\.pub: {UNFIT[kind]}"):
            public_keys()

    def test_without_the_library_the_extra_is_named(self, model, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "model_signing", None)
        with pytest.raises(BadInput, match=r"aucflow\[signing\]"):
            sign(model, tmp_path / "model.sig", tmp_path / "key.pem")
        (tmp_path / "key.pub").write_text("whatever it holds")
        monkeypatch.setenv(PUBLIC_KEY, str(tmp_path / "key.pub"))
        with pytest.raises(BadInput, match=r"aucflow\[signing\]"):
            public_keys()


@pytest.fixture(scope="module")
def signed_store(tmp_path_factory, keys):
    """A folder in which a signed experiment was run."""
    folder = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch, inside(folder):
        patch.setenv(PRIVATE_KEY, str(keys[0]))
        claims(folder / "claims.csv")
        experiment(folder / "claims.csv", methods=METHODS[:1])
    return folder


class TestAudit:
    """What an auditor finds of the runs of a store; two of them, the experiment's and its method's."""

    @pytest.fixture
    def audited(self, signed_store, tmp_path, monkeypatch):
        folder = signed_store.rename(tmp_path / "there")  # MLflow keeps absolute addresses: it is put back below
        monkeypatch.delenv(PUBLIC_KEY, raising=False)
        shutil.copytree(folder, signed_store)
        with inside(signed_store):
            yield signed_store
        shutil.rmtree(signed_store)
        folder.rename(signed_store)

    def found(self):
        verdict = verify_all(MlflowClient(store.tracking_uri()), store.ledger())
        found = [(one.kind, one.subject.rpartition("/")[2]) for one in verdict.found]
        return found, verdict.counts.get("signatures", 0)

    def signatures(self, folder):
        return sorted(folder.glob(f"mlruns/artifacts/*/*/artifacts/{SIGNATURE}"))

    def test_signed_runs_are_as_they_were_recorded_with_and_without_the_public_key(self, audited, keys, monkeypatch):
        assert len(self.signatures(audited)) == 2
        assert self.found() == ([], 0)
        monkeypatch.setenv(PUBLIC_KEY, str(keys[1]))
        assert self.found() == ([], 2)

    def test_runs_that_were_signed_before_a_new_key_are_as_they_were_recorded(
        self, audited, keys, monkeypatch, tmp_path
    ):
        new = write_pair(tmp_path, "new")[1]
        monkeypatch.setenv(PUBLIC_KEY, f"{new}{os.pathsep}{keys[1]}")
        assert self.found() == ([], 2)
        monkeypatch.setenv(PUBLIC_KEY, str(new))
        assert self.found() == ([("signature", SIGNATURE)] * 2, 2)

    @pytest.mark.parametrize("key", [False, True])
    @pytest.mark.parametrize("contents, kind", [(b"{}", "changed"), (None, "unsigned")])
    def test_a_signature_that_is_another_or_gone_is_found(self, audited, keys, monkeypatch, key, contents, kind):
        if key:
            monkeypatch.setenv(PUBLIC_KEY, str(keys[1]))
        path, _ = self.signatures(audited)
        path.unlink() if contents is None else path.write_bytes(contents)
        faults = [(kind, SIGNATURE)] + ([("signature", SIGNATURE)] if key and contents else [])
        assert self.found()[0] == faults

    def test_who_writes_everything_anew_has_not_the_key(self, audited, keys, monkeypatch, tmp_path):
        """A ledger written anew with another's signatures, or with none, agrees with itself."""
        for forger in (write_pair(tmp_path, "forger"), None):
            digests = {}
            for path in self.signatures(audited):
                if forger is None:
                    path.unlink()
                    continue
                assert sign(path.with_name(FILE), path, forger[0])
                digests[path.parts[-3]] = {"signature_sha256": file_sha256(path)}
            anew, old = Ledger(tmp_path / f"anew {len(digests)}"), store.ledger()
            for entry in old.entries():
                kept = {name: value for name, value in entry.data.items() if name != "signature_sha256"}
                anew.append(entry.kind, entry.subject, entry.reason, kept | digests.get(entry.subject, {}))
            shutil.copytree(anew.folder, old.folder, dirs_exist_ok=True)
            monkeypatch.delenv(PUBLIC_KEY, raising=False)
            assert self.found()[0] == []
            monkeypatch.setenv(PUBLIC_KEY, str(keys[1]))
            assert self.found()[0] == [("signature" if forger else "unsigned", SIGNATURE)] * 2

    def test_a_run_without_a_manifest_is_told_of_where_signatures_are_asked_for(
        self, audited, keys, monkeypatch, tmp_path
    ):
        """Whoever has not the key may say that a run was killed: of its own there is nothing to hold it against."""
        anew, old = Ledger(tmp_path / "anew"), store.ledger()
        for entry in old.entries():
            data = {name: entry.data[name] for name in ("experiment", "name", "end_time")} | {"status": "KILLED"}
            anew.append(entry.kind, entry.subject, entry.reason, data)
        shutil.copytree(anew.folder, old.folder, dirs_exist_ok=True)
        with closing(sqlite3.connect("mlruns/mlflow.db")) as database, database:
            database.execute("UPDATE runs SET status = 'KILLED'")
        client = MlflowClient(store.tracking_uri().replace("/mlruns/", "/mlruns/./"))  # it reads it anew
        assert verify_all(client, old).found == ()
        monkeypatch.setenv(PUBLIC_KEY, str(keys[1]))
        verdict = verify_all(client, old)
        assert [(one.kind, one.is_note) for one in verdict.found] == [("unsigned", True)] * 2
        assert "it ended before it had a manifest to sign" in verdict.found[0].message

    def test_a_public_key_that_is_no_file_is_refused(self, audited, monkeypatch):
        monkeypatch.setenv(PUBLIC_KEY, "gone.pub")
        with pytest.raises(BadInput, match=r"AUCFLOW_PUBLIC_KEY.*gone\.pub"):
            self.found()

    @pytest.mark.parametrize("target", ["verify", "claims"])
    @pytest.mark.parametrize("kind", UNFIT)
    def test_a_public_key_that_cannot_verify_is_bad_input_and_no_finding(
        self, audited, monkeypatch, tmp_path, capsys, kind, target
    ):
        """Each run was called unreadable."""
        monkeypatch.setenv(PUBLIC_KEY, str(write_public(tmp_path, kind)))
        with pytest.raises(SystemExit) as ended:
            main(["audit", target])
        told = capsys.readouterr()
        assert (ended.value.code, told.out) == (2, "")
        (line,) = told.err.splitlines()
        assert re.search(rf"bad\.pub: {UNFIT[kind]}", line)


def test_the_library_is_imported_only_to_sign_or_verify():
    code = "import sys, tasks.signing; print('model_signing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class TestPage:
    """What docs/lineage-formats.md says of signatures."""

    page = (Path(signing.__file__).parent.parent / "docs" / "lineage-formats.md").read_text(encoding="utf-8")

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
    def test_its_commands_make_a_pair_of_keys_and_verify_without_us(self, keys, tmp_path):
        make, verify_alone = re.findall(r"```bash\n(.*?)```", self.page, flags=re.DOTALL)
        subprocess.run(make, shell=True, cwd=tmp_path, check=True, capture_output=True)
        manifest = tmp_path / FILE
        manifest.write_bytes(canonical({"schema": 1}))
        assert sign(manifest, tmp_path / SIGNATURE, tmp_path / "signing.pem")
        assert verify(manifest, tmp_path / SIGNATURE, tmp_path / "signing.pub") == ()
        run = [sys.executable, *verify_alone.replace("model_signing", "-m model_signing", 1).split()]
        assert subprocess.run(run, cwd=tmp_path, capture_output=True).returncode == 0
        manifest.write_bytes(b"another")
        assert subprocess.run(run, cwd=tmp_path, capture_output=True).returncode != 0

    def test_every_fault_is_told_of(self):
        kinds = ["changed", "missing", "added", "signature", "unsigned"]
        assert re.findall(r"^\| `(\w+)` \|", self.page.partition("| fault |")[2].partition("##")[0], re.M) == kinds
