// SPDX-License-Identifier: Apache-2.0
// Contexts, queues, devices and user events.
#include "api/objects.hpp"

#include <atomic>
#include <cstring>
#include <set>

#include "api/natively.hpp"
#include "device/runtimes.hpp"
#include "launches/launches.hpp"
#include "programs/origins.hpp"

namespace layer {

// Leaked on purpose: the application may call the layer while its static objects are destroyed.
Registry<cl_context, Context> &contexts = *new Registry<cl_context, Context>;
Registry<cl_command_queue, Queue> &queues = *new Registry<cl_command_queue, Queue>;

static LeafLock &device_lock = *new LeafLock;
static auto &devices = *new std::unordered_map<cl_device_id, std::unique_ptr<Device>>;
static auto &old_devices = *new std::vector<std::unique_ptr<Device>>;
static uint32_t device_count;

const Device &device_of(cl_device_id handle) {
  std::lock_guard<LeafLock> guard(device_lock);
  std::unique_ptr<Device> &device = devices[handle];
  if (!device) {
    device = std::make_unique<Device>(describe_device(handle));
    device->index = device_count++;
  }
  return *device;
}

void forget_devices(const cl_device_id *handles, cl_uint n) {
  std::lock_guard<LeafLock> guard(device_lock);
  for (cl_uint i = 0; i < n; i++) {
    auto at = devices.find(handles[i]);
    if (at == devices.end()) continue;
    old_devices.push_back(std::move(at->second));
    devices.erase(at);
  }
}

std::string kernel_name(cl_kernel handle) {
  return text_from(next.clGetKernelInfo, handle, CL_KERNEL_FUNCTION_NAME);
}

std::string text_of(const char *text) { return text ? text : ""; }

// ---- contexts ---------------------------------------------------------------------------------

static std::shared_ptr<Context> new_context(cl_context handle) {
  auto context = std::make_shared<Context>();
  context->handle = handle;
  contexts.add(handle, context);
  announce_runtime(handle);
  return context;
}

std::shared_ptr<Context> context_of(cl_context handle) {
  auto context = contexts.find(handle);
  return context ? context : new_context(handle);
}

void context_created(cl_context handle) {
  if (handle) quietly([&] { new_context(handle); });
}

static cl_int CL_API_CALL retain_context(cl_context context) {
  return retain(&contexts, next.clRetainContext, context);
}

static cl_int CL_API_CALL release_context(cl_context context) {
  Api api;
  quietly([&] {
    if (auto last = contexts.release(context)) close_context(*last);
  });
  return next.clReleaseContext(context);
}

// ---- queues -----------------------------------------------------------------------------------

static std::atomic<uint32_t> queue_count;

static std::shared_ptr<Queue> new_queue(cl_command_queue handle, cl_context context,
                                        cl_device_id device, cl_command_queue_properties flags) {
  auto queue = std::make_shared<Queue>();
  queue->handle = handle;
  queue->context = context_of(context);
  queue->device = &device_of(device);
  queue->index = queue_count++;
  queue->in_order = !(flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  queue->profiling = flags & CL_QUEUE_PROFILING_ENABLE;
  queues.add(handle, queue);
  return queue;
}

std::shared_ptr<Queue> queue_of(cl_command_queue handle) {
  if (auto queue = queues.find(handle)) return queue;
  cl_context context = nullptr;
  cl_device_id device = nullptr;
  cl_command_queue_properties flags = 0;
  if (next.clGetCommandQueueInfo(handle, CL_QUEUE_CONTEXT, sizeof context, &context, nullptr) ||
      next.clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof device, &device, nullptr) ||
      next.clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof flags, &flags, nullptr))
    return nullptr;
  return new_queue(handle, context, device, flags);
}

// Queues for which we enabled profiling: events refer to them after their release.
static LeafLock &hiding_lock = *new LeafLock;
static auto &hiding = *new std::set<cl_command_queue>;

