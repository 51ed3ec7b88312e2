"""What runs inside an image while it is built: versions, users, records, bytecode, times, health."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.pins import REPOSITORY
from bench.images.definition import image_definition
from bench.images.inside import bytecode, carried, people, records, times
from bench.images.inside.assemble import assemble, read_arguments
from bench.images.inside.health import healthy
from bench.images.inside.refusal import BuildRefusedError

ARGUMENTS = {"BASE": "x@sha256:" + "0" * 64, "SOURCE_DATE_EPOCH": "1000000000", "CARRIES": "", "PYTHON": ""}


class TestCarried:
    def test_the_same_versions_pass_whatever_the_build_and_the_spelling(self) -> None:
        carried.check(
            {"vllm": "0.26.0", "flashinfer-jit-cache": "0.6.14", "Flash_Infer.X": "1"},
            {"vllm": "0.26.0", "flashinfer-jit-cache": "0.6.14+cu130", "flash-infer-x": "1"},
        )

    @pytest.mark.parametrize(
        ("found", "message"),
        [
            ("0.6.13", "flashinfer-cubin is 0.6.13 (pinned: 0.6.14)"),
            ("0.6.14.post1", "flashinfer-cubin is 0.6.14.post1 (pinned: 0.6.14)"),
            ("0.6.140", "flashinfer-cubin is 0.6.140 (pinned: 0.6.14)"),
            (None, "flashinfer-cubin is missing (pinned: 0.6.14)"),
        ],
    )
    def test_a_mismatch_is_caught(self, found: str | None, message: str) -> None:
        there = {"vllm": "0.26.0"} | ({"flashinfer-cubin": found} if found else {})
        with pytest.raises(BuildRefusedError) as caught:
            carried.check({"vllm": "0.26.0", "flashinfer-cubin": "0.6.14"}, there)
        assert str(caught.value) == message

    def test_all_of_it_is_named(self) -> None:
        with pytest.raises(BuildRefusedError, match=r"a is missing .*; b is 2 "):
            carried.check({"a": "1", "b": "1"}, {"b": "2"})

    @given(
        st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), st.from_regex(r"\d\.\d", fullmatch=True))
    )
    def test_what_is_pinned_arrives_as_it_was(self, carries: dict[str, str]) -> None:
        assert carried.parse(" ".join(f"{name}=={version}" for name, version in carries.items())) == carries

    @pytest.mark.parametrize("text", ["vllm", "vllm==", "==1", "vllm=1"])
    def test_an_argument_of_another_form(self, text: str) -> None:
        with pytest.raises(BuildRefusedError, match="no name==version"):
            carried.parse(text)

    def test_an_interpreter_says_what_it_has(self) -> None:
        found = carried.installed(Path(sys.executable))
        assert found["pytest"] == pytest.__version__
        assert "typing-extensions" in found


class TestArguments:
    def test_all_of_them(self) -> None:
        read = read_arguments({**ARGUMENTS, "CARRIES": "vllm==0.26.0", "PYTHON": "3.12"})
        assert (read.epoch, read.carries, read.python) == (10**9, {"vllm": "0.26.0"}, "3.12")

    @pytest.mark.parametrize("base", ["", "debian", "debian:latest", "debian@sha256:" + "0" * 63, "debian@sha256:"])
    def test_a_base_without_digest_ends_the_build(self, base: str) -> None:
        with pytest.raises(BuildRefusedError, match="has no digest"):
            read_arguments({**ARGUMENTS, "BASE": base})

    @pytest.mark.parametrize("epoch", ["", "now", "-1", "1.5"])
    def test_a_build_without_a_time_ends(self, epoch: str) -> None:
        with pytest.raises(BuildRefusedError, match="SOURCE_DATE_EPOCH"):
            read_arguments({**ARGUMENTS, "SOURCE_DATE_EPOCH": epoch})


class TestUser:
    def test_it_is_added_once_and_owns_its_home(self, tmp_path: Path) -> None:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash")
        number = os.geteuid()
        wanted = number or 10001
        for _ in range(2):
            people.add_user(tmp_path, number=wanted, home="/home/somebody")
        lines = (tmp_path / "etc/passwd").read_text().splitlines()
        assert lines[1:] == [f"streamproof:x:{wanted}:{wanted}::/home/somebody:/usr/sbin/nologin"]
        assert (tmp_path / "etc/group").read_text() == f"streamproof:x:{wanted}:\n"
        status = (tmp_path / "home/somebody").stat()
        assert (status.st_uid, status.st_mode & 0o777) == (wanted, 0o700)


class TestRecords:
    def test_an_installers_notes_are_gone_and_the_rest_is_in_order(self, tmp_path: Path) -> None:
        about = tmp_path / "thing-1.0.dist-info"
        about.mkdir()
        for name in ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "METADATA"):
            (about / name).write_text("x")
        rows = ["z.py,sha256=a,1", "a.py,sha256=b,2", "__pycache__/a.cpython-311.pyc,,", "INSTALLER,sha256=c,3"]
        rows += [f"thing-1.0.dist-info/{name},," for name in ("uv_cache.json", "INSTALLER", "METADATA", "RECORD")]
        (about / "RECORD").write_text("\n".join(rows) + "\n")
        records.settle(tmp_path)
        assert (about / "RECORD").read_text().splitlines() == [
            "INSTALLER,sha256=c,3",  # a module's own file of that name is no note
            "a.py,sha256=b,2",
            "thing-1.0.dist-info/METADATA,,",
            "thing-1.0.dist-info/RECORD,,",
            "z.py,sha256=a,1",
        ]
        assert {path.name for path in about.iterdir()} == {"METADATA", "RECORD"}


class TestBytecode:
    MODULES = 12

    def modules(self, folder: Path) -> Path:
        for number in range(self.MODULES):
            names = f"NAMES = {{'a', 'b', 'c', 'd{number}'}}\n"
            text = names + "def f(x): return x in {'q', 'r', 's', 't'}, 'shared'\n"
            (folder / f"m{number}.py").write_text(text)
        (folder / "template.py").write_text("{% not python %}")
        return folder

    def test_it_is_the_same_whatever_the_times_and_is_used(self, tmp_path: Path) -> None:
        python = Path(sys.executable)
        written = []
        folder = self.modules(tmp_path)
        for time in (1, 2):
            for path in folder.glob("*.py"):
                os.utime(path, (time, time))
            bytecode.compile_all(python, [folder])
            written.append({path.name: path.read_bytes() for path in (folder / "__pycache__").iterdir()})
            shutil.rmtree(folder / "__pycache__") if time == 1 else None
        assert written[0] == written[1]
        assert len(written[0]) == self.MODULES
        flags = {int.from_bytes(content[4:8], "little") for content in written[0].values()}
        assert flags == {0b01}, "hash-based and unchecked (PEP 552)"
        (folder / "m1.py").write_text("raise SystemExit('the source was read')")
        spec = importlib.util.spec_from_file_location("m1", folder / "m1.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert "d1" in module.NAMES

    def test_an_interpreter_that_fails(self, tmp_path: Path) -> None:
        with pytest.raises(BuildRefusedError, match="status 1"):
            bytecode.compile_all(Path("/bin/false"), [self.modules(tmp_path)])


class TestTimes:
    def test_what_is_new_gets_the_time_and_what_was_there_keeps_its_own(self, tmp_path: Path) -> None:
        old = tmp_path / "old"
        (old / "deep").mkdir(parents=True)
        (old / "deep/file").write_text("")
        os.utime(old / "deep/file", (5, 5))
        marker = tmp_path / "marker"
        while True:  # until the file system's clock has moved on
            marker.write_text("")
            if marker.stat().st_ctime_ns > (old / "deep/file").stat().st_ctime_ns:
                break
        since = marker.stat().st_ctime_ns
        (old / "new").mkdir()
        (old / "new/file").write_text("")
        (old / "new/link").symlink_to("nowhere")
        os.utime(old / "new/file", (7, 7))  # a package brings an old time of its own
        times.set_times(tmp_path, since_ns=since, epoch=1_000_000_000)
        changed = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.lstat().st_mtime == 1_000_000_000}
        assert changed == {"old", "old/new", "old/new/file", "old/new/link", "marker"}
        assert (old / "deep/file").stat().st_mtime == 5


class TestHealth:
    @pytest.mark.parametrize(("status", "well"), [(200, True), (503, False), (404, False)])
    def test_it_is_what_the_engine_says(self, status: int, well: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        asked = []

        class Engine(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                assert healthy(server.server_address[1]) is well
            finally:
                server.shutdown()
                thread.join()
        assert asked == ["/health"]
        assert not healthy(server.server_address[1])


class TestAssemble:
    def test_an_image_of_modules_alone(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        context, root = tmp_path / "context", tmp_path / "root"
        (context / "source/quantize").mkdir(parents=True)
        (context / "source/quantize/module.py").write_text("X = 1\n")
        (context / "caches/vllm").mkdir(parents=True)
        (context / "caches/vllm/kernel").write_text("compiled")
        (root / "etc").mkdir(parents=True)
        (root / "opt").mkdir()
        assemble(read_arguments({**ARGUMENTS, "CARRIES": f"pytest=={pytest.__version__}"}), context=context, root=root)
        assert (root / "opt/streamproof/health.py").is_file()
        assert list((root / "opt/streamproof/source/quantize/__pycache__").glob("module.*.pyc"))
        kernel = root / "var/cache/streamproof/vllm/kernel"
        assert (kernel.read_text(), kernel.stat().st_uid, kernel.parent.stat().st_uid) == ("compiled", 10001, 10001)
        assert {path.lstat().st_mtime for path in (root, *root.rglob("*"))} == {1_000_000_000.0}

    def test_a_wrong_version_ends_it(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        (tmp_path / "etc").mkdir()
        with pytest.raises(BuildRefusedError, match=r"pytest is .* \(pinned: 1\)"):
            assemble(read_arguments({**ARGUMENTS, "CARRIES": "pytest==1"}), context=tmp_path / "none", root=tmp_path)

    def test_wheels_for_another_python_end_it(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        (tmp_path / "context").mkdir()
        (tmp_path / "context/lock.txt").write_text("")
        (tmp_path / "etc").mkdir()
        with pytest.raises(BuildRefusedError, match=r"the base has Python .* the wheels were chosen for 2\.7"):
            assemble(read_arguments({**ARGUMENTS, "PYTHON": "2.7"}), context=tmp_path / "context", root=tmp_path)

    def test_its_modules_need_nothing_but_python_and_themselves(self, tmp_path: Path) -> None:
        for path in image_definition("cpu").tools:
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / path, target)
        command = [sys.executable, "-sSP", "-m", "bench.images.inside.assemble"]
        answer = subprocess.run(
            command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert answer.returncode == 1
        assert answer.stderr.startswith("streamproof refuses: the base (none) has no digest")
