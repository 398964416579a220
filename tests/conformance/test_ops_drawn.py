"""Every op, called with what hypothesis draws: right, and within its output.

``AIOCANN_DRAWN_OPS`` says how many calls of each op are drawn, anew in each run; the
short form draws a few, always the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aiocann import I8, Graph, UnsupportedError
from aiocann.optable import OPS
from helpers.op_cases import CASES
from helpers.op_drawing import GUARD, Draw
from helpers.op_runs import OpRuns, check_close, nmse

# One driver, one loop: see test_ops_values.py.
pytestmark = pytest.mark.parametrize("driver", ["sim"], indirect=True)

N_CALLS = int(os.environ.get("AIOCANN_DRAWN_OPS", "0"))
SHORT = 6


class Loop:
    """A loop that runs what may end as hypothesis ends it: with a BaseException.

    Such an exception would end the loop as well, were it to pass through it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        result, ended = self._loop.run_until_complete(self._caught(work))
        if ended is not None:
            raise ended
        return result

    @staticmethod
    async def _caught(work: Coroutine[Any, Any, Any]) -> tuple[Any, Any]:
        try:
            return await work, None
        except BaseException as exc:
            return None, exc

    def close(self) -> None:
        self._loop.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def runs(loop: Loop, opened: Any) -> Iterator[OpRuns]:
    runtime = opened()
    rt = loop.run(runtime.__aenter__())
    yield OpRuns(rt.devices[0].backend())
    loop.run(runtime.__aexit__(None, None, None))


def test_every_op_is_drawn(driver: str) -> None:
    del driver
    assert set(CASES) == {name for name, op in OPS.items() if not op.is_view}


@pytest.mark.parametrize("name", list(CASES))
@settings(
    max_examples=N_CALLS or SHORT,
    derandomize=N_CALLS == 0,
    database=None,
    # Failures are told as they were drawn: shrinking them takes minutes.
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_drawn(loop: Loop, runs: OpRuns, name: str, data: Any) -> None:
    loop.run(compute_and_compare(runs, name, data))


async def compute_and_compare(runs: OpRuns, name: str, data: Any) -> None:
    drawn = await CASES[name](Draw(data, runs))
    node, backend = drawn.node, runs.backend
    if not backend.supports_op(node):
        with pytest.raises(UnsupportedError, match=name):
            await backend.graph_compute(Graph([node]))
        return
    # The output lies in the middle of something larger, whose other bytes stay.
    around = runs.random.integers(-128, 128, GUARD + node.nbytes + GUARD, np.int8)
    room = await runs.leaf(around, I8)
    node._block, node._offset, node._device = room._block, GUARD, room.device
    graph = Graph([node])
    for _ in range(2):  # computing a graph changes nothing in it
        await backend.graph_compute(graph)
        got = await runs.read(node)
        assert got.shape == drawn.want.shape
        if drawn.limit == 0:
            assert nmse(got, drawn.want) == 0
        else:
            check_close(got, drawn.want, drawn.dtype, drawn.limit)
        found = await backend.get_tensor_async(room)
        assert (found[:GUARD] == around[:GUARD]).all()
        assert (found[-GUARD:] == around[-GUARD:]).all()
