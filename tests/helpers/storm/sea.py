"""What all crews share: the machine, what befalls it, and what that explains."""

from __future__ import annotations

import random
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import aiocann
from aiocann import (
    AclError,
    AiocannError,
    BusyResourceError,
    ClosedResourceError,
    DeviceFaultError,
    SlowPathWarning,
    sim,
)
from aiocann.errors import E_NO_MEMORY, E_PREDECESSOR

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

Bytes = npt.NDArray[np.uint8]

# Calls that may fail in the middle of work, each with a code that it might give.
CALLS = (
    ("aclrtMemcpyAsync", 107000),
    ("aclrtMemsetAsync", 507899),
    ("aclrtRecordEvent", 507011),
    ("aclrtStreamWaitEvent", 507899),
    ("aclrtLaunchCallback", 507899),
    ("aclrtCreateStreamWithConfig", 207008),
    ("aclrtCreateEventExWithFlag", 207007),
    ("aclrtMalloc", 207001),
    ("aclrtMallocHost", 207001),
    ("aclnnAdd", 361001),
    ("aclnnMulGetWorkspaceSize", 561103),
)
KERNEL_FAULT = 507015
COPY_FAULT = 507053
LOST = 507010
CODES = frozenset(
    [code for _, code in CALLS] + [KERNEL_FAULT, COPY_FAULT, E_NO_MEMORY, E_PREDECESSOR]
)


@dataclass(frozen=True)
class Kind:
    """What a round has besides faults and late callbacks."""

    name: str
    #: Callbacks that never come. Each is found out within two seconds.
    lost_callbacks: int = 0
    #: Whether tasks get stuck, until they are let go.
    has_stalls: bool = False
    #: Whether devices are lost, and reset, lost or not.
    has_resets: bool = False
    #: Whether another library has streams. A reset of the device would take them.
    has_neighbours: bool = False


KINDS = (
    Kind("neighbours", has_neighbours=True),
    Kind("stalls", lost_callbacks=3, has_stalls=True),
    Kind("resets", has_stalls=True, has_resets=True),
)


@dataclass
class Region:
    """A buffer, what it must hold, and the ops that wrote it."""

    buffer: aiocann.DeviceBuffer
    holds: Bytes
    writes: list[aiocann.Operation[Any]] = field(default_factory=list)
    #: No command without notification wrote it since the last synchronization.
    is_sure: bool = True


@dataclass(frozen=True)
class Cargo:
    """A region that is written no more, and the event behind its last write."""

    region: Region
    event: aiocann.Event