static void note_hiding(cl_command_queue handle, bool hides) {
  std::lock_guard<LeafLock> guard(hiding_lock);
  if (hides) {
    hiding.insert(handle);
  } else {
    hiding.erase(handle);
  }
}

static bool hides_profiling(cl_command_queue handle) {
  std::lock_guard<LeafLock> guard(hiding_lock);
  return hiding.count(handle) != 0;
}

// The asynchronous timer enables profiling where the application did not request it.
static bool wants_profiling(cl_command_queue_properties flags) {
  return settings.device_stamps && !(flags & (CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_ON_DEVICE));
}

// `create` makes the queue, with profiling enabled or as requested.
template <class Create>
static cl_command_queue create_known(cl_context context, cl_device_id device,
                                     cl_command_queue_properties flags,
                                     const std::vector<cl_queue_properties> &given,
                                     Create &&create) {
  bool hide = wants_profiling(flags);
  cl_command_queue handle = create(hide);
  if (!handle && hide) handle = create(hide = false);
  if (handle)
    quietly([&] {
      auto asked = hide ? flags | CL_QUEUE_PROFILING_ENABLE : flags;
      auto queue = new_queue(handle, context, device, asked);
      note_hiding(handle, hide);
      queue->properties = given;
    });
  return handle;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties flags, cl_int *error) {
  Api api;
  return create_known(context, device, flags, {}, [&](bool profiling) {
    auto asked = profiling ? flags | CL_QUEUE_PROFILING_ENABLE : flags;
    return next.clCreateCommandQueue(context, device, asked, error);
  });
}

cl_command_queue create_queue_with(decltype(&clCreateCommandQueueWithProperties) native,
                                   cl_context context, cl_device_id device,
                                   const cl_queue_properties *properties, cl_int *error) {
  Api api;
  std::vector<cl_queue_properties> given, asked;
  cl_command_queue_properties flags = 0;
  quietly([&] {
    size_t at = 0;
    for (const cl_queue_properties *p = properties; p && *p; p += 2) {
      given.insert(given.end(), {p[0], p[1]});
      if (p[0] == CL_QUEUE_PROPERTIES) {
        flags = p[1];
        at = given.size() - 1;
      }
    }
    if (properties) given.push_back(0);
    asked = given;
    if (at) {
      asked[at] = flags | CL_QUEUE_PROFILING_ENABLE;
    } else {
      if (asked.empty()) asked.push_back(0);
      asked.insert(asked.begin(), {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE});
    }
  });
  return create_known(context, device, flags, given, [&](bool profiling) {
    return native(context, device, profiling && !asked.empty() ? asked.data() : properties, error);
  });
}

static cl_command_queue CL_API_CALL create_queue_with_properties(
    cl_context context, cl_device_id device, const cl_queue_properties *properties, cl_int *error) {
  return create_queue_with(next.clCreateCommandQueueWithProperties, context, device, properties,
                           error);
}

static cl_int CL_API_CALL retain_queue(cl_command_queue queue) {
  return retain(&queues, next.clRetainCommandQueue, queue);
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue) {
  cl_int error = release(&queues, next.clReleaseCommandQueue, queue);
  quietly(poll_all);
  return error;
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info name,
                                     size_t room, void *value, size_t *size) {
  Api api;
  auto entry = queues.find(queue);
  const bool hides = entry && hides_profiling(queue);
  if (hides && name == CL_QUEUE_PROPERTIES_ARRAY)
    return answer(entry->properties.data(), entry->properties.size() * sizeof(cl_queue_properties),
                  room, value, size);
  cl_int error = next.clGetCommandQueueInfo(queue, name, room, value, size);
  if (error == CL_SUCCESS && hides && value && name == CL_QUEUE_PROPERTIES)
    *static_cast<cl_command_queue_properties *>(value) &= ~CL_QUEUE_PROFILING_ENABLE;
  return error;
}

