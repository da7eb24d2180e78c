"""What is said: plain answers, attachments, cuts, choices, thinking, usage."""

from __future__ import annotations

import orjson
import pytest

from tornado_gate.types import (
    Audio,
    Choice,
    Data,
    File,
    FileReference,
    Image,
    Link,
    Message,
    Reasoning,
    ResponseFormat,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tornado_gate_local.answer import MAX_TOKENS, count_usage, make_choices
from tornado_gate_local.conversation import compute_decoded_length
from tornado_gate_local.words import calculate, count_tokens, find_sum, split_tokens


def spoken(request, choice: int = 0) -> str:
    return "".join(part.text for part in make_choices(request, "salt")[choice].parts if isinstance(part, Text))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Say hello", "Hello"),
        ("Can you say hello in one word?", "Hello"),
        ("say 'pong'", "pong"),
        ('Say "it\'s fine".', "it's fine"),
        ("You are tested. Reply with exactly the word pong and nothing else.", "pong"),
        ("Repeat after me: One. Two.\nThree", "One. Two.\nThree"),
        ('Respond with only: {"x": 1}', '{"x": 1}'),
        ("Echo this back to me: zork", "zork"),
        ("Say 3.14 please", "3.14"),
    ],
)
def test_it_says_what_it_is_asked_to_say(chat, text, start):
    assert spoken(chat(text)).startswith(start)


@pytest.mark.parametrize(
    ("text", "result"),
    [("What is 2+2?", "4"), ("what's 7 times 6", "42"), ("2 + 3 * -4 =", "-10"), ("How much is 10 / 4?", "2.5")],
)
def test_it_answers_simple_sums(chat, text, result):
    assert result in spoken(chat(text)).replace(".", " ").replace("2 5", "2.5").split()


def test_a_division_by_zero_is_named_and_not_a_crash(chat):
    assert "divided by zero" in spoken(chat("What is 1/0?"))


@pytest.mark.parametrize(
    ("expression", "result"), [("2+2", "4"), ("0.1+0.2", "0.3"), ("8 divided by 4", "2"), ("x", None)]
)
def test_sums_come_out_as_written_by_hand(expression, result):
    assert calculate(expression) == result


def test_a_text_without_numbers_holds_no_sum():
    assert find_sum("one plus one") is None


@pytest.mark.parametrize("text", ["Who are you?", "Which model is this?", "are you a bot"])
def test_it_says_what_it_is_when_asked(chat, text):
    assert "local demonstration model" in spoken(chat(text))


def test_it_does_not_say_what_it_is_unasked_and_quotes_the_message(chat):
    said = spoken(chat("Describe the harbour at dawn."))
    assert "Describe the harbour at dawn." in said
    assert "demonstration" not in said


def test_a_long_message_is_quoted_from_its_start_only(chat):
    said = spoken(chat("Describe the harbour. " + "very " * 1000))
    assert "Describe the harbour." in said
    assert len(said) < 300


def test_the_last_user_message_is_the_one_that_counts(chat):
    messages = (
        Message(role="system", parts=(Text(text="Be brief."),)),
        Message(role="user", parts=(Text(text="Say first"),)),
        Message(role="assistant", parts=(Text(text="first"),)),
        Message(role="user", parts=(Text(text="Say second"),)),
    )
    assert spoken(chat(messages=messages)) == "second"


def test_a_request_without_words_still_gets_an_answer(chat):
    assert spoken(chat(messages=(Message(role="user", parts=()),)))


def test_a_request_with_only_a_system_message_is_answered(chat):
    assert "Be brief." in spoken(chat(messages=(Message(role="system", parts=(Text(text="Be brief."),)),)))


PIXEL = Data(media_type="image/png", base64="A" * 90 + "=" * 2)


