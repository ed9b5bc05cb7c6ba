// SPDX-License-Identifier: Apache-2.0
// Entries of the application's OpenCL objects, found by handle.
//
// An entry lives as long as the application holds a reference or another entry needs it. Handles
// are addresses that the runtime reuses after a release, so a creation always replaces the entry of
// its handle.
#ifndef XPUPROF_OPENCL_OBJECTS_HPP
#define XPUPROF_OPENCL_OBJECTS_HPP

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/layer.hpp"
#include "api/leaf_lock.hpp"
#include "common/text_from.hpp"

namespace layer {

class CounterPool;

// clGetKernelSuggestedLocalWorkSizeKHR
using SuggestLocal = cl_int(CL_API_CALL *)(cl_command_queue, cl_kernel, cl_uint, const size_t *,
                                           const size_t *, size_t *);

struct Device {
  cl_device_id handle;
  uint32_t index;  // dense, in order of first use
  size_t max_work_group = 1;
  cl_ulong local_memory = 0;
  std::map<std::string, std::string> features;  // for the instrumenter; see clinst_protocol.h
  bool takes_spirv = false, takes_bitcode = false;
  bool sub_groups = false;     // has them, and they are the warps
  bool shares_memory = false;  // works in host memory, so counters need no copy
  bool loads_code = false;     // its binaries hold machine code, so that they need no compiler
  bool keeps_kernels = false;  // its runtime keeps what it compiles, for other processes too
  SuggestLocal suggest_local =
      nullptr;  // where the device reports which local size it would choose
};

// Devices are never removed: the reference stays valid.
const Device &device_of(cl_device_id handle);
// The handles name new (sub-)devices from now on.
void forget_devices(const cl_device_id *handles, cl_uint n);

// Areas for recorded accesses are big and prepared by the host.
enum class PoolUse { launches, accesses };

struct Context {
  cl_context handle;
  std::mutex lock;  // guards pools
  std::map<std::pair<cl_device_id, PoolUse>, std::shared_ptr<CounterPool>> pools;
};

struct Queue {
  cl_command_queue handle;
  std::shared_ptr<Context> context;
  const Device *device;
  uint32_t index;  // dense, in order of creation
  bool in_order = true;
  bool profiling = false;                       // device stamps are available
  std::vector<cl_queue_properties> properties;  // as the application gave them
};

std::string text_of(const char *text);
std::string kernel_name(cl_kernel handle);

using common::text_from;
inline std::string info_text(cl_device_id device, cl_device_info name) {
  return text_from(next.clGetDeviceInfo, device, name);
}
inline std::string info_text(cl_platform_id platform, cl_platform_info name) {
  return text_from(next.clGetPlatformInfo, platform, name);
}

// Handle -> entry, with the application's references counted. Registries are never destroyed.
template <class Handle, class Entry>
class Registry {
 public:
  std::shared_ptr<Entry> find(Handle handle) {
    std::lock_guard<LeafLock> guard(lock_);
    auto at = known_.find(handle);
    return at == known_.end() ? nullptr : at->second.entry;
  }
  void add(Handle handle, std::shared_ptr<Entry> entry) {
    std::shared_ptr<Entry> old;  // destroyed outside the lock
    std::lock_guard<LeafLock> guard(lock_);
    Known &known = known_[handle];
    old.swap(known.entry);
    known = {std::move(entry), 1};
  }
  void retain(Handle handle) {
    std::lock_guard<LeafLock> guard(lock_);
    auto at = known_.find(handle);
    if (at != known_.end()) at->second.references++;
  }
  // Call before the native release: afterwards another thread may get the same handle.
  std::shared_ptr<Entry> release(Handle handle) {
    std::lock_guard<LeafLock> guard(lock_);
    auto at = known_.find(handle);
    if (at == known_.end() || --at->second.references) return nullptr;
    std::shared_ptr<Entry> last = std::move(at->second.entry);
    known_.erase(at);
    return last;
  }
  std::vector<std::shared_ptr<Entry>> all() {
    std::lock_guard<LeafLock> guard(lock_);
    std::vector<std::shared_ptr<Entry>> entries;
    for (auto &known : known_) entries.push_back(known.second.entry);
    return entries;
  }
  // Runs with the lock held, so no entry's object is released natively meanwhile.
  template <class F>
  void each(F &&work) {
    std::lock_guard<LeafLock> guard(lock_);
    for (auto &known : known_) work(*known.second.entry);
  }

 private:
  struct Known {
    std::shared_ptr<Entry> entry;
    uint64_t references = 0;
  };
  LeafLock lock_;
  std::unordered_map<Handle, Known> known_;
};

// Retain and release calls of an object with an entry.
template <class Handle, class Entry, class Native>
cl_int retain(Registry<Handle, Entry> *registry, Native native, Handle handle) {
  Api api;
  cl_int error = native(handle);
  if (error == CL_SUCCESS) registry->retain(handle);
  return error;
}
// `run` runs the release of the application's last reference.
template <class Handle, class Entry, class Native, class Run>
cl_int release(Registry<Handle, Entry> *registry, Native native, Handle handle, Run &&run) {
  Api api;
  std::shared_ptr<Entry> last;
  quietly([&] { last = registry->release(handle); });
  const auto work = [&] {
    cl_int error = native(handle);
    quietly([&] { last.reset(); });
    return error;
  };
  return last ? run(work) : work();
}
template <class Handle, class Entry, class Native>
cl_int release(Registry<Handle, Entry> *registry, Native native, Handle handle) {
  return release(registry, native, handle, [](const auto &work) { return work(); });
}

extern Registry<cl_context, Context> &contexts;
extern Registry<cl_command_queue, Queue> &queues;

// These also accept objects of unseen origin (created by an extension, for example).
std::shared_ptr<Context> context_of(cl_context handle);
std::shared_ptr<Queue> queue_of(cl_command_queue handle);

void context_created(cl_context handle);

// Also reached through an extension's own function.
cl_command_queue create_queue_with(decltype(&clCreateCommandQueueWithProperties) native,
                                   cl_context context, cl_device_id device,
                                   const cl_queue_properties *properties, cl_int *error);

// User events that the application has not completed yet: a command may wait for one forever.
bool user_events_unfired();

// Functions of the application are among the commands: they may wait for it, too.
extern std::atomic<bool> native_kernels_enqueued;

}  // namespace layer
#endif
