"""The playground in a browser, with the embedded models."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from qa.browser.pictures import PICTURE
from tests.support.browser import Console, check_accessibility

HOSTILE = """<img src=x onerror="alert(1)"><script>alert(2)</script>'"`${3}</p>"""


@pytest.fixture
def page(console: Console) -> Page:
    """The playground of the first account."""
    opened = console.open_as_first("/console/playground")
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.get_by_role("tab", name="Chat").wait_for()
    return opened


def chat(page: Page, text: str) -> Locator:
    """Send a message; returns the element of the last answer, which is complete."""
    answers = page.get_by_role("article", name="Answer")
    before = answers.count()
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answers).to_have_count(before + 1)
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    return answers.last


def read_fact(page: Page, label: str) -> str:
    """A figure of the report of the visible panel."""
    return (
        page.locator("[role=tabpanel]:visible dt", has_text=re.compile(f"^{re.escape(label)}$"))
        .locator("+ dd")
        .inner_text()
    )


def read_program(page: Page, language: str) -> str:
    """The program that the button Copy puts into the clipboard."""
    panel = page.locator("[role=tabpanel]:visible")
    if not panel.get_by_role("combobox", name="Language").is_visible():
        panel.get_by_text("As a program").click()
    panel.get_by_role("combobox", name="Language").select_option(language)
    panel.get_by_role("button", name=re.compile("Copy|Copied")).click()
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


@contextmanager
def catch_key(page: Page) -> Iterator[list[str]]:
    """Collect the keys of the requests that the page sends to the API."""
    found: list[str] = []
    page.on("request", lambda sent: found.append(sent.headers.get("authorization", "").removeprefix("Bearer ")))
    yield found


