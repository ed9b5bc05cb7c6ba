// SPDX-License-Identifier: Apache-2.0
// For programs whose loader knows no layers (Khronos's, linked statically, is often built without):
// OCL_ICD_FILENAMES loads this library as a driver too. It has no platforms, but places our table
// over those of the real drivers, in place, so that calls reach us whatever loader makes them.
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "api/natively.hpp"
#include "api/objects.hpp"
#include "device/runtimes.hpp"

namespace layer {

namespace {

// A driver's dispatch table, which its objects point to, and its entries before ours.
struct Driver {
  cl_icd_dispatch *table;
  cl_icd_dispatch original;
};
std::vector<Driver> &drivers = *new std::vector<Driver>;
std::mutex &driver_lock = *new std::mutex;
bool layered;  // our table came before the driver's as a layer

// ---- the entries below ours, by the driver of a call's first object
// ------------------------------

template <class T>
const void *object_in(T) {
  return nullptr;
}
#define OBJECT(type) \
  const void *object_in(type object) { return object; }
OBJECT(cl_platform_id)
OBJECT(cl_device_id)
OBJECT(cl_context)
OBJECT(cl_command_queue)
OBJECT(cl_mem)
OBJECT(cl_program)
OBJECT(cl_kernel)
OBJECT(cl_event)
OBJECT(cl_sampler)
#undef OBJECT
const void *object_in(const cl_device_id *list) { return list ? *list : nullptr; }
const void *object_in(const cl_event *list) { return list ? *list : nullptr; }
const void *object_in(const cl_context_properties *properties) { return platform_of(properties); }

// The drivers are fixed before the first object exists.
const cl_icd_dispatch &original_of(const void *object) {
  return object ? driver_of(object) : drivers.front().original;
}

template <auto member>
struct Original;
template <class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(A...)>
struct Original<member> {
  static R CL_API_CALL call(A... arguments) {
    const void *object = nullptr;
    ((object = object ? object : object_in(arguments)), ...);
    return (original_of(object).*member)(arguments...);
  }
};

// ---- drivers
// -------------------------------------------------------------------------------------

// A driver's table ends with the entries of its version.
size_t table_size(cl_platform_id platform) {
  const unsigned version =
      version_number(text_from((*reinterpret_cast<cl_icd_dispatch **>(platform))->clGetPlatformInfo,
                               platform, cl_platform_info{CL_PLATFORM_VERSION}));
  if (version < 110) return offsetof(cl_icd_dispatch, clSetEventCallback);
  if (version < 120) return offsetof(cl_icd_dispatch, clCreateSubDevicesEXT);
  if (version < 200) return offsetof(cl_icd_dispatch, clCreateCommandQueueWithProperties);
  if (version < 210) return offsetof(cl_icd_dispatch, clCloneKernel);
  if (version < 220) return offsetof(cl_icd_dispatch, clSetProgramReleaseCallback);
  if (version < 300) return offsetof(cl_icd_dispatch, clCreateBufferWithProperties);
  return sizeof(cl_icd_dispatch);
}

bool make_writable(void *from, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(from) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(from) + size;
  return mprotect(reinterpret_cast<void *>(start), end - start, PROT_READ | PROT_WRITE) == 0;
}

void add_driver(cl_platform_id platform) {
  cl_icd_dispatch *table = *reinterpret_cast<cl_icd_dispatch **>(platform);
  if (std::any_of(drivers.begin(), drivers.end(),
                  [&](const Driver &driver) { return driver.table == table; }))
    return;
  const size_t size = table_size(platform);
  Driver driver{table, {}};
  std::memcpy(&driver.original, table, size);
  if (make_writable(table, size)) drivers.push_back(driver);
}

void find_drivers() {
  std::istringstream names(settings.drivers);
  for (std::string name; std::getline(names, name, ':');) {
    void *library = dlopen(name.c_str(), RTLD_NOW);
    auto find = library ? dlsym(library, "clGetExtensionFunctionAddress") : nullptr;
    if (!find) continue;
    void *get = reinterpret_cast<void *(*)(const char *)>(find)("clIcdGetPlatformIDsKHR");
    cl_uint n = 0;
    auto platforms_of = reinterpret_cast<clIcdGetPlatformIDsKHR_fn>(get);
    if (!get || platforms_of(0, nullptr, &n) != CL_SUCCESS) continue;
    std::vector<cl_platform_id> platforms(n);
    if (platforms_of(n, platforms.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_platform_id platform : platforms) add_driver(platform);
  }
}

// Writes entries into the driver's table, where it has any.
void write(const Driver &driver, const cl_icd_dispatch &entries) {
  auto *to = reinterpret_cast<void **>(driver.table);
  auto *own = reinterpret_cast<void *const *>(&driver.original);
  auto *from = reinterpret_cast<void *const *>(&entries);
  for (size_t i = 0; i < sizeof entries / sizeof *to; i++)
    if (own[i] && from[i]) to[i] = from[i];
}

void place_over_drivers() {
  std::lock_guard<std::mutex> guard(driver_lock);
  read_settings();
  if (layered || !drivers.empty() || settings.mode == Mode::inert) return;
  Api api;
  find_drivers();
  if (drivers.empty()) return;
#define ENTRY(name)                    \
  for (const Driver &driver : drivers) \
    if (driver.original.name) next.name = Original<&cl_icd_dispatch::name>::call;
#include "api/entries.def"
#undef ENTRY
  const cl_icd_dispatch &ours = begin();
  for (const Driver &driver : drivers) write(driver, ours);
}

}  // namespace

const cl_icd_dispatch &driver_of(const void *object) {
  const auto *table = *static_cast<const cl_icd_dispatch *const *>(object);
  for (const Driver &driver : drivers)
    if (table == driver.table) return driver.original;
  return *table;
}

// A loader with layers sees every call of its own: the drivers' tables are theirs again.
void leave_drivers() {
  std::lock_guard<std::mutex> guard(driver_lock);
  layered = true;
  for (const Driver &driver : drivers) write(driver, driver.original);
}

}  // namespace layer

extern "C" {

XPU_API cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint, cl_platform_id *, cl_uint *n) {
  layer::quietly(layer::place_over_drivers);
  if (n) *n = 0;
  return CL_PLATFORM_NOT_FOUND_KHR;
}

XPU_API void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
  const bool asked = std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0;
  return asked ? reinterpret_cast<void *>(clIcdGetPlatformIDsKHR) : nullptr;
}
}
