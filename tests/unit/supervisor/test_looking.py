"""Looks at Jobs that someone else runs: what is forbidden for a moment does not end a wait."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

import pytest

from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.supervisor.looking import Sight, Target, looks
from tests.unit.supervisor.small_cluster import SmallCluster, refused
from tests.unit.supervisor.virtual import virtual_time

LOG = logging.getLogger("test")
SIGHT = Target(name="embed")


@virtual_time
async def test_a_refusal_that_passes_is_waited_out() -> None:
    cluster = SmallCluster()
    async with aclosing(looks(Sight(cluster, SIGHT), log=LOG)) as seen:
        assert await anext(seen) == ()
        cluster.fail = {"get_job": [refused(403), refused(401)]}

        assert await asyncio.wait_for(anext(seen), 120) == ()


@pytest.mark.parametrize("let_in_before", [True, False])
@virtual_time
async def test_a_refusal_that_lasts_is_an_error(let_in_before: bool) -> None:
    cluster = SmallCluster()
    async with aclosing(looks(Sight(cluster, SIGHT), log=LOG)) as seen:
        if let_in_before:
            await anext(seen)
        cluster.always_fail = {"get_job": refused(403)}

        with pytest.raises(ApiRefusedError):
            await asyncio.wait_for(anext(seen), 600 if let_in_before else 1)
