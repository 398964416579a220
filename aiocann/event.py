"""`Event`: a point in a stream's work, that tasks await and other streams wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiocann.errors import usage

if TYPE_CHECKING:
    from collections.abc import Generator

    from aiocann.completion import Operation

__all__ = ["Event"]


class Event:
    """A point in the work of a stream.

    ``await event`` returns when everything that was enqueued on the stream before the
    recording, host parts included, has finished. An event can be recorded again:
    whoever awaits it or waits for it means the latest recording at that time.
    """

    __slots__ = ("__weakref__", "_mark", "device_index")

    def __init__(self) -> None:
        self._mark: Operation[None] | None = None
        #: Device of the latest recording; None before it.
        self.device_index: int | None = None

    def __repr__(self) -> str:
        if self._mark is None:
            return "<aiocann.Event not recorded>"
        state = "done" if self._mark.done else "recorded"
        return f"<aiocann.Event {state} on device {self.device_index}>"

    def _record(self, mark: Operation[None], device_index: int) -> None:
        self._mark, self.device_index = mark, device_index

    def recording(self) -> Operation[None]:
        """Return the latest recording.

        Raises
        ------
        UsageError
            It was never recorded.
        """
        if self._mark is None:
            raise usage(
                "the event has not been recorded: call stream.record(event) before it "
                "is awaited, waited for or measured"
            )
        return self._mark

    def __await__(self) -> Generator[Any, Any, None]:
        return self.recording().__await__()

    @property
    def done(self) -> bool:
        """Whether the latest recording has been reached."""
        return self.recording().done

    def elapsed_ms(self, since: Event) -> float:
        """Milliseconds of the device's clock from `since` to this event.

        Raises
        ------
        UsageError
            One of them is not recorded or not done, or they are of two devices, whose
            clocks differ.
        """
        end, start = self.recording(), require_event(since).recording()
        if self.device_index != since.device_index:
            raise usage(
                f"the events are of devices {since.device_index} and "
                f"{self.device_index}, whose clocks differ: record both on one device"
            )
        if not (start.done and end.done):
            raise usage("both events must be done before the time between is known")
        first, last = start.timestamp_us, end.timestamp_us
        if not first or not last:
            raise usage("this driver gave no timestamp for one of the events")
        return (last - first) / 1000.0


def require_event(value: object) -> Event:
    """Return `value`, which must be an event."""
    if not isinstance(value, Event):
        raise TypeError(
            f"an event is needed, such as stream.record() returns, not {value!r}"
        )
    return value