def run_program(arguments: list[str], text: str, key: str, folder: Path) -> str:
    finished = subprocess.run(
        arguments,
        input=text,
        env={**os.environ, "GATE_API_KEY": key},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.representative
def test_an_answer_is_streamed_and_measured(page: Page) -> None:
    page.get_by_role("textbox", name="More parameters").fill('{"reasoning_effort": "high"}')
    answer = chat(page, "say apples and pears")
    expect(answer.locator(".answer")).to_have_text("apples and pears")
    answer.get_by_text("Reasoning").click()
    expect(answer.locator(".reasoning p")).to_contain_text("The user wrote")
    expect(page.get_by_role("log", name="Answer")).to_have_text("apples and pears")
    assert read_fact(page, "Status") == "200"
    assert read_fact(page, "Provider") == "local"
    assert int(read_fact(page, "Output tokens")) > 0
    assert re.fullmatch(r"\d+\.\d\d s", read_fact(page, "First token"))
    assert re.fullmatch(r"\d+\.\d\d s", read_fact(page, "Total time"))
    assert read_fact(page, "Request id").startswith("req_")
    check_accessibility(page)


def test_the_raw_view_shows_the_request_and_each_event(page: Page) -> None:
    page.get_by_role("textbox", name="System text").fill("Be brief.")
    page.get_by_role("spinbutton", name="Maximum tokens").fill("50")
    chat(page, "say one two")
    chat(page, "say three")
    page.get_by_text("Request and answer").first.click()
    head, _, body = page.get_by_role("region", name="Request").inner_text().partition("\n\n")
    assert head == "POST /v1/chat/completions"
    sent = json.loads(body)
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert (sent["messages"][2]["content"], sent["max_tokens"]) == ("one two", 50)
    answer = page.get_by_role("region", name="Answer", exact=True)
    for text in ("x-gate-provider: local", '"object": "chat.completion.chunk"', "[DONE]"):
        expect(answer).to_contain_text(text)


def test_a_tool_call_is_answered_by_hand(page: Page) -> None:
    page.get_by_role("button", name="Insert an example").click()
    answer = chat(page, "get the weather in Berlin")
    expect(answer.get_by_role("region", name="Arguments of get_weather")).to_contain_text("Berlin")
    check_accessibility(page)
    page.get_by_role("textbox", name="Result of get_weather").fill("12 degrees, rain")
    page.get_by_role("button", name="Send result").click()
    expect(page.get_by_role("article", name="Answer").last.locator(".answer")).to_contain_text("12 degrees, rain")


def test_an_answer_that_is_not_streamed_is_shown(page: Page, tmp_path: Path) -> None:
    page.get_by_role("textbox", name="More parameters").fill('{"stream": false}')
    page.get_by_role("button", name="Insert an example").click()
    with catch_key(page) as keys:
        answer = chat(page, "get the weather in Berlin")
    expect(answer.get_by_role("region", name="Arguments of get_weather")).to_contain_text("Berlin")
    printed = run_program([sys.executable, "-"], read_program(page, "Python"), keys[-1], tmp_path)
    assert json.loads(printed)["tool_calls"][0]["function"]["name"] == "get_weather"


def test_wrong_json_is_explained_and_nothing_is_lost(page: Page) -> None:
    page.get_by_role("textbox", name="Tools").fill("[{")
    page.get_by_role("textbox", name="Message").fill("say it")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("“Tools (JSON)” is not valid JSON")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("say it")
    page.get_by_role("textbox", name="Tools").fill("")
    expect(chat(page, "say it").locator(".answer")).to_have_text("it")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_an_error_of_the_gateway_is_shown_in_words_with_its_body(console: Console, page: Page) -> None:
    console.faults.expect("status of 400")
    page.get_by_role("textbox", name="More parameters").fill('{"top_p": 7}')
    page.get_by_role("textbox", name="Message").fill("say it")
    page.get_by_role("button", name="Send", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The request is not valid (400). 'top_p'")
    alert.get_by_text("Body of the answer").click()
    expect(alert.locator("pre")).to_contain_text('"param": "top_p"')


def test_stop_keeps_what_came(page: Page) -> None:
    """`slow-chat` would need 15 s for the answer."""
    page.get_by_role("combobox", name="Model").select_option("slow-chat")
    page.get_by_role("textbox", name="Message").fill("say " + "word " * 300)
    page.get_by_role("button", name="Send", exact=True).click()
    answer = page.get_by_role("article", name="Answer")
    expect(answer.locator(".answer")).to_contain_text("word word")
    page.get_by_role("button", name="Stop").click()
    expect(answer).to_contain_text("Stopped.")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    assert len(answer.locator(".answer").inner_text()) < 1400


def test_hostile_text_stays_text(page: Page) -> None:
    answer = chat(page, f"say {HOSTILE}")
    expect(answer.locator(".answer")).to_have_text(HOSTILE)
    assert page.locator("#chat-log img, #chat-log script").count() == 0
    page.get_by_role("combobox", name="Model").select_option("<b>'&amp;model")
    expect(chat(page, "say a").get_by_role("heading")).to_have_text("<b>'&amp;model")


def test_a_picture_is_attached(page: Page) -> None:
    page.locator("#chat-images").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": PICTURE})
    expect(chat(page, "What is this?").locator(".answer")).to_contain_text("1 image (image/png")
    sent = page.get_by_role("article", name="You").get_by_role("img", name="Attached image")
    assert sent.evaluate("image => image.naturalWidth") == 1


def test_copied_programs_do_the_same(page: Page, tmp_path: Path) -> None:
    """They run with the page's own key, which is as any other."""
    page.get_by_role("spinbutton", name="Temperature").fill("0.5")
    with catch_key(page) as keys:
        answer = chat(page, 'say it\'s "quoted" $HOME `date` \\n \\ JSON').locator(".answer")
    expected = answer.inner_text().replace("date", "`date`")  # shown as code
    streamed = run_program(["sh"], read_program(page, "curl"), keys[-1], tmp_path)
    chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    said = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert said == expected
    assert run_program([sys.executable, "-"], read_program(page, "Python"), keys[-1], tmp_path).strip() == expected
    assert "process.env.GATE_API_KEY" in read_program(page, "JavaScript")


def test_images_are_shown_and_downloaded(page: Page) -> None:
    page.get_by_role("tab", name="Images").click()
    page.get_by_role("combobox", name="Model").select_option("local-image-3")
    page.get_by_role("textbox", name="Prompt").fill("a red boat")
    page.get_by_role("combobox", name="Size").fill("1024x1536")
    page.get_by_role("spinbutton", name="Number").fill("2")
    page.get_by_role("combobox", name="Background").select_option("transparent")
    page.get_by_role("combobox", name="Output format").select_option("webp")
    page.get_by_role("button", name="Send").click()
    images = page.get_by_role("img", name="a red boat")
    expect(images).to_have_count(2)
    sizes = images.evaluate_all("all => all.map((one) => [one.naturalWidth, one.naturalHeight])")
    assert sizes == [[1024, 1536]] * 2
    with page.expect_download() as caught:
        page.get_by_role("link", name="Download").first.click()
    assert caught.value.suggested_filename == "image-1.webp"
    assert Path(caught.value.path()).read_bytes()[8:12] == b"WEBP"
    assert int(read_fact(page, "Output tokens")) > 0
    check_accessibility(page)


def test_images_that_are_being_made_show_it(page: Page) -> None:
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/v1/images/generations", hold)
    page.get_by_role("tab", name="Images").click()
    page.get_by_role("textbox", name="Prompt").fill("a slow boat")
    page.get_by_role("button", name="Send").click()
    work = page.get_by_role("progressbar", name="Work")
    expect(work).to_be_visible()
    check_accessibility(page)
    waiting[0].continue_()
    expect(page.get_by_role("img", name="a slow boat")).to_be_visible()
    expect(work).to_have_count(0)


def test_a_video_without_known_facts_is_ready_in_plain_words(page: Page) -> None:
    state = {"id": "video_x", "status": "completed", "progress": 100, "seconds": "", "size": "", "urls": ["/no.mp4"]}
    page.route("**/v1/videos", lambda route: route.fulfill(json=state))
    page.route("**/no.mp4", lambda route: route.fulfill(body=b"", content_type="video/mp4"))
    page.get_by_role("tab", name="Video").click()
    page.get_by_role("textbox", name="Prompt").fill("a boat")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#videos-status")).to_have_text("The video is ready.")


def test_images_within_the_answer_are_shown(page: Page) -> None:
    page.get_by_role("tab", name="Images").click()
    page.get_by_role("textbox", name="Prompt").fill("a tree")
    page.get_by_role("combobox", name="Size").fill("256x256")
    page.get_by_role("textbox", name="More parameters").fill('{"response_format": "b64_json"}')
    page.get_by_role("button", name="Send").click()
    image = page.get_by_role("img", name="a tree")
    assert image.evaluate("image => [image.src.slice(0, 11), image.naturalWidth]") == ["data:image/", 256]


@pytest.mark.parametrize("sound_format", ["wav", "opus"])
def test_speech_is_played(page: Page, sound_format: str) -> None:
    page.get_by_role("tab", name="Speech").click()
    page.get_by_role("textbox", name="Text", exact=True).fill("Good morning to you all.")
    page.get_by_role("combobox", name="Format").select_option(sound_format)
    page.get_by_role("button", name="Send").click()
    player = page.locator("audio")
    seconds = player.evaluate(
        """player => new Promise((resolve, reject) => {
          player.onerror = () => reject(new Error(player.error.message));
          player.onended = () => resolve(player.currentTime);
          player.playbackRate = 8;
          player.play().catch(reject);
        })"""
    )
    assert 0.5 < seconds < 10
    with page.expect_download() as caught:
        page.get_by_role("link", name="Download").click()
    assert caught.value.suggested_filename == f"speech.{sound_format}"
    check_accessibility(page)


def test_a_video_shows_its_progress_then_a_player(page: Page, tmp_path: Path) -> None:
    """The browser of the tests may have no decoder of H.264, so the bytes it fetched are decoded here."""
    page.get_by_role("tab", name="Video").click()
    page.get_by_role("textbox", name="Prompt").fill("a red boat")
    page.get_by_role("spinbutton", name="Seconds").fill("2")
    page.get_by_role("combobox", name="Size").fill("640x360")
    with page.expect_response(lambda answer: answer.url.partition("?")[0].endswith(".mp4")) as fetched:
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("progressbar", name="Progress of the video")).to_be_visible()
    assert fetched.value.status == 206
    expect(page.locator("#videos-status")).to_have_text("The video is ready: 2 s, 640x360.")
    with page.expect_download() as caught:
        page.get_by_role("link", name="Download").click()
    caught.value.save_as(tmp_path / "video.mp4")
    with av.open(tmp_path / "video.mp4") as video:
        frames = list(video.decode(video=0))
    assert (frames[0].width, frames[0].height) == (640, 360)
    assert float(frames[-1].time or 0) > 1.5
    check_accessibility(page)


def test_a_video_task_is_cancelled(page: Page) -> None:
    page.get_by_role("tab", name="Video").click()
    page.get_by_role("textbox", name="Prompt").fill("a red boat")
    page.get_by_role("spinbutton", name="Seconds").fill("60")
    with page.expect_response("**/v1/videos") as created:
        page.get_by_role("button", name="Send").click()
    identity = created.value.json()["id"]
    expect(page.locator("#videos-status")).to_contain_text("%")
    with page.expect_response(f"**/v1/videos/{identity}"):
        page.get_by_role("button", name="Cancel the task").click()
        expect(page.locator("#videos-result")).to_have_text("The task is cancelled.")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()


def test_a_realtime_session_is_written(page: Page) -> None:
    page.get_by_role("tab", name="Realtime").click()
    page.get_by_role("combobox", name="Answers").select_option("text")
    with page.expect_websocket() as caught:
        page.get_by_role("textbox", name="Write to the model").fill("say apples and pears")
        page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("article", name="Answer")).to_contain_text("apples and pears")
    expect(page.locator("#realtime-state")).to_contain_text("output tokens")
    check_accessibility(page)
    with caught.value.expect_event("close"):
        page.get_by_role("button", name="End the session").click()
    expect(page.locator("#realtime-state")).to_have_text("The session has ended.")


