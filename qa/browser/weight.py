"""How heavy a page is, and when it is first seen."""

from __future__ import annotations

from statistics import median

from playwright.sync_api import Page

MOST_BYTES = 51_000
"""Of a page with its style, scripts and icons, without a cache: 50 rows of requests, or the playground."""


def measure_bytes(page: Page, path: str) -> int:
    """Load a page; returns the bytes that its answers took on the wire, headers included, without a cache."""
    network = page.context.new_cdp_session(page)
    sizes: list[float] = []
    network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(path, wait_until="networkidle")
    network.detach()
    return round(sum(sizes))


def measure_first_paint(page: Page, path: str, repeats: int = 3) -> float:
    """The milliseconds until the first contentful paint; the median of several loads."""
    times: list[float] = []
    for _ in range(repeats):
        page.goto(path)
        times.append(
            page.evaluate(
                """() => new Promise((resolve) => {
                  new PerformanceObserver((list) => {
                    const paint = list.getEntriesByName("first-contentful-paint")[0];
                    if (paint) resolve(paint.startTime);
                  }).observe({ type: "paint", buffered: true });
                })"""
            )
        )
    return median(times)
