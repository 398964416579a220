// The file that aclInit is given: what is read of it, a device by default, errors of the whole process.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_rt.hpp"
#include "temporary_file.hpp"

namespace {

/// The first file of a process stays its configuration: each test has a process of its own.
template <class Test>
void isolated(Test &&test) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    test();
    _exit(0);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
}

/// aclInit with a file of this text, which is gone afterwards.
aclError init_with(const char *text) {
  const std::string path = temporary_file(text);
  const aclError code = aclInit(path.c_str());
  unlink(path.c_str());
  return code;
}

void texts_that_are_no_configuration() {
  for (const char *text :
       {"{", "}", "{\"a\" 1}", "{\"a\": 1,}", "{\"a\": }", "{\"a\": [1, 2}", "{\"a\": 1} 2",
        "{a: 1}", "{\"a\": 1x}", "{\"a\": \"b}", "{\"a\": nothing}", "{\"a\": \"\\q\"}",
        "{\"a\":[[[[[[[[[[[1]]]]]]]]]]]}",
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
        "{\"a\":{\"a\":{\"a\":1}}}}}}}}}}}"}) {
    CHECK_CODE(init_with(text), ACL_ERROR_PARSE_FILE);
  }
  CHECK_CODE(aclInit("/tmp"), ACL_ERROR_INVALID_FILE);
  for (const char *text : {"{\"err_msg_mode\": \"2\"}", "{\"err_msg_mode\": 1}",
                           "{\"defaultDevice\": {\"default_device\": \"-1\"}}",
                           "{\"defaultDevice\": {\"default_device\": \"01\"}}",
                           "{\"defaultDevice\": {\"default_device\": \"x\"}}",
                           "{\"defaultDevice\": {\"default_device\": 0}}"}) {
    CHECK_CODE(init_with(text), ACL_ERROR_INVALID_PARAM);
  }
  CHECK_CODE(init_with("{\"defaultDevice\": {\"default_device\": \"7\"}}"),
             ACL_ERROR_RT_INVALID_DEVICEID);
  // None of them is the configuration of the process now.
  CHECK_OK(
      init_with("{\"dump\": {\"dump_list\": [{\"model_name\": \"\\u0061\"}], \"x\": [-1.5e3, "
                "true]}, \"StackSize\": {\"aicore_stack_size\": 32768}, "
                "\"max_opqueue_num\": \"20\", \"none\": null, \"empty\": {}}\n"));
  CHECK_OK(aclFinalize());
}

/// Ten objects and ten arrays within each other are not too many; an empty file says nothing, nor does a list.
void texts_that_say_nothing() {
  for (const char *text : {"", "[]", " {\t}\r\n",
                           "{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":"
                           "[{\"a\":[0]}]}]}]}]}]}]}]}]}]}"}) {
    isolated([text] {
      CHECK_OK(init_with(text));
      int32_t device = -1;
      CHECK_CODE(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    });
  }
}

void the_same_text_is_the_same_configuration() {
  CHECK_OK(init_with("{\"err_msg_mode\": \"0\"}"));
  CHECK_OK(aclFinalize());
  CHECK_OK(init_with("{\"err_msg_mode\": \"0\"}"));          // another file with the same bytes
  CHECK_CODE(init_with("{}"), ACL_ERROR_REPEAT_INITIALIZE);  // not even read
  CHECK_OK(aclFinalize());
  CHECK_CODE(init_with("{}"), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclInit(nullptr), ACL_ERROR_INVALID_PARAM);
}

void a_device_by_default() {
  configure("devices", "2");
  CHECK_OK(init_with("{\"defaultDevice\": {\"default_device\": \"1\"}}"));
  int32_t device = -1, active = -1;
  CHECK_OK(aclrtGetDevice(&device));  // without opening it
  CHECK_EQ(device, 1);
  CHECK_OK(aclrtGetPrimaryCtxState(1, nullptr, &active));
  CHECK_EQ(active, 0);
  char byte = 3;
  void *memory = device_memory(64);
  CHECK_OK(aclrtMemcpy(memory, 1, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtGetPrimaryCtxState(1, nullptr, &active));
  CHECK_EQ(active, 1);
  aclrtContext mine = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&mine));
  on_thread([mine] {
    aclrtContext theirs = nullptr;
    CHECK_OK(aclrtGetCurrentContext(&theirs));
    CHECK_EQ(theirs, mine);
    // What a thread sets itself wins.
    CHECK_OK(aclrtSetDevice(0));
    int32_t set = -1;
    CHECK_OK(aclrtGetDevice(&set));
    CHECK_EQ(set, 0);
    CHECK_OK(aclrtResetDevice(0));
  });
  on_thread([] {
    aclrtContext own = nullptr, current = nullptr;
    CHECK_OK(aclrtCreateContext(&own, 0));
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK_EQ(current, own);
    CHECK_OK(aclrtDestroyContext(own));
  });
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtResetDeviceForce(1));
  CHECK_OK(aclFinalize());
  on_thread([] {
    int32_t none = -1;
    CHECK_CODE(aclrtGetDevice(&none), ACL_ERROR_RT_CONTEXT_NULL);
  });
}

void errors_of_the_whole_process() {
  CHECK_OK(init_with("{\"err_msg_mode\": \"1\"}"));
  on_thread([] { CHECK_CODE(aclrtSetDevice(1000), ACL_ERROR_RT_INVALID_DEVICEID); });
  CHECK_CODE(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM);
  on_thread([] {
    const std::string text = recent();
    CHECK_CONTAINS(text, "1000");
    CHECK(text.find("runMode") < text.find("1000"));
  });
  CHECK(aclGetRecentErrMsg() == nullptr);  // another thread has taken them all
  // The codes stay per thread.
  CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
  CHECK_OK(aclFinalize());
}

}  // namespace

int main() {
  for (auto *test :
       {texts_that_are_no_configuration, texts_that_say_nothing,
        the_same_text_is_the_same_configuration, a_device_by_default, errors_of_the_whole_process})
    isolated(test);
  return 0;
}
