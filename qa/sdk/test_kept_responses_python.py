"""What only an upstream with background responses can do: at other models a 400 that says so, by openai-python."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from qa.sdk.stateful_gateway import TRANSLATED, client_of, make_answer, serve
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(upstream_process, tmp_path_factory.mktemp("kept")) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as made:
        yield made


@pytest.mark.parametrize("model", [*TRANSLATED, "local"])
def test_a_background_response_is_refused_where_the_upstream_has_none(
    client: openai.OpenAI, upstream: Upstream, model: str
) -> None:
    with pytest.raises(openai.BadRequestError, match="set 'stream' to true") as caught:
        client.responses.create(model=model, input="Hi", background=True)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "background")
    assert upstream.requests == []


def test_a_response_that_the_gateway_keeps_is_read_but_not_streamed_again_or_cancelled(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    upstream.script(make_answer("claude", "Hello."))
    made = client.responses.create(model="claude", input="Hi")
    assert client.responses.retrieve(made.id).output_text == "Hello."
    assert client.responses.retrieve(made.id, stream=False).output_text == "Hello."
    with pytest.raises(openai.BadRequestError, match="Omit 'stream'") as caught:
        client.responses.retrieve(made.id, stream=True, starting_after=2)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "stream")
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.cancel(made.id)
    assert caught.value.code == "response_not_cancellable"
