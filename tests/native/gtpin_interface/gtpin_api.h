/* SPDX-License-Identifier: Apache-2.0 */
/* Not GTPin. Declarations of the part of GTPin's interface that its public documentation and
 * examples show and our tool uses, so that the tool can be compiled without a kit: checks only
 * syntax and types against the documentation. */
#pragma once
#include <stdint.h>

#include <string>
#include <vector>

#define EXPORT_C_FUNC extern "C"

namespace gtpin {
typedef uint32_t GtKernelId;
typedef uint32_t BblId;
struct GtReg {};
GtReg NullReg();
enum { VREG_TYPE_PTR };
enum { VREG_FLAG_MSG_ADDR_SCRATCH };
enum GED_DATA_TYPE { GED_DATA_TYPE_ud };
struct IGtIns {};
struct GtIpoint {
  static GtIpoint Before();
};
struct GtName {
  const char *Get() const;
};
struct IGtBbl {
  BblId Id() const;
  bool IsEmpty() const;
  const std::vector<const IGtIns *> &Instructions() const;
};
struct IGtCfg {
  uint32_t NumBbls() const;
  const std::vector<const IGtBbl *> &Bbls() const;
};
struct IGtKernel {
  GtKernelId Id() const;
  GtName Name() const;
};
struct GtGenProcedure {
  GtGenProcedure &operator+=(const GtGenProcedure &);
};
struct IGtVregFactory {
  GtReg Make(int type, int flags, int number);
};
struct IGtInsFactory {
  GtGenProcedure MakeAtomicInc(GtReg to, GtReg address, GED_DATA_TYPE type);
};
struct IGtGenCoder {
  IGtVregFactory &VregFactory() const;
  IGtInsFactory &InstructionFactory() const;
};
struct IGtProfileBuffer {};
struct IGtProfileBufferAllocator {};
struct IGtKernelInstrument {
  const IGtKernel &Kernel();
  const IGtCfg &Cfg();
  const IGtGenCoder &Coder();
  IGtProfileBufferAllocator &ProfileBufferAllocator();
  void InstrumentBbl(const IGtBbl &, GtIpoint, const GtGenProcedure &);
};
struct IGtKernelDispatch {
  const IGtKernel &Kernel() const;
  IGtProfileBuffer *CreateProfileBuffer();
  const IGtProfileBuffer *GetProfileBuffer();
  void SetProfilingMode(bool);
  bool IsProfilingEnabled() const;
};
}  // namespace gtpin
