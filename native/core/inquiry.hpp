// inquiry.hpp: asking the driver how far a stream is, where it does not tell by itself.
#pragma once
#include "core/op.hpp"

namespace aiocann::core {

enum class Answer : uint8_t {
  kRunning,  ///< not there yet, or not known: ask again
  kReached,  ///< the device is past the marker
  kOver  ///< the device has dropped the work of the stream; all of it has been failed and settled
};

/// Asks about the marker of op. A fault that the driver answers with is told to op, if nobody has been told of one.
/// thorough: where the event does not say that it is reached, the stream is asked too. Streams that are being
/// captured are not asked. Thread: lane, or the reactor's.
Answer inquire(Stream *stream, Op *op, bool thorough, Settler &settler);

}  // namespace aiocann::core