@pytest.mark.parametrize(
    ("parts", "mention"),
    [
        ([Image(source=PIXEL)], "1 image (image/png, 67 bytes)"),
        (
            [Image(source=Link(url="https://pics.example/secret/path?key=1"))],
            "1 image (a link to pics.example, not opened)",
        ),
        ([Image(source=PIXEL), Image(source=PIXEL)], "2 images (image/png, 67 bytes; image/png, 67 bytes)"),
        ([Audio(source=Data(media_type="audio/wav", base64="AAAA"))], "1 audio clip (audio/wav, 3 bytes)"),
        ([Audio(reference="audio_1")], "1 audio clip (from an earlier turn)"),
        ([File(source=PIXEL, name="a.png")], "1 file (a.png, image/png, 67 bytes)"),
        ([File(source=FileReference(id="file-1"))], "1 file (stored as file-1, not opened)"),
        ([Image(source=Link(url="http://[broken"))], "a link to an unknown host"),
    ],
)
def test_each_attachment_is_mentioned(chat, parts, mention):
    said = spoken(chat(messages=(Message(role="user", parts=(Text(text="Look at this"), *parts)),)))
    assert mention in said
    assert "secret" not in said


def test_different_attachments_are_mentioned_together(chat):
    parts = (Image(source=PIXEL), Audio(source=Data(media_type="audio/wav", base64="AAAA")), File(source=PIXEL))
    assert "I received 1 image (" in spoken(chat(messages=(Message(role="user", parts=parts),)))
    assert " and 1 file (" in spoken(chat(messages=(Message(role="user", parts=parts),)))


def test_attachments_of_an_earlier_turn_are_not_mentioned_again(chat):
    messages = (
        Message(role="user", parts=(Image(source=PIXEL),)),
        Message(role="assistant", parts=(Text(text="Nice."),)),
        Message(role="user", parts=(Text(text="Thank you kindly"),)),
    )
    assert "image" not in spoken(chat(messages=messages))


@pytest.mark.parametrize(("base64", "length"), [("", 0), ("QQ==", 1), ("QQ", 1), ("QUI=", 2), ("QUJD", 3)])
def test_the_length_of_base64_is_that_of_its_bytes(base64, length):
    assert compute_decoded_length(base64) == length


def conversation_with_results(*results: ToolResult) -> tuple[Message, ...]:
    calls = tuple(ToolCall(id=f"call_{number}", name=f"tool_{number}", arguments="{}") for number in range(3))
    return (
        Message(role="user", parts=(Text(text="Use the tools"),)),
        Message(role="assistant", parts=calls),
        *(Message(role="tool", parts=(result,)) for result in results),
    )


def test_results_of_tools_are_in_the_answer(chat):
    results = (
        ToolResult(call_id="call_0", parts=(Text(text="18 degrees"),)),
        ToolResult(call_id="call_1", parts=(Text(text="no such city"), Image(source=PIXEL)), is_error=True),
        ToolResult(call_id="call_9", parts=(), name="named"),
    )
    said = spoken(chat(messages=conversation_with_results(*results)))
    assert "The tool tool_0 answered: 18 degrees" in said
    assert "The tool tool_1 failed with: no such city" in said
    assert "The tool named answered: (nothing)" in said
    assert "1 image" in said


def test_the_same_request_gets_the_same_answer(chat):
    assert make_choices(chat(), "salt") == make_choices(chat(), "salt")


def test_seed_and_choice_pick_other_wordings(chat):
    assert spoken(chat(seed=1)) != spoken(chat(seed=2))
    three = {spoken(chat(n=3), choice) for choice in range(3)}
    assert len(three) == 3


@pytest.mark.parametrize("most", [1, 3, 10])
def test_max_tokens_cuts_with_reason_length(chat, most):
    [choice] = make_choices(chat(max_tokens=most), "salt")
    assert choice.reason == "length"
    assert count_usage(chat(), (choice,)).output_tokens == most


