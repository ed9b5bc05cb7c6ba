// SPDX-License-Identifier: Apache-2.0
// Calls reach us in two ways. A loader with layers gives us its calls; a loader that knows none, or
// that has not begun because the program's objects are from another one, calls what the objects'
// dispatch tables name. So our table is also placed over those of the drivers, in place. The calls
// below ours go to the driver's own entries, past its table, so that each is seen once.
//
// A process without a loader that knows layers loads this library as a driver (OCL_ICD_FILENAMES).
// It has no platforms.
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "api/natively.hpp"
#include "api/objects.hpp"
#include "device/runtimes.hpp"

namespace layer {

namespace {

// Grows while others read it.
template <class T, size_t room>
class List {
 public:
  bool add(const T &item) {
    const size_t n = n_;
    if (n == room) return false;
    items_[n] = item;
    n_ = n + 1;
    return true;
  }
  const T *begin() const { return items_.data(); }
  const T *end() const { return items_.data() + n_; }
  size_t size() const { return n_; }

 private:
  std::array<T, room> items_{};
  std::atomic<size_t> n_{0};
};

// A driver's dispatch table, which its objects point to, and its entries before ours.
struct Driver {
  cl_icd_dispatch *table;
  cl_icd_dispatch original;
};
constexpr size_t n_drivers = 8;
List<Driver, n_drivers> drivers;
List<const void *, 256> platforms;      // of these drivers
std::mutex &placing = *new std::mutex;  // guards additions, and what is made of them

// Entries that may be called without an object: a loader knows the platforms, and which to take for
// none. The others it refuses.
#define CHOICES                                    \
  CHOICE(clGetPlatformIDs)                         \
  CHOICE(clGetPlatformInfo)                        \
  CHOICE(clGetDeviceIDs)                           \
  CHOICE(clCreateContext)                          \
  CHOICE(clCreateContextFromType)                  \
  CHOICE(clUnloadCompiler)                         \
  CHOICE(clUnloadPlatformCompiler)                 \
  CHOICE(clGetExtensionFunctionAddress)            \
  CHOICE(clGetExtensionFunctionAddressForPlatform) \
  CHOICE(clGetGLContextInfoKHR)

// A loader's entries below us, and those that it gets. Further loaders go without: their calls
// reach us by the drivers' tables.
struct Loader {
  cl_icd_dispatch below, ours;
};
constexpr size_t n_loaders = 4;
List<Loader, n_loaders> loaders;

// Of such a call in progress: the entries below ours of the loader, or of the driver, that called
// us.
thread_local const cl_icd_dispatch *beneath;
thread_local bool loader_decides;  // which driver completes it; we have seen it

// Another value for as long as a call lasts.
template <class T>
class During {
 public:
  During(T *variable, T value) : variable_(variable), before_(std::exchange(*variable, value)) {}
  ~During() { *variable_ = before_; }
  During(const During &) = delete;
  During &operator=(const During &) = delete;

 private:
  T *variable_, before_;
};

const Driver *driver_with(const cl_icd_dispatch *table) {
  auto at = std::find_if(drivers.begin(), drivers.end(),
                         [&](const Driver &driver) { return driver.table == table; });
  return at == drivers.end() ? nullptr : at;
}

bool is_known(const void *platform) {
  return std::find(platforms.begin(), platforms.end(), platform) != platforms.end();
}

// ---- the entries below ours, by the driver of a call's first object
// ------------------------------

// The object that says whose call it is, once an argument has decided it.
struct Subject {
  const void *object = nullptr;
  bool decided = false;

  template <class T>
  void look_at(T) {}
#define OBJECT(type) \
  void look_at(type handle) { decide(handle); }
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
  void look_at(const cl_device_id *list) { decide(list ? *list : nullptr); }
  void look_at(const cl_event *list) { decide(list ? *list : nullptr); }
  // A platform that we do not know may be none: the loader tells.
  void look_at(const cl_context_properties *properties) {
    const void *platform = platform_of(properties);
    if (is_known(platform)) decide(platform);
    decided |= platform != nullptr;
  }

