// temporary_file.hpp: a file of a test's own, where the environment wants such files.
#pragma once
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "check.hpp"

/// Makes a file with this content and answers its path; whoever asked for it removes it.
inline std::string temporary_file(const std::string &content = "") {
  const char *folder = getenv("TMPDIR");
  std::string path = folder != nullptr && *folder != '\0' ? folder : "/tmp";
  path += "/aiocann-XXXXXX";
  const int fd = mkstemp(path.data());
  CHECK(fd >= 0);
  CHECK_EQ(write(fd, content.data(), content.size()), content.size());
  CHECK_EQ(close(fd), 0);
  return path;
}