static cl_int CL_API_CALL event_profiling_info(cl_event event, cl_profiling_info name, size_t room,
                                               void *value, size_t *size) {
  Api api;
  cl_command_queue queue = nullptr;
  if (settings.device_stamps &&
      next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, nullptr) ==
          CL_SUCCESS &&
      hides_profiling(queue))
    return CL_PROFILING_INFO_NOT_AVAILABLE;
  return next.clGetEventProfilingInfo(event, name, room, value, size);
}

// ---- user events ------------------------------------------------------------------------------

static LeafLock &user_event_lock = *new LeafLock;
static auto &unfired = *new std::set<cl_event>;

bool user_events_unfired() {
  std::lock_guard<LeafLock> guard(user_event_lock);
  return !unfired.empty();
}

std::atomic<bool> native_kernels_enqueued;

static void fired(cl_event event) {
  std::lock_guard<LeafLock> guard(user_event_lock);
  unfired.erase(event);
}

static cl_event CL_API_CALL create_user_event(cl_context context, cl_int *error) {
  Api api;
  cl_event event = next.clCreateUserEvent(context, error);
  if (event)
    quietly([&] {
      std::lock_guard<LeafLock> guard(user_event_lock);
      unfired.insert(event);
    });
  return event;
}

static cl_int CL_API_CALL set_user_event_status(cl_event event, cl_int status) {
  Api api;
  cl_int error = next.clSetUserEventStatus(event, status);
  if (error == CL_SUCCESS) fired(event);
  return error;
}

static cl_int CL_API_CALL release_event(cl_event event) {
  Api api;
  quietly([&] {
    std::lock_guard<LeafLock> guard(user_event_lock);
    cl_uint references = 0;
    if (unfired.empty() || !unfired.count(event)) return;
    next.clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, nullptr);
    if (references == 1) unfired.erase(event);
  });
  return next.clReleaseEvent(event);
}

// The first call has the driver look at the machine.
static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                                     cl_device_id *devices, cl_uint *n) {
  Api api;
  const auto find = [&] { return next.clGetDeviceIDs(platform, type, room, devices, n); };
  return natively(platform, find, Compiles::nothing);
}

static cl_int CL_API_CALL create_sub_devices(cl_device_id device,
                                             const cl_device_partition_property *properties,
                                             cl_uint room, cl_device_id *devices, cl_uint *n_ret) {
  Api api;
  cl_uint n = 0;
  cl_int error = next.clCreateSubDevices(device, properties, room, devices, &n);
  if (error == CL_SUCCESS && devices)
    quietly([&] { forget_devices(devices, n < room ? n : room); });
  if (n_ret) *n_ret = n;
  return error;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info name, size_t room,
                                      void *value, size_t *size) {
  Api api;
  std::string version;
  if (name == CL_DRIVER_VERSION && settings.own_binaries)
    quietly([&] { version = info_text(device, name); });
  if (!version.empty()) quietly([&] { version += " xpuprof-" + store_name(); });
  if (!version.empty()) return answer(version.c_str(), version.size() + 1, room, value, size);
  return next.clGetDeviceInfo(device, name, room, value, size);
}

void override_objects(cl_icd_dispatch *table) {
  put<&Table::clRetainContext>(table, retain_context);
  put<&Table::clReleaseContext>(table, release_context);
  put<&Table::clCreateCommandQueue>(table, create_queue);
  put<&Table::clCreateCommandQueueWithProperties>(table, create_queue_with_properties);
  put<&Table::clRetainCommandQueue>(table, retain_queue);
  put<&Table::clReleaseCommandQueue>(table, release_queue);
  put<&Table::clGetCommandQueueInfo>(table, queue_info);
  put<&Table::clGetEventProfilingInfo>(table, event_profiling_info);
  put<&Table::clCreateUserEvent>(table, create_user_event);
  put<&Table::clSetUserEventStatus>(table, set_user_event_status);
  put<&Table::clReleaseEvent>(table, release_event);
  put<&Table::clGetDeviceInfo>(table, device_info);
  put<&Table::clGetDeviceIDs>(table, device_ids);
  put<&Table::clCreateSubDevices>(table, create_sub_devices);
}

}  // namespace layer