def is_loud(frame: str) -> bool:
    """Whether a message has a piece of audio that is not silent."""
    audio = base64.b64decode(json.loads(frame).get("audio", ""))
    samples = array("h", audio)
    return len(samples) == 2400 and max(map(abs, samples)) > 3000


def test_a_realtime_session_is_spoken(page: Page) -> None:
    """The browser's own microphone beeps; the model says what it heard."""
    page.get_by_role("tab", name="Realtime").click()
    page.get_by_role("combobox", name="End of your turn").select_option("none")
    with page.expect_websocket() as caught:
        page.get_by_role("button", name="Start a session").click()
    expect(page.locator("#realtime-state")).to_have_text("The session is open.")
    with caught.value.expect_event("framesent", is_loud):
        page.get_by_role("button", name="Start the microphone").click()
    page.get_by_role("button", name="Stop the microphone").click()
    answer = page.get_by_role("article", name="Answer")
    expect(answer).to_contain_text(re.compile(r"I heard \d+\.\d seconds of sound at -\d+ dB, which is (clear|loud)"))
    expect(page.locator("#realtime-log")).to_have_attribute("data-seconds", re.compile(r"^[1-9]"))
    check_accessibility(page)


def test_a_session_that_the_gateway_refuses_is_explained(console: Console, page: Page) -> None:
    console.faults.expect("status of 400")
    page.get_by_role("tab", name="Realtime").click()
    page.locator("#realtime-model option").first.evaluate("option => { option.value = 'local-chat'; }")
    page.get_by_role("button", name="Start a session").click()
    expect(page.get_by_role("alert")).to_contain_text("The model 'local-chat' ")
    expect(page.get_by_role("button", name="Start a session")).to_be_enabled()


