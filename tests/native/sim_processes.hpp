// sim_processes.hpp: tests of what processes share. The second process is forked before the first uses the simulator.
#pragma once
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_rt.hpp"

/// One end of a line between two processes: plain values go either way, and a value says "go on".
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  template <class T>
  void send(const T &value) const {
    CHECK_EQ(write(fd_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
  }
  template <class T>
  T receive() const {
    T value{};
    CHECK_EQ(recv(fd_, &value, sizeof value, MSG_WAITALL), static_cast<ssize_t>(sizeof value));
    return value;
  }
  void go() const { send('g'); }
  void wait() const { CHECK_EQ(receive<char>(), 'g'); }

 private:
  int fd_;
};

struct Key {
  char text[65];
};

/// Runs `second` in a process of its own, and `first` in this one. `killed`: the second ends by SIGKILL.
inline void in_two_processes(void (*first)(const Line &, pid_t), void (*second)(const Line &),
                             bool killed = false) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    second(Line(ends[1]));
    _exit(0);
  }
  close(ends[1]);
  first(Line(ends[0]), child);
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  if (killed)
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  else
    CHECK_EQ(status, 0);
  close(ends[0]);
}

/// Each test in a process of its own, as only the first use of the simulator may be forked before.
inline void isolated(void (*test)()) {
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