def test_an_answer_that_just_fits_is_not_cut(chat):
    whole = count_usage(chat(), make_choices(chat(), "salt")).output_tokens
    [choice] = make_choices(chat(max_tokens=whole), "salt")
    assert choice.reason == "stop"


def test_an_endless_echo_is_cut(chat):
    request = chat("Repeat: " + "!?" * 30_000)
    [choice] = make_choices(request, "salt")
    assert choice.reason == "length"
    assert count_usage(request, (choice,)).output_tokens == MAX_TOKENS


def test_the_first_stop_string_ends_the_text_and_is_not_in_it(chat):
    [choice] = make_choices(chat("Repeat: one two three four", stop=("four", "three", "")), "salt")
    assert choice == Choice(parts=(Text(text="one two "),), reason="stop", stop_sequence="three")


def test_a_cut_by_length_before_the_stop_string_is_a_cut_by_length(chat):
    [choice] = make_choices(chat("Repeat: one two three four", stop=("four",), max_tokens=1), "salt")
    assert choice == Choice(parts=(Text(text="one"),), reason="length")


def test_json_object_gives_an_object_with_the_answer(chat):
    request = chat("Say pong", response_format=ResponseFormat(kind="json_object"))
    assert orjson.loads(spoken(request)) == {"answer": "pong"}


def test_json_schema_gives_exactly_the_json(chat):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    request = chat("Weather in Paris", response_format=ResponseFormat(kind="json_schema", name="place", schema=schema))
    assert orjson.loads(spoken(request)) == {"city": "Paris"}


@pytest.mark.parametrize(
    ("reasoning", "thinks"),
    [
        (None, False),
        (Reasoning(), False),
        (Reasoning(effort="none"), False),
        (Reasoning(effort="low"), True),
        (Reasoning(budget_tokens=0), False),
        (Reasoning(budget_tokens=-1), True),
        (Reasoning(enabled=False, effort="high"), False),
        (Reasoning(enabled=True), True),
    ],
)
def test_it_thinks_only_when_asked_to(chat, reasoning, thinks):
    request = chat(reasoning=reasoning)
    choices = make_choices(request, "salt")
    assert isinstance(choices[0].parts[0], Thinking) is thinks
    assert isinstance(choices[0].parts[-1], Text)
    assert (count_usage(request, choices).reasoning_tokens > 0) is thinks


def test_thinking_keeps_within_its_budget(chat):
    request = chat(reasoning=Reasoning(budget_tokens=4))
    assert count_usage(request, make_choices(request, "salt")).reasoning_tokens == 4


def test_thinking_uses_up_max_tokens_first(chat):
    [choice] = make_choices(chat(reasoning=Reasoning(effort="high"), max_tokens=2), "salt")
    assert [type(part) for part in choice.parts] == [Thinking]
    assert choice.reason == "length"


def test_usage_counts_everything_that_was_said(chat):
    request = chat("one two", n=2)
    choices = make_choices(request, "salt")
    counted = count_usage(request, choices)
    assert counted.input_tokens == 2 + 3
    assert counted.output_tokens == sum(len(split_tokens(part.text)) for choice in choices for part in choice.parts)
    assert counted.reasoning_tokens == 0


def test_usage_counts_history_attachments_and_tools(chat):
    plain = chat(messages=conversation_with_results())
    with_image = chat(messages=conversation_with_results(ToolResult(call_id="1", parts=(Image(source=PIXEL),))))
    assert count_usage(with_image, ()).input_tokens == count_usage(plain, ()).input_tokens + 3 + 85


def test_tokens_joined_are_the_text():
    text = "Hello, wörld!\n\n  indented\t12345 日本語のテキスト 👍🏽 "
    assert "".join(split_tokens(text)) == text


def test_long_texts_are_counted_by_their_length():
    assert count_tokens(["abcd" * 10_000], exact=400) == 10_000
    assert count_tokens(["abcd" * 100, "abcd" * 100], exact=400) == 200
    assert count_tokens([]) == 0
