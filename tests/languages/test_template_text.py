"""What counts as a text for people in a template, and what its translation becomes."""

from __future__ import annotations

import pytest

from tornado_gate.server.console.languages.template_text import (
    Message,
    fill,
    find_messages,
    list_placeholders,
    translate_source,
)


def list_texts(source: str) -> list[str]:
    return [message.text for message in find_messages(source)]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<p>Copy it now.</p>", ["Copy it now."]),
        ("<p>\n  Copy it\n  now.\n</p>", ["Copy it now."]),
        ("<td>{{ row.name }}</td>", []),
        ("<td>12 · 13</td>", []),
        ("<p>The key “{{ key.name }}” is ready</p>", ["The key “{1}” is ready"]),
        ("<p>{% raw words.render_time(end) %} is the end</p>", ["{1} is the end"]),
        ('<p>Take a <a href="#x">snippet</a> <em>now</em>.</p>', ["Take a <1>snippet</1> <2>now</2>."]),
        ('<a href="/x">Rotate</a> <a href="/y">Revoke</a>', ["Rotate", "Revoke"]),
        ("<p>Run <code>gate check</code> first.</p>", ["Run {1} first."]),
        ("<p><code>gate check</code></p>", []),
        ("<p>{% if old %}The successor{% else %}The key{% end %}</p>", ["The successor", "The key"]),
        ('<a href="{{ x }}">{% if y %}Open</a>{% end %}', ["Open"]),
        ('<input placeholder="my laptop" name="some name">', ["my laptop"]),
        ('<button data-confirm="Revoke “{{ name }}”?">x-y</button>', ["Revoke “{1}”?", "x-y"]),
        ("{{ 'works' if n == 1 else 'work' }}", ["works", "work"]),
        ("{{ name or 'unknown' }}", ["unknown"]),
        ("{{ names.get(key.user, 'made by command') }}", ["made by command"]),
        ("{{ {None: 'default', True: 'allowed'}[value] }}", ["default", "allowed"]),
        ("{{ query['state'] }} {{ view.read('name') }}", []),
        ('{% raw form.text("name", "Name", hint="For yourself.", autocomplete="off") %}', ["Name", "For yourself."]),
        ("<script>var text = 'not for people';</script><pre>nor this</pre>", []),
        ("{# nor a comment #}<!-- nor this -->", []),
        ('<p>{% if a > b %}More{% end %}</p><p title="{{ a > b }}">Less</p>', ["More", "Less"]),
    ],
)
def test_messages_of_a_template(source: str, texts: list[str]) -> None:
    assert list_texts(source) == texts


def test_a_counted_noun_has_a_context() -> None:
    assert find_messages("<p>{{ words.count(n, 'key') }}</p>") == [Message("key", "count")]


def test_a_translation_keeps_spaces_expressions_and_tags_and_may_reorder_them() -> None:
    texts = {"Take the <1>{1}</1> of {2}": "{2} 的 <1>{1}</1>"}

    translated = translate_source(
        '<p> Take the <a href="/{{ a }}">{{ b }}</a> of {{ c }}\n</p>', lambda message: texts[message.text]
    )

    assert translated == '<p> {{ c }} 的 <a href="/{{ a }}">{{ b }}</a>\n</p>'


def test_a_constant_of_an_expression_is_replaced_in_its_place() -> None:
    texts = {"works": "können’s", "work": "tun's"}

    translated = translate_source("{{ 'works' if n == 'works' else 'work' }}", lambda message: texts[message.text])

    assert translated == """{{ 'können’s' if n == 'works' else "tun's" }}"""


def test_a_quotation_mark_of_a_translation_does_not_end_the_attribute() -> None:
    assert translate_source('<p title="Name">', lambda message: 'a"b') == '<p title="a&quot;b">'


def test_without_translations_a_template_stays_as_it_is() -> None:
    source = (
        '<p>Take a <a href="#x">snippet</a> {{ "of" if x else "with" }} it</p>{% for a in b %}<td>{{ a }}</td>{% end %}'
    )

    assert translate_source(source, lambda message: message.text) == source


def test_a_placeholder_that_the_message_lacks_is_an_error() -> None:
    with pytest.raises(IndexError):
        fill("{2}", ["{{ a }}"], [])


def test_placeholders_are_compared_without_their_order() -> None:
    assert list_placeholders("a <1>{2}</1> {1}") == list_placeholders("{1} <1>{2}</1> b")