def replace_key(page: Page, key: str) -> None:
    """Make another key for the session, as another window does, and wait until `key`, that of the page, is refused."""
    page.evaluate(
        """async (key) => {
          const headers = { "X-Xsrftoken": document.body.dataset.xsrf };
          await fetch("/console/playground/key", { method: "POST", headers });
          const old = { Authorization: `Bearer ${key}` };
          const isRefused = async () => (await fetch("/v1/models", { headers: old })).status === 401;
          while (!(await isRefused())) await new Promise((resolve) => setTimeout(resolve, 50));
        }""",
        key,
    )


def test_a_revoked_key_is_replaced_and_the_request_sent_again(console: Console, page: Page) -> None:
    console.faults.expect("status of 401")
    with catch_key(page) as keys:
        chat(page, "say apples")
    replace_key(page, keys[-1])
    expect(chat(page, "say pears").locator(".answer")).to_have_text("pears")
    expect(page.get_by_role("status")).to_contain_text("was revoked or had expired. A new key was made")


def test_the_end_of_the_session_is_explained(console: Console, page: Page) -> None:
    console.faults.expect("status of 401")
    with catch_key(page) as keys:
        chat(page, "say apples")
    replace_key(page, keys[-1])
    page.context.clear_cookies(name="gate_session")
    page.get_by_role("textbox", name="Message").fill("say pears")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended.")
    expect(page.get_by_role("link", name="Sign in")).to_have_attribute(
        "href", "/console/login?next=%2Fconsole%2Fplayground"
    )
    expect(page.get_by_role("textbox", name="Message")).to_have_value("say pears")


