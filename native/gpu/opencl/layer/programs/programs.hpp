// Programs: what the application gave the driver, kept so that an instrumented shadow can be made
// of it when one of its kernels is first launched. The application's own objects stay untouched.
#ifndef XPUPROF_OPENCL_PROGRAMS_HPP
#define XPUPROF_OPENCL_PROGRAMS_HPP

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/objects.hpp"
#include "counters/host_counts.hpp"
#include "programs/clinst_client.hpp"

namespace layer {

// Words of local memory that a kernel's counters take for a work-item at a time, if there is room.
constexpr uint32_t most_local_words = 8;

// An instrumented program for one device.
struct Shadow {
  cl_program program = nullptr;  // once a kernel of it has to run
  std::string reason;            // why there is none
  std::string module, options;   // what it is built of
  bool from_source = false;
  std::map<std::string, InstrumentedKernel> kernels;
  std::map<std::string, std::unique_ptr<HostCounts>> host_counts;  // where the launch tells them
  std::map<std::string, uint32_t> sub_groups;  // sizes by kernel; none or 0: they are not the warps
  ~Shadow();
};

// What one successful build (compile, link) was made of. Kernels keep it: a program may be built
// again, or released, while its kernels live.
struct Build {
  std::vector<Part> parts;
  std::string options;  // of the build or link itself
  std::string folder;   // where the program stood then: relative include folders start there
  std::string origin;   // for the reader of a report
  std::string reason;   // why it can never be instrumented
  uint8_t hash[16] = {};
  uint32_t kind = 0;                          // enum xp_program_kind
  std::map<cl_device_id, Part> device_parts;  // of programs made from binaries

  // `kernel` is one of the program's own.
  const Shadow &shadow(cl_kernel kernel, const Device &device, uint32_t local_words);
  // Its program, built when it is first needed: where launches tell all counts it never is. NULL:
  // the shadow's reason says why.
  cl_program shadow_program(cl_context context, const Device &device, uint32_t local_words);

 private:
  std::mutex lock_;
  // By the local memory that counters may take, too.
  std::map<std::pair<cl_device_id, uint32_t>, std::unique_ptr<Shadow>> shadows_;
};

std::shared_ptr<Build> build_of(cl_program program);

// Also reached through the extension's own function.
cl_program create_program_with_il(cl_api_clCreateProgramWithIL native, cl_context context,
                                  const void *il, size_t length, cl_int *error);

}  // namespace layer
#endif
