"""The model on several devices, fed by one event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
import numpy as np
from anyio.lowlevel import checkpoint
from numpy.typing import NDArray

import aiocann

from .checkpoint import Checkpoint, Weights
from .encoder import Encoder, Inputs, Tensors
from .text import Batch

Rows = NDArray[np.float32]


class Embedder:
    """Computes embeddings on every device that it was loaded on."""

    def __init__(self, replicas: dict[aiocann.Device, Replica], hidden: int) -> None:
        self._replicas = replicas
        self.hidden = hidden

    @classmethod
    async def load(
        cls, devices: Sequence[aiocann.Device], model: Checkpoint
    ) -> Embedder:
        """Put the model on `devices`: from the host to the first, from there to all.

        Completes when every device has all weights.
        """
        backends = {device: device.backend() for device in devices}
        first, *others = backends.values()
        weights = {first: await upload(first, model.weights)}
        for other in others:
            weights[other] = await replicate(first, weights[first], other)
        replicas = {
            device: Replica(backend, model, weights[backend])
            for device, backend in backends.items()
        }
        return cls(replicas, model.hidden)

    async def embed(
        self, batches: Sequence[Batch], on_batch: Callable[[int], None] | None = None
    ) -> Rows:
        """Return one unit vector for each text in `batches`, in the texts' order.

        Batches go round the devices, a few at a time on each.

        Parameters
        ----------
        batches
            From `Tokenizer.batches`.
        on_batch
            Called with the number of texts that have just been finished.
        """
        rows = np.empty((sum(len(b.rows) for b in batches), self.hidden), np.float32)
        async with aiocann.DeviceGroup(list(self._replicas)) as group:
            async for batch, result in group.map(self._embed_on, batches):
                rows[batch.rows] = result
                if on_batch is not None:
                    on_batch(len(batch.rows))
        return rows

    async def _embed_on(
        self, device: aiocann.Device, batch: Batch
    ) -> tuple[Batch, Rows]:
        return batch, await self._replicas[device].embed(batch)


async def upload(backend: aiocann.Backend, weights: Weights) -> Tensors:
    """Copy `weights` to the device of `backend`. Completes when they are there."""
    tensors = {}
    copies = []
    for name, value in weights.items():
        tensors[name] = await backend.empty(value.shape, aiocann.F32, name=name)
        copies.append(backend.set_tensor_async(tensors[name], value))
        await checkpoint()  # memory that is there needs no wait: give way ourselves
    for copy in copies:
        await copy
    return tensors


async def replicate(
    source: aiocann.Backend, tensors: Tensors, target: aiocann.Backend
) -> Tensors:
    """Copy `tensors` from device to device. Completes when they are there."""
    replicas = {}
    copies = []
    for name, tensor in tensors.items():
        replicas[name] = await target.empty(tensor.shape, tensor.dtype, name=name)
        copies.append(source.cpy_tensor_async(tensor, replicas[name]))
        await checkpoint()
    for copy in copies:
        await copy
    return replicas


@dataclass(frozen=True)
class Plan:
    """A graph for one shape of batch, with the tensors that it reads and writes."""

    inputs: Inputs
    output: aiocann.Tensor
    graph: aiocann.Graph


class Replica:
    """The model on one device: its weights, and a plan for each shape met so far."""

    def __init__(
        self, backend: aiocann.Backend, model: Checkpoint, weights: Tensors
    ) -> None:
        self._backend = backend
        self._n_layers = model.n_layers
        self._encoder = Encoder(model, weights)
        self._plans: dict[tuple[int, int], Plan] = {}
        self._planning = anyio.Lock()

    async def embed(self, batch: Batch) -> Rows:
        """Return the embeddings of `batch` ``(len(batch.rows), hidden)``."""
        async with self._planning:
            plan = self._plans.get(batch.shape)
            if plan is None:
                plan = self._plans[batch.shape] = await self._plan(batch.shape)
        # Batches of one shape share these tensors. Everything below is enqueued
        # without giving way to another task, and a stream runs in order: so the
        # next batch writes its ids after this one's result has been read.
        backend = self._backend
        for tensor, value in plan.inputs.values(batch):
            backend.set_tensor_async(tensor, value)
        backend.graph_compute(plan.graph)
        result = await backend.get_tensor_async(plan.output)
        return result[: len(batch.rows), 0]

    async def _plan(self, shape: tuple[int, int]) -> Plan:
        """Build the graph for `shape`, a layer at a time: the loop has other work."""
        inputs = await Inputs.empty(self._backend, shape)
        x = self._encoder.embed_tokens(inputs)
        for i in range(self._n_layers):
            await checkpoint()
            x = self._encoder.layer(i, x, inputs)
        await checkpoint()
        output = self._encoder.pool(x, inputs)
        plan = Plan(inputs, output, aiocann.Graph([output]))
        await checkpoint()  # computing it for the first time is work too
        return plan
