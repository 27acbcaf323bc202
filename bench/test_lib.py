"""Tests of the benchmarks without measuring: ratios, pages, files, and that no process is left running. `python3 -m unittest discover bench`"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Sequence
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import debian, measure, page, peers, results, rounds, rows, scripts, site, starter, verdicts  # noqa: E402
from lib.machine import BenchError  # noqa: E402
from lib.measure import Figures  # noqa: E402
from lib.results import Cell, Line  # noqa: E402

ROWS = {row.name: row for row in rows.ROWS}
ABOUT = {
    "date": "2026-01-01",
    "machine": {"system": "Linux", "processor": "P", "processors": 2, "load_average": 0.0},
    "cores": 1,
    "rounds": 2,
    "long_rounds": 1,
    "quick": False,
    "commands": ["bench/compare"],
    "servers": {
        "nginx": {"version": "1.2", "remark": "", "why": ""},
        "taipan": {"version": "0.1.0", "remark": "", "why": ""},
        "h2o": {"version": "", "remark": "", "why": "not installed"},
    },
}


def figures(score: float, *, connections: int = 1, failures: int = 0, requests: int = 100) -> Figures:
    return Figures(score=score, connections=connections, requests=requests, failures=failures, rate=1e6 / score)


def line(row: str, **cells: Cell) -> dict:
    return Line(ROWS[row], ROWS[row].parts[0], cells).as_data()


class Ratios(unittest.TestCase):
    def check(
        self, row: str, ours: Sequence[Figures | None], theirs: Sequence[Figures | None], expected: object
    ) -> None:
        found = line(row, taipan=Cell([*ours]), nginx=Cell([*theirs]))["servers"]["nginx"].get("score_ratio")
        self.assertEqual(found and [found["median"], found["least"], found["most"]], expected)

    def test_takes_ratios_within_a_round(self) -> None:
        one, two, three = figures(1), figures(2), figures(3)
        for ours, theirs, expected in (
            ([one], [two], [2, 2, 2]),
            ([one, two, one], [two, two, three], [2, 1, 3]),
            # A round without figures of both is left out.
            ([one, None], [two, three], [2, 2, 2]),
            ([one, two], [None, two], [1, 1, 1]),
            ([None], [two], None),
            ([], [], None),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                self.check("small", ours, theirs, expected)

    def test_compares_users_at_the_largest_step_without_failures(self) -> None:
        ours = [figures(1, connections=100), figures(2, connections=200), figures(4, connections=400)]
        theirs = [figures(3, connections=100), figures(8, connections=200), figures(9, connections=400, failures=1)]
        with_steps = [replace(steps[-1], steps=steps) for steps in (ours, theirs)]
        self.check("modems", [with_steps[0]], [with_steps[1]], [4, 4, 4])

    def test_has_no_ratio_without_a_common_step(self) -> None:
        ours, theirs = figures(1, connections=100), figures(1, connections=100, failures=1)
        self.check("modems", [replace(ours, steps=[ours])], [replace(theirs, steps=[theirs])], None)

    def test_availability_and_longest_time_are_of_all_rounds(self) -> None:
        cell = Cell([figures(1), replace(figures(1, failures=100), longest_us=7)])
        median = line("small", taipan=cell)["servers"]["taipan"]["median"]
        self.assertAlmostEqual(median["availability"], 200 / 3)
        self.assertEqual((median["failures"], median["longest_us"]), (100, 7))


class Pages(unittest.TestCase):
    def results(self) -> dict:
        cells = {
            "nginx": Cell([figures(4), figures(6, failures=1)]),
            "taipan": Cell([figures(2), figures(2)]),
            "h2o": Cell(why="not installed"),
        }
        lines = [Line(ROWS["small"], ROWS["small"].parts[0], cells)]
        return results.gathered(ABOUT, lines)

    def test_the_table_shows_taipan_in_microseconds_and_others_as_ratios(self) -> None:
        block = page.full_table(self.results())
        self.assertIn("|  | client | taipan | nginx |", block)
        self.assertIn("keep-alive | taipan-bench | 2.00 µs | 2.50 (99.50 %) |", block)
        self.assertIn("| lowest availability |  | 100 % | 99.50 % |", block)
        self.assertIn("h2o: not installed", block)

    def test_the_readme_has_ten_rows_and_bench_has_all(self) -> None:
        titles = {part.title for row in rows.ROWS for part in row.parts}
        self.assertEqual([title for title in page.IN_README if title not in titles], [])
        self.assertLessEqual(len(page.IN_README) + 1, 10)
        cells = {"taipan": Cell([figures(2)])}
        both = [Line(ROWS[name], ROWS[name].parts[0], cells) for name in ("small", "page", "modems")]
        shown = results.gathered(ABOUT, both)
        for table, expected in ((page.short_table(shown), False), (page.full_table(shown), True)):
            self.assertIn("| 2448 bytes", table)
            self.assertIn(f"| {page.SLOW_READERS} | taipan-bench | 1 |", table)
            self.assertEqual("| 4096 bytes" in table, expected)

    def test_the_table_shows_the_ratio_with_the_client_if_it_is_opposite_or_the_file_is_large(self) -> None:
        for row, theirs, client, shown, expected in (
            ("small", 1, 9, "taipan-bench | 2.00 µs", "0.50 / 1.67"),
            ("small", 1, 4, "taipan-bench | 2.00 µs", "0.50"),
            ("small", 3, 9, "taipan-bench | 2.00 µs", "1.50"),
            ("medium", 3, 9, "taipan-bench | 2.00 / 6.00 µs", "1.50 / 2.00"),
        ):
            with self.subTest(row=row, theirs=theirs, client=client):
                cells = {
                    "taipan": Cell([replace(figures(2), client_us=4)]),
                    "nginx": Cell([replace(figures(theirs), client_us=client)]),
                }
                lines = [Line(ROWS[row], ROWS[row].parts[0], cells)]
                block = page.full_table(results.gathered(ABOUT, lines))
                self.assertIn(f"keep-alive | {shown} | {expected} |", block)

    def test_replaces_only_the_text_between_the_markers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            readme = pathlib.Path(folder) / "README.md"
            readme.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
            page.put_into_readme(readme, page.full_table(self.results()))
            once = readme.read_text()
            page.put_into_readme(readme, page.full_table(self.results()))
            self.assertEqual(readme.read_text(), once)
            self.assertTrue(once.startswith(f"before\n{page.BEGIN}\n") and once.endswith(f"\n{page.END}\nafter\n"))
            self.assertNotIn("old", once)
            readme.write_text("no markers")
            with self.assertRaises(BenchError):
                page.put_into_readme(readme, page.full_table(self.results()))

    def test_the_readme_shows_the_client_of_debian_if_there_is_one(self) -> None:
        part = ROWS["small"].parts[0]
        lines = [
            Line(ROWS["small"], replace(part, client=client), {"taipan": Cell([figures(score)])})
            for client, score in ((part.client, 2), ("wrk", 3))
        ]
        shown = results.gathered(ABOUT, lines)
        self.assertIn("| wrk | 3.00 µs |", page.short_table(shown))
        for table, client, expected in (
            (page.short_table(shown), part.client, False),
            (page.full_table(shown), part.client, True),
            (page.full_table(shown), "wrk", True),
        ):
            self.assertEqual(f"| {client} |" in table, expected)

    def test_medians_are_shown_as_their_rounds_were(self) -> None:
        shown = self.results()
        self.assertEqual(page.full_table(results.medians(shown)), page.full_table(shown))

    def test_availability_is_never_rounded_up(self) -> None:
        for value, expected in ((100, "100 %"), (99.9999, "99.99 %"), (98.571, "98.57 %"), (0, "0.00 %")):
            self.assertEqual(page._percent(value), expected)

    def test_the_last_of_several_files_with_a_line_counts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("a.json", "b.json")]
            for file, score in zip(files, (1, 5)):
                cells = {"taipan": Cell([figures(score)])}
                results.write(file, results.gathered(ABOUT, [Line(ROWS["page"], ROWS["page"].parts[0], cells)]))
            merged = results.read(files)
            self.assertEqual([found["servers"]["taipan"]["median"]["score"] for found in merged["lines"]], [5])
            files[0].write_text("{}")
            with self.assertRaises(BenchError):
                results.read(files)

    def test_pages_explain_their_dashes(self) -> None:
        self.assertIn("- h2o: not installed", page.everything(self.results()))
        self.assertIn("not installed", page.terminal(self.results()["lines"][0]))


class Tables(unittest.TestCase):
    def test_files_are_the_same_in_every_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            www = pathlib.Path(folder)
            site.make(www, ("mixed", "many", "sizes"))
            sizes = [file.stat().st_size for file in (www / "mixed").iterdir()]
            self.assertEqual(len(sizes), site.MIXED)
            self.assertTrue(all(site.MIXED_LEAST <= size <= site.MIXED_MOST for size in sizes))
            once = site.mixed_urls(www, "http://h")
            self.assertEqual(once, site.mixed_urls(www, "http://h"))
            self.assertEqual(len({(www / "many" / f"{n}.html").read_bytes() for n in range(site.MANY)}), site.MANY)

    def test_fills_in_every_template_completely(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            place = peers.Place(work, work / "www", 8080)
            for server in (peers.TAIPAN, *peers.PEERS):
                for cache, protocol, compression in itertools.product(
                    peers.Cache, peers.Protocol, peers.Compression
                ):
                    start = peers.Start(cache=cache, protocol=protocol, compression=compression)
                    words = server.at("/bin/program").words(place, start)
                    texts = [" ".join(words), *(file.read_text() for file in work.iterdir())]
                    for text in texts:
                        lines = [one for one in text.splitlines() if not one.startswith("#")]
                        self.assertNotRegex("\n".join(lines), "@[A-Z]+@", server.name)

    def test_only_the_protocol_of_a_row_decides_the_listener(self) -> None:
        for server, protocol in itertools.product((peers.TAIPAN, *peers.PEERS), peers.Protocol):
            with self.subTest(server=server.name, protocol=protocol), tempfile.TemporaryDirectory() as folder:
                place = peers.Place(pathlib.Path(folder), pathlib.Path(folder) / "www", 8080)
                words = server.at("/bin/program").words(place, peers.Start(protocol=protocol))
                texts = [" ".join(words), *(file.read_text() for file in place.work.iterdir())]
                has_tls = any(str(place.certificate) in text for text in texts)
                speaks_tls = peers.Ability.TLS not in server.lacks
                self.assertEqual(has_tls, speaks_tls and protocol is not peers.Protocol.HTTP)

    def test_rows_request_what_their_protocol_needs(self) -> None:
        for row in rows.ROWS:
            self.assertEqual(len({(part.protocol, bool(part.coding)) for part in row.parts}), 1, row.name)
            for part in row.parts:
                over_tls = part.protocol is not peers.Protocol.HTTP
                self.assertEqual(peers.Ability.TLS in part.needs, over_tls, part.name)
                self.assertEqual(peers.Ability.COMPRESSES in part.needs, bool(part.coding), part.name)
        for name, part, expected in (
            ("small", 0, []),
            ("tls", 0, ["--insecure"]),
            ("http2", 0, ["--http", "2", "--streams", "16", "--insecure"]),
            ("handshake", 0, ["--insecure", "--no-resumption"]),
            ("handshake", 1, ["--insecure"]),
            ("compressed", 0, ["-H", "Accept-Encoding: gzip"]),
        ):
            self.assertEqual(measure.requested(ROWS[name].parts[part]), expected, name)

    def test_the_page_compresses_as_text_does(self) -> None:
        page_of_html = site.html(site.HTML_SIZE)
        self.assertEqual(len(page_of_html), site.HTML_SIZE)
        self.assertEqual(page_of_html, site.html(site.HTML_SIZE))
        self.assertIn(len(gzip.compress(page_of_html)) * 100 // len(page_of_html), range(20, 40))

    def test_names_are_unique(self) -> None:
        for names in (
            [row.name for row in rows.ROWS],
            [server.name for server in peers.PEERS],
            [part.name for part in ROWS["wasd"].parts],
        ):
            self.assertEqual(len(names), len(set(names)))


class Clients(unittest.TestCase):
    DEMAND = debian.Demand(
        url="http://h/p",
        paths=None,
        connection=rows.Connection.NEW,
        connections=10,
        seconds=1.5,
        ramp_seconds=2,
        timeout_seconds=10,
        threads=1,
    )

    def test_every_load_has_a_client_of_debian(self) -> None:
        expected = {"small": "wrk", "random": "wrk", "many": "wrk", "mixed": "wrk", "cgi-c": "wrk", "wasd": "wrk"}
        expected |= {"tls": "wrk", "tls-large": "wrk", "compressed": "wrk", "http2": "h2load", "handshake": "s_time"}
        expected |= {"modems": "slowhttptest", "memory": None}
        for name, client in expected.items():
            found = debian.client_for(ROWS[name].parts[0])
            self.assertEqual(found and found.name, client, name)

    def test_wrk_requests_a_new_connection_by_a_field(self) -> None:
        for connection in rows.Connection:
            words = debian.CLIENTS[0].arguments(replace(self.DEMAND, connection=connection))
            self.assertEqual("Connection: close" in words, connection is rows.Connection.NEW)

    def test_counts_a_full_handshake_as_a_failure_where_sessions_are_resumed(self) -> None:
        client = next(client for client in debian.CLIENTS if client.name == "s_time")
        text = "starting\nrrrr*\n\n5 connections in 2 real seconds, 9 bytes read per connection\n"
        for connection, expected in ((rows.Connection.RESUMED, 1), (rows.Connection.NEW, 4)):
            found = client.report(text, replace(self.DEMAND, connection=connection))
            self.assertEqual((found.requests, found.failures), (5 - expected, expected))

    def test_reads_the_reports(self) -> None:
        reports = {
            "wrk": (
                "Running\n"
                '{"requests": 100, "micros": 2000000, "connect": 0, "read": 1, "write": 0, "status": 9, "timeout": 0, '
                '"p50": 7, "p99": 8, "longest": 9}\n',
                (91, 10, 2.0, 7, 9, {"read": 1, "status": 9}),
            ),
            "h2load": (
                "finished in 2.00s, 4000.00 req/s, 500.26KB/s\n"
                "requests: 8023 total, 8060 started, 8023 done, 8000 succeeded, 23 failed, 20 errored, 0 timeout\n"
                "time for request:       32us      2.38ms       533us       262us    77.72%\n",
                (8000, 23, 2.0, 0, 2380, {"failed": 23, "errored": 20}),
            ),
            "s_time": (
                "Collecting connection statistics for 1 seconds\n***r*\n\n"
                "5 connections in 0.30s; 1700.00 connections/user sec, bytes read 120360\n"
                "5 connections in 2 real seconds, 236 bytes read per connection\n",
                (4, 1, 0.0, 0, 0, {"handshake of the other kind": 1}),
            ),
            "slowhttptest": (
                "connected: 0\npending: 9\nerror: 0\nclosed: 0\n"
                "\x1b[1;32mpending:     \x1b[1;32m        1\n\x1b[1;32mconnected:   \x1b[1;32m        9\n"
                "error: 0\nclosed: 2\n",
                (9, 2, 11, 0, 0, {"pending": 1, "closed": 2}),
            ),
        }
        for client in debian.CLIENTS:
            text, expected = reports[client.name]
            load = client.report(text, self.DEMAND)
            found = (load.requests, load.failures, load.seconds, load.p50_us, load.longest_us, load.faults)
            self.assertEqual(found, expected, client.name)
            with self.assertRaises((BenchError, ValueError)):
                client.report("killed", self.DEMAND)


class Rounds(unittest.TestCase):
    def test_every_round_begins_with_another_contender(self) -> None:
        for contenders, number, expected in (("abc", 4, "abcbcacababc"), ("a", 2, "aa"), ("", 2, ""), ("ab", 0, "")):
            with self.subTest(contenders=contenders):
                self.assertEqual("".join(rounds.in_turns(contenders, number)), expected)

    def test_sums_the_failures_of_each_round(self) -> None:
        found = {name: [figures(1, failures=each) for each in failed] for name, failed in (("a", (1, 0)), ("b", (2, 3)))}
        for names, expected in ((["a", "b"], [3, 3]), (["a"], [1, 0]), ([], [])):
            self.assertEqual(rounds.failures(found, names), expected)


class Verdicts(unittest.TestCase):
    def test_compares_with_the_best_of_the_same_round(self) -> None:
        ours, theirs = [6.0, 6.0], [[1.0, 3.0], [2.0, 1.0]]
        self.assertEqual(verdicts.against_most(ours, theirs), [3, 2])
        self.assertEqual(verdicts.against_least(ours, theirs), [6, 6])

    def test_judges_the_median_and_includes_the_bound(self) -> None:
        for judge, values, expected in (
            (verdicts.at_most, [9, 1, 1], verdicts.OK),
            (verdicts.at_most, [1, 1, 2], verdicts.OK),
            (verdicts.at_most, [1, 2, 2], verdicts.MISS),
            (verdicts.at_least, [0, 1, 1], verdicts.OK),
            (verdicts.at_least, [9, 0, 0], verdicts.MISS),
        ):
            with self.subTest(judge=judge.__name__, values=values):
                self.assertEqual(judge("row", "check", values, 1.0).result, expected)

    def test_only_a_missed_bound_fails(self) -> None:
        fine = [
            verdicts.reported("row", "cost", [9.0]),
            verdicts.not_judged("row", "rate", ">= 1", "not installed"),
            verdicts.no_failures("row", [0.0, 0.0]),
        ]
        self.assertFalse(verdicts.missed(fine))
        self.assertTrue(verdicts.missed([*fine, verdicts.no_failures("row", [0.0, 1.0])]))
        self.assertIn("not installed", "\n".join(verdicts.table(fine)))


class Scripts(unittest.TestCase):
    def contenders(self) -> list[scripts.Contender]:
        servers = [server.at("/bin/program") for server in (peers.TAIPAN, *peers.PEERS)]
        servers = [server for server in servers if server.name in ("taipan", "nginx", "lighttpd", "apache2")]
        php_fpm = scripts.PHP_FPM.at("/bin/php-fpm")
        found = [scripts.by_cgi(server, scripts.HELLO) for server in servers if server.name != "nginx"]
        for server in servers:
            if server.name != "apache2":
                found += [*scripts.persistent(server, scripts.LARGE), scripts.by_php(server, php_fpm)]
        return found

    def test_fills_in_every_template_of_scripts(self) -> None:
        for contender in self.contenders():
            with self.subTest(contender=contender.name), tempfile.TemporaryDirectory() as folder:
                place = peers.Place(pathlib.Path(folder), pathlib.Path(folder) / "www", 8080)
                words = contender.server.words(place, contender.start)
                texts = [" ".join(words), *(file.read_text() for file in place.work.iterdir())]
                for text in texts:
                    lines = [one for one in text.splitlines() if not one.startswith(("#", ";"))]
                    self.assertNotRegex("\n".join(lines), "@[A-Z]+@")
                if contender.server.name == "nginx":
                    application, server = starter.split(words[5:])
                    self.assertIn(application[0], ("/bin/php-fpm", f"{place.root}/cgi-bin/64k"))
                    self.assertEqual(server[0], "/bin/program")

    def test_ends_an_application_with_its_server(self) -> None:
        """The application also has the socket as descriptor 0, which `test -S` checks."""
        program = ["sh", "-c", "test -S /dev/stdin && exec sleep 1000"]
        for server, expected in ((["sleep", "1000"], 0), (["true"], 1)):
            with self.subTest(server=server), tempfile.TemporaryDirectory() as folder:
                words = [sys.executable, "-I", str(scripts.STARTER), f"{folder}/socket", "2", *program, "--", *server]
                with subprocess.Popen(words, start_new_session=True) as command:
                    children = pathlib.Path(f"/proc/{command.pid}/task/{command.pid}/children")
                    pids: list[str] = []
                    while expected == 0 and len(pids) < 3:
                        pids = children.read_text().split()
                    command.send_signal(signal.SIGTERM if expected == 0 else 0)
                    self.assertEqual(command.wait(30), expected)
                self.assertEqual([pid for pid in pids if is_running(pid)], [])


class Guarded(unittest.TestCase):
    PROGRAM = """