 private:
  void decide(const void *handle) {
    if (decided || !handle) return;
    object = handle;
    decided = true;
  }
};

// A driver's table may go on beyond what its version says.
template <auto member>
auto entry_of(const void *object) {
  const auto *own = *static_cast<const cl_icd_dispatch *const *>(object);
  const Driver *driver = driver_with(own);
  return driver && driver->original.*member ? driver->original.*member : own->*member;
}

const cl_icd_dispatch &without_object() {
  if (beneath) return *beneath;
  return loaders.size() ? loaders.begin()->below : drivers.begin()->original;
}

template <auto member>
struct Original;
template <class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(A...)>
struct Original<member> {
  static R CL_API_CALL call(A... arguments) {
    Subject subject;
    (subject.look_at(arguments), ...);
    if (subject.object) return entry_of<member>(subject.object)(arguments...);
    During<bool> decides(&loader_decides, true);
    return (without_object().*member)(arguments...);
  }
};

// What a driver's table has for a choice: our entry, unless the call came to the loader by us.
template <size_t driver, auto member>
struct Placed;
template <size_t driver, class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(A...)>
struct Placed<driver, member> {
  static R CL_API_CALL call(A... arguments) {
    const cl_icd_dispatch &original = drivers.begin()[driver].original;
    if (loader_decides) return (original.*member)(arguments...);
    During<const cl_icd_dispatch *> below(&beneath, &original);
    return (table.*member)(arguments...);
  }
};

// Where `entries` has a function, the calls below ours go to the driver's.
void find_below(const cl_icd_dispatch &entries) {
#define ENTRY(name) \
  if (entries.name) next.name = Original<&cl_icd_dispatch::name>::call;
#include "api/entries.def"
#undef ENTRY
}

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
  if (is_known(platform)) return;
  cl_icd_dispatch *table = *reinterpret_cast<cl_icd_dispatch **>(platform);
  if (!driver_with(table)) {
    const size_t size = table_size(platform);
    Driver driver{table, {}};
    std::memcpy(&driver.original, table, size);
    if (!make_writable(table, size) || !drivers.add(driver)) return;
  }
  platforms.add(platform);
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
    std::vector<cl_platform_id> its(n);
    if (platforms_of(n, its.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_platform_id platform : its) add_driver(platform);
  }
}

// Writes our entries where `theirs` has any; choices lead through a `Choice`.
template <template <size_t, auto> class Choice, size_t number>
void write(const cl_icd_dispatch &theirs, cl_icd_dispatch *entries) {
  cl_icd_dispatch made{};  // other threads may use the one that is written to
#define ENTRY(name) \
  if (theirs.name) made.name = table.name;
#define CHOICE(name) \
  if (theirs.name) made.name = Choice<number, &cl_icd_dispatch::name>::call;
#include "api/entries.def"
  CHOICES
#undef CHOICE
#undef ENTRY
  auto *to = reinterpret_cast<void **>(entries);
  auto *from = reinterpret_cast<void *const *>(&made);
  for (size_t i = 0; i < sizeof made / sizeof *from; i++)
    if (from[i]) to[i] = from[i];
}

template <size_t... numbers>
void place_from(size_t first, std::index_sequence<numbers...>) {
  const auto is_new = [&](size_t number) { return number >= first && number < drivers.size(); };
  const Driver *driver = drivers.begin();
  (..., (is_new(numbers) ? write<Placed, numbers>(driver[numbers].original, driver[numbers].table)
                         : void()));
}
void place_over_drivers(size_t first) { place_from(first, std::make_index_sequence<n_drivers>()); }

// Whether the process is to be recorded: a child may be, where its parent is not.
bool recorded() {
  if (settings.mode == Mode::inert) read_settings();
  return settings.mode != Mode::inert;
}

void place_as_driver() {
  std::lock_guard<std::mutex> guard(placing);
  if (!recorded() || drivers.size()) return;
  Api api;
  find_drivers();
  for (const Driver &driver : drivers) find_below(driver.original);
  begin();
  place_over_drivers(0);
}

// ---- loaders with layers
// -------------------------------------------------------------------------------------

template <size_t loader, auto member>
struct From;
template <size_t loader, class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(A...)>
struct From<loader, member> {
  static R CL_API_CALL call(A... arguments) {
    During<const cl_icd_dispatch *> below(&beneath, &loaders.begin()[loader].below);
    return (table.*member)(arguments...);
  }
};

cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *to, cl_uint *n) {
  Api api;
  cl_uint found = 0;
  const cl_int error = next.clGetPlatformIDs(room, to, n ? n : to ? &found : nullptr);
  // A loader may have drivers that no .icd file of the machine names.
  if (error == CL_SUCCESS && to)
    quietly([&] {
      cl_platform_id *end = to + std::min(room, n ? *n : found);
      if (std::all_of(to, end, is_known)) return;
      std::lock_guard<std::mutex> guard(placing);
      const size_t known = drivers.size();
      std::for_each(to, end, add_driver);
      place_over_drivers(known);
    });
  return error;
}

}  // namespace

const cl_icd_dispatch *for_loader(const cl_icd_dispatch *target, size_t size) {
  std::lock_guard<std::mutex> guard(placing);
  const size_t number = loaders.size(), known = drivers.size();
  if (!recorded() || number == n_loaders) return target;
  Api api;
  Loader loader{};
  std::memcpy(&loader.below, target, size);
  find_drivers();
  for (const Driver &driver : drivers) find_below(driver.original);
  find_below(loader.below);
  begin();
  static void (*const writes[n_loaders])(const cl_icd_dispatch &, cl_icd_dispatch *) = {
      write<From, 0>, write<From, 1>, write<From, 2>, write<From, 3>};
  loader.ours = loader.below;
  writes[number](table, &loader.ours);
  loaders.add(loader);
  place_over_drivers(known);
  return &loaders.begin()[number].ours;
}

const cl_icd_dispatch &driver_of(const void *object) {
  const auto *table = *static_cast<const cl_icd_dispatch *const *>(object);
  const Driver *driver = driver_with(table);
  return driver ? driver->original : *table;
}

void override_platforms(cl_icd_dispatch *entries) {
  put<&Table::clGetPlatformIDs>(entries, get_platforms);
}

}  // namespace layer

extern "C" {

XPU_API cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint, cl_platform_id *, cl_uint *n) {
  layer::quietly(layer::place_as_driver);
  if (n) *n = 0;
  return CL_PLATFORM_NOT_FOUND_KHR;
}

XPU_API void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
  const bool asked = std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0;
  return asked ? reinterpret_cast<void *>(clIcdGetPlatformIDsKHR) : nullptr;
}
}
