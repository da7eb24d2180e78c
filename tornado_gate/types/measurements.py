"""The measurements of a request, in one class for each writer. They never contain content.

The reader of the upstream's response writes `Meter`. The pipeline writes `Progress`. Admission and the ledger write `Charge`.
Only their methods change them. One exception: a loop over the chunks of a stream counts them directly in a `Meter`.
"""

from __future__ import annotations

from collections.abc import Callable

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.types.bounds import Reservations
from tornado_gate.types.quantities import Quantities
from tornado_gate.types.results import Usage
from tornado_gate.types.target import NO_TARGET, Target
from tornado_gate.types.value import State


class Meter(State):
    """The reported usage and the output of the upstream's response so far. On the verbatim lane formats record them, on the
    common lane the core does.

    `usage` and `finish_reason` are the latest values of the response. `images` is the number of generated images, `seconds` the
    duration of video or sound, `characters` the length of text for speech. `size` and `quality` describe images or video.
    `service_tier` is the tier in which the upstream served the request. `web_searches` is the number of the upstream's web
    searches that its usage does not count. `late_error` is an error that ended the response after its first event.

    `measures_text`: `produced_bytes` and `produced_frames` count the output. On the common lane they count characters of text and
    their events. On the verbatim lane they count bytes and their frames; about `frame_bytes` of each frame are no text. The
    counts serve to estimate the usage of a response that ends without usage (`ledger/estimates.py`). `estimate_rest` returns the
    usage of a realtime session since its upstream's last report.
    """

    usage: Usage | None = None
    finish_reason: str = ""
    images: int = 0
    seconds: float = 0.0
    characters: int = 0
    size: str = ""
    quality: str = ""
    service_tier: str = ""
    web_searches: int = 0
    late_error: GateError | None = None
    measures_text: bool = False
    produced_bytes: int = 0
    produced_frames: int = 0
    frame_bytes: int = 0
    estimate_rest: Callable[[], Usage] | None = None

    hidden_fields = frozenset({"estimate_rest"})

    def record_usage(self, usage: Usage | None) -> None:
        """Record the usage of the response so far, unless it is None."""
        if usage is not None:
            self.usage = usage

    def record_finish(self, reason: str) -> None:
        """Record the finish reason, unless it is ""."""
        if reason:
            self.finish_reason = reason

    def record_tier(self, tier: object) -> None:
        """Record the service tier of the upstream's JSON; a value that is not a string is ignored."""
        if isinstance(tier, str):
            self.service_tier = tier

    def add_images(self, count: int) -> None:
        """Add `count` images of the response."""
        self.images += count

    def record_variant(self, size: str, quality: str) -> None:
        """Record the size and the quality of the images or the video, "" if they are unknown."""
        self.size, self.quality = size, quality

    def record_seconds(self, seconds: float | None) -> None:
        """Record the duration of the video or the sound; None if it is unknown."""
        self.seconds = seconds or 0.0

    def record_characters(self, count: int) -> None:
        """Record the length of the text that is spoken."""
        self.characters = count

    def record_searches(self, count: int) -> None:
        """Record the number of the upstream's web searches."""
        self.web_searches = count

    def record_late_error(self, error: GateError | None) -> None:
        """Record the error that ended the response after its first event; None removes it and its traceback."""
        self.late_error = error

    def measure_text(self, *, is_measured: bool) -> None:
        """Note whether produced text is counted from now on."""
        self.measures_text = is_measured

    def expect_frames(self, frame_bytes: int) -> None:
        """Note that each frame of the stream has about `frame_bytes` that are no text."""
        self.frame_bytes = frame_bytes

    def add_text(self, frames: int, length: int) -> None:
        """Add `frames` of text of the response, and their total `length`."""
        self.produced_frames += frames
        self.produced_bytes += length

    def estimate_rest_by(self, estimate: Callable[[], Usage]) -> None:
        """Register `estimate`, called when the session has ended. It returns the usage that the upstream has not reported."""
        self.estimate_rest = estimate

    def assume(self, requested: Quantities) -> None:
        """Count the requested images or characters, if the response did not report how many were made."""
        if requested.images and not self.images:
            self.images = requested.images
            self.size, self.quality = self.size or requested.size, self.quality or requested.quality
        self.characters = self.characters or requested.characters or 0

    def forget(self) -> None:
        """Remove the measurements of a failed attempt: it is free, even if another attempt succeeds."""
        self.usage, self.finish_reason = None, ""
        self.produced_bytes = self.produced_frames = self.images = self.characters = self.web_searches = 0
        self.seconds = 0.0
        self.size = self.quality = self.service_tier = ""


