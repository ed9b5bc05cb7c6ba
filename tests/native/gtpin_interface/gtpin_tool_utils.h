/* SPDX-License-Identifier: Apache-2.0 */
/* Not GTPin: see gtpin_api.h beside it. */
#pragma once
#include "gtpin_api.h"

namespace gtpin {
class GtTool {
 public:
  virtual ~GtTool();
  virtual const char *Name() const = 0;
  virtual void OnKernelBuild(IGtKernelInstrument &) = 0;
  virtual void OnKernelRun(IGtKernelDispatch &) = 0;
  virtual void OnKernelComplete(IGtKernelDispatch &) = 0;
  bool Register();
};
class GtProfileArray {
 public:
  GtProfileArray();
  GtProfileArray(uint32_t record_bytes, uint32_t records, uint32_t buckets);
  bool Allocate(IGtProfileBufferAllocator &);
  bool Initialize(IGtProfileBuffer &) const;
  void ComputeAddress(const IGtGenCoder &, GtGenProcedure &, GtReg, uint32_t record) const;
  bool Read(const IGtProfileBuffer &, void *to, uint32_t record, uint32_t n, uint32_t bucket) const;
};
std::string CfgAsmText(const IGtCfg &);
void ConfigureGTPin(int argc, const char *argv[]);
}  // namespace gtpin