class Market:
    """What sailors give away to each other, on whatever loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cargoes: deque[Cargo] = deque(maxlen=16)

    def give(self, cargo: Cargo) -> None:
        """Offer it; the oldest one goes to nobody."""
        with self._lock:
            self._cargoes.append(cargo)

    def look(self, chance: random.Random) -> Cargo | None:
        """Return one of them; None: there is none."""
        with self._lock:
            return chance.choice(self._cargoes) if self._cargoes else None

    def drop(self, cargo: Cargo) -> None:
        """Take it out, where it is still there."""
        with self._lock:
            if cargo in self._cargoes:
                self._cargoes.remove(cargo)

    def clear(self) -> None:
        """Take everything out."""
        with self._lock:
            self._cargoes.clear()


class Sea:
    """The devices of a runtime in one round."""

    def __init__(self, rt: aiocann.Runtime, kind: Kind) -> None:
        self.rt = rt
        self.kind = kind
        self.market = Market()
        #: A crew has failed: the others make for the harbour.
        self.is_wrecked = False
        #: Devices whose backend has failed: its stream stays failed until a reset.
        self.lost_backends: set[aiocann.Device] = set()
        #: Devices that somebody must reset.
        self.lost_devices: set[aiocann.Device] = set()
        self.resetting: set[aiocann.Device] = set()
        self.losses = self.resets = self.stalls = self.failed = 0

    # ---- what befalls it ---------------------------------------------------------

    def misfortune(self, chance: random.Random) -> None:
        """Let a call, a copy or a kernel fail, or something come late or never."""
        nth = chance.randint(1, 20)
        if self.kind.has_stalls and chance.random() < 0.3:
            self.stall(chance, nth)
            return
        dice = chance.random()
        if dice < 0.5:
            sim.fail_call(*chance.choice(CALLS), nth=nth)
        elif dice < 0.55:
            sim.fail_kernel(code=KERNEL_FAULT, nth=nth)
        elif dice < 0.8:
            sim.fail_copy(chance.choice(["memcpy", "memset"]), COPY_FAULT, nth)
        elif dice < 0.9:
            sim.delay_callback(chance.randint(1, 20), nth=nth)
        else:
            sim.delay_copy(chance.randint(1, 20), nth=nth)

    def stall(self, chance: random.Random, nth: int) -> None:
        """Let something wait until it is let go, or is aborted, or not even that."""
        self.stalls += 1
        refusal = chance.choice([0, 0, 507899])
        dice = chance.random()
        if dice < 0.4:
            sim.stall_copy(nth=nth, abort_code=refusal)
        elif dice < 0.7:
            sim.stall_kernel(nth=1 + nth // 4, abort_code=refusal)
        else:
            sim.delay_callback(nth=nth)

    def lose(self, device: aiocann.Device, *, for_ever: bool) -> None:
        """Lose a device; `reset` gets it back."""
        if device in self.resetting:
            return  # what is in flight would be leaked
        self.losses += 1
        self.lost_devices.add(device)
        sim.lose_device(device.index, for_ever=for_ever)

    async def reset(self, device: aiocann.Device) -> None:
        """Start a device anew, unless somebody is at it."""
        if device in self.resetting:
            return
        self.resetting.add(device)
        self.resets += 1
        try:
            if device in self.lost_devices:
                sim.restore_device(device.index)
            await device.reset()
            self.lost_devices.discard(device)
            self.lost_backends.discard(device)
        except BusyResourceError:
            pass
        finally:
            self.resetting.discard(device)

    # ---- what that explains ------------------------------------------------------

    @contextmanager
    def misfortunes(self) -> Iterator[None]:
        """Take what was injected, and what follows; let everything else through."""
        try:
            yield
        except (AiocannError, SlowPathWarning, BaseExceptionGroup) as exc:
            self.accept(exc)

    def accept(self, exc: BaseException) -> None:
        """Count a failure that something explains; raise any other."""
        self.failed += 1
        if not self.explains(exc):
            raise exc

    def explains(self, exc: BaseException | None) -> bool:
        """Whether what was injected explains it; for one that followed, its cause."""
        if isinstance(exc, BaseExceptionGroup):
            leaves = list(leaves_of(exc))
            told = [leaf for leaf in leaves if not is_end_of_map(leaf)]
            return bool(told) and all(map(self.explains, told))
        if isinstance(exc, SlowPathWarning):
            return self.explains(exc.__cause__)
        if isinstance(exc, ClosedResourceError):
            return self.resets > 0 and "reset" in str(exc)
        if not isinstance(exc, AclError):
            return False
        if exc.code == LOST:
            return self.losses > 0 and isinstance(exc, DeviceFaultError)
        if exc.code != E_PREDECESSOR:
            return exc.code in CODES
        if exc.__cause__ is None:  # the first to fail had no notification
            return any(str(code) in exc.detail for code in CODES) or (
                self.resets + self.losses > 0
                and ("reset" in exc.detail or str(LOST) in exc.detail)
            )
        return self.explains(exc.__cause__)


def leaves_of(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from leaves_of(exc)
        else:
            yield exc


def is_end_of_map(exc: BaseException) -> bool:
    """Whether it only says that an item has failed, as the group itself tells."""
    return isinstance(exc, ClosedResourceError) and "of this map failed" in str(exc)