class Progress(State):
    """The state of a request in the pipeline.

    `model` is the requested name, `target` the target of the last attempt; `attempts` counts the targets tried. `is_sent`: an
    upstream has the request, and has not failed. `is_streamed`: the caller has requested a stream. `ends_at` is the time on the
    event loop's clock when the total timeout of the current attempt ends; None without an attempt. `first_event_seconds` is the
    time to the first event. `attempt_error` is the code of the error that ended the last attempt. `error_code` is the code of
    an error after the first event. `error_message` is the message of the error that the caller received, `error_detail` what
    only administrators may read of it. `is_withheld`: a target has answered, and a guard has refused the response; the caller
    pays for it.

    `cached`: a wrapper has answered the current attempt without its target (true), or has called the target (false). None: no
    wrapper has looked for an answer. A cached response reports its usage to the caller and is free. It is no measurement of its
    target.
    """

    model: str = ""
    target: Target = NO_TARGET
    attempts: int = 0
    is_sent: bool = False
    is_streamed: bool = False
    ends_at: float | None = None
    first_event_seconds: float | None = None
    attempt_error: str = ""
    error_code: str = ""
    error_message: str = ""
    error_detail: str = ""
    is_withheld: bool = False
    cached: bool | None = None

    def request_model(self, model: str) -> None:
        """Note the requested model, under its name in conf."""
        self.model = model

    def explain(self, model: str, target: Target) -> None:
        """Note the target to which the request would be sent."""
        self.model, self.target = model, target

    def begin_attempt(self, target: Target) -> None:
        """Note that the request is about to be sent to a target."""
        self.attempts += 1
        self.target = target
        self.cached = None
        self.attempt_error = ""

    def count_attempt(self) -> None:
        """Count a request to the upstream that keeps an object, which no other target can answer."""
        self.attempts += 1

    def limit_time(self, ends_at: float, *, is_streamed: bool) -> None:
        """Note the time limit of the current attempt, and whether the caller has requested a stream."""
        self.ends_at = ends_at
        self.is_streamed = is_streamed

    def expect_stream(self) -> None:
        """Note that the caller has requested a stream, before a time limit is noted."""
        self.is_streamed = True

    def send(self) -> None:
        """Note that the upstream gets the request now."""
        self.is_sent = True

    def fail_attempt(self, code: str) -> None:
        """Note that the current attempt has failed before its first event."""
        self.attempt_error = code
        self.is_sent = False

    def begin_response(self, seconds: float) -> None:
        """Note the time from the request's first byte to the first event of its response."""
        self.first_event_seconds = seconds

    def begin_stream(self, seconds: float) -> None:
        """Note the time like `begin_response`, for a response that is a stream because the caller has requested one."""
        self.first_event_seconds = seconds
        self.is_streamed = True

    def break_off(self, error: GateError) -> None:
        """Note that the response has failed after its first event."""
        self.error_code = error.code
        self.note_error(error)

    def note_error(self, error: GateError) -> None:
        """Note the texts of the error that the caller receives, for the usage ledger."""
        self.error_message = error.message
        if isinstance(error, UpstreamError):
            upstream_text = f"The upstream said: {error.hidden_text}" if error.hidden_text else ""
            self.error_detail = f"{error.advice} {upstream_text}".strip()

    def withhold(self, *, is_withheld: bool) -> None:
        """Note whether a guard still holds the response back."""
        self.is_withheld = is_withheld

    def record_cache(self, *, is_hit: bool) -> None:
        """Note whether a wrapper has answered instead of the target. If there are several parts, all must be cached."""
        self.cached = is_hit and self.cached is not False


class Charge(State):
    """The reservations of a request, and its charge if the upstream reports no usage.

    `reservations` are None if the request has no limits. `estimate_prompt` returns the tokens of the prompt; None for operations
    without a prompt. `requested` has the requested images or characters. `counted_tokens` is the number of prompt tokens already
    charged to another request, which created the object that this request reads. `is_counted_elsewhere`: the tokens are already
    counted for the inner calls that produced the response. `is_inner`: the request is part of another request of the same
    caller, so it is not counted as a request. `cost` is the cost of a complete response in nano-dollars, if the caller received
    it.
    """

    reservations: Reservations | None = None
    estimate_prompt: Callable[[], int] | None = None
    requested: Quantities | None = None
    counted_tokens: int = 0
    is_counted_elsewhere: bool = False
    is_inner: bool = False
    cost: int | None = None

    hidden_fields = frozenset({"estimate_prompt"})

    def reserve(self, reservations: Reservations) -> None:
        """Keep the reservations of the request."""
        self.reservations = reservations

    def take_reservations(self) -> Reservations | None:
        """Return and remove the reservations of the request. The caller of this method settles or cancels them."""
        reservations, self.reservations = self.reservations, None
        return reservations

    def expect(self, estimate_prompt: Callable[[], int], requested: Quantities | None) -> None:
        """Keep the charge that applies if the upstream reports no usage."""
        self.estimate_prompt = estimate_prompt
        self.requested = requested

    def forget_requested(self) -> None:
        """Remove the requested quantities, because the attempt has failed."""
        self.requested = None

    def release_body(self) -> None:
        """Remove the function that estimates the prompt, because it keeps the body in memory."""
        self.estimate_prompt = None

    def count_elsewhere(self) -> None:
        """Note that the inner calls are charged instead of this request."""
        self.is_counted_elsewhere = True

    def subtract(self, counted_tokens: int) -> None:
        """Note the prompt tokens that were charged to another request."""
        self.counted_tokens = counted_tokens

    def quote(self, cost: int | None) -> None:
        """Note the cost that the caller receives; None if it is unknown."""
        self.cost = cost
