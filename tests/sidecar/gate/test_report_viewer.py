"""The viewer in a real browser: what it shows, by keys alone, in two languages, and that no tape
makes it run or fetch anything."""

import json
import os
import re
from typing import get_args

import pytest
from built_tools import chromium
from msgspec.structs import replace
from playwright.sync_api import sync_playwright
from report_rig import EVIL, diff_report, evil_report, hostile_tape, long_tape, tape

from processors.model.verdict import CaseClass
from sidecar.evaluate.assertions.specs import SPECS
from sidecar.gate.report import exhibit
from sidecar.gate.report.exhibit import EVENTS_MAX, PAYLOAD_MAX, Exhibit, exhibited, tapes_of
from sidecar.gate.report.model import Case, report
from sidecar.gate.report.render import render
from sidecar.gate.report.trail import run_of
from sidecar.replay.diff import compare
from sidecar.tape.faults import FaultCode
from sidecar.tape.files import tape_codecs

pytestmark = pytest.mark.requirement("RPT-01")

WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  (window.refused ??= []).push(event.violatedDirective);
});
"""
INTERACTIVE = "button, select, input, summary, [tabindex='0'], a[href]"


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield started
        started.close()


class Opened:
    """A page opened from disk, and all that it asked for or said."""

    def __init__(self, context, path):
        self.page = context.new_page()
        self.asked, self.said = [], []
        self.page.add_init_script(WATCH)
        self.page.on("request", lambda one: self.asked.append(one.url))
        self.page.on("console", lambda one: self.said.append(one.text))
        self.page.on("pageerror", lambda one: self.said.append(str(one)))
        self.page.on("dialog", lambda one: (self.said.append(one.message), one.dismiss()))
        self.page.goto(path.as_uri())
        self.url = path.as_uri()

    def checked(self):
        """Nothing ran, nothing was fetched, nothing was said."""
        assert {url.partition("#")[0] for url in self.asked} == {self.url}
        assert self.said == []
        assert self.page.evaluate("[window.ran, window.refused]") == [None, None]
        assert self.page.evaluate("document.scripts.length") == 2
        assert self.page.locator("img, iframe, object, embed, a:not([href='#panel'])").count() == 0


@pytest.fixture
def opened(browser, tmp_path):
    context = browser.new_context(viewport={"width": 1300, "height": 900}, locale="en-GB")

    def open_(value, shown=None, *, context=context):
        path = tmp_path / "report.html"
        path.write_text(render(value, "html", shown=shown or Exhibit()))
        return Opened(context, path)

    yield open_
    context.close()


def of_diff(tmp_path, **more):
    one, two, found, value = diff_report(tmp_path, **more)
    return value, tapes_of((one, two), found)


def of_tape(one, *cases):
    value = report(
        command="tape assert", title="t", outcome="fail", exit_code=1, cases=cases,
        runs=(run_of("a.tape", one),),
    )  # fmt: skip
    return value, tapes_of([one])


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.textContent")


def test_a_page_is_one_file_without_reference(tmp_path):
    text = render(*_positional(of_diff(tmp_path)))
    head = text.partition("</head>")[0]
    assert "default-src 'none'" in head and head.count("'sha256-") == 2
    assert not re.search(r"""<(link|img|iframe)\b|\b(src|href)=|@import|url\(""", head)
    assert "unsafe" not in head


def _positional(made):
    value, shown = made
    page = render(value, "html", shown=shown)
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["report"]["schema"] == "report/1.0.0"
    return value, "html"


def test_no_text_of_a_tape_ends_the_block_of_data(tmp_path):
    one = hostile_tape(tmp_path / "evil.tape")
    page = render(evil_report(), "html", shown=tapes_of([one]))
    data = page.partition('id="data">')[2]
    assert "<" not in data.partition("</script>")[0]
    assert page.count("<script") == 2 and page.count("</script") == 2
    value = json.loads(data.partition("</script>")[0])
    assert any(EVIL in payload[1] or "window.ran" in payload[1] for payload in value["payloads"])


def test_nothing_of_a_hostile_tape_runs_or_is_fetched(opened, tmp_path):
    one, two = hostile_tape(tmp_path / "e.tape"), hostile_tape(tmp_path / "f.tape", amount=2)
    found = compare(one, two, tape_codecs(one))
    value = replace(evil_report(), runs=(run_of(EVIL, one, EVIL), run_of(EVIL, two, EVIL)))
    seen = opened(value, tapes_of((one, two), found))
    page = seen.page
    for language in range(2):
        page.click("#tab-findings")
        for summary in page.locator("summary").all():
            summary.click()
        page.locator("button.link").first.click()
        assert page.locator("#tab-timeline[aria-selected=true]").count() == 1
        for key in ("Home", "ArrowDown", "ArrowDown", "End"):
            page.locator("#events").press(key)
        page.fill("#search", "<script>")
        page.click("#tab-beside")
        page.locator("#rows").press("End")
        assert "window.ran" in page.locator("#detail").inner_text()
        page.click("#language")
        assert page.evaluate("document.documentElement.lang") == ("zh-Hans", "en")[language]
    assert "\u202e" not in page.inner_text("body") and "\\u202e" in page.inner_text("body")
    seen.checked()


def test_the_policy_would_stop_what_got_in(opened, tmp_path):
    seen = opened(*of_diff(tmp_path))
    add = "document.body.append(Object.assign(document.createElement('script'), {text: 'ran = 1'}))"
    for source in (add, "document.body.innerHTML = '<img src=x onerror=ran=1>'"):
        assert "TrustedScript" in seen.page.evaluate(
            "(source) => { try { (0, eval)(source); return ''; } catch (e) { return String(e); } }",
            source,
        ) or seen.page.evaluate("window.refused.length > 0")
    asked = "fetch('http://127.0.0.1:9/').then(() => 'got', () => 'refused')"
    assert seen.page.evaluate(asked) == "refused"
    assert seen.page.evaluate("typeof ran") == "undefined"
    assert "connect-src" in seen.page.evaluate("window.refused.join()")


def test_a_finding_leads_to_the_event_that_offends(opened, tmp_path):
    seen = opened(*of_diff(tmp_path))
    seen.page.click("text=Go to event 6")
    assert seen.page.locator("#events [aria-selected=true]").get_attribute("data-place") == "6"
    assert focused(seen.page) == "events"
    assert '"amount": 2' in seen.page.locator("#detail").inner_text()
    seen.page.click("#tab-beside")
    assert "/amount" in seen.page.locator("#detail table").inner_text()
    seen.checked()


@pytest.mark.full
def test_the_language_is_remembered_and_a_browser_that_keeps_nothing_is_no_fault(
    opened, browser, tmp_path
):
    seen = opened(*of_diff(tmp_path))
    seen.page.click("#language")
    assert seen.page.inner_text("#tab-timeline") == "时间线"
    seen.page.reload()
    assert seen.page.inner_text("#tab-timeline") == "时间线"
    assert seen.page.evaluate("document.documentElement.lang") == "zh-Hans"
    (tmp_path / "x").mkdir()
    context = browser.new_context(locale="zh-CN")
    context.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied'); }})"
    )
    again = opened(*of_diff(tmp_path / "x"), context=context)
    assert again.page.inner_text("#tab-findings") == "结论"
    again.page.click("#language")
    assert again.page.inner_text("#tab-findings") == "Findings"
    again.checked()
    context.close()


def test_everything_can_be_reached_and_done_by_keys(opened, tmp_path):
    seen = opened(*of_diff(tmp_path))
    page, order = seen.page, []
    for _ in range(4):
        page.keyboard.press("Tab")
        order.append(focused(page))
    assert order == ["Skip to the content", "language", "theme", "tab-findings"]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    assert focused(page) == "tab-timeline"
    page.keyboard.press("/")
    assert focused(page) == "search"
    page.keyboard.type("#7")
    page.keyboard.press("Enter")
    assert focused(page) == "events"
    assert page.locator("[role=status]").inner_text() == "1 of 13 events shown"
    page.keyboard.press("Enter")
    assert focused(page) == "detail" and "#7 pay" in page.locator("#detail").inner_text()
    page.keyboard.press("Escape")
    assert focused(page) == "events"
    page.fill("#search", "")
    page.focus(".lanes button")
    page.keyboard.press("Enter")
    assert focused(page) == "a" and page.locator(".lanes button[aria-pressed=true]").count() == 1
    page.keyboard.press("Enter")
    assert page.locator(".lanes button[aria-pressed=true]").count() == 0
    page.focus("#clear")
    page.keyboard.press("Enter")
    assert focused(page) == "clear"
    page.focus("#tab-timeline")
    page.keyboard.press("End")
    page.keyboard.press("n")
    assert focused(page) in ("tab-beside", "rows")
    seen.checked()


@pytest.mark.full
def test_every_control_has_a_name_and_lists_say_where_one_is(opened, tmp_path):
    seen = opened(*of_diff(tmp_path))
    page = seen.page
    for tab in ("findings", "timeline", "beside"):
        page.click(f"#tab-{tab}")
        nameless = page.evaluate(
            """(which) => [...document.querySelectorAll(which)].filter((one) => !(
                one.getAttribute("aria-label") || one.textContent.trim()
                || (one.labels && [...one.labels].some((label) => label.textContent.trim()))
            )).map((one) => one.outerHTML)""",
            INTERACTIVE,
        )
        assert nameless == []
        assert page.locator("[role=tabpanel]").get_attribute("aria-labelledby") == f"tab-{tab}"
        assert page.locator("[role=tab][tabindex='0']").count() == 1
    page.click("#tab-timeline")
    page.locator("#events").press("Home")
    active = page.locator("#events").get_attribute("aria-activedescendant")
    option = page.locator(f"#{active}")
    assert option.get_attribute("role") == "option"
    assert (option.get_attribute("aria-posinset"), option.get_attribute("aria-setsize")) == (
        "1",
        "13",
    )
    assert option.get_attribute("aria-label") == "#0, a, tool_call, pay, unset"
    heads = page.evaluate("[...document.querySelectorAll('th')].every((one) => one.scope)")
    assert heads and page.locator("h1").count() == 1


@pytest.mark.full
def test_twenty_thousand_events_are_a_list_of_which_some_rows_are_there(opened, tmp_path):
    one = long_tape(tape(tmp_path / "a.tape"), 20_000)
    seen = opened(*of_tape(one, Case(id="c", status="fail", run=0, seq=15_000)))
    page = seen.page
    page.click("text=Go to event 15000")
    rows = page.locator("#events [role=option]")
    assert rows.count() < 100
    assert page.locator("#events [aria-selected=true]").get_attribute("aria-posinset") == "15001"
    took = page.evaluate(
        """() => { const list = document.getElementById("events"), start = performance.now();
          for (let n = 0; n < 200; n++)
            list.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}));
          return performance.now() - start; }"""
    )
    assert page.locator("#events [aria-selected=true]").get_attribute("aria-posinset") == "15201"
    assert took < 30_000, f"200 steps took {took} ms"
    page.locator("#events").press("End")
    assert page.locator("#events [aria-selected=true]").get_attribute("aria-posinset") == "20000"
    seen.checked()


def test_what_is_too_much_for_the_file_is_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(exhibit, "EVENTS_MAX", 50)
    monkeypatch.setattr(exhibit, "ALL_EVENTS_MAX", 120)
    one = tape(tmp_path / "a.tape", label="y" * (PAYLOAD_MAX + 5))
    value, shown = of_tape(long_tape(one, 57))
    found = exhibited(value, shown)
    assert len(found["tapes"][0]["events"]) == 50
    assert found["tapes"][0]["left_out"] == 7
    several = replace(value, runs=value.runs * 4)
    many = exhibited(several, tapes_of(shown.tapes * 4))["tapes"]
    assert [one["left_out"] for one in many] == [7, 7, 37, 57]
    whole = exhibited(*of_tape(one))
    assert max(payload[2] for payload in whole["payloads"]) > 0
    assert max(len(payload[1]) for payload in whole["payloads"]) == PAYLOAD_MAX
    digests = [payload[0] for payload in whole["payloads"]]
    assert len(digests) == len(set(digests))


@pytest.mark.full
def test_the_largest_page_there_can_be_opens(opened, tmp_path):
    one = long_tape(tape(tmp_path / "a.tape"), 1_000_000)
    seen = opened(*of_tape(one))
    assert seen.page.locator(".note").inner_text().startswith(f"{1_000_000 - EVENTS_MAX} events")
    seen.page.locator("#events").press("End")
    position = seen.page.locator("#events [aria-selected=true]").get_attribute("aria-posinset")
    assert position == str(EVENTS_MAX)
    seen.checked()


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(opened, tmp_path, scheme):
    seen = opened(*of_diff(tmp_path))
    seen.page.emulate_media(color_scheme=scheme)
    for tab in ("findings", "timeline", "beside"):
        seen.page.click(f"#tab-{tab}")
        weak = seen.page.evaluate(
            """() => { const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
              const light = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255;
                return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
              const behind = (one) => { for (let at = one; at; at = at.parentElement) {
                const c = getComputedStyle(at).backgroundColor;
                if (rgb(c).length < 4 || rgb(c)[3] > 0) return c; } return "rgb(255,255,255)"; };
              return [...document.querySelectorAll("#app *")].filter((one) =>
                [...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())
                && one.checkVisibility() && !one.closest(".consequence, option"))
                .map((one) => {
                  const a = light(getComputedStyle(one).color), b = light(behind(one));
                  return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.outerHTML]; })
                .filter(([ratio]) => ratio < 4.5); }"""
        )
        assert weak == []


@pytest.mark.full
def test_it_prints_what_a_list_on_screen_would_hide(opened, tmp_path):
    seen = opened(*of_diff(tmp_path))
    seen.page.click("#tab-timeline")
    assert seen.page.pdf().startswith(b"%PDF")
    assert seen.page.locator("#paper").count() == 0
    seen.page.emulate_media(media="print")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("#paper").is_visible() and not seen.page.locator("#app").is_visible()
    assert seen.page.locator("#paper tbody tr").count() > 13
    seen.checked()


@pytest.mark.full
def test_a_page_opens_where_a_link_points_and_narrow_screens_do_not_scroll_sideways(
    opened, tmp_path
):
    seen = opened(*of_diff(tmp_path))
    seen.page.goto(seen.url + "#tape=1&seq=4")
    seen.page.reload()
    assert "#4 pay" in seen.page.locator("#detail").inner_text()
    seen.page.set_viewport_size({"width": 380, "height": 700})
    for tab in ("findings", "timeline", "beside"):
        seen.page.click(f"#tab-{tab}")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.full
def test_the_words_of_both_languages_are_the_same(opened, tmp_path):
    seen = opened(*of_diff(tmp_path))
    script = seen.page.evaluate("document.scripts[1].text")
    keys = [re.findall(r"(\w+): \"", part) for part in re.split(r"\n  zh: \{", script, maxsplit=1)]
    english = keys[0]
    chinese = keys[1][: len(english)]
    assert english == chinese and len(english) > 80


@pytest.mark.full
def test_without_scripts_the_report_stands_there_as_text(browser, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    path = tmp_path / "report.html"
    path.write_text(render(diff_report(tmp_path)[3], "html"))
    page = context.new_page()
    page.goto(path.as_uri())
    assert "first divergence: agent a, input_changed (ARGS)" in page.inner_text("noscript")
    context.close()


def test_every_rule_is_told_in_both_languages(opened):
    rules = [
        *SPECS, *get_args(CaseClass), "readable", "diff/changed", "comparable/codec",
        "replay/prompt", *(f"tape/{code}" for code in get_args(FaultCode)),
    ]  # fmt: skip
    cases = tuple(Case(id=f"c{n}", rule=rule, status="fail") for n, rule in enumerate(rules))
    cases += (Case(id="own", rule="of/somebody", status="fail"), Case(id="ok", status="pass"))
    value = report(command="tape assert", title="t", outcome="fail", exit_code=1, cases=cases)
    seen = opened(value)
    english = seen.page.locator("p.rule").all_text_contents()
    assert len(english) == len(rules)
    seen.page.click("#language")
    chinese = seen.page.locator("p.rule").all_text_contents()
    assert len(chinese) == len(rules)
    assert all(re.search("[\u4e00-\u9fff]", text) for text in chinese)
    assert not any(re.search("[\u4e00-\u9fff]", text) for text in english)
    seen.checked()
