"""Where Dask workers come from: the `cluster` section of an experiment."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

ClusterType = Literal["local", "address"]
"""The kinds of cluster that dtrainer itself can open."""

NOT_BUILT_YET = frozenset({"slurm", "pbs", "sge", "lsf", "htcondor", "oar", "allocation"})
"""Kinds that have a reserved name and no machinery yet."""

_ADDRESS = re.compile(
    r"^(?:(?P<scheme>[a-z]+)://)?(?P<host>\[[^\]]+\]|[^:/\s]+):(?P<port>\d{1,5})$"
)
_SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")


class ClusterSpec(BaseModel):
    """Where the Dask workers of a run come from.

    A plain string is short for the two common cases: `cluster: local`, and
    `cluster: tcp://node17:8786`.

    Parameters
    ----------
    type
        `local` starts worker processes on this machine, `address` uses a Dask scheduler that is
        running already. Another name is looked up among the installed backends (entry points of
        the group `dtrainer.clusters`). If only `address` is given, the type is `address`.
    address
        The scheduler's address, `tcp://host:port`; only for `type: address`.
    workers
        Worker processes to start (`local`) or to wait for (`address`). None: as many as the
        trainer has actors (`num_workers` and its evaluation workers).
    scheduler_port
        TCP port of the scheduler that is started; 0 takes a free one.
    dashboard
        Where Dask's dashboard listens, such as `:8787`; None for no dashboard. It needs `bokeh`.
    connect_timeout_s
        Seconds to wait for the scheduler to answer.
    extra_environ
        Environment variables for the worker processes that are started, set before numpy is
        imported there. They win over dtrainer's own (one thread for OpenMP, MKL and OpenBLAS).
    options
        Settings of a backend that another package brings; `local` and `address` have none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    type: str = "local"
    address: str | None = None
    workers: int | None = Field(default=None, ge=1)
    scheduler_port: int = Field(default=0, ge=0, le=65535)
    dashboard: str | None = None
    connect_timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    extra_environ: dict[str, str] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _expand_short_forms(cls, value: Any) -> Any:
        """Read a bare string, and infer the type from a bare address."""
        if isinstance(value, str):
            value = {"address": value} if ":" in value else {"type": value}
        if isinstance(value, dict) and value.get("address") is not None and "type" not in value:
            value = {**value, "type": "address"}
        return value

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        if value in NOT_BUILT_YET:
            raise ValueError(
                f"the cluster type {value!r} is not built yet; "
                f"what works now: {', '.join(get_args(ClusterType))}"
            )
        built_in = get_args(ClusterType)
        if value in built_in:  # do not scan the installed packages for the common case
            return value
        known = {*built_in, *installed_backends()}
        if value not in known:
            raise ValueError(
                f"{value!r} is not a cluster type; known types: {', '.join(sorted(known))}"
            )
        return value

    @field_validator("address")
    @classmethod
    def _address_has_host_and_port(cls, value: str | None) -> str | None:
        if value is None:
            return None
        found = _ADDRESS.match(value.strip())
        if found is None or int(found["port"]) > 65535 or int(found["port"]) == 0:
            raise ValueError(f"{value!r} is not an address such as tcp://host:8786")
        scheme = found["scheme"] or "tcp"
        if scheme not in _SCHEMES:
            raise ValueError(f"{value!r} has the protocol {scheme!r}; known: {', '.join(_SCHEMES)}")
        return f"{scheme}://{found['host']}:{found['port']}"

    @field_validator("dashboard", mode="before")
    @classmethod
    def _dashboard_is_an_address(cls, value: Any) -> Any:
        """Accept a bare port; Dask wants `:port` or `host:port`."""
        if isinstance(value, int) and not isinstance(value, bool):
            value = f":{value}"
        if isinstance(value, str) and not re.match(r"^[^:/\s]*:\d{1,5}$", value):
            raise ValueError(f"{value!r} is not an address such as :8787 or 127.0.0.1:8787")
        return value

    @model_validator(mode="after")
    def _address_matches_type(self) -> ClusterSpec:
        if self.type == "address" and self.address is None:
            raise ValueError("type `address` needs `address: tcp://host:port` of a Dask scheduler")
        if self.type == "local" and self.address is not None:
            raise ValueError("`address` has no meaning for type `local`: use type `address`")
        if self.options and self.type in get_args(ClusterType):
            raise ValueError(
                f"`options` has no meaning for type `{self.type}`: "
                f"{', '.join(map(repr, self.options))}"
            )
        if self.type == "address":
            for key in ("scheduler_port", "dashboard", "extra_environ"):
                if getattr(self, key) != type(self).model_fields[key].get_default(
                    call_default_factory=True
                ):
                    raise ValueError(
                        f"`{key}` has no meaning for type `address`: "
                        "that scheduler and its workers were started by somebody else"
                    )
        return self


def installed_backends() -> dict[str, str]:
    """Name the cluster backends that other packages have installed.

    Returns
    -------
    dict[str, str]
        Type name to where it is (`package.module:function`), from the entry point group
        `dtrainer.clusters`.
    """
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="dtrainer.clusters")}
