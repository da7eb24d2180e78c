"""The default prices: those that the package computes itself, kept in a file, never from the network."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from genai_prices.data import providers

from tornado_gate.ledger import default_prices
from tornado_gate.ledger.default_prices import (
    PricedProvider,
    Table,
    VendorPrices,
    find_provider,
    load_prices,
    load_table,
)
from tornado_gate.ledger.prices import FREE, Price, compute_cost
from tornado_gate.types.quantities import Quantities

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OPENAI = "https://api.openai.com/v1"
USED = {"input": 250_000, "cached": 50_000, "written": 3000, "written_1h": 1000, "output": 700}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "prices"


@pytest.fixture(scope="module")
def table(folder: Path) -> Table:
    table = load_table(folder)
    assert table is not None
    return table


def find_price(table: Table, provider: str, model: str, moment: datetime = NOW) -> Price | None:
    return VendorPrices(table, provider).find_price(model, moment.timestamp())[1]


def count(tier: str, *, writes: bool, output: int) -> Quantities:
    return Quantities(
        input_tokens=USED["input"],
        cached_input_tokens=USED["cached"],
        cache_write_tokens=USED["written"] if writes else 0,
        cache_write_1h_tokens=USED["written_1h"] if writes else 0,
        output_tokens=output,
        service_tier=tier,
    )


def compute_with_package(provider: str, model: Any, context: dict[str, str] | None, used: Quantities) -> int:
    usage = genai_prices.Usage(
        input_tokens=used.input_tokens,
        cache_read_tokens=used.cached_input_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cache_write_1h_tokens=used.cache_write_1h_tokens,
        output_tokens=used.output_tokens,
    )
    vendor = next(one for one in providers if one.id == provider)
    found = model.calc_price(usage, vendor, genai_request_timestamp=NOW, price_context=context)
    return int((found.total_price * 10**9).to_integral_value("ROUND_HALF_UP"))


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai", "deepseek", "groq", "mistral", "x-ai"])
def test_every_chat_costs_what_the_package_computes(table: Table, provider: str) -> None:
    """Also with cached tokens, cache writes, long prompts, service tiers, and prices that begin on a date."""
    vendor = next(one for one in providers if one.id == provider)
    compared = 0
    for model in vendor.models:
        price = find_price(table, provider, model.id)
        usual = model.get_prices(NOW)
        if price is None or price is FREE or not (usual.input_mtok and usual.output_mtok):
            continue
        for context in [None, *[one.when for one in model.price_variants or ()]]:
            tier = next(iter(context.values())) if context else ""
            used = count(tier, writes=usual.cache_write_mtok is not None, output=USED["output"])
            assert compute_cost(price, used) == compute_with_package(provider, model, context, used), (
                model.id,
                context,
            )
            compared += 1
    assert compared >= 5


def test_other_kinds_of_prices_are_known(table: Table) -> None:
    assert compute_cost(find_price(table, "openai", "whisper-1"), Quantities(seconds=60)) == 6_000_000
    assert compute_cost(find_price(table, "openai", "tts-1"), Quantities(characters=1000)) == 15_000_000
    assert compute_cost(find_price(table, "openai", "text-embedding-3-small"), Quantities(input_tokens=1000)) == 20_000
    audio = Quantities(input_tokens=10, audio_input_tokens=10, output_tokens=10, audio_output_tokens=10)
    assert compute_cost(find_price(table, "openai", "gpt-audio"), audio) == 10 * 32_000 + 10 * 64_000
    searched = Quantities(input_tokens=0, output_tokens=0, web_searches=2)
    assert compute_cost(find_price(table, "anthropic", "claude-haiku-4-5"), searched) == 20_000_000


def test_models_are_found_by_their_other_names(table: Table) -> None:
    assert find_price(table, "openai", "gpt-4o-2024-08-06") == find_price(table, "openai", "GPT-4o")
    assert find_price(table, "anthropic", "claude-haiku-4-5-20251001") == find_price(
        table, "anthropic", "claude-haiku-4-5"
    )
    assert find_price(table, "azure", "gpt-4o-mini") is not None
    assert find_price(table, "openai", "model-of-nobody") is None


def test_a_price_begins_on_its_date_and_is_looked_up_again_then(table: Table) -> None:
    prices = VendorPrices(table, "openai")
    used = Quantities(input_tokens=1000, output_tokens=0)
    before, after = (datetime(2025, 6, day, 23, 59, tzinfo=UTC).timestamp() for day in (9, 10))
    until, price = prices.find_price("o3", before)
    assert compute_cost(price, used) == 10_000_000
    assert until == before + 60
    assert compute_cost(prices.find_price("o3", after)[1], used) == 2_000_000


def test_a_price_may_depend_on_the_time_of_day(table: Table) -> None:
    prices = VendorPrices(table, "deepseek")
    model = next(one for one in prices._models if any("since" in price for price in one["prices"]))
    daily = next(price for price in model["prices"] if "since" in price)
    name = model["match"][1] if model["match"][0] != "or" else model["match"][1][0][1]
    hours, minutes = map(int, daily["since"].split(":"))
    begin = NOW.replace(hour=hours, minute=minutes).timestamp()
    until, earlier = prices.find_price(name, begin - 1)
    assert until == begin
    assert prices.find_price(name, begin)[1] != earlier


def test_the_provider_is_found_by_its_address(table: Table) -> None:
    assert find_provider(table, "", OPENAI) == "openai"
    assert find_provider(table, "", "https://api.anthropic.com") == "anthropic"
    assert find_provider(table, "", "https://generativelanguage.googleapis.com") == "google"
    assert find_provider(table, "", "https://models.example/v1") == ""
    assert find_provider(table, "anthropic", OPENAI) == "anthropic"
    assert find_provider(table, "nobody", OPENAI) == ""


def test_only_entries_with_a_known_address_get_prices(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    entries = [
        PricedProvider(name="first", base_url=OPENAI),
        PricedProvider(name="own", base_url="https://models.example/v1"),
        PricedProvider(name="behind", base_url="http://10.0.0.1/v1", price_provider="openai"),
        PricedProvider(name="typo", base_url=OPENAI, price_provider="opnai"),
    ]
    found = load_prices(folder, entries)
    assert sorted(found) == ["behind", "first"]
    assert "providers.typo: no default prices for 'opnai'; known: anthropic, " in caplog.text


def test_the_file_is_made_once_for_each_version(folder: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = folder.iterdir()
    assert file.name == f"genai-prices-{metadata.version('genai-prices')}-{default_prices.LAYOUT}.json"
    monkeypatch.setattr(default_prices, "extract_table", fail_to_run)
    assert load_table(folder) == table


def fail_to_run(*_: object, **__: object) -> bytes:
    raise OSError("there are no processes left")


def test_a_faulty_file_is_made_again_and_an_older_one_removed(tmp_path: Path, table: Table) -> None:
    file = tmp_path / f"genai-prices-{metadata.version('genai-prices')}-{default_prices.LAYOUT}.json"
    file.write_text('{"openai": ')
    (tmp_path / "genai-prices-0.0.1-1.json").write_text("{}")
    assert load_table(tmp_path) == table
    assert list(tmp_path.iterdir()) == [file]


def test_without_the_package_there_are_no_default_prices_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(default_prices, "PACKAGE", "a-package-that-is-not-installed")
    assert load_prices(tmp_path, [PricedProvider(name="first", base_url=OPENAI)]) == {}
    assert "is not installed; set prices or install tornado-gate[prices]" in caplog.text


def test_a_package_that_cannot_be_read_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(default_prices, "extract_table", fail_to_run)
    with caplog.at_level(logging.WARNING):
        assert load_prices(tmp_path, [PricedProvider(name="first", base_url=OPENAI)]) == {}
    assert "cannot be read: there are no processes left" in caplog.text


def test_without_a_vendor_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_prices, "load_table", fail_to_run)
    assert load_prices(tmp_path, [PricedProvider(name="local"), PricedProvider(name="v", base_url="http://v/v1")]) == {}


@pytest.mark.qa
def test_reading_the_package_makes_no_connection_and_the_gateway_never_imports_it(tmp_path: Path) -> None:
    forbid = "import socket\nsocket.socket.connect = socket.getaddrinfo = None\n"
    run = "from tornado_gate.ledger import extract_prices\nextract_prices.main()"
    done = subprocess.run([sys.executable, "-c", forbid + run], capture_output=True, check=True)
    assert len(done.stdout) > 100_000
    code = (
        "import sys\nfrom pathlib import Path\nfrom tornado_gate.ledger.default_prices import PricedProvider, load_prices\n"
        "found = load_prices(Path(sys.argv[1]), [PricedProvider(name='a', base_url='https://api.openai.com/v1')])\n"
        "sys.exit('a' not in found or bool({'genai_prices', 'pydantic', 'httpx2'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True)
