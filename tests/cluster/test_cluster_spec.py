from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dtrainer.config.cluster import ClusterSpec


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("local", {"type": "local"}),
        ("tcp://a:8786", {"type": "address", "address": "tcp://a:8786"}),
        ({"address": "node17:8786"}, {"type": "address", "address": "tcp://node17:8786"}),
        ({"address": "tls://[::1]:1"}, {"address": "tls://[::1]:1"}),
        ({"dashboard": 8787}, {"dashboard": ":8787"}),
        ({"dashboard": "127.0.0.1:0"}, {"dashboard": "127.0.0.1:0"}),
    ],
)
def test_forms(given: Any, expected: dict[str, Any]) -> None:
    spec = ClusterSpec.model_validate(given)
    assert {key: getattr(spec, key) for key in expected} == expected
    assert ClusterSpec.model_validate(spec.model_dump()) == spec


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"type": "slurm"}, "'slurm' is not built yet"),
        ({"type": "locl"}, "'locl' is not a cluster type"),
        ({"type": "address"}, "needs `address:"),
        ({"type": "local", "address": "a:1"}, "no meaning for type `local`"),
        ({"address": "a"}, "not an address such as"),
        ({"address": "a:99999"}, "not an address such as"),
        ({"address": "gopher://a:1"}, "protocol 'gopher'"),
        ({"address": "a:1", "scheduler_port": 1}, "`scheduler_port` has no meaning"),
        ({"address": "a:1", "extra_environ": {"A": "1"}}, "`extra_environ` has no meaning"),
        ({"options": {"a": 1}}, "`options` has no meaning"),
        ({"dashboard": "here"}, "not an address such as :8787"),
        ({"workers": 0}, "greater than or equal to 1"),
        ({"scheduler_port": 70000}, "65535"),
        ({"connect_timeout_s": 0}, "greater than 0"),
        ({"adress": "a:1"}, "Extra inputs"),
    ],
)
def test_mistakes(given: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        ClusterSpec.model_validate(given)
