"""The page: complete, self-contained, bounded, and proof against what a knowledge graph or a model may hold."""

import html
import re
import subprocess
from html.parser import HTMLParser

import pytest

from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.files import write_jsonl
from graphwalker.metrics.run_folder import rescore
from graphwalker.report.episodes import MOST_CHARACTERS, VERDICTS, printable
from graphwalker.report.page import render_report, write_report
from graphwalker.types import STATUSES, Entity, Question, Trajectory, Turn

VOID = {"meta", "input", "br", "img", "link", "hr"}


class Page(HTMLParser):
    """The tags, attributes and text of a page; balance is checked on the way."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


@pytest.fixture(scope="module")
def html_text(made_run):
    return render_report(made_run)


@pytest.fixture(scope="module")
def page(html_text):
    return Page(html_text)


def test_names_of_the_kg_stay_text(page):
    from_kg = "</script><script>document.title='owned'</script>"
    assert any(from_kg in text for text in page.text)
    assert page.tags.count("script") == 1 and page.tags.count("style") == 1
    assert not {"img", "b onerror", "iframe", "link", "object"} & set(page.tags)
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] == "style"]
    assert any("{{ 7 * 7 }}" in text for text in page.text) and not any("49 &" in text for text in page.text)


def test_nothing_is_fetched(html_text, page):
    assert all(key != "src" for _, key, _ in page.attributes)
    assert all(value.startswith("#") for _, key, value in page.attributes if key in ("href", "action", "srcset"))
    assert not re.search(r"url\(|@import|https?://|\bfetch\(|XMLHttpRequest", html_text)
    assert any("default-src 'none'" in value for tag, _, value in page.attributes if tag == "meta")


def test_all_parts_of_a_turn_are_labelled(page):
    text = " ".join(page.text)
    for label in ("Thought", "Query", "Observation", "Answer", "Written"):
        assert label in text
    assert any(value == "part thought" for _, key, value in page.attributes if key == "class")


def test_tables_curves_and_filters_are_there(page):
    text = " ".join(page.text)
    for said in ("What each stage gave", "Gain over the stage before", "Pass@k", "grpo: reward", "graphsynth: loss"):
        assert said in text
    assert "em_set over the stages" in text and "99" not in re.findall(r"graphsynth: loss.*", text)
    filters = {value for _, key, value in page.attributes if key == "data-filter"}
    assert filters == {"stage", "split", "decoding", "verdict", "structure", "errors"}


def test_the_same_run_gives_the_same_page(html_text, run_folder):
    assert render_report(run_folder) == html_text


def test_the_report_command(run_folder, tmp_path, capsys):
    assert main(["report", str(run_folder)]) == 0
    assert capsys.readouterr().out.strip() == str(run_folder / "report.html")
    assert main(["report", str(run_folder), "--out", str(tmp_path / "x" / "page.html")]) == 0
    assert (tmp_path / "x" / "page.html").read_text() == (run_folder / "report.html").read_text()
    assert main(["report", str(tmp_path / "nowhere")]) == 2


def test_a_failed_report_leaves_the_old_page(run_folder):
    old = write_report(run_folder).read_text()
    (run_folder / "stages" / "3-grpo" / "trainer_state.json").write_text("{")
    with pytest.raises(UserError, match="trainer_state.json"):
        write_report(run_folder)
    assert (run_folder / "report.html").read_text() == old
    assert [p.name for p in run_folder.iterdir() if p.name.startswith(".")] == []


def test_logs_of_a_stage_that_still_trains_come_from_its_last_checkpoint(run_folder):
    folder = run_folder / "stages" / "3-grpo"
    for step, reward in ((9, 0.1), (100, 0.9)):
        (folder / f"checkpoint-{step}").mkdir()
        log = (
            f'{{"log_history": [{{"step": 1, "reward": 0.0}}, {{"step": {step}, "reward": {reward}}}, {{"kl": NaN}}]}}'
        )
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(log)
    (folder / "trainer_state.json").unlink()
    assert "grpo: reward. reward: from 0 to 0.9" in render_report(run_folder)


def long_run(folder, episodes):
    write_jsonl(folder / "eval" / "base-test-greedy" / "trajectories.jsonl", episodes)
    rescore(folder)
    return folder


def test_every_kind_of_error_ending_and_verdict_is_shown_and_the_page_is_bounded(tmp_path):
    gold = (Entity("Paris"), Entity("Lyon"))
    plain = Turn("x" * 20_000, "t" * 20_000, "query", "q" * 20_000, "o" * 20_000)

    def episode(i, *turns, given=None, ending="budget", answers=gold):
        return Trajectory(Question(f"q{i:04d}", "?", answers=answers, structure="1-hop"), turns, given, ending)

    episodes = [episode(i, plain, given=("Paris", "Lyon"), ending="answered") for i in range(80)]
    rare = [episode(i, Turn("t", "", "query", "q", "Error: x", s)) for i, s in enumerate(STATUSES, 1000)]
    rare += [episode(2000, ending="outage"), episode(2001, ending="error"), episode(2002, answers=())]
    rare += [
        episode(2003 + i, given=g, ending="answered") for i, g in enumerate([("Paris",), ("Paris", "x"), ("x",), ()])
    ]
    text = render_report(long_run(tmp_path / "run", episodes + rare))
    shown = Page(text)
    verdicts = {value for _, key, value in shown.attributes if key == "data-verdict"}
    assert verdicts == set(VERDICTS)
    errors = {s for _, key, value in shown.attributes if key == "data-errors" for s in value.split()}
    assert errors == set(STATUSES) - {"ok"}
    assert len(text) < 2_000_000
    assert (
        f"{len(verdicts) and sum(1 for t in shown.tags if t == 'details') - 2} of {len(episodes + rare)} episodes"
        in text
    )


def test_a_run_of_nothing_but_outages_has_a_page(tmp_path):
    question = Question("q", "?", answers=(Entity("x"),))
    text = render_report(long_run(tmp_path / "run", [Trajectory(question, ending="outage")]))
    assert "1 episodes that a KG outage ended" in text and "not scored" in text


def test_printable_shows_what_does_not_show():
    assert printable("abc\u202egnp.exe\x00") == "abc⟨U+202E⟩gnp.exe⟨U+0000⟩"
    assert printable("two\nlines\tand é 東京 \ud800") == "two\nlines\tand é 東京 \ufffd"
    assert printable("x" * 5000) == "x" * MOST_CHARACTERS + f" … ({5000 - MOST_CHARACTERS:,} more characters)"


def chromium(*arguments):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--virtual-time-budget=3000", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.browser
def test_a_browser_runs_the_filters_and_no_script_of_the_graph(run_folder, tmp_path):
    url = write_report(run_folder).resolve().as_uri()
    done = chromium(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"{url}#stage=grpo&verdict=exact")
    assert done.returncode == 0, done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None and html.unescape(title[1]) == "toy · GraphWalker run"
    rows = re.findall(r'<details class="episode (\w+)"[^>]*data-stage="(\w+)"[^>]*>', done.stdout)
    hidden = [bool(re.search(r"\bhidden\b", tag)) for tag in re.findall(r'<details class="episode[^>]*>', done.stdout)]
    shown = {row for row, out in zip(rows, hidden, strict=True) if not out}
    assert shown == {("exact", "grpo")} and any(hidden)
    assert f"{hidden.count(False)} of {len(rows)}" in done.stdout


@pytest.mark.browser
def test_a_browser_runs_no_script_even_where_an_escape_is_missing(run_folder, tmp_path):
    """The content security policy is a second lock: markup that got through would still not run."""
    page = write_report(run_folder)
    attack = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("<main>", f"<main>{attack}", 1), encoding="utf-8")
    done = chromium(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.resolve().as_uri())
    assert "<title>toy · GraphWalker run</title>" in done.stdout and attack[:20] in done.stdout
