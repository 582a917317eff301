import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.platform import ReportServer
from warpyard import report as reports
from warpyard.contract import Contract
from warpyard.report import QUEUE_MAX, Report, Reporter, check_url, merge, poster

BOUND_SECONDS = 20.0


def progress(start: int, end: int, **more: object) -> Report:
    ranges = [{"from": start, "to": end, "world_size": 4, "seconds": 1.0}]
    return {"attempt": 1, "rank": 0, "run": "r", "step": end, "world_size": 4, "ranges": ranges} | more


class Platform:
    """Answers as it is told, and remembers."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[Report] = []
        self.changed = threading.Condition()

    def __call__(self, report: Report) -> int:
        with self.changed:
            self.seen.append(dict(report))
            self.changed.notify_all()
            return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.seen) >= count, BOUND_SECONDS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReportServer]:
    server = ReportServer(tmp_path)
    yield server
    server.close()


def test_progress_that_goes_on_becomes_one_report() -> None:
    merged = merge(progress(0, 10), progress(10, 15))
    assert merged is not None and merged["step"] == 15
    assert merged["ranges"] == [{"from": 0, "to": 15, "world_size": 4, "seconds": 2.0}]


def test_saves_that_wait_become_one() -> None:
    def saved(since: int, step: int) -> Report:
        checkpoint = {"since": since, "step": step, "seconds": 1.0}
        return progress(0, 1) | {"step": step, "ranges": [], "checkpoint": checkpoint}

    merged = merge(saved(0, 4), saved(4, 9))
    assert merged is not None and merged["checkpoint"] == {"since": 0, "step": 9, "seconds": 1.0}
    merged = merge(progress(0, 4), saved(0, 4))
    assert merged is not None and merged["checkpoint"]["step"] == 4 and merged["ranges"] == progress(0, 4)["ranges"]
    merged = merge(saved(0, 4), progress(0, 6))
    assert merged is not None and merged["checkpoint"]["step"] == 4 and merged["step"] == 6
    assert merge(saved(0, 4), saved(5, 9)) is None


@pytest.mark.parametrize(
    "second",
    [progress(11, 12), progress(10, 12, attempt=2), progress(10, 12, world_size=2), progress(10, 12, loaded={})],
)
def test_other_reports_stay_apart(second: Report) -> None:
    assert merge(progress(0, 10), second) is None


def test_only_202_counts_as_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "BACKOFF_SECONDS_MAX", 0.01)
    platform = Platform(200, 500, 0, 202)
    reporter = Reporter(platform, None)
    reporter.put(progress(0, 1))
    platform.wait_for(2)
    platform.wait_for(4)
    reporter.close()
    assert [it["step"] for it in platform.seen] == [1, 1, 1, 1]


def test_a_report_that_is_refused_for_good_is_not_sent_again() -> None:
    platform = Platform(400, 202)
    reporter = Reporter(platform, None)
    reporter.put(progress(0, 1, loaded={}))
    reporter.put(progress(1, 2, loaded={}))
    platform.wait_for(2)
    reporter.close()
    assert [it["step"] for it in platform.seen] == [1, 2]


def test_what_was_not_sent_is_left_and_sent_by_the_next_attempt(tmp_path: Path) -> None:
    reporter = Reporter(Platform(0), tmp_path)
    for step in (1, 2):
        reporter.put(progress(step - 1, step, checkpoint={"step": step}))
    reporter.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report-1.json", "report-2.json"]

    again = Reporter(Platform(0), tmp_path)
    again.put(progress(2, 3, checkpoint={"step": 3}))
    again.close()
    assert len(list(tmp_path.iterdir())) == 3

    platform = Platform(202)
    last = Reporter(platform, tmp_path)
    platform.wait_for(3)
    last.close()
    assert [it["step"] for it in platform.seen] == [1, 2, 3]
    assert list(tmp_path.iterdir()) == []


def test_what_survives_is_there_though_the_process_is_killed_and_goes_when_it_was_sent(tmp_path: Path) -> None:
    Reporter(Platform(0), tmp_path).put(progress(0, 1, loaded={}), survives=True)
    assert [path.name for path in tmp_path.iterdir()] == ["report-1.json"]
    platform = Platform(202)
    again = Reporter(platform, tmp_path)
    again.put(progress(1, 2, loaded={}), survives=True)
    platform.wait_for(2)
    again.close()
    assert [it["step"] for it in platform.seen] == [1, 2]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_report_is_removed(tmp_path: Path) -> None:
    (tmp_path / "report-1.json").write_text('{"step": 1')
    (tmp_path / "report-2.json").write_text("x" * (1 << 20))
    platform = Platform(202)
    Reporter(platform, tmp_path).close()
    assert platform.seen == [] and list(tmp_path.iterdir()) == []


def test_the_queue_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    reporter = Reporter(Platform(0), tmp_path)
    for step in range(QUEUE_MAX + 50):
        reporter.put(progress(step, step + 1, checkpoint={"step": step}))
    reporter.close()
    left = [json.loads(path.read_text())["step"] for path in tmp_path.iterdir()]
    assert len(left) == QUEUE_MAX and max(left) == QUEUE_MAX + 50


def test_a_report_arrives_with_the_token_that_is_in_the_file_now(server: ReportServer) -> None:
    contract = replace(
        Contract.read({}), report_url=server.url, report_token_file=server.token_file, report_ca_file=None
    )
    post = poster(contract)
    assert post is not None
    token = server.token_file.read_text()
    server.token_file.write_text("old")
    assert post(progress(0, 1)) == 401
    server.token_file.write_text(token)
    assert post(progress(0, 1)) == 202
    assert server.reports() == [progress(0, 1)]
    server.token_file.unlink()
    assert post(progress(0, 1)) == 0


def test_a_token_goes_over_tls_or_stays_on_this_machine() -> None:
    check_url("https://warpyard.example/report")
    check_url("http://127.0.0.1:8080/report")
    for url in ("http://warpyard.example/report", "ftp://127.0.0.1/", "file:///etc/passwd"):
        with pytest.raises(ValueError, match="https"):
            check_url(url)
