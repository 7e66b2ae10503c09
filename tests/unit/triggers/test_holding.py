"""An event is held until the trigger is old enough, and no longer."""

from __future__ import annotations

import asyncio

from airflow_batchjob.triggers.holding import Hold


async def test_holds_until_it_is_due_and_then_no_more():
    clock = asyncio.get_running_loop().time
    began = clock()
    hold = Hold(0.05)

    await hold.over()
    assert clock() - began >= 0.05

    again = asyncio.ensure_future(hold.over())
    await asyncio.wait_for(again, 5)
