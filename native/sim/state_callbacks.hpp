// state_callbacks.hpp: functions of the program that are told of streams, devices, initialisation and its end.
#pragma once
#include <cstdint>
#include <string>

#include "acl_abi.h"

namespace aiocann::sim {

// No lock is held while they run, but a device's own where a default stream comes or goes with its context.
void tell_stream_state(aclrtStream stream, aclrtStreamState state);
void tell_device_state(int32_t user_id, aclrtDeviceState state);
/// The first code other than 0 that one of them returns.
aclError tell_initialized(const std::string &config);
aclError tell_finalized();

}  // namespace aiocann::sim