def test_the_key_is_in_memory_only(page: Page) -> None:
    with catch_key(page) as keys:
        chat(page, "say apples")
    key = next(key for key in keys if key)
    page.get_by_text("Request and answer").first.click()
    page.get_by_text("As a program").first.click()
    held = page.evaluate(
        "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, history.state, location.href])"
    )
    cookies = json.dumps(page.context.cookies())
    for place in (held, cookies, page.content()):
        assert key not in place


def test_everything_works_by_keyboard_on_a_phone_in_the_dark(console: Console) -> None:
    page = console.open_as_first("/console/playground", width=360, height=740, dark=True)
    page.get_by_role("tab", name="Chat").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Images")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Images")).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_role("tabpanel", name="Realtime")).to_be_visible()
    check_accessibility(page)
    page.keyboard.press("ArrowRight")
    for _ in range(3):  # the settings, which are closed on a phone, the conversation, the message
        page.keyboard.press("Tab")
    page.keyboard.type("say apples and pears")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="Answer").locator(".answer")).to_have_text("apples and pears")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    check_accessibility(page)


def test_a_tab_loads_its_script_when_it_is_opened(console: Console) -> None:
    page = console.open_as_first("/console/playground")
    names = "performance.getEntriesByType('resource').map((one) => one.name.split('/').pop())"
    page.get_by_role("textbox", name="Message").wait_for()
    assert "playground_media.js" not in page.evaluate(names)
    page.get_by_role("tab", name="Images").click()
    expect(page.locator("#panel-images")).not_to_have_attribute("inert", "")
    assert "playground_media.js" in page.evaluate(names)


def test_a_tab_whose_script_cannot_be_loaded_says_so(console: Console) -> None:
    console.faults.expect("playground_videos.js|ERR_FAILED")
    page = console.open_as_first("/console/playground")
    page.route("**/playground_videos.js", lambda route: route.abort())
    page.get_by_role("tab", name="Video").click()
    expect(page.get_by_role("status").filter(has_text="cannot be loaded")).to_be_visible()
    assert page.locator("#panel-videos").get_attribute("inert") is not None


def test_an_address_chooses_the_model(console: Console) -> None:
    page = console.open_as_first("/console/playground?model=local-image-2")
    expect(page.get_by_role("tab", name="Images")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("combobox", name="Model")).to_have_value("local-image-2")
    expect(page.get_by_role("combobox", name="Style")).to_be_visible()
