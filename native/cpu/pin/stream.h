/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.xpt of this process, written by native/runtime/writer.c on top of Pin's C runtime. */
#ifndef XPUPROF_PIN_STREAM_H
#define XPUPROF_PIN_STREAM_H

#include <stdint.h>

#include <string>
#include <vector>

#include "writer.h"
#include "xpuprof/trace_format.h"

/* A record under construction, of any size. */
class Record {
 public:
  Record &varint(uint64_t value);
  Record &u64(uint64_t value);
  Record &str(const std::string &text);
  const std::vector<uint8_t> &bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

class CpuStream {
 public:
  void open(const char *execution_folder);
  void put(uint8_t tag, const Record &record, uint64_t slice = XP_NO_SLICE);
  void put_bytes(uint8_t tag, const std::vector<uint8_t> &body, uint64_t slice);
  void meta(const std::string &key, const std::string &value);
  void close() { xp_writer_close(&writer_); }
  void abandon() { xp_writer_abandon(&writer_); } /* in a forked child */
  void fail(const char *reason) { xp_writer_fail(&writer_, reason); }

 private:
  xp_place place_ = {};
  xp_writer writer_ = {};
};

#endif