import pathlib, subprocess, sys
sys.path.insert(0, {bench!r})
from lib import group
from lib.children import started, workplace
if {alone!r}:
    group.ControlGroup.make = staticmethod(lambda: None)
with workplace() as (work, guard):
    # A shell and its child, as a server and its worker.
    with started(["sh", "-c", "sleep 1000 & wait"], guard, frozenset({{0}}), work, stdout=subprocess.DEVNULL) as tree:
        while len(tree.pids()) < 2:
            pass
        print(work, *tree.pids(), flush=True)
        tree.wait(1000)
"""

    def test_leaves_nothing_running_after_any_signal(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            for alone in (False, True):
                with self.subTest(signal=number, without_groups=alone):
                    self.check(number, alone)

    def check(self, number: signal.Signals, alone: bool) -> None:
        bench = str(pathlib.Path(__file__).resolve().parent)
        words = [sys.executable, "-c", self.PROGRAM.format(bench=bench, alone=alone)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
            assert command.stdout
            work, *pids = command.stdout.readline().split()
            self.assertEqual(len(pids), 2)
            command.send_signal(number)
            try:
                command.wait(30)
            except subprocess.TimeoutExpired:
                command.kill()
                self.fail("does not end")
            give_up = time.monotonic() + 30
            while (there := self.left(work, pids)) and time.monotonic() < give_up:
                time.sleep(0.01)
            self.assertEqual(there, [])

    def left(self, work: str, pids: list[str]) -> list[str]:
        return [work for _ in [0] if os.path.exists(work)] + [pid for pid in pids if is_running(pid)]


def is_running(pid: str) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"
    return False


if __name__ == "__main__":
    unittest.main()
