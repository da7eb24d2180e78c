from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.support import Conf


@pytest.fixture
def conf(tmp_path: Path) -> Conf:
    return Conf(tmp_path)
