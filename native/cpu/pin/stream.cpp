/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <stdlib.h>

#include "xpuprof/boundary.h"
#include "xpuprof/part.h"

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

void CpuStream::open(const char *execution_folder) {
  place_ = {execution_folder, xp_rank(getenv), getenv(XPU_ENV_FAILURES)};
  xp_writer_open(&writer_, &xp_linux, &place_, XP_STREAM_CPU);
}

void CpuStream::put(uint8_t tag, const Record &record, uint64_t slice) {
  put_bytes(tag, record.bytes(), slice);
}

void CpuStream::put_bytes(uint8_t tag, const std::vector<uint8_t> &body, uint64_t slice) {
  xp_body record = {const_cast<uint8_t *>(body.data()), body.size(), body.size(), 0};
  xp_writer_put(&writer_, tag, &record, slice);
}

void CpuStream::meta(const std::string &key, const std::string &value) {
  put(XP_CPU_META, Record().str(key).str(value));
}
