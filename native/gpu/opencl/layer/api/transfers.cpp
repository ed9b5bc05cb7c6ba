// SPDX-License-Identifier: Apache-2.0
#include "api/transfers.hpp"

#include <tuple>

namespace layer {

namespace {

template <size_t n, class... A>
auto nth(const A &...arguments) {
  return std::get<n>(std::tie(arguments...));
}

// Where an entry's facts are among its arguments; argument 0 follows the queue.

template <Direction direction>
struct To {
  template <class... A>
  static Direction of(const A &...) {
    return direction;
  }
};
// Mapping for writing only transfers nothing to the host.
template <size_t flags>
struct ToByFlags {
  template <class... A>
  static Direction of(const A &...arguments) {
    return nth<flags>(arguments...) & CL_MAP_READ ? to_host : to_device;
  }
};

template <size_t size>
struct Size {
  template <class... A>
  static uint64_t of(const A &...arguments) {
    return nth<size>(arguments...);
  }
};
template <size_t region>
struct Region {
  template <class... A>
  static uint64_t of(const A &...arguments) {
    const size_t *sides = nth<region>(arguments...);
    return sides ? sides[0] * sides[1] * sides[2] : 0;
  }
};
template <size_t image, size_t region>
struct Texels {
  template <class... A>
  static uint64_t of(const A &...arguments) {
    size_t element = 0;
    next.clGetImageInfo(nth<image>(arguments...), CL_IMAGE_ELEMENT_SIZE, sizeof element, &element,
                        nullptr);
    return Region<region>::of(arguments...) * element;
  }
};

template <size_t blocking>
struct Waits {
  template <class... A>
  static bool of(const A &...arguments) {
    return nth<blocking>(arguments...);
  }
};
struct NeverWaits {
  template <class... A>
  static bool of(const A &...) {
    return false;
  }
};

// An entry that moves data, derived from its type.
template <auto member, class Where, class Bytes, class Blocking = NeverWaits>
struct Moves;
template <class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(cl_command_queue, A...),
          class Where, class Bytes, class Blocking>
struct Moves<member, Where, Bytes, Blocking> {
  static R CL_API_CALL call(cl_command_queue queue, A... arguments) {
    return transfer(queue, Where::of(arguments...), Bytes::of(arguments...),
                    Blocking::of(arguments...),
                    [&] { return (next.*member)(queue, arguments...); });
  }
};

// An entry that sets memory up.
template <auto member, class Bytes>
struct Allocates;
template <class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(cl_context, A...),
          class Bytes>
struct Allocates<member, Bytes> {
  static R CL_API_CALL call(cl_context context, A... arguments) {
    Api api;
    HostEvent allocation(XP_HOST_ALLOCATION, Bytes::of(arguments...));
    return (next.*member)(context, arguments...);
  }
};

template <auto member, class... How>
void put_move(cl_icd_dispatch *table) {
  put<member>(table, Moves<member, How...>::call);
}

}  // namespace

void override_transfers(cl_icd_dispatch *table) {
  using In = To<to_device>;
  using Out = To<to_host>;
  using Within = To<within>;
  put<&Table::clCreateBuffer>(table, Allocates<&Table::clCreateBuffer, Size<1>>::call);
  put<&Table::clCreateBufferWithProperties>(
      table, Allocates<&Table::clCreateBufferWithProperties, Size<2>>::call);
  put<&Table::clSVMAlloc>(table, Allocates<&Table::clSVMAlloc, Size<1>>::call);
  put_move<&Table::clEnqueueReadBuffer, Out, Size<3>, Waits<1>>(table);
  put_move<&Table::clEnqueueWriteBuffer, In, Size<3>, Waits<1>>(table);
  put_move<&Table::clEnqueueReadBufferRect, Out, Region<4>, Waits<1>>(table);
  put_move<&Table::clEnqueueWriteBufferRect, In, Region<4>, Waits<1>>(table);
  put_move<&Table::clEnqueueCopyBuffer, Within, Size<4>>(table);
  put_move<&Table::clEnqueueCopyBufferRect, Within, Region<4>>(table);
  put_move<&Table::clEnqueueReadImage, Out, Texels<0, 3>, Waits<1>>(table);
  put_move<&Table::clEnqueueWriteImage, In, Texels<0, 3>, Waits<1>>(table);
  put_move<&Table::clEnqueueCopyImage, Within, Texels<0, 4>>(table);
  put_move<&Table::clEnqueueCopyImageToBuffer, Within, Texels<0, 3>>(table);
  put_move<&Table::clEnqueueCopyBufferToImage, Within, Texels<1, 4>>(table);
  put_move<&Table::clEnqueueMapBuffer, ToByFlags<2>, Size<4>, Waits<1>>(table);
  put_move<&Table::clEnqueueMapImage, ToByFlags<2>, Texels<0, 4>, Waits<1>>(table);
  put_move<&Table::clEnqueueSVMMemcpy, Within, Size<3>, Waits<0>>(table);
  put_move<&Table::clEnqueueSVMMap, ToByFlags<1>, Size<3>, Waits<0>>(table);
}

}  // namespace layer
