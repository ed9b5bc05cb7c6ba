// SPDX-License-Identifier: Apache-2.0
/* A CUPTI subscriber that does nothing with what it asks for: the least that a timer on CUPTI
 * (XPUPROF_CUPTI) costs. */
#include <cupti.h>
#include <dlfcn.h>
#include <stdlib.h>

static void CUPTIAPI on_event(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *records) {
  *size = 1 << 20;
  *buffer = static_cast<uint8_t *>(malloc(*size));
  *records = 0;
}

static void CUPTIAPI buffer_filled(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t) {
  free(buffer);
}

extern "C" int InitializeInjection() {
  void *library = dlopen(getenv("XPUPROF_CUPTI"), RTLD_NOW);
  CUpti_SubscriberHandle subscriber;
#define LOOK_UP(name) auto p_##name = reinterpret_cast<decltype(&name)>(dlsym(library, #name))
  LOOK_UP(cuptiSubscribe);
  LOOK_UP(cuptiEnableCallback);
  LOOK_UP(cuptiActivityRegisterCallbacks);
  LOOK_UP(cuptiActivityEnable);
  p_cuptiSubscribe(&subscriber, on_event, nullptr);
  p_cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  p_cuptiActivityRegisterCallbacks(buffer_wanted, buffer_filled);
  p_cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return 1;
}
