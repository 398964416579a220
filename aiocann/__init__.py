"""Drive Ascend NPUs from asyncio and trio without blocking the event loop.

`open_runtime` is where to start. On a machine without an NPU everything runs on the
simulator that comes along. This file only re-exports; each name lives in the module
that it is imported from.
"""

# How to read the package: errors, dtypes and sites know nothing else; native is the
# only importer of the C ABI; completion, reactor and ledger make ops awaitable; memory,
# event and stream are what a device offers; tensor, ops, graph and backend compute;
# device and runtime own them; group and pipeline use several.

from aiocann import lowlevel as lowlevel
from aiocann import ops as ops
from aiocann import sim as sim
from aiocann import testing as testing
from aiocann.backend import Backend as Backend
from aiocann.completion import Operation as Operation
from aiocann.device import Device as Device
from aiocann.device import MemoryInfo as MemoryInfo
from aiocann.dtypes import BF16 as BF16
from aiocann.dtypes import F16 as F16
from aiocann.dtypes import F32 as F32
from aiocann.dtypes import I8 as I8
from aiocann.dtypes import I16 as I16
from aiocann.dtypes import I32 as I32
from aiocann.dtypes import I64 as I64
from aiocann.dtypes import Q4_0 as Q4_0
from aiocann.dtypes import Q8_0 as Q8_0
from aiocann.dtypes import DType as DType
from aiocann.errors import AclError as AclError
from aiocann.errors import AiocannError as AiocannError
from aiocann.errors import BusyResourceError as BusyResourceError
from aiocann.errors import CaptureError as CaptureError
from aiocann.errors import CleanupWarning as CleanupWarning
from aiocann.errors import ClosedResourceError as ClosedResourceError
from aiocann.errors import DeviceFaultError as DeviceFaultError
from aiocann.errors import DeviceMemoryError as DeviceMemoryError
from aiocann.errors import DeviceTimeoutError as DeviceTimeoutError
from aiocann.errors import ForkError as ForkError
from aiocann.errors import InternalError as InternalError
from aiocann.errors import LibraryError as LibraryError
from aiocann.errors import NumericOverflowError as NumericOverflowError
from aiocann.errors import ResourceExhaustedError as ResourceExhaustedError
from aiocann.errors import SimulatorWarning as SimulatorWarning
from aiocann.errors import SlowPathWarning as SlowPathWarning
from aiocann.errors import UnsupportedError as UnsupportedError
from aiocann.errors import UsageError as UsageError
from aiocann.errors import WouldBlock as WouldBlock
from aiocann.event import Event as Event
from aiocann.graph import Graph as Graph
from aiocann.group import DeviceGroup as DeviceGroup
from aiocann.memory import DeviceBuffer as DeviceBuffer
from aiocann.memory import from_pointer as from_pointer
from aiocann.native import __version__ as __version__
from aiocann.opening import open_runtime as open_runtime
from aiocann.pipeline import Pipeline as Pipeline
from aiocann.pipeline import Stage as Stage
from aiocann.runtime import InFlight as InFlight
from aiocann.runtime import Runtime as Runtime
from aiocann.runtime import Statistics as Statistics
from aiocann.runtime import Unavailable as Unavailable
from aiocann.stream import Stream as Stream
from aiocann.stream import current_stream as current_stream
from aiocann.tensor import Tensor as Tensor
