"""Fetching: cache, mirror, publisher; what servers do wrong, and that nothing half-written ever stays."""

import bz2
import gzip
import hashlib
import io
import lzma
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks import fetch as fetching
from tasks import transfer
from tasks.errors import BadInput, RunFailed
from tasks.fetch import cached, fetch
from tasks.values import Remote

DATA = b"".join(b"%d 1:%d 2:%d\n" % (i % 2 or -1, i, i * i) for i in range(20_000))
DIGEST = hashlib.sha256(DATA).hexdigest()
REMOTE = Remote("set/data")
PACKINGS = ["gz", "bz2", "xz", "zip"]
UNREACHABLE = "http://127.0.0.1:9/data"  # the discard port: nobody listens


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache of its own, no mirror, no waiting between retries."""
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AUCFLOW_MIRROR", raising=False)
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(transfer, "SILENCE_S", 1.0)
    fetching._index.cache_clear()
    return tmp_path


@pytest.fixture
def server():
    """A server on loopback: ``server.answers[path]`` is bytes, a status, or a function of the request's handler."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self):
            httpd.requests.append((self.path, self.headers.get("Range")))
            answer = httpd.answers.get(self.path, 404)
            if callable(answer):
                answer(self)
            elif isinstance(answer, int):
                send(self, b"<html>an error page</html>", status=answer)
            else:
                send(self, answer)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.answers, httpd.requests, httpd.url = {}, [], f"http://127.0.0.1:{httpd.server_port}"
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def send(handler, body, status=200, upto=None, **headers):
    """Answer with a body, of which only the first ``upto`` bytes come."""
    handler.send_response(status)
    for name, value in (
        {"Content-Length": str(len(body))} | {k.replace("_", "-"): v for k, v in headers.items()}
    ).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body[:upto])


@pytest.fixture
def http11(server):
    """The same server with connections that are kept open."""
    server.RequestHandlerClass.protocol_version = "HTTP/1.1"
    return server


