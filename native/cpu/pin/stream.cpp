#include "stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xpuprof/part.h"

static int os_create(const char *path) { return open(path, O_RDWR | O_CREAT | O_EXCL, 0666); }
static int os_resize(int fd, uint64_t size) { return ftruncate(fd, static_cast<off_t>(size)); }
static void *os_map(int fd, uint64_t offset, uint64_t size) {
  void *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  return at == MAP_FAILED ? 0 : at;
}
static void os_unmap(void *address, uint64_t size) { munmap(address, size); }
static void os_close(int fd) { close(fd); }

static const xp_os pin_os = {os_create, os_resize, os_map, os_unmap, os_close};

Record &Record::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<uint8_t>(value | 0x80));
  bytes_.push_back(static_cast<uint8_t>(value));
  return *this;
}

Record &Record::u64(uint64_t value) {
  for (int i = 0; i < 8; i++) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  return *this;
}

Record &Record::str(const std::string &text) {
  varint(text.size());
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  return *this;
}

bool CpuStream::open(const std::string &execution_folder) {
  char host[256] = "host", part[XP_PART_NAME_MAX];
  gethostname(host, sizeof host - 1);
  xp_part_name(part, host, xp_rank(getenv), static_cast<unsigned>(getpid()));
  std::string folder = execution_folder + "/" + part;
  mkdir(folder.c_str(), 0777); /* the runtime may have made it: both write there */
  return xp_writer_open(&writer_, &pin_os, (folder + "/cpu.xpt").c_str(), XP_STREAM_CPU) >= 0;
}

void CpuStream::put(uint8_t tag, const Record &record, uint64_t slice) {
  put_bytes(tag, record.bytes(), slice);
}

void CpuStream::put_bytes(uint8_t tag, const std::vector<uint8_t> &body, uint64_t slice) {
  xp_writer_put(&writer_, tag, body.data(), body.size(), slice);
}

void CpuStream::meta(const std::string &key, const std::string &value) {
  put(XP_CPU_META, Record().str(key).str(value));
}