def in_chunks(handler, body, upto=None):
    """Answer in chunks without a length; the connection ends after ``upto`` bytes of the body."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for start in range(0, len(body), 65_536):
        chunk = body[start : start + 65_536]
        stop = len(chunk) if upto is None else min(len(chunk), upto - start)
        if stop <= 0:
            break
        handler.wfile.write(b"%x\r\n" % len(chunk) + chunk[:stop] + (b"\r\n" if stop == len(chunk) else b""))
    else:
        handler.wfile.write(b"0\r\n\r\n")
    handler.close_connection = True


def leftovers():
    """Return what lies in the cache beside whole files, locks and what a transfer can go on from."""
    harmless = (".lock", ".fetching", ".part", ".etag")
    found = cached(REMOTE).parent.rglob("*")
    return sorted(p.name for p in found if p != cached(REMOTE) and p.suffix not in harmless)


def fetching_process(url):
    """Start a process of its own that fetches an address and prints the digest."""
    code = "from tasks.fetch import fetch; from tasks.values import Remote; import sys; "
    code += "print(fetch(Remote('set/data', (sys.argv[1],))).sha256)"
    return subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return buffer.getvalue()


def tarred(name, data):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class TestOrder:
    def test_cache_then_mirror_then_publisher(self, place, monkeypatch, server):
        server.answers["/data"] = DATA
        remote = Remote("set/data", (f"{server.url}/data",))
        assert fetch(remote).origin == f"{server.url}/data"
        assert fetch(remote).origin == "cache"
        cached(remote).unlink()
        (place / "mirror" / "set").mkdir(parents=True)
        (place / "mirror" / "set" / "data").write_bytes(DATA)
        monkeypatch.setenv("AUCFLOW_MIRROR", str(place / "mirror"))
        found = fetch(remote)
        assert (found.origin, found.sha256, found.size_bytes) == ("mirror:set/data", DIGEST, len(DATA))
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        "ending, pack", [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
    )
    def test_a_mirror_may_hold_it_plain_or_packed(self, ending, pack, monkeypatch, server):
        monkeypatch.setenv("AUCFLOW_MIRROR", server.url)
        server.answers[f"/set/data{ending}"] = pack(DATA)
        assert fetch(Remote("set/data", (UNREACHABLE,)), expected=DIGEST).path.read_bytes() == DATA

    @pytest.mark.parametrize(
        "packed",
        [zipped(data=DATA, readme=b"x"), zipped(folder__data=DATA), tarred("x/data", DATA), gzip.compress(DATA)],
        ids=["zip", "zip with a folder", "tar.gz", "gz"],
    )
    def test_the_publishers_packing_is_undone(self, packed, server):
        server.answers["/any"] = packed
        assert fetch(Remote("set/data", (f"{server.url}/any",))).sha256 == DIGEST

    def test_offline_says_what_is_missing_and_where_to_put_it(self, server):
        server.answers["/data"] = DATA
        remote = Remote("set/data", (f"{server.url}/data",))
        with pytest.raises(BadInput) as refusal:
            fetch(remote, offline=True)
        for part in ("set/data", "--offline", str(cached(remote)), "AUCFLOW_MIRROR", server.url):
            assert part in str(refusal.value)
        assert not server.requests

    def test_without_a_network_the_message_is_the_offline_one(self):
        with pytest.raises(BadInput, match=r"no publisher's address could be reached\. Put the file"):
            fetch(Remote("set/data", (UNREACHABLE,)))

    def test_a_file_that_the_user_put_there_packed_is_taken(self):
        cached(REMOTE).parent.mkdir(parents=True)
        cached(REMOTE).with_name("data.bz2").write_bytes(bz2.compress(DATA))
        assert fetch(REMOTE, offline=True).sha256 == DIGEST


class TestDigests:
    def test_other_contents_than_locked_stop_with_both_digests(self, server):
        server.answers["/data"] = DATA
        remote = Remote("set/data", (f"{server.url}/data",))
        with pytest.raises(RunFailed) as stop:
            fetch(remote, expected="0" * 64)
        assert "0" * 64 in str(stop.value) and DIGEST in str(stop.value) and "--update-lock" in str(stop.value)
        assert not cached(remote).exists()

    def test_a_cached_file_that_changed_is_noticed(self):
        cached(REMOTE).parent.mkdir(parents=True)
        cached(REMOTE).write_bytes(DATA + b"1 1:1\n")
        with pytest.raises(RunFailed, match="the cache"):
            fetch(REMOTE, expected=DIGEST)

    def test_an_accepted_change_is_fetched_anew(self, server):
        remote = Remote("set/data", (f"{server.url}/data",))
        server.answers["/data"] = DATA
        fetch(remote)
        server.answers["/data"] = DATA[:-1]
        assert fetch(remote, expected=DIGEST).sha256 == DIGEST
        assert fetch(remote, expected=DIGEST, accept=True).size_bytes == len(DATA) - 1

    def test_what_nobody_publishes_any_more_is_accepted_from_the_cache(self):
        cached(REMOTE).parent.mkdir(parents=True)
        cached(REMOTE).write_bytes(DATA)
        found = fetch(REMOTE, expected="0" * 64, accept=True, offline=True)
        assert (found.origin, found.sha256) == ("cache", DIGEST)

    def test_of_a_cache_that_may_only_be_read_a_known_file_is_taken(self, monkeypatch):
        cached(REMOTE).parent.mkdir(parents=True)
        cached(REMOTE).write_bytes(DATA)
        monkeypatch.setattr(fetching, "locked", lambda *_: pytest.fail("it has been written to"))
        assert fetch(REMOTE, expected=DIGEST).origin == "cache"
        assert not leftovers() and [*cached(REMOTE).parent.iterdir()] == [cached(REMOTE)]

    @pytest.mark.parametrize("index", [b"<html>log in first</html>\n<p>a,b</p>\n", b"path,digest\nset/data,1\n"])
    def test_an_index_that_is_none_is_told(self, monkeypatch, server, index):
        monkeypatch.setenv("AUCFLOW_MIRROR", server.url)
        server.answers |= {"/index.csv": index, "/set/data": DATA}
        with pytest.raises(RunFailed, match=r"columns file and sha256 in the mirror's index\.csv"):
            fetch(REMOTE)

    def test_a_mirror_that_contradicts_its_own_index_is_passed_over(self, monkeypatch, server):
        monkeypatch.setenv("AUCFLOW_MIRROR", server.url)
        server.answers |= {
            "/index.csv": b"file,sha256\nset/data," + DIGEST.encode() + b"\n",
            "/set/data": DATA[:-100],
            "/upstream": DATA,
        }
        assert fetch(Remote("set/data", (f"{server.url}/upstream",))).origin.endswith("/upstream")


class TestFaults:
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 503])
    def test_an_error_status_is_told_and_leaves_nothing(self, status, server):
        server.answers["/data"] = status
        with pytest.raises(RunFailed, match=str(status)):
            fetch(Remote("set/data", (f"{server.url}/data",)))
        assert not cached(REMOTE).exists() and not leftovers()
        assert len(server.requests) == (4 if status >= 500 else 1), "only what may pass is tried again"

    def test_a_server_that_recovers_is_asked_again(self, server):
        answers = iter([503, 503])
        server.answers["/data"] = lambda handler: send(handler, DATA, status=next(answers, 200))
        assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST

    def test_a_transfer_that_drops_is_resumed_where_it_was(self, server):
        def flaky(handler):
            wanted = handler.headers.get("Range")
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            if wanted:
                assert handler.headers["If-Range"] == '"v1"'
                content_range = f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"
                send(handler, DATA[start:], status=206, Content_Range=content_range)
            else:
                send(handler, DATA, upto=150_000, ETag='"v1"')

        server.answers["/data"] = flaky
        assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST
        assert [wanted is not None for _, wanted in server.requests] == [False, True]

    def test_a_process_killed_before_the_new_bytes_leaves_none_of_the_old(self, server, monkeypatch):
        """The new version's name was written first: the next one went on behind the old version's bytes."""
        bodies = iter([(b"x" * 300_000, 200_000, '"old"'), (DATA, None, '"new"')])

        def changing(handler):
            body, upto, tag = next(bodies)
            send(handler, body, upto=upto, ETag=tag)

        killed, write = [], Path.write_text

        def kill_at_new(path, text, *rest, **more):
            done = write(path, text, *rest, **more)
            if text == '"new"':
                killed.append([p.name for p in path.parent.iterdir() if p.suffix == ".part" and p.stat().st_size])
                raise KeyboardInterrupt
            return done

        server.answers["/data"] = changing
        monkeypatch.setattr(Path, "write_text", kill_at_new)
        with pytest.raises(KeyboardInterrupt):
            fetch(Remote("set/data", (f"{server.url}/data",)))
        assert killed == [[]]

    def test_without_ranges_a_dropped_transfer_starts_again(self, server):
        cuts = iter([1000, 100_000])
        server.answers["/data"] = lambda handler: send(handler, DATA, upto=next(cuts, None))
        assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST

    def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_part(self, server):
        versions = iter([(b"x" * 300_000, 200_000, '"old"')])

        def changing(handler):
            body, upto, tag = next(versions, (DATA, None, '"new"'))
            send(handler, body, upto=upto, ETag=tag)

        server.answers["/data"] = changing
        assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST

    def test_a_server_that_stalls_ends_in_an_error(self, server):
        def stall(handler):
            send(handler, DATA, upto=10)
            handler.wfile.flush()
            time.sleep(3)

        server.answers["/data"] = stall
        started = time.monotonic()
        with pytest.raises(RunFailed, match="Try again later"):
            fetch(Remote("set/data", (f"{server.url}/data",)))
        assert time.monotonic() - started < 30
        assert not cached(REMOTE).exists()

    def test_a_server_that_drips_is_taken_for_stalled(self, monkeypatch, server):
        monkeypatch.setattr(transfer, "SLOW_S", 0.2)

        def drip(handler):
            send(handler, DATA, upto=0)
            for byte in DATA[:20]:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(0.05)

        server.answers["/data"] = drip
        with pytest.raises(RunFailed, match="bytes came in"):
            fetch(Remote("set/data", (f"{server.url}/data",)))

    @pytest.mark.parametrize(
        "target",
        [
            "http://example.org/data",
            "ftp://example.org/data",
            "file:///etc/hostname",
            "FILE:/etc/hostname",
            "//example.org/data",
            "http://127.0.0.1@example.org/",
            "http://example.org\\@127.0.0.1/",
            "http://[::1",
        ],
    )
    def test_a_redirect_out_of_bounds_is_not_followed(self, target, server):
        server.answers["/data"] = lambda handler: send(handler, b"", status=302, Location=target)
        with pytest.raises(RunFailed, match=r"redirected to|not an address"):
            fetch(Remote("set/data", (f"{server.url}/data",)))

    def test_redirects_are_followed_but_not_in_a_loop(self, server):
        server.answers |= {
            "/a": lambda handler: send(handler, b"", status=301, Location="/data"),
            "/loop": lambda handler: send(handler, b"", status=302, Location="/loop"),
            "/data": DATA,
        }
        assert fetch(Remote("set/data", (f"{server.url}/a",))).sha256 == DIGEST
        with pytest.raises(RunFailed, match="redirected more than"):
            fetch(Remote("set/other", (f"{server.url}/loop",)))

    @pytest.mark.parametrize(
        "url",
        [
            "http://example.org/x",
            "ftp://example.org/x",
            "gopher:x",
            "data",
            "http://127.0.0.1@example.org/x",
            "http://localhost:80@example.org/x",
            "http://example.org\\@127.0.0.1/x",  # the client sees the host in front, urlsplit the one behind
            "http://localhost.example.org/x",
            "http://localhost./x",
            "http://2130706433/x",
            "http://0177.0.0.1/x",
            "http://127.1/x",
            "http://0.0.0.0/x",
            "http://[::ffff:8.8.8.8]/x",
            "http://[::1/x",
            "http://[::1]x/x",
            "http:///x",
            "http://%6cocalhost.example.org/x",
            "\thttp://example.org/x",
        ],
    )
    def test_only_https_files_and_loopback_are_asked(self, url):
        with pytest.raises(RunFailed, match="not followed"):
            fetch(Remote("set/data", (url,)))

    def test_an_error_page_in_place_of_the_data(self, server):
        server.answers["/data"] = b"<!DOCTYPE html><html>Please log in</html>"
        with pytest.raises(RunFailed, match="web page"):
            fetch(Remote("set/data", (f"{server.url}/data",)))
        assert not cached(REMOTE).exists() and not leftovers()

    def test_a_body_in_chunks_without_a_length(self, http11):
        http11.answers["/data"] = lambda handler: in_chunks(handler, DATA)
        assert fetch(Remote("set/data", (f"{http11.url}/data",))).sha256 == DIGEST

    @pytest.mark.parametrize("where", ["inside a chunk", "between chunks"])
    def test_a_body_in_chunks_that_breaks_off_is_no_file(self, where, http11):
        cut = 100_000 if where == "inside a chunk" else 65_536
        http11.answers["/data"] = lambda handler: in_chunks(handler, DATA, cut)
        with pytest.raises(RunFailed, match="broke off"):
            fetch(Remote("set/data", (f"{http11.url}/data",)))
        assert not cached(REMOTE).exists() and not leftovers()

    def test_a_length_that_is_too_long_is_noticed(self, server):
        server.answers["/data"] = lambda handler: send(handler, DATA, Content_Length=str(len(DATA) + 5))
        with pytest.raises(RunFailed, match=r"broke off|bytes came"):
            fetch(Remote("set/data", (f"{server.url}/data",)))
        assert not cached(REMOTE).exists() and not leftovers()

    def test_a_length_that_is_too_short_is_noticed_where_the_digest_is_known(self, server):
        server.answers["/data"] = lambda handler: send(handler, DATA, Content_Length=str(len(DATA) - 5))
        with pytest.raises(RunFailed, match="as locked"):
            fetch(Remote("set/data", (f"{server.url}/data",)), expected=DIGEST)
        assert not cached(REMOTE).exists() and not leftovers()

    @pytest.mark.parametrize("length", ["-1", "x", "²", "9" * 5000])
    def test_a_length_that_is_none(self, length, server):
        server.answers["/data"] = lambda handler: send(handler, DATA, Content_Length=length)
        try:
            assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST
        except RunFailed:
            assert not cached(REMOTE).exists()

    def test_a_part_shorter_than_asked_for_is_not_the_whole(self, server):
        """206 with fewer bytes than wanted is allowed, and its Content-Length is not that of the file."""

        def piecemeal(handler):
            wanted = handler.headers.get("Range")
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            stop = min(start + 200_000, len(DATA))
            head = {"ETag": '"v1"', "Content-Range": f"bytes {start}-{stop - 1}/{len(DATA)}"}
            send(handler, DATA[start:stop], status=206 if wanted else 200, **({} if not wanted else head))

        def first_cut(handler):
            if handler.headers.get("Range"):
                return piecemeal(handler)
            return send(handler, DATA, upto=100_000, ETag='"v1"')

        server.answers["/data"] = first_cut
        assert fetch(Remote("set/data", (f"{server.url}/data",)), expected=DIGEST).sha256 == DIGEST

    def test_another_part_than_was_asked_for_is_thrown_away(self, server):
        def confused(handler):
            if handler.headers.get("Range"):
                send(handler, DATA[7:], status=206, Content_Range=f"bytes 7-{len(DATA) - 1}/{len(DATA)}")
            else:
                send(handler, DATA, upto=next(cuts, None), ETag='"v1"')

        cuts = iter([100_000])
        server.answers["/data"] = confused
        assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST

    def test_a_weak_etag_is_no_ground_to_go_on_from(self, server):
        cuts = iter([100_000])
        server.answers["/data"] = lambda handler: send(handler, DATA, upto=next(cuts, None), ETag='W/"v1"')
        assert fetch(Remote("set/data", (f"{server.url}/data",))).sha256 == DIGEST
        assert [wanted for _, wanted in server.requests] == [None, None]

    def test_an_encoding_that_nobody_asked_for(self, server):
        server.answers["/gzip"] = lambda handler: send(handler, gzip.compress(DATA), Content_Encoding="gzip")
        server.answers["/br"] = lambda handler: send(handler, b"\x8b\x07", Content_Encoding="br")
        assert fetch(Remote("set/data", (f"{server.url}/gzip",))).sha256 == DIGEST
        with pytest.raises(RunFailed, match="encoded as 'br'"):
            fetch(Remote("set/other", (f"{server.url}/br",)))

    def test_a_head_that_drips_ends(self, monkeypatch, server):
        monkeypatch.setattr(transfer, "ANSWER_S", 0.3)

        def drip(handler):
            for _ in range(40):
                handler.wfile.write(b"X: y\r\n" if _ else b"HTTP/1.1 200 OK\r\n")
                handler.wfile.flush()
                time.sleep(0.05)

        server.answers["/data"] = drip
        with pytest.raises(RunFailed, match="no answer within"):
            fetch(Remote("set/data", (f"{server.url}/data",)))

    def test_no_http_at_all(self, server):
        server.answers["/data"] = lambda handler: handler.wfile.write(b"\0\1\2 garbage\r\n\r\n")
        with pytest.raises(RunFailed, match="Try again later"):
            fetch(Remote("set/data", (f"{server.url}/data",)))

    def test_a_mirror_whose_index_cannot_be_had_is_not_trusted_blindly(self, monkeypatch, server):
        monkeypatch.setenv("AUCFLOW_MIRROR", server.url)
        server.answers |= {"/index.csv": 503, "/set/data": DATA[:-100]}
        with pytest.raises(RunFailed, match="503"):
            fetch(REMOTE)

    def test_a_second_address_is_tried(self, server):
        server.answers["/data"] = DATA
        assert fetch(Remote("set/data", (f"{server.url}/gone", f"{server.url}/data"))).sha256 == DIGEST

    def test_an_empty_answer_is_no_data(self, server):
        server.answers["/data"] = b""
        with pytest.raises(RunFailed, match="empty file"):
            fetch(Remote("set/data", (f"{server.url}/data",)))


class TestArchives:
    @pytest.mark.parametrize("name", ["../data", "/data", "a/../../data", "..\\data", "C:\\data"])
    def test_paths_that_leave_the_archive_are_refused(self, name, server, place):
        server.answers["/x.zip"] = zipped(**{name.replace("/", "__"): DATA})
        with pytest.raises(RunFailed, match="paths inside the archive"):
            fetch(Remote("set/data", (f"{server.url}/x.zip",)))
        assert not cached(REMOTE).exists() and not leftovers()

    def test_an_archive_without_the_file_lists_what_it_has(self, server):
        server.answers["/x.zip"] = zipped(a=b"1", b=b"2")
        with pytest.raises(RunFailed, match=r"got 0 \(it holds a, b\)"):
            fetch(Remote("set/data", (f"{server.url}/x.zip",)))

    @pytest.mark.parametrize(
        "pack", [gzip.compress, bz2.compress, lzma.compress, lambda zeros: zipped(data=zeros)], ids=PACKINGS
    )
    def test_a_bomb_ends_at_the_ratio(self, pack, server, monkeypatch):
        monkeypatch.setattr("tasks.files.FREE_BYTES", 1 << 20)
        server.answers["/bomb"] = pack(bytes(64 << 20))
        with pytest.raises(RunFailed, match="when unpacked"):
            fetch(Remote("set/data", (f"{server.url}/bomb",)))
        assert not cached(REMOTE).exists() and not leftovers()

    @pytest.mark.parametrize(
        "pack", [gzip.compress, bz2.compress, lzma.compress, lambda data: zipped(data=data)], ids=PACKINGS
    )
    def test_a_truncated_packing_is_told(self, pack, server):
        server.answers["/data"] = pack(DATA)[:-40]
        with pytest.raises(RunFailed, match="whole file"):
            fetch(Remote("set/data", (f"{server.url}/data",)))
        assert not cached(REMOTE).exists() and not leftovers()

    def test_an_npz_is_not_taken_apart(self, server):
        server.answers["/data.npz"] = zipped(X=b"1", y=b"2")
        path = fetch(Remote("set/data.npz", (f"{server.url}/data.npz",))).path
        assert zipfile.ZipFile(path).namelist() == ["X", "y"]


class TestTwoAtOnce:
    def test_two_that_want_the_same_file_fetch_it_once(self, server):
        def slowly(handler):
            time.sleep(0.3)
            send(handler, DATA)

        server.answers["/data"] = slowly
        remote, found = Remote("set/data", (f"{server.url}/data",)), []
        threads = [threading.Thread(target=lambda: found.append(fetch(remote))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == 1
        assert sorted(f.origin == "cache" for f in found) == [False, True, True, True]

    def test_two_processes_fetch_it_once(self, server):
        def slowly(handler):
            time.sleep(0.5)
            send(handler, DATA)

        server.answers["/data"] = slowly
        processes = [fetching_process(f"{server.url}/data") for _ in range(2)]
        assert [process.communicate()[0].strip() for process in processes] == [DIGEST] * 2
        assert len(server.requests) == 1

    def test_a_process_killed_in_the_middle_leaves_no_file_and_the_next_goes_on(self, server):
        def first_half(handler):
            wanted = handler.headers.get("Range")
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            if wanted:
                content_range = f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"
                return send(handler, DATA[start:], status=206, Content_Range=content_range)
            send(handler, DATA, upto=len(DATA) // 2, ETag='"v1"')
            handler.wfile.flush()
            return halfway.wait(20)

        halfway = threading.Event()
        server.answers["/data"] = first_half
        process = fetching_process(f"{server.url}/data")
        parts = cached(REMOTE).with_name("data.fetching")
        deadline = time.monotonic() + 60
        while not any(part.stat().st_size for part in parts.glob("*.part")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        halfway.set()
        assert not cached(REMOTE).exists()
        assert fetch(Remote("set/data", (f"{server.url}/data",)), expected=DIGEST).origin.endswith("/data")
        assert server.requests[-1][1] is not None, "it began again"
        assert sorted(p.name for p in cached(REMOTE).parent.iterdir()) == ["data", "data.lock"]

    def test_a_mirror_may_only_be_a_folder_or_a_safe_address(self, monkeypatch):
        monkeypatch.setenv("AUCFLOW_MIRROR", "http://mirror.example.org")
        with pytest.raises(BadInput, match="AUCFLOW_MIRROR"):
            fetch(REMOTE)

    def test_a_cache_that_cannot_be_written_is_told(self, place, monkeypatch):
        (place / "file").write_text("x")
        monkeypatch.setenv("AUCFLOW_HOME", str(place / "file"))
        with pytest.raises(RunFailed, match="AUCFLOW_HOME"):
            fetch(REMOTE)


def test_the_unreachable_port_is_closed():
    """What the offline tests rest on."""
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", 9), timeout=1):
        pass
